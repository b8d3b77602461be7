"""Rows split into parts; questions about rows are answered where their part is.

A part is a group of shards held by a worker, one group per worker (:class:`HeldParts`), or a block of a Dask array
(:class:`TaskParts`). Only questions and answers are sent between processes, never the parts.
"""

from __future__ import annotations

import contextlib
import secrets
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from .._signals import pass_on
from ..errors import StoreError
from .tasks import Pool, calls, worker_threads

__all__ = ["HeldParts", "Parts", "Question", "TaskParts", "call_method"]

_Result = TypeVar("_Result")
Indices = NDArray[np.int64]
_ATTEMPTS = 4  # workers that may be lost during one question
_LOOK = 5.0  # seconds between checks that a worker is still alive


def call_method(part: Any, arguments: tuple[Any, ...], method: str, options: Mapping[str, Any] | None = None) -> Any:
    """A question: call a method of the part."""
    return getattr(part, method)(*arguments, **(options or {}))


class Question(NamedTuple):
    """``function(part, *own[i], *shared)`` for the parts ``which``."""

    name: str
    function: Callable[..., Any]
    which: Sequence[int]
    own: Sequence[tuple[Any, ...]]
    shared: tuple[Any, ...]


class Parts(ABC):
    """Consecutive rows, split into parts.

    Attributes
    ----------
    starts : list of int
        The first row of each part, then the total number of rows.
    cost : Cost
        Counts ``bytes_moved``.
    """

    def __init__(self, pool: Pool, starts: list[int]) -> None:
        self.pool, self.starts, self.cost = pool, starts, pool.cost

    def each(
        self,
        name: str,
        function: Callable[..., _Result],
        which: Sequence[int] | None = None,
        own: Sequence[tuple[Any, ...]] | None = None,
        shared: tuple[Any, ...] = (),
    ) -> list[_Result]:
        """``function(part, *own[i], *shared)`` for the parts ``which`` (default: all), run where they are, in order."""
        which = range(len(self.starts) - 1) if which is None else which
        return self._answers(Question(name, function, which, [()] * len(which) if own is None else own, shared))

    @abstractmethod
    def _answers(self, asked: Question) -> list[Any]:
        """The results, in order."""

    @abstractmethod
    def keep(self, asked: Question, starts: list[int]) -> Parts:
        """As :meth:`each`, but the results stay where they were computed, as parts with these ``starts``."""

    def holding(self, indices: Indices) -> Iterator[tuple[int, Indices]]:
        """Yield (part, positions in ``indices`` of the rows it has)."""
        which = np.searchsorted(self.starts, indices, side="right") - 1
        order = np.argsort(which, kind="stable")
        parts, begins = np.unique(which[order], return_index=True)
        for p, low, high in zip(parts.tolist(), begins, [*begins[1:], len(order)]):
            yield p, order[low:high]


class TaskParts(Parts):
    """Parts that are results of tasks. Dask keeps them, and computes them again if a worker is lost."""

    def __init__(self, pool: Pool, starts: list[int], parts: Sequence[Any] = ()) -> None:
        super().__init__(pool, starts)
        self._kept = parts

    def tasks(self, asked: Question) -> list[Any]:
        """The tasks of a question; nothing is computed."""
        return calls(asked.name, asked.function, [self._kept[p] for p in asked.which], asked.own, asked.shared)

    def _answers(self, asked: Question) -> list[Any]:
        return self.pool.compute(self.tasks(asked), asked[3:])

    def keep(self, asked: Question, starts: list[int]) -> TaskParts:
        return TaskParts(self.pool, starts, self.pool.persist(self.tasks(asked), asked[3:]))


# --- one long-lived actor for each worker ----------------------------------------------------------------------------


class HeldParts(Parts):
    """Parts held by workers, one each. A question is one message round trip per worker, without a task.

    Parameters
    ----------
    pool : Pool
        Its workers hold the parts; without a client this process does.
    starts : list of int
        As in :class:`Parts`.
    handles : sequence
        The holders made by :meth:`of`.
    key : str
        Which object of a holder is asked: its part (""), or a kept result.
    """

    def __init__(self, pool: Pool, starts: list[int], handles: list[_Handle], key: str = "") -> None:
        super().__init__(pool, starts)
        self._handles, self._key = handles, key

    @classmethod
    def of(cls, pool: Pool, starts: list[int], described: Sequence[Any]) -> HeldParts:
        """Parts made by the ``open()`` method of descriptions. These should be small: they are sent to the workers, and
        again if a worker is lost."""
        workers: list[Any] = list(pool.workers().items()) or [(None, None)]
        return cls(pool, starts, [_Handle(pool, each, *workers[i % len(workers)]) for i, each in enumerate(described)])

    def _answers(self, asked: Question, keep: str = "") -> list[Any]:
        self.check_open()
        handles = [self._handles[p] for p in asked.which]
        questions = [(asked.function, self._key, arguments, asked.shared, keep) for arguments in asked.own]
        started = [handle.start(question) for handle, question in zip(handles, questions, strict=True)]
        answers = [handle.finish(*each) for handle, each in zip(handles, started)]
        self.pool.count(asked.own, [asked.shared] * len(handles), answers)
        return answers

    def keep(self, asked: Question, starts: list[int]) -> HeldParts:
        key = f"{asked.name}-{secrets.token_hex(8)}"
        self._answers(asked, key)
        kept = HeldParts(self.pool, starts, [self._handles[p] for p in asked.which], key)
        for handle in kept._handles:
            weakref.finalize(kept, handle.forget, key).atexit = False
        return kept

    def close(self) -> None:
        """Release the parts on the workers."""
        self._handles = []

    def check_open(self) -> None:
        """Raise if the parts were released, or if the client was closed."""
        self.pool.check_open()
        if not self._handles:
            raise StoreError("the connection to this store is closed; connect again")


