"""Tasks on Dask's workers: named, gathered, and what crosses between processes counted."""

from __future__ import annotations

import pickle
import threading
import uuid
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any

from .._parallel import one_thread
from ..errors import InvalidInputError, InvalidTypeError, MissingExtraError, StoreError
from ..matrix.cost import Cost

__all__ = ["Crew", "Mobile", "fused", "need_dask", "pickled_bytes", "stacked"]


def need_dask() -> Any:
    """The module ``dask``, or an error that says how to get it."""
    try:
        import dask
        import dask.delayed
        import dask.threaded
    except ImportError as error:
        raise MissingExtraError("this needs Dask: pip install 'fastanchors[dask]'") from error
    return dask


def stacked(tasks: Sequence[Any], shapes: Sequence[tuple[float, int]], meta: Any) -> Any:
    """A lazy Dask array whose blocks of rows are those tasks; ``meta`` is an empty block."""
    da = import_module("dask.array")
    blocks = [da.from_delayed(task, shape, meta=meta) for task, shape in zip(tasks, shapes, strict=True)]
    return da.concatenate(blocks, allow_unknown_chunksizes=True)


class Crew:
    """Where tasks run: the client given, or the one that is current, or Dask's scheduler in this process.

    A cluster is never made here, and what was current when this was made stays in use. Tasks keep no state, so that
    those of a worker that died run again elsewhere.
    """

    def __init__(self, client: Any = None, cost: Cost | None = None) -> None:
        dask = need_dask()
        if client is not None and not hasattr(client, "scheduler_info") and not callable(client):
            raise InvalidTypeError(f"client must be a distributed.Client, got {client!r}; make one: Client({client!r})")
        if getattr(client, "status", None) == "closed":
            raise InvalidInputError("the client is closed; make a new one")
        self._get = dask.base.get_scheduler(scheduler=client) or dask.threaded.get
        owner = getattr(self._get, "__self__", None)
        self.client = owner if hasattr(owner, "scheduler_info") else None
        self._apart = self._get not in (dask.threaded.get, dask.local.get_sync)  # in processes of their own
        self.cost = Cost() if cost is None else cost

    def again(self) -> Crew:
        """The same workers, with a count of their own."""
        return Crew(self._get if self.client is None else self.client)

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
        tasks = self.tasks(name, function, parts, own, shared, call=_answer)
        if not tasks:
            return []
        answers = need_dask().compute(*fused(tasks), scheduler=self._get, optimize_graph=False)
        results = [value for value, _ in answers]
        self._count(len(tasks), own, shared, results, sum(arrived for _, arrived in answers))
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
        self._count(len(tasks), own, shared, [])
        return list(need_dask().persist(*fused(tasks), scheduler=self._get, optimize_graph=False)) if tasks else []

    def later(self, name: str, function: Callable[..., Any], part: Any, *arguments: Any) -> Any:
        """``function(part, *arguments)`` as a task that nobody has asked for yet."""
        return self.tasks(name, function, [part], None, arguments)[0]

    def tasks(
        self, name: str, function: Any, parts: Any, own: Any, shared: Any, *, call: Callable[..., Any] | None = None
    ) -> list[Any]:
        """The tasks of such a batch, not asked for yet."""
        if self.client is not None and self.client.status == "closed":
            raise StoreError("the Dask client that this was made with is closed; connect with another")
        delayed = need_dask().delayed
        token = uuid.uuid4().hex[:12]
        # What all tasks share is one node of the graph, sent once to each worker instead of once with each task.
        common = delayed(_Shared((function, shared)), name=f"fastanchors-shared-{token}", traverse=False)
        task = delayed(call or _call, name=f"fastanchors-call-{token}", traverse=False)
        return [
            task(part, _Shared(own[i]) if own else None, common, dask_key_name=f"fastanchors-{name}-{token}-{i}")
            for i, part in enumerate(parts)
        ]

    def lost(self, parts: Sequence[Any]) -> bool:
        """Whether the cluster has forgotten what was kept, as after ``client.restart()``."""
        held = (value for part in parts for value in part.__dask_graph__().values())
        return any(getattr(value, "status", None) in ("cancelled", "lost") for value in held)

    def _count(self, tasks: int, own: Any, shared: Any, results: list[Any], arrived: int = 0) -> None:
        if self._apart:
            copies = self.workers() or tasks
            self.cost.bytes_moved += pickled_bytes(shared) * copies if shared else 0
            self.cost.bytes_moved += pickled_bytes(own) + pickled_bytes(results) + arrived + _taken()


