"""Registry of functions that lower packages call in higher ones: openers of sources, and writers of reports.

:func:`fastanchors.matrix.open_matrix` must not import the packages above it that open files, stores and Dask
collections, and results must not import ``report``. ``fastanchors/__init__.py`` registers these functions here under a
name. They are imported on first use.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["opener", "register"]

_openers: dict[str, Callable[[], Callable[..., Any]]] = {}


def register(kind: str, load: Callable[[], Callable[..., Any]]) -> None:
    """Register a function under the name ``kind``; ``load()`` imports and returns it."""
    _openers[kind] = load


def opener(kind: str) -> Callable[..., Any]:
    """The function registered under the name ``kind``."""
    return _openers[kind]()
