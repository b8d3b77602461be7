"""fastanchors: find the anchor rows of a non-negative matrix, and write every row as a mixture of them.

Names load on first use, so that ``import fastanchors`` stays light and compiles nothing.
"""

from __future__ import annotations

from typing import Any

from ._lazy import load, names
from ._openers import register
from ._version import __version__
from .errors import FastAnchorsError

# Public name -> the module it lives in. A name that lives in itself is a module (``fa.metrics``).
_HOME = {
    "VectorSampler": "sampling.vector",
    "SampleMatrix": "sampling.matrix",
    "SampleAccess": "matrix.contract",
    "RowMatrix": "matrix.contract",
    "open_matrix": "matrix.door",
    "Cost": "matrix.cost",
    "Store": "store.store",
    "build": "fas.stores",
    "open": "fas.stores",
    "verify": "store.verify",
    "fkv": "lowrank.fkv",
    "fkv_sample_size": "lowrank.fkv",
    "DescribedVectors": "lowrank.described",
    "estimate_product": "lowrank.product",
    "sample_combination": "lowrank.rejection",
    "cur": "lowrank.cur_decomposition",
    "FAS": "solvers.fas",
    "SPA": "solvers.spa",
    "SNPA": "solvers.snpa",
    "XRAY": "solvers.xray",
    "DCA": "solvers.dca",
    "AroraLP": "solvers.arora_lp",
    "Hottopixx": "solvers.hottopixx",
    "QDCA": "solvers.qdca",
    "FGNSR": "solvers.fgnsr",
    "Anchors": "anchors",
    "Certificate": "anchors",
    "encode": "encoder",
    "SeparableNMF": "estimator",
    "rank_curve": "rank",
    "nmf": "warm_start",
    **{
        module: module
        for module in ("apps", "datasets", "errors", "io", "lowrank", "dask", "metrics", "report", "solvers")
    },
}

# Kinds of source that ``open_matrix`` cannot open by itself, and who opens them.
register("file", lambda: load(f"{__name__}.fas", {"open_file": "opening"}, "open_file"))
register("dask", lambda: load(f"{__name__}.dask", {"open_collection": "opening"}, "open_collection"))
register("dask rows", lambda: load(f"{__name__}.dask", {"dask_source": "blocks"}, "dask_source"))

__all__ = ["FastAnchorsError", "__version__", *sorted(_HOME)]


def __getattr__(name: str) -> Any:
    return load(__name__, _HOME, name)


def __dir__() -> list[str]:
    return names(__name__, _HOME)
