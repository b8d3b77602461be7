"""Low rank by sampling: FKV, factored vectors, products, rejection, linear systems, CUR. Names load on first use."""

from __future__ import annotations

from typing import Any

from .._lazy import load, names

# Public name -> its module. No name here is also that of a module: importing one would put it in the name's place.
_HOME = {
    "CUR": "cur_decomposition",
    "FactoredVectors": "factored",
    "LinearSolution": "linear_system",
    "cur": "cur_decomposition",
    "estimate_product": "product",
    "fkv": "sampled_svd",
    "fkv_sample_size": "sampled_svd",
    "sample_combination": "rejection",
    "solve": "linear_system",
}

__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    return load(__name__, _HOME, name)


def __dir__() -> list[str]:
    return names(__name__, _HOME)
