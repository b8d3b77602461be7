"""Where work runs: on the workers of Dask's client, or in this process; what crosses between processes is counted."""

from __future__ import annotations

import ctypes
import os
import pickle
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from typing import Any

import numpy as np

from .._parallel import one_blas_thread, one_thread, use_threads
from ..errors import InvalidInputError, InvalidTypeError, MissingExtraError, StoreError
from ..matrix.cost import Cost

__all__ = ["Pool", "at_work", "calls", "need_dask", "on_blocks"]

_IN_PROCESS = ("threads", "threading", "sync", "synchronous", "single-threaded")
_TRIM = "MALLOC_TRIM_THRESHOLD_"
_MMAP_THRESHOLD, _TRIM_THRESHOLD = -3, -1  # of mallopt
_ANYTHING = np.empty((0, 1), object)
_SMALL = 1 << 23  # bytes of arguments that travel with the tasks of a batch, all together


def need_dask() -> Any:
    """The module ``dask``, or an error that says how to get it."""
    try:
        import dask
        import dask.delayed
    except ImportError as error:
        raise MissingExtraError("this needs Dask: pip install 'fastanchors[dask]'") from error
    return dask


class Pool:
    """Where tasks run: the client given, or the current one, or Dask's scheduler in this process.

    A cluster is never started here. What was current when this object was made stays in use.

    Parameters
    ----------
    client : distributed.Client or None
        None takes the current one.
    """

    def __init__(self, client: Any = None) -> None:
        dask = need_dask()
        self.cost = Cost()
        scheduler = dask.config.get("scheduler", None) if client is None else client
        if scheduler in ("dask.distributed", "distributed"):
            scheduler = import_module("distributed").get_client()
        self.client = scheduler if hasattr(scheduler, "scheduler_info") else None
        if client is not None and self.client is None:
            raise InvalidTypeError(f"client must be a distributed.Client, got {client!r}; make one: Client({client!r})")
        if self.client is not None and self.client.status == "closed":
            raise InvalidInputError("the client is closed; make a new one")
        self._scheduler = scheduler or "threads"
        self._apart = self._scheduler not in (*_IN_PROCESS, dask.get)  # whether tasks run in other processes

    def workers(self) -> dict[str, int]:
        """Addresses and numbers of threads of the processes that work for the client; empty without a client."""
        return {} if self.client is None else dict(sorted(self.client.nthreads().items()))

    def check_open(self) -> None:
        """Raise where the client was closed."""
        if self.client is not None and self.client.status == "closed":
            raise StoreError("the Dask client that this was made with is closed; connect with another")

    def compute(self, tasks: Sequence[Any], sent: Any = ()) -> list[Any]:
        """The results of tasks, in order; ``sent`` are their arguments, to be counted."""
        self.check_open()
        if not tasks:
            return []
        results = list(need_dask().compute(*tasks, scheduler=self._scheduler))
        self.count(sent, results)
        return results

    def persist(self, tasks: Sequence[Any], sent: Any = ()) -> list[Any]:
        """The same tasks with results that stay where they are computed."""
        self.check_open()
        self.count(sent)
        return list(need_dask().persist(*tasks, scheduler=self._scheduler))

    def count(self, *moved: Any) -> None:
        """Count what goes to other processes or comes from there."""
        if self._apart:
            self.cost.bytes_moved += pickled_bytes(moved)


def calls(
    name: str, function: Callable[..., Any], parts: Sequence[Any], own: Sequence[tuple[Any, ...]], shared: Any
) -> list[Any]:
    """Tasks ``function(part, *own[i], *shared)`` for results of other tasks; nothing is computed."""
    task, mark = need_dask().delayed(_call, traverse=False), uuid.uuid4().hex[:12]
    common = _common(mark, (function, shared), len(parts) * pickled_bytes(shared))
    return [
        task(part, common, _Opaque(own[i]), dask_key_name=f"fastanchors-{name}-{mark}-{i}")
        for i, part in enumerate(parts)
    ]


def on_blocks(
    name: str,
    function: Callable[..., Any],
    X: Any,
    own: Sequence[tuple[Any, ...]],
    shared: Any,
    lengths: Sequence[float] | None = None,
    meta: Any = _ANYTHING,
) -> Any:
    """A lazy Dask array with a block for each block of rows of X: ``function(block, *own[i], *shared)``.

    With small arguments Dask makes one task of a block and the function, so that no block waits to be moved.
    """
    count, mark = X.numblocks[0], uuid.uuid4().hex[:12]
    return X.map_blocks(
        _call_block,
        common=_common(mark, (function, own, shared), count * pickled_bytes((own, shared))),
        name=f"fastanchors-{name}-{mark}",
        dtype=meta.dtype,
        meta=meta,
        chunks=(tuple(lengths or [1] * count), meta.shape[1:]),
    )


def _common(mark: str, values: Any, size: int) -> Any:
    """What all tasks share: with each of them, or, where it is large, a node of its own, sent once to each worker.

    A node has a price: Dask puts the tasks that need it where it is, until it sees that other workers are idle.
    """
    common = _Opaque(values)
    if size <= _SMALL:
        return common
    return need_dask().delayed(common, name=f"fastanchors-shared-{mark}", traverse=False)


@contextmanager
def at_work(threads: int | None) -> Iterator[None]:
    """Inside, work uses that many threads, BLAS one, and memory is kept between one array and the next.

    Dask's nanny sets ``MALLOC_TRIM_THRESHOLD_``. With it glibc maps every array of 128 KiB from the system and gives it
    back at once, and the page faults take as long as the work, longer still on several workers. So here memory is given
    back at the end.
    """
    heap = _heap()
    with one_thread() if threads == 1 else use_threads(threads), one_blas_thread():
        if heap is None:
            yield
            return
        heap.mallopt(_MMAP_THRESHOLD, 1 << 25)
        heap.mallopt(_TRIM_THRESHOLD, 1 << 28)
        try:
            yield
        finally:
            heap.mallopt(_MMAP_THRESHOLD, 1 << 17)
            heap.mallopt(_TRIM_THRESHOLD, int(os.environ[_TRIM]))
            heap.malloc_trim(0)


@cache
def _heap() -> Any:
    """The C library of a worker whose memory Dask has limited so; None elsewhere."""
    if not os.environ.get(_TRIM, "").isdigit():
        return None
    library = ctypes.CDLL(None)
    return library if hasattr(library, "mallopt") and hasattr(library, "malloc_trim") else None


class _Opaque:
    """Arguments that Dask passes on as they are, without looking inside for tasks."""

    def __init__(self, values: Any) -> None:
        self.values = values


def _call(part: Any, common: _Opaque, own: _Opaque) -> Any:
    function, shared = common.values
    with at_work(1):  # a task has one thread
        return function(part, *own.values, *shared)


def _call_block(block: Any, common: _Opaque, block_id: tuple[int, ...] = (0, 0)) -> Any:
    function, own, shared = common.values
    return _call(block, _Opaque((function, shared)), _Opaque(own[block_id[0]]))


def pickled_bytes(value: Any) -> int:
    """The size of ``value`` on the wire: pickled, large arrays counted without a copy."""
    buffers: list[pickle.PickleBuffer] = []
    try:
        head = pickle.dumps(value, protocol=5, buffer_callback=buffers.append)
    except (pickle.PicklingError, AttributeError, TypeError):  # such as a local function
        buffers = []
        head = import_module("cloudpickle").dumps(value, protocol=5, buffer_callback=buffers.append)
    return len(head) + sum(buffer.raw().nbytes for buffer in buffers)