def fused(tasks: Sequence[Any]) -> list[Any]:
    """The same tasks, each with all that leads to it and to nothing else inside: one task for a block of a Dask array
    and what is asked of it. So a block is looked at where it was made, and never waits for a worker to be moved to.
    """
    try:
        spec = import_module("dask._task_spec")
    except ImportError:  # an older Dask
        return list(tasks)
    highlevelgraph = import_module("dask.highlevelgraph")
    whole = highlevelgraph.HighLevelGraph.merge(*(task.__dask_graph__() for task in tasks)).to_dict()
    graph = spec.convert_legacy_graph(whole)
    wanted = [task.key for task in tasks]
    needed = _users(graph, wanted)
    made = {}
    for key in wanted:
        inside, todo = [], [key]
        while todo:
            node = graph[todo.pop()]
            inside.append(node)
            todo += [x for x in node.dependencies if x in graph and needed[x] == {key} and x != key]
        made[key] = spec.Task.fuse(*{node.key: node for node in inside}.values())
    rest = {key: graph[key] for key, users in needed.items() if key in graph and len(users) > 1}
    name = f"fused-{wanted[0]}"
    layer = highlevelgraph.HighLevelGraph.from_collections(name, rest | made, dependencies=())
    return [import_module("dask.delayed").Delayed(key, layer, layer=name) for key in wanted]


def _users(graph: Mapping[Any, Any], wanted: Sequence[Any]) -> dict[Any, set[Any]]:
    """For every node, which of the wanted ones it leads to; of many, two."""
    users: dict[Any, set[Any]] = {}
    for key in wanted:
        todo = [key]
        while todo:
            at = todo.pop()
            known = users.setdefault(at, set())
            if key in known or len(known) > 1:
                continue
            known.add(key)
            todo += graph[at].dependencies if at in graph else ()
    return users


class _Shared:
    """Arguments that Dask passes on as they are, without looking inside for tasks."""

    def __init__(self, values: tuple[Any, ...]) -> None:
        self.values = values

    def __sizeof__(self) -> int:
        return object.__sizeof__(self) + pickled_bytes(self.values)


def _call(part: Any, own: _Shared | None, shared: _Shared) -> Any:
    function, arguments = shared.values
    with one_thread():  # Dask fills the cores with tasks
        return function(part, *(own.values if own is not None else ()), *arguments)


def _answer(part: Any, own: _Shared | None, shared: _Shared) -> tuple[Any, int]:
    """The result, and the bytes of what other workers have sent here meanwhile."""
    return _call(part, own, shared), _taken()


# --- what moves between workers --------------------------------------------------------------------------------------

_arrived = 0
_lock = threading.Lock()


class Mobile:
    """Something kept by a worker. Where Dask moves it, its bytes are counted; its size tells Dask what that costs."""

    def __setstate__(self, state: dict[str, Any]) -> None:
        global _arrived
        self.__dict__.update(state)
        with _lock:
            _arrived += pickled_bytes(state)

    def __getstate__(self) -> dict[str, Any]:
        return dict(self.__dict__)


def _taken() -> int:
    """The bytes that have arrived in this process since this was last asked."""
    global _arrived
    with _lock:
        taken, _arrived = _arrived, 0
    return taken


def pickled_bytes(value: Any) -> int:
    """The size of ``value`` on the wire: pickled, large arrays counted without a copy."""
    buffers: list[pickle.PickleBuffer] = []
    try:
        head = pickle.dumps(value, protocol=5, buffer_callback=buffers.append)
    except (pickle.PicklingError, AttributeError, TypeError):  # a local function, say
        buffers = []
        head = import_module("cloudpickle").dumps(value, protocol=5, buffer_callback=buffers.append)
    return len(head) + sum(buffer.raw().nbytes for buffer in buffers)
