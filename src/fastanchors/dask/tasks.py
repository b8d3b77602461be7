"""Run tasks on the workers of a Dask client or in this process, and count the bytes sent between processes."""

from __future__ import annotations

import ctypes
import os
import pickle
import uuid
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from typing import Any

import numpy as np

from .._parallel import one_blas_thread, one_thread, use_threads
from ..errors import InvalidInputError, InvalidTypeError, MissingExtraError, StoreError
from ..matrix.cost import Cost

__all__ = ["Pool", "calls", "need_dask", "on_blocks", "worker_threads"]

_IN_PROCESS = ("threads", "threading", "sync", "synchronous", "single-threaded")
_TRIM = "MALLOC_TRIM_THRESHOLD_"
_MMAP_THRESHOLD, _TRIM_THRESHOLD = -3, -1  # of mallopt
_ANYTHING = np.empty((0, 1), object)
_SMALL = 1 << 23  # most bytes of arguments, in total, sent with the tasks of a batch


def need_dask() -> Any:
    """The module ``dask``, or an error that says how to install it."""
    try:
        import dask
        import dask.delayed
    except ImportError as error:
        raise MissingExtraError("this needs Dask: pip install 'fastanchors[dask]'") from error
    return dask


class Pool:
    """Where tasks run: the given client, the current one, or Dask's scheduler in this process.

    It never starts a cluster. The client or scheduler is chosen once, at construction.

    Parameters
    ----------
    client : distributed.Client or None
        None selects the current one.
    """

    def __init__(self, client: Any = None) -> None:
        dask = need_dask()
        self.cost = Cost()
        scheduler = dask.config.get("scheduler", None) if client is None else client
        if isinstance(scheduler, str) and scheduler in ("dask.distributed", "distributed"):
            scheduler = import_module("distributed").get_client()
        self.client = scheduler if hasattr(scheduler, "scheduler_info") else None
        if client is not None and self.client is None:
            raise InvalidTypeError(f"client must be a distributed.Client, got {client!r}; make one: Client({client!r})")
        if self.client is not None and self.client.status == "closed":
            raise InvalidInputError("the client is closed; make a new one")
        self._scheduler = scheduler or "threads"
        self._apart = self._scheduler not in (*_IN_PROCESS, dask.get)  # whether tasks run in other processes

    def workers(self) -> dict[str, int]:
        """Address → number of threads of the client's workers; empty without a client."""
        self.check_open()
        return {} if self.client is None else dict(sorted(self.client.nthreads().items()))

    def check_open(self) -> None:
        """Raise if the client was closed, or cannot be waited for."""
        if self.client is not None and self.client.asynchronous:
            raise InvalidInputError(
                "the Dask client is asynchronous, but fastanchors waits for its workers; use Client(asynchronous=False)"
            )
        if self.client is not None and self.client.status == "closed":
            raise StoreError("the Dask client that this was made with is closed; connect with another")

    def compute(self, tasks: Sequence[Any], sent: Any = ()) -> list[Any]:
        """The results of tasks, in order; the size of their arguments ``sent`` is counted."""
        self.check_open()
        if not tasks:
            return []
        try:
            results = list(need_dask().compute(*tasks, scheduler=self._scheduler))
        except self._losses() as error:
            self.check_open()
            raise StoreError(f"workers or their scheduler were lost at work, try again; Dask says: {error}") from error
        self.count(sent, results)
        return results

    def _losses(self) -> tuple[type[Exception], ...]:
        """What Dask raises if its scheduler is lost or restarted, every worker dies at the same task, or none comes."""
        if self.client is None:
            return ()
        return CancelledError, import_module("distributed").KilledWorker, *self.no_workers()

    @staticmethod
    def no_workers() -> tuple[type[Exception], ...]:
        """What Dask raises if no worker comes in time; its setting ``distributed.scheduler.no-workers-timeout``."""
        known = import_module("distributed.scheduler")
        return known.NoWorkerError, known.NoValidWorkerError

    def persist(self, tasks: Sequence[Any], sent: Any = ()) -> list[Any]:
        """As :meth:`compute`, but the results stay where they are computed."""
        self.check_open()
        self.count(sent)
        return list(need_dask().persist(*tasks, scheduler=self._scheduler))

    def count(self, *moved: Any) -> None:
        """Count the bytes sent to or received from other processes."""
        if self._apart:
            self.cost.bytes_moved += pickled_bytes(moved)


def calls(
    name: str, function: Callable[..., Any], parts: Sequence[Any], own: Sequence[tuple[Any, ...]], shared: Any
) -> list[Any]:
    """Tasks ``function(part, *own[i], *shared)`` on the results of other tasks; nothing is computed."""
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
    """A lazy Dask array with one block ``function(block, *own[i], *shared)`` for each block of rows of X.

    With small arguments Dask fuses a block and the function into one task, so that no block has to be moved.
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
    """Shared arguments: sent with each task, or, if large, as a separate graph node, once to each worker.

    A node has a cost: Dask places dependent tasks on the worker that has it until it notices idle workers.
    """
    common = _Opaque(values)
    if size <= _SMALL:
        return common
    return need_dask().delayed(common, name=f"fastanchors-shared-{mark}", traverse=False)


@contextmanager
def worker_threads(threads: int | None) -> Iterator[None]:
    """Inside, work uses ``threads`` threads, BLAS uses one, and the heap keeps freed memory.

    Dask's nanny sets ``MALLOC_TRIM_THRESHOLD_``. With it glibc maps every array of at least 128 KiB and unmaps it when
    freed. The page faults then take as long as the work, longer still on several workers. So here memory is returned
    to the system only at the end.
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
    """The C library if Dask has set ``MALLOC_TRIM_THRESHOLD_`` (on a worker); None otherwise."""
    if not os.environ.get(_TRIM, "").isdigit():
        return None
    library = ctypes.CDLL(None)
    return library if hasattr(library, "mallopt") and hasattr(library, "malloc_trim") else None


class _Opaque:
    """Arguments that Dask passes on unchanged, without searching them for tasks."""

    def __init__(self, values: Any) -> None:
        self.values = values


def _call(part: Any, common: _Opaque, own: _Opaque) -> Any:
    function, shared = common.values
    with worker_threads(1):  # a task has one thread
        return function(part, *own.values, *shared)


def _call_block(block: Any, common: _Opaque, block_id: tuple[int, ...] = (0, 0)) -> Any:
    function, own, shared = common.values
    return _call(block, _Opaque((function, shared)), _Opaque(own[block_id[0]]))


def pickled_bytes(value: Any) -> int:
    """The size of ``value`` on the wire: pickled, large arrays counted without a copy."""
    buffers: list[pickle.PickleBuffer] = []
    try:
        head = pickle.dumps(value, protocol=5, buffer_callback=buffers.append)
    except (pickle.PicklingError, AttributeError, TypeError):  # for example a local function
        buffers = []
        head = import_module("cloudpickle").dumps(value, protocol=5, buffer_callback=buffers.append)
    return len(head) + sum(buffer.raw().nbytes for buffer in buffers)
