"""Tasks on Dask's workers: named, gathered, and what crosses between processes counted."""

from __future__ import annotations

import pickle
import threading
import uuid
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

from .._parallel import one_thread, thread_count, use_threads
from ..errors import InvalidInputError, InvalidTypeError, MissingExtraError, StoreError
from ..matrix.cost import Cost

__all__ = ["Arguments", "Kept", "Pool", "need_dask", "pickled_bytes", "run", "token"]

_IN_PROCESS = ("threads", "threading", "sync", "synchronous", "single-threaded")


def need_dask() -> Any:
    """The module ``dask``, or an error that says how to get it."""
    try:
        import dask
        import dask.delayed
    except ImportError as error:
        raise MissingExtraError("this needs Dask: pip install 'fastanchors[dask]'") from error
    return dask


def token() -> str:
    """Part of the names of the tasks of one batch, so that two batches never share a task."""
    return uuid.uuid4().hex[:12]


class Pool:
    """Where tasks run: the client given, or the current one, or Dask's scheduler in this process.

    A cluster is never started here. What was current when this object was made stays in use.

    Parameters
    ----------
    client
        Distributed.Client or None
    cost : Cost or None
        Where ``bytes_moved`` is counted.
    """

    def __init__(self, client: Any = None, cost: Cost | None = None) -> None:
        dask = need_dask()
        self.cost = Cost() if cost is None else cost
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

    def workers(self) -> list[str]:
        """Addresses of the processes that work for the client; empty without a client."""
        return [] if self.client is None else sorted(self.client.nthreads())

    def threads(self) -> int:
        """How many tasks run at a time."""
        return thread_count() if self.client is None else max(1, sum(self.client.nthreads().values()))

    def task_threads(self) -> int:
        """How many threads a task may use, where each worker gets one task."""
        return 1 if self.client is None else max(1, min(self.client.nthreads().values(), default=1))

    def each(
        self,
        name: str,
        function: Callable[..., Any],
        parts: Sequence[Any],
        own: Sequence[tuple[Any, ...]] | None = None,
        shared: tuple[Any, ...] = (),
        *,
        threads: int = 1,
    ) -> list[Any]:
        """``function(part, *own[i], *shared)`` for every part, as one batch of tasks; results in order."""
        tasks = self.tasks(name, function, parts, own, shared, threads=threads, call=_counted)
        answers = self.compute(tasks, (own, shared))
        self.cost.bytes_moved += sum(arrived for _, arrived in answers) if self._apart else 0
        return [result for result, _ in answers]

    def keep(
        self,
        name: str,
        function: Callable[..., Any],
        parts: Sequence[Any],
        own: Sequence[tuple[Any, ...]] | None = None,
        shared: tuple[Any, ...] = (),
        *,
        threads: int = 1,
    ) -> list[Any]:
        """The same with results that stay where they were made: parts for later calls."""
        return self.persist(self.tasks(name, function, parts, own, shared, threads=threads), (own, shared))

    def persist(self, tasks: Sequence[Any], sent: tuple[Any, Any] = (None, ())) -> list[Any]:
        """The same tasks with results that stay where they are computed."""
        self._check_open()
        self._count(len(tasks), *sent, [])
        return list(need_dask().persist(*tasks, scheduler=self._scheduler)) if tasks else []

    def lost(self, kept: Sequence[Any]) -> bool:
        """Whether the cluster has forgotten what was kept, as after ``client.restart()``."""
        futures = (value for task in kept for value in task.__dask_graph__().values())
        return any(getattr(future, "status", None) in ("cancelled", "lost") for future in futures)

    def tasks(
        self,
        name: str,
        function: Callable[..., Any],
        parts: Sequence[Any],
        own: Sequence[tuple[Any, ...]] | None = None,
        shared: tuple[Any, ...] = (),
        *,
        threads: int = 1,
        call: Callable[..., Any] | None = None,
    ) -> list[Any]:
        """The tasks of such a batch; nothing is computed.

        What all tasks share is one node of the graph, sent once to each worker instead of once with each task.
        """
        delayed, mark = need_dask().delayed, token()
        common = delayed(Arguments(function, shared, threads), name=f"fastanchors-shared-{mark}", traverse=False)
        task = delayed(call or run, name=f"fastanchors-call-{mark}", traverse=False)
        return [
            task(part, common, Arguments(None, own[i] if own else ()), dask_key_name=f"fastanchors-{name}-{mark}-{i}")
            for i, part in enumerate(parts)
        ]

    def compute(self, tasks: Sequence[Any], sent: tuple[Any, Any] = (None, ())) -> list[Any]:
        """The results of tasks, in order; ``sent`` are the arguments of each and those all share, to be counted."""
        self._check_open()
        if not tasks:
            return []
        results = list(need_dask().compute(*tasks, scheduler=self._scheduler))
        self._count(len(tasks), *sent, results)
        return results

    def _check_open(self) -> None:
        if self.client is not None and self.client.status == "closed":
            raise StoreError("the Dask client that this was made with is closed; connect with another")

    def _count(self, tasks: int, own: Any, shared: Any, results: list[Any]) -> None:
        if self._apart:
            copies = len(self.workers()) or tasks
            moved = pickled_bytes(shared) * copies if shared else 0
            self.cost.bytes_moved += moved + pickled_bytes(own) + pickled_bytes(results)


class Arguments:
    """A function and arguments that Dask passes on as they are, without looking inside for tasks."""

    def __init__(self, function: Callable[..., Any] | None, values: tuple[Any, ...], threads: int = 1) -> None:
        self.function, self.values, self.threads = function, values, threads

    def __sizeof__(self) -> int:
        return object.__sizeof__(self) + pickled_bytes(self.values)


def run(part: Any, common: Arguments, own: Arguments) -> Any:
    """The function of a batch for one part, in the one thread that Dask gives a task, or in those of its worker."""
    assert common.function is not None
    with one_thread() if common.threads == 1 else use_threads(common.threads):
        return common.function(part, *own.values, *common.values)


def _counted(part: Any, common: Arguments, own: Arguments) -> tuple[Any, int]:
    """The same, and the bytes of what other workers have sent to this process meanwhile."""
    global _arrived
    result = run(part, common, own)
    with _lock:
        taken, _arrived = _arrived, 0
    return result, taken


_arrived = 0
_lock = threading.Lock()


class Kept:
    """Something that a worker keeps. Where Dask moves it to another worker, its bytes are counted."""

    def __setstate__(self, state: dict[str, Any]) -> None:
        global _arrived
        self.__dict__.update(state)
        with _lock:
            _arrived += pickled_bytes(state)


def pickled_bytes(value: Any) -> int:
    """The size of ``value`` on the wire: pickled, large arrays counted without a copy."""
    buffers: list[pickle.PickleBuffer] = []
    try:
        head = pickle.dumps(value, protocol=5, buffer_callback=buffers.append)
    except (pickle.PicklingError, AttributeError, TypeError):  # such as a local function
        buffers = []
        head = import_module("cloudpickle").dumps(value, protocol=5, buffer_callback=buffers.append)
    return len(head) + sum(buffer.raw().nbytes for buffer in buffers)
