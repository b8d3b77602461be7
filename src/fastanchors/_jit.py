"""Compile kernels with numba; no other module imports numba.

Kernels are plain functions on NumPy arrays, decorated with :func:`jit`. They compile on their first call, release the
GIL, and are cached on disk. Where no cache can be written (a read-only install and no home directory), they compile in
memory. ``parallel=True`` and ``fastmath`` are not used: threads work on chunks of rows, and sums keep their order.

numba recompiles a cached kernel when its own file changes, but not when a kernel or constant imported from another
file changes. :func:`jit` therefore adds to the cache stamp the state of the files of all kernels called, at any depth,
and the values of the constants used.

Signal handlers wait while a kernel is compiled or read from the cache: LLVM calls Python functions meanwhile, and an
exception raised in them is printed and lost. Calls of compiled kernels are not affected.
"""

from __future__ import annotations

import contextlib
import os
import pickle
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import numpy as np

from ._signals import deferred_signals

with deferred_signals():  # Python cannot import a package again that was half imported
    import numba
    from numba.core import event

__all__ = ["jit", "watch_compiling"]

_Function = TypeVar("_Function", bound=Callable[..., Any])


def jit(function: _Function) -> _Function:
    """Compile ``function`` in nopython mode on first call, without the GIL, cached where possible.

    Kernels it calls must be imported by name (``from .sum_tree import draw``).
    """
    parts = _parts(function)
    try:
        compiled: Any = numba.njit(nogil=True, cache=True)(function)
        _extend_cache(compiled._cache, parts)
    except (RuntimeError, AttributeError):  # no writable cache directory, or an unknown version of numba's cache
        compiled = numba.njit(nogil=True)(function)
    compiled.parts = parts
    if hasattr(compiled, "get_call_template"):  # a plain function where NUMBA_DISABLE_JIT is set
        _one_signature(compiled)
        _defer_signals(compiled)
    return compiled


def _defer_signals(compiled: Any) -> None:
    """Delay signal handlers while the kernel is compiled or read from the cache, at its first call for some types."""
    compile_or_load = compiled._compile_for_args

    def compile_without_signals(*args: Any) -> Any:
        with deferred_signals():
            return compile_or_load(*args)

    compiled._compile_for_args = compile_without_signals


def _one_signature(compiled: Any) -> None:
    """Do not compile this kernel a second time for literal arguments such as ``0``; use the plain integer type."""
    resolve = compiled.get_call_template
    plain: Callable[[Any], Any] = numba.types.unliteral

    def resolve_without_literals(args: Any, kws: Any) -> Any:
        return resolve(tuple(map(plain, args)), {name: plain(kws[name]) for name in kws})

    compiled.get_call_template = resolve_without_literals


@contextlib.contextmanager
def watch_compiling(notify: Callable[[bool], object]) -> Iterator[None]:
    """Inside this context, call ``notify(True)`` when compilation starts and ``notify(False)`` when it ends."""

    class Watcher(event.Listener):
        depth = 0  # compiling a kernel compiles the kernels it calls

        def on_start(self, _: Any) -> None:
            self.depth += 1
            if self.depth == 1:
                notify(True)

        def on_end(self, _: Any) -> None:
            self.depth -= 1
            if self.depth == 0:
                notify(False)

    with event.install_listener("numba:compile", Watcher()):
        yield


def _extend_cache(cache: Any, parts: frozenset[tuple[str, str]]) -> None:
    """Add ``parts`` to the stamp of numba's cache, and recompile instead of failing on a full disk or a stale cache.

    A cache written by another version of this library may refer to types that no longer exist. An error while reading
    it empties the cache. Two processes that compile a kernel for different types at the same time may give both files
    the same name, so that the code found is for other types; it is then compiled again, which replaces the file.
    """
    cache._cache_file._source_stamp = (cache._cache_file._source_stamp, sorted(parts))
    save, load = cache.save_overload, cache.load_overload

    def load_or_clear(signature: Any, context: Any) -> Any:
        try:
            found = load(signature, context)
            return found if found is None or tuple(found.signature.args) == tuple(signature) else None
        except (ImportError, AttributeError, EOFError, ValueError, pickle.UnpicklingError):
            with contextlib.suppress(OSError):
                cache.flush()
            return None

    def save_if_possible(signature: Any, result: Any) -> None:
        with contextlib.suppress(OSError):
            save(signature, result)

    cache.save_overload, cache.load_overload = save_if_possible, load_or_clear


def _parts(function: Callable[..., Any]) -> frozenset[tuple[str, str]]:
    """What the compiled code depends on: the state of the file of each kernel, and the value of each constant."""
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
