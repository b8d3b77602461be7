"""Tasks on Dask's workers: named, gathered, and what crosses between processes counted."""

from __future__ import annotations

import pickle
import uuid
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

from .._threads import one_thread
from ..errors import MissingExtraError
from ..sampling.cost import Cost

__all__ = ["Crew", "need_dask", "pickled_bytes", "stacked"]


def need_dask() -> Any:
    """The module ``dask``, or an error that says how to get it."""
    try:
        import dask
        import dask.delayed
    except ImportError as error:
        raise MissingExtraError("this needs Dask: pip install 'fastanchors[dask]'") from error
    return dask


def stacked(tasks: Sequence[Any], shapes: Sequence[tuple[int, int]], meta: Any) -> Any:
    """A lazy Dask array whose blocks of rows are those tasks; ``meta`` is an empty block."""
    da = import_module("dask.array")
    return da.concatenate([da.from_delayed(task, shape, meta=meta) for task, shape in zip(tasks, shapes, strict=True)])


class Crew:
    """Where tasks run: the client given, or the one that is current, or Dask's scheduler in this process.

    A cluster is never made here. Tasks keep no state, so that those of a worker that died run again elsewhere.
    """

    def __init__(self, client: Any = None, cost: Cost | None = None) -> None:
        get = need_dask().base.get_scheduler(scheduler=client)
        owner = getattr(get, "__self__", None)
        self.client = owner if hasattr(owner, "scheduler_info") else None
        self.cost = Cost() if cost is None else cost

    def workers(self) -> int:
        """How many processes work besides this one."""
        return 0 if self.client is None else max(1, len(self.client.nthreads()))

    def threads(self) -> int:
        """How many tasks run at a time."""
        if self.client is None:
            return 2
        return max(1, sum(self.client.nthreads().values()))

    def each(
        self,
        name: str,
        function: Callable[..., Any],
        parts: Sequence[Any],
        own: Sequence[tuple[Any, ...]] | None = None,
        shared: tuple[Any, ...] = (),
    ) -> list[Any]:
        """``function(part, *own[i], *shared)`` for every part, as one batch of tasks; the results, in order."""
        tasks = self.tasks(name, function, parts, own, shared)
        results = list(self._dask.compute(*tasks, scheduler=self.client)) if tasks else []
        self._count(own, shared, results)
        return results

    def keep(
        self,
        name: str,
        function: Callable[..., Any],
        parts: Sequence[Any],
        own: Sequence[tuple[Any, ...]] | None = None,
        shared: tuple[Any, ...] = (),
    ) -> list[Any]:
        """The same with results that stay where they were made: parts for later calls."""
        tasks = self.tasks(name, function, parts, own, shared)
        self._count(own, shared, [])
        return list(self._dask.persist(*tasks, scheduler=self.client)) if tasks else []

    def later(self, name: str, function: Callable[..., Any], part: Any, *arguments: Any) -> Any:
        """``function(part, *arguments)`` as a task that nobody has asked for yet."""
        return self.tasks(name, function, [part], None, arguments)[0]

    @property
    def _dask(self) -> Any:
        return need_dask()

    def tasks(self, name: str, function: Any, parts: Any, own: Any, shared: Any) -> list[Any]:
        """The tasks of such a batch, not asked for yet."""
        delayed = self._dask.delayed
        token = uuid.uuid4().hex[:12]
        call = delayed(function, name=f"fastanchors-function-{token}", traverse=False)
        # What all tasks share is one node of the graph, sent once to each worker instead of once with each task.
        common = delayed(_Shared(shared), name=f"fastanchors-shared-{token}", traverse=False)
        task = delayed(_call, name=f"fastanchors-call-{token}", traverse=False)
        return [
            task(call, part, _Shared(own[i]) if own else None, common, dask_key_name=f"fastanchors-{name}-{token}-{i}")
            for i, part in enumerate(parts)
        ]

    def _count(self, own: Any, shared: Any, results: list[Any]) -> None:
        if self.client is not None:
            self.cost.bytes_moved += pickled_bytes(shared) * self.workers() if shared else 0
            self.cost.bytes_moved += pickled_bytes(own) + pickled_bytes(results)


class _Shared:
    """Arguments that Dask passes on as they are, without looking inside for tasks."""

    def __init__(self, values: tuple[Any, ...]) -> None:
        self.values = values


def _call(function: Callable[..., Any], part: Any, own: _Shared | None, shared: _Shared) -> Any:
    with one_thread():  # Dask fills the cores with tasks
        return function(part, *(own.values if own is not None else ()), *shared.values)


def pickled_bytes(value: Any) -> int:
    """The size of ``value`` on the wire: pickled, large arrays counted without a copy."""
    buffers: list[pickle.PickleBuffer] = []
    try:
        head = pickle.dumps(value, protocol=5, buffer_callback=buffers.append)
    except (pickle.PicklingError, AttributeError, TypeError):  # a local function, say
        buffers = []
        head = import_module("cloudpickle").dumps(value, protocol=5, buffer_callback=buffers.append)
    return len(head) + sum(buffer.raw().nbytes for buffer in buffers)