class Holder:
    """Holds one worker's part and the results kept from it. A Dask actor, or a plain object in this process."""

    def __init__(self, described: Any, threads: int | None) -> None:
        self._described, self._threads = described, threads
        self._made: dict[str, Any] = {}

    def ask(self, function: Any, key: str, own: Any, shared: Any, keep: str, dropped: Sequence[str]) -> tuple[Any, Any]:
        """(answer, None), or (None, exception). An exception raised by the call itself means a lost worker."""
        for old in dropped:
            self._made.pop(old, None)
        try:
            with worker_threads(self._threads):
                if not key and key not in self._made:
                    self._made[key] = self._described.open()
                answer = function(self._made[key], *own, *shared)
        except Exception as error:
            return None, error
        if keep:
            self._made[keep] = answer
            return None, None
        return answer, None


class _Handle:
    """The client's handle of a holder. If its worker is lost, another one recomputes the part and what was kept."""

    def __init__(self, pool: Pool, described: Any, worker: str | None, threads: int | None) -> None:
        self._pool, self._holding, self._worker = pool, (described, threads), worker
        self._kept: dict[str, tuple[Any, ...]] = {}
        self._dropped: list[str] = []
        self._holder: Any = None
        self._future: Any = None  # keeps the actor alive

    def start(self, question: tuple[Any, ...]) -> tuple[Any, Any]:
        """Send the question without waiting for the answer."""
        dropped, self._dropped = self._dropped, []
        if self._pool.client is None:
            self._holder = self._holder or Holder(*self._holding)
            return question, _answered(self._holder.ask(*question, dropped))
        try:
            self._holder = self._holder or self._new_holder()
            return question, self._holder.ask(*question, dropped)
        except Exception as error:  # the worker was lost or has not started
            return question, _answered(error)

    def finish(self, question: tuple[Any, ...], waiting: Any) -> Any:
        """Wait for the answer."""
        for attempt in range(_ATTEMPTS):
            try:
                if attempt:
                    self._holder = self._new_holder()
                    for before in self._kept.values():  # in their original order
                        self._wait(self._holder.ask(*before, []))
                    waiting = self._holder.ask(*question, [])
                answer, error = self._wait(waiting)
            except Exception as lost:
                pass_on(lost)
                self._pool.check_open()
                cause = lost
                if isinstance(lost, self._pool.no_workers()):
                    break
                continue
            if error is not None:
                raise error
            if question[-1]:
                self._kept[question[-1]] = question
            return answer
        raise StoreError(f"the workers that were asked were lost, try again; Dask says: {cause}") from cause

    def _new_holder(self) -> Any:
        """A new actor on the intended worker if it is alive, else on another."""
        client: Any = self._pool.client
        with client.as_current():  # an actor belongs to the client that is current when it arrives
            while True:
                alive = self._worker in self._pool.workers()
                where = {"workers": [self._worker], "allow_other_workers": True} if alive else {}
                self._future = client.submit(Holder, *self._holding, actor=True, pure=False, **where)
                # If every worker was lost meanwhile, Dask waits for the intended one, although others have come.
                while not alive or self._worker in self._pool.workers():
                    with contextlib.suppress(TimeoutError):
                        return self._future.result(_LOOK)

    def _wait(self, waiting: Any) -> tuple[Any, Any]:
        """The holder's answer. Raises if it is lost: the answer alone might then never arrive."""
        while True:
            try:
                return waiting.result(_LOOK)
            except TimeoutError:
                if self._future.status != "finished":
                    raise

    def forget(self, key: str) -> None:
        """Drop the result kept under that key with the next question."""
        self._kept.pop(key, None)
        self._dropped.append(key)


def _answered(value: Any) -> Future[Any]:
    """An answer or exception that is already available."""
    future: Future[Any] = Future()
    if isinstance(value, Exception):
        future.set_exception(value)
    else:
        future.set_result(value)
    return future
