"""Registry of functions that lower rooms call in higher ones: openers of sources, and writers of reports.

:func:`fastanchors.matrix.open_matrix` lies below the rooms that open files, stores and Dask collections and must not
name them; results lie below the room that writes reports on them. The root of the package, which lies above all,
registers functions here under a name. They are imported on first use.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["opener", "register"]

_openers: dict[str, Callable[[], Callable[..., Any]]] = {}


def register(kind: str, load: Callable[[], Callable[..., Any]]) -> None:
    """``load()`` returns the function: for a kind of source, the one that opens it as a ``RowMatrix``."""
    _openers[kind] = load


def opener(kind: str) -> Callable[..., Any]:
    """The function registered under that name."""
    return _openers[kind]()
