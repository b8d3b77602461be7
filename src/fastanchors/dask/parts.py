"""Rows in parts, each of which answers for its own rows where it is.

A part is a group of shards that a worker holds, one for each worker (:class:`HeldParts`), or a block of a Dask array
(:class:`TaskParts`). What crosses between processes is the question and the answer, never the part.
"""

from __future__ import annotations

import secrets
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from ..errors import StoreError
from ..matrix.cost import Cost
from .tasks import Pool, at_work, calls

__all__ = ["HeldParts", "Parts", "TaskParts"]

_Result = TypeVar("_Result")
Indices = NDArray[np.int64]
_ATTEMPTS = 4  # workers that may be lost during one question
_LOOK = 5.0  # seconds after which it is asked whether a worker is still there


class Parts(ABC):
    """Consecutive rows in parts.

    Attributes
    ----------
    starts : list of int
        The first row of each part, and the number of all rows.
    cost : Cost
        Where ``bytes_moved`` is counted.
    """

    starts: list[int]
    cost: Cost

    @abstractmethod
    def each(
        self,
        name: str,
        function: Callable[..., _Result],
        which: Sequence[int] | None = None,
        own: Sequence[tuple[Any, ...]] | None = None,
        shared: tuple[Any, ...] = (),
    ) -> list[_Result]:
        """``function(part, *own[i], *shared)`` for those parts (all by default), where they are; results in order."""

    @abstractmethod
    def keep(
        self,
        name: str,
        function: Callable[..., Any],
        which: Sequence[int],
        own: Sequence[tuple[Any, ...]],
        shared: tuple[Any, ...],
        starts: list[int],
    ) -> Parts:
        """The same with results that stay where they were made: parts with those ``starts``."""

    def holding(self, indices: Indices) -> Iterator[tuple[int, Indices]]:
        """(part, places in ``indices`` of the rows it has)."""
        which = np.searchsorted(self.starts, indices, side="right") - 1
        order = np.argsort(which, kind="stable")
        parts, begins = np.unique(which[order], return_index=True)
        for p, low, high in zip(parts.tolist(), begins, [*begins[1:], len(order)]):
            yield p, order[low:high]


# --- tasks of Dask ---------------------------------------------------------------------------------------------------


class TaskParts(Parts):
    """Parts that are results of tasks, kept by Dask: made again where a worker is lost."""

    def __init__(self, pool: Pool, starts: list[int], parts: Sequence[Any] = ()) -> None:
        self.pool, self.starts, self.cost, self._kept = pool, starts, pool.cost, parts

    def tasks(self, name: str, function: Any, which: Sequence[int], own: Any, shared: Any) -> list[Any]:
        """The tasks of a question; nothing is computed."""
        return calls(name, function, [self._kept[p] for p in which], own, shared)

    def each(
        self,
        name: str,
        function: Callable[..., _Result],
        which: Sequence[int] | None = None,
        own: Sequence[tuple[Any, ...]] | None = None,
        shared: tuple[Any, ...] = (),
    ) -> list[_Result]:
        which = range(len(self.starts) - 1) if which is None else which
        own = [()] * len(which) if own is None else own
        return self.pool.compute(self.tasks(name, function, which, own, shared), (own, shared))

    def keep(
        self,
        name: str,
        function: Callable[..., Any],
        which: Sequence[int],
        own: Sequence[tuple[Any, ...]],
        shared: tuple[Any, ...],
        starts: list[int],
    ) -> TaskParts:
        tasks = self.tasks(name, function, which, own, shared)
        return TaskParts(self.pool, starts, self.pool.persist(tasks, (own, shared)))


# --- one long-lived actor for each worker ----------------------------------------------------------------------------


