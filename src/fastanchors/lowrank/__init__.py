"""Low rank by sampling: FKV, described vectors, products, rejection, linear systems, CUR. Names load on first use."""

from __future__ import annotations

import importlib
from typing import Any

# Public name -> its module. No name here is also that of a module: importing one would put it in the name's place.
_HOME = {
    "CUR": "cur_decomposition",
    "DescribedVectors": "described",
    "LinearSolution": "linear_system",
    "cur": "cur_decomposition",
    "estimate_product": "product",
    "fkv_sample_size": "fkv",
    "sample_combination": "rejection",
    "solve": "linear_system",
}

__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f".{_HOME[name]}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(set(globals()) | set(__all__))
