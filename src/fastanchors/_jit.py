"""The only module that imports numba.

Kernels are plain functions on NumPy arrays, decorated with :func:`jit`. They compile on their first call (no
eager signatures, so importing compiles nothing), release the GIL, and are cached on disk where a cache can be
written; where it cannot (a read-only install and no home directory) they compile in memory instead.
No ``parallel=True`` and no ``fastmath``: parallelism is by chunks of rows in threads, and sums keep their order.

numba renews a cached kernel when the kernel's own file changes, but not when a kernel or a constant it took from
another file does: it would go on running the old code. :func:`jit` therefore widens the stamp that numba keeps with
the cache by the files of all kernels the function calls, at any depth, and by the constants it uses.

Only modules that hold kernels import this one; :mod:`fastanchors` itself loads them on use.
"""

from __future__ import annotations

import contextlib
import os
import pickle
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import numba
import numpy as np

__all__ = ["jit", "watch_compiling"]

_Function = TypeVar("_Function", bound=Callable[..., Any])


def jit(function: _Function) -> _Function:
    """Compile ``function`` in nopython mode on first call, without the GIL, cached where possible.

    Kernels it calls must be imported by name (``from .sum_tree import draw``).
    """
    parts = _parts(function)
    try:
        compiled: Any = numba.njit(nogil=True, cache=True)(function)
        _tend_cache(compiled._cache, parts)
    except (RuntimeError, AttributeError):  # no place to write a cache to, or a numba whose cache we do not know
        compiled = numba.njit(nogil=True)(function)
    compiled.parts = parts
    if hasattr(compiled, "get_call_template"):  # a plain function where NUMBA_DISABLE_JIT is set
        _one_signature(compiled)
    return compiled


def _one_signature(compiled: Any) -> None:
    """Let a kernel that calls this one with ``0``, or with a variable that began as 0, not compile it for that number.

    numba would compile it once for the literal type and once more for integers; many kernels compiled twice.
    """
    resolve = compiled.get_call_template
    plain: Callable[[Any], Any] = numba.types.unliteral

    def resolve_without_literals(args: Any, kws: Any) -> Any:
        return resolve(tuple(map(plain, args)), {name: plain(kws[name]) for name in kws})

    compiled.get_call_template = resolve_without_literals


@contextlib.contextmanager
def watch_compiling(tell: Callable[[bool], object]) -> Iterator[None]:
    """Call ``tell(True)`` when a kernel begins to be compiled meanwhile, ``tell(False)`` when it is ready."""
    from numba.core import event

    class Watcher(event.Listener):
        depth = 0  # kernels compile the kernels they call

        def on_start(self, _: Any) -> None:
            self.depth += 1
            if self.depth == 1:
                tell(True)

        def on_end(self, _: Any) -> None:
            self.depth -= 1
            if self.depth == 0:
                tell(False)

    with event.install_listener("numba:compile", Watcher()):
        yield


def _tend_cache(cache: Any, parts: frozenset[tuple[str, str]]) -> None:
    """Widen the stamp of numba's cache by ``parts``, and let a full disk or a stale cache cost time but not the call.

    Types that kernels were compiled for may be gone in another version of this library; what numba raises then while it
    reads its cache empties the cache.
    """
    cache._cache_file._source_stamp = (cache._cache_file._source_stamp, sorted(parts))
    save, load = cache.save_overload, cache.load_overload

    def load_or_forget(signature: Any, context: Any) -> Any:
        try:
            return load(signature, context)
        except (ImportError, AttributeError, EOFError, ValueError, pickle.UnpicklingError):
            with contextlib.suppress(OSError):
                cache.flush()
            return None

    def save_or_go_without(signature: Any, result: Any) -> None:
        with contextlib.suppress(OSError):
            save(signature, result)

    cache.save_overload, cache.load_overload = save_or_go_without, load_or_forget


def _parts(function: Callable[..., Any]) -> frozenset[tuple[str, str]]:
    """What the compiled code is made of: the state of the file of each kernel in it, the value of each constant."""
    file = function.__code__.co_filename
    parts = set()
    if os.path.exists(file):
        state = os.stat(file)
        parts.add((file, f"{state.st_mtime_ns} {state.st_size}"))
    for name in function.__code__.co_names:
        value: Any = function.__globals__.get(name)
        if hasattr(value, "parts"):
            parts |= value.parts
        elif isinstance(value, int | float | tuple | np.generic | np.ndarray):
            parts.add((name, repr(value)))
    return frozenset(parts)
