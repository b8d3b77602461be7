"""fastanchors: find the anchor rows of a non-negative matrix, and write every row as a mixture of them.

Names load on first use, so that ``import fastanchors`` stays light and compiles nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ._lazy_names import load, names
from ._openers import register
from ._version import __version__
from .errors import FastAnchorsError

# What type checkers and editors see; a test keeps it equal to the table below.
if TYPE_CHECKING:
    from . import apps as apps
    from . import dask as dask
    from . import datasets as datasets
    from . import errors as errors
    from . import io as io
    from . import lowrank as lowrank
    from . import metrics as metrics
    from . import report as report
    from . import solvers as solvers
    from .anchors import Anchors as Anchors
    from .anchors import Certificate as Certificate
    from .apps._topic_model import TopicModel as TopicModel
    from .encoder import encode as encode
    from .estimator import SeparableNMF as SeparableNMF
    from .fas.stores import build as build
    from .fas.stores import open as open
    from .fas.stores import verify as verify
    from .lowrank.cur_decomposition import cur as cur
    from .lowrank.factored import FactoredVectors as FactoredVectors
    from .lowrank.product import estimate_product as estimate_product
    from .lowrank.rejection import sample_combination as sample_combination
    from .lowrank.sampled_svd import fkv as fkv
    from .lowrank.sampled_svd import fkv_sample_size as fkv_sample_size
    from .matrix.contract import RowMatrix as RowMatrix
    from .matrix.contract import SampleAccess as SampleAccess
    from .matrix.cost import Cost as Cost
    from .matrix.door import open_matrix as open_matrix
    from .rank import rank_curve as rank_curve
    from .sampling.matrix import SampleMatrix as SampleMatrix
    from .sampling.vector import VectorSampler as VectorSampler
    from .solvers.arora_lp import AroraLP as AroraLP
    from .solvers.dca import DCA as DCA
    from .solvers.fas import FAS as FAS
    from .solvers.fgnsr import FGNSR as FGNSR
    from .solvers.hottopixx import Hottopixx as Hottopixx
    from .solvers.qdca import QDCA as QDCA
    from .solvers.snpa import SNPA as SNPA
    from .solvers.spa import SPA as SPA
    from .solvers.xray import XRAY as XRAY
    from .store.store import Store as Store
    from .warm_start import nmf as nmf

# Public name -> its module. A name that equals its module is the module (``fa.metrics``).
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
    "verify": "fas.stores",
    "fkv": "lowrank.sampled_svd",
    "fkv_sample_size": "lowrank.sampled_svd",
    "FactoredVectors": "lowrank.factored",
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
    "TopicModel": "apps._topic_model",
    "rank_curve": "rank",
    "nmf": "warm_start",
    **{
        module: module
        for module in ("apps", "dask", "datasets", "errors", "io", "lowrank", "metrics", "report", "solvers")
    },
}

# Functions of higher rooms that lower rooms call through the registry, first those that open, build or verify sources.
register("file", lambda: load(f"{__name__}.fas", {"open_file": "opening"}, "open_file"))
register("dask", lambda: load(f"{__name__}.dask", {"open_collection": "matrix"}, "open_collection"))
register("object build", lambda: load(f"{__name__}.dask", {"build_objects": "object_store"}, "build_objects"))
register("object store", lambda: load(f"{__name__}.dask", {"open_objects": "object_store"}, "open_objects"))
register("dask rows", lambda: load(f"{__name__}.dask", {"dask_source": "build"}, "dask_source"))
register("computed", lambda: load(f"{__name__}._validate", {"computed": "kinds"}, "computed"))

# Results write reports, but their modules lie below ``report``.
register("report", lambda: load(__name__, _HOME, "report").write)
register("topics report", lambda: load(__name__, _HOME, "report").write_topics)
register("scene report", lambda: load(__name__, _HOME, "report").write_unmixing)
register("notebook form", lambda: load(f"{__name__}.report", {"notebook_form": "notebook"}, "notebook_form"))

__all__ = [
    "DCA",
    "FAS",
    "FGNSR",
    "QDCA",
    "SNPA",
    "SPA",
    "XRAY",
    "Anchors",
    "AroraLP",
    "Certificate",
    "Cost",
    "FactoredVectors",
    "FastAnchorsError",
    "Hottopixx",
    "RowMatrix",
    "SampleAccess",
    "SampleMatrix",
    "SeparableNMF",
    "Store",
    "TopicModel",
    "VectorSampler",
    "__version__",
    "apps",
    "build",
    "cur",
    "dask",
    "datasets",
    "encode",
    "errors",
    "estimate_product",
    "fkv",
    "fkv_sample_size",
    "io",
    "lowrank",
    "metrics",
    "nmf",
    "open",
    "open_matrix",
    "rank_curve",
    "report",
    "sample_combination",
    "solvers",
    "verify",
]


if not TYPE_CHECKING:  # type checkers report every name that is not listed above

    def __getattr__(name: str) -> Any:
        return load(__name__, _HOME, name)


def __dir__() -> list[str]:
    return names(__name__, _HOME)
