"""The only door to numba.

Kernels are plain functions on NumPy arrays, decorated with :func:`jit`. They compile on their first call (no
eager signatures, so importing compiles nothing), release the GIL, and are cached on disk where a cache can be
written; where it cannot (a read-only install and no home directory) they compile in memory instead.
No ``parallel=True`` and no ``fastmath``: parallelism is by chunks of rows in threads, and sums keep their order.

Only modules that hold kernels import this one; :mod:`fastanchors` itself loads them on use.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numba

__all__ = ["jit"]

_Function = TypeVar("_Function", bound=Callable[..., Any])


def jit(function: _Function) -> _Function:
    """Compile ``function`` in nopython mode on first call, without the GIL, cached where possible."""
    try:
        compiled: Any = numba.njit(nogil=True, cache=True)(function)
    except RuntimeError:  # numba found no place it may write a cache to
        compiled = numba.njit(nogil=True)(function)
    return compiled
