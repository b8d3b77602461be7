"""Applications, thin: each a few calls of the library. Names load on first use."""

from __future__ import annotations

import importlib
from typing import Any

# Public name -> the module it lives in.
_HOME = {
    "RatingsTable": "_recommend",
    "Recommender": "_recommend",
    "read_ratings": "_recommend",
    "recommend": "_recommend",
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