class HeldParts(Parts):
    """Parts that workers hold, one each: a question is one message to each worker and back, and no task.

    Parameters
    ----------
    pool : Pool
        Whose workers hold them; without a client this process does.
    described : sequence
        What each part is made from, by its method ``open()``: small, as it is sent, and sent again to another worker
        where one is lost.
    starts : list of int
        As for all parts.
    """

    def __init__(self, pool: Pool, described: Sequence[Any], starts: list[int]) -> None:
        self.pool, self.starts, self.cost = pool, starts, pool.cost
        workers: list[Any] = list(pool.workers().items()) or [(None, None)]
        self._hands = [_Hand(pool, each, *workers[i % len(workers)]) for i, each in enumerate(described)]
        self._key = ""

    def each(
        self,
        name: str,
        function: Callable[..., _Result],
        which: Sequence[int] | None = None,
        own: Sequence[tuple[Any, ...]] | None = None,
        shared: tuple[Any, ...] = (),
    ) -> list[_Result]:
        which = range(len(self._hands)) if which is None else which
        own = [()] * len(which) if own is None else own
        return self._ask(function, [self._hands[p] for p in which], own, shared)

    def keep(
        self,
        name: str,
        function: Callable[..., Any],
        which: Sequence[int],
        own: Sequence[tuple[Any, ...]],
        shared: tuple[Any, ...],
        starts: list[int],
    ) -> HeldParts:
        kept = object.__new__(HeldParts)
        kept.pool, kept.starts, kept.cost = self.pool, starts, self.cost
        kept._hands, kept._key = [self._hands[p] for p in which], f"{name}-{secrets.token_hex(8)}"
        self._ask(function, kept._hands, own, shared, kept._key)
        for hand in kept._hands:
            weakref.finalize(kept, hand.forget, kept._key).atexit = False
        return kept

    def _ask(self, function: Any, hands: list[_Hand], own: Any, shared: Any, keep: str = "") -> list[Any]:
        self.pool.check_open()
        questions = [(function, self._key, arguments, shared, keep) for arguments in own]
        started = [hand.start(question) for hand, question in zip(hands, questions, strict=True)]
        answers = [hand.finish(*each) for hand, each in zip(hands, started)]
        self.pool.count(own, [shared] * len(hands), answers)
        return answers

    def close(self) -> None:
        """Let the workers forget the parts."""
        self._hands = []

    @property
    def closed(self) -> bool:
        return not self._hands


class Holder:
    """What one worker holds: a part, and what was made of it since. A Dask actor, or a plain object in this process."""

    def __init__(self, described: Any, threads: int | None) -> None:
        self._described, self._threads = described, threads
        self._made: dict[str, Any] = {}

    def ask(self, function: Any, key: str, own: Any, shared: Any, keep: str, dropped: Sequence[str]) -> tuple[Any, Any]:
        """(answer, None), or (None, what was raised): whatever else is raised means that the worker was lost."""
        for old in dropped:
            self._made.pop(old, None)
        try:
            with at_work(self._threads):
                if not key and key not in self._made:
                    self._made[key] = self._described.open()
                answer = function(self._made[key], *own, *shared)
        except Exception as error:
            return None, error
        if keep:
            self._made[keep] = answer
            return None, None
        return answer, None


class _Hand:
    """A holder as its client sees it: where its worker is lost, another takes its part and makes what was kept."""

    def __init__(self, pool: Pool, described: Any, worker: str | None, threads: int | None) -> None:
        self._pool, self._holding, self._worker = pool, (described, threads), worker
        self._kept: dict[str, tuple[Any, ...]] = {}
        self._dropped: list[str] = []
        self._holder: Any = None
        self._future: Any = None  # Dask keeps the actor as long as this is here

    def start(self, question: tuple[Any, ...]) -> tuple[Any, Any]:
        """Ask, and do not wait."""
        dropped, self._dropped = self._dropped, []
        if self._pool.client is None:
            self._holder = self._holder or Holder(*self._holding)
            return question, _Answered(self._holder.ask(*question, dropped))
        try:
            self._holder = self._holder or self._new_holder()
            return question, self._holder.ask(*question, dropped)
        except Exception as error:  # the worker was lost, or has not come yet
            return question, _Answered(error)

    def finish(self, question: tuple[Any, ...], waiting: Any) -> Any:
        """The answer."""
        for attempt in range(_ATTEMPTS):
            try:
                if attempt:
                    self._holder = self._new_holder()
                    for before in self._kept.values():  # in the order in which they were made
                        self._wait(self._holder.ask(*before, []))
                    waiting = self._holder.ask(*question, [])
                answer, error = self._wait(waiting)
            except Exception as lost:
                self._pool.check_open()
                cause = lost
                continue
            if error is not None:
                raise error
            if question[-1]:
                self._kept[question[-1]] = question
            return answer
        raise StoreError(f"{_ATTEMPTS} workers were lost while they were asked, the last by: {cause}") from cause

    def _new_holder(self) -> Any:
        """An actor on the worker that it was meant for, or on any other."""
        where = {"workers": [self._worker], "allow_other_workers": True} if self._worker in self._pool.workers() else {}
        client: Any = self._pool.client
        with client.as_current():
            self._future = client.submit(Holder, *self._holding, actor=True, pure=False, **where)
            return self._future.result()

    def _wait(self, waiting: Any) -> tuple[Any, Any]:
        """What the holder answers; an error where it is lost, of which the answer itself need not tell."""
        while True:
            try:
                return waiting.result(_LOOK)
            except TimeoutError:
                if self._future.status != "finished":
                    raise

    def forget(self, key: str) -> None:
        """What was kept under that key is dropped with the next question."""
        self._kept.pop(key, None)
        self._dropped.append(key)


class _Answered:
    """An answer, or an exception, that is there already."""

    def __init__(self, value: Any) -> None:
        self._value = value

    def result(self, timeout: float | None = None) -> Any:
        if isinstance(self._value, Exception):
            raise self._value
        return self._value
