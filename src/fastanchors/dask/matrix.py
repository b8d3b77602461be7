"""``DaskMatrix``: rows that stay on workers, as a :class:`~fastanchors.matrix.RowMatrix`.

The rows are in *parts*, each of which answers for its own rows where it is: a block of a Dask array, or a shard of a
store. What crosses between processes is the question and the answer, never the part.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from itertools import pairwise
from typing import Any, Literal, NamedTuple, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._validate import as_matrix, check_finite, check_index
from ..fas.bounds import Sketch, sketch_elsewhere
from ..matrix.array import ArrayMatrix
from ..matrix.contract import RowMatrix, Rows
from ..matrix.cost import Cost
from ..matrix.scaled import scale_rows
from ..sampling.gather import in_order
from .collection import Collection, as_block, check_length
from .sketches import RemoteSketch, sketched
from .tasks import Pool

__all__ = ["CollectionParts", "DaskMatrix", "Parts"]

_Result = TypeVar("_Result")
Indices = NDArray[np.int64]


class Parts(ABC):
    """Consecutive rows in parts.

    Attributes
    ----------
    pool
        Pool
    starts : sequence of int
        The first row of each part, and the number of all rows.
    """

    pool: Pool
    starts: Sequence[int]

    @abstractmethod
    def each(
        self,
        name: str,
        function: Callable[..., _Result],
        which: Sequence[int] | None = None,
        own: Sequence[tuple[Any, ...]] | None = None,
        shared: tuple[Any, ...] = (),
    ) -> list[_Result]:
        """``function(matrix, *own[i], *shared)`` for those parts (all by default), where they are; results in order.

        ``matrix`` is the part as a RowMatrix that numbers its rows from 0.
        """

    @abstractmethod
    def keep(self, name: str, function: Callable[..., Any], shared: tuple[Any, ...]) -> list[Any]:
        """Tasks whose results stay on the workers."""

    def holding(self, indices: Indices) -> Iterator[tuple[int, Indices]]:
        """(part, places in ``indices`` of the rows it has)."""
        which = np.searchsorted(self.starts, indices, side="right") - 1
        order = np.argsort(which, kind="stable")
        parts, begins = np.unique(which[order], return_index=True)
        for p, low, high in zip(parts.tolist(), begins, [*begins[1:], len(order)]):
            yield p, order[low:high]


class DaskMatrix(RowMatrix):
    """A matrix whose rows are on workers.

    Every method runs where the rows are. Blocks of a Dask array are computed anew for every pass unless the array was
    persisted: ``X = X.persist()`` where the workers' memory holds it.
    """

    def __init__(
        self,
        parts: Parts,
        columns: int,
        dtype: np.dtype[Any],
        is_sparse: bool,
        normalize: Literal["l1"] | None = None,
        row_names: Sequence[str] | None = None,
        column_names: Sequence[str] | None = None,
    ) -> None:
        self._parts, self._columns, self._dtype = parts, columns, dtype
        self._is_sparse, self._normalize = is_sparse, normalize
        self.row_names, self.column_names = row_names, column_names

    @property
    def shape(self) -> tuple[int, int]:
        return int(self._parts.starts[-1]), self._columns

    @property
    def dtype(self) -> np.dtype[Any]:
        return self._dtype

    @property
    def is_sparse(self) -> bool:
        return self._is_sparse

    @property
    def normalize(self) -> Literal["l1"] | None:
        return self._normalize

    @property
    def cost(self) -> Cost:
        return self._parts.pool.cost

    @property
    def in_process(self) -> bool:
        return False

    def l1_scaled(self) -> RowMatrix:
        if self._normalize == "l1" or not isinstance(self._parts, CollectionParts):
            return super().l1_scaled()
        dtype = np.dtype(np.float32 if self._dtype == np.float32 else np.float64)
        names = self.row_names, self.column_names
        return DaskMatrix(self._parts.l1_scaled(), self._columns, dtype, self._is_sparse, "l1", *names)

    def rows(self, indices: ArrayLike) -> Rows:
        indices = check_index(indices, self.shape[0], name="row").reshape(-1)
        self.cost.rows_read += indices.size
        asked = list(self._parts.holding(indices)) or [(0, indices)]  # no rows at all: of the right kind
        own = [(indices[at] - self._parts.starts[p],) for p, at in asked]
        found = self._parts.each("rows", _rows, [p for p, _ in asked], own)
        return in_order(found, [at for _, at in asked], indices.size)

    def blocks(self, block_rows: int | None = None) -> Iterator[tuple[int, Rows]]:
        """One pass in order through this process, some parts at a time; :meth:`map_blocks` moves less."""
        step, together = block_rows or self.default_block_rows(), self._parts.pool.threads()
        starts = self._parts.starts
        for first in range(0, len(starts) - 1, together):
            which = range(first, min(first + together, len(starts) - 1))
            self.cost.rows_read += starts[which[-1] + 1] - starts[first]
            for p, rows in zip(which, self._parts.each("rows", _rows, which, [(None,)] * len(which))):
                for low in range(0, rows.shape[0], step):
                    yield starts[p] + low, rows[low : low + step]

    def map_blocks(
        self, function: Callable[..., _Result], *shared: Any, block_rows: int | None = None
    ) -> list[_Result]:
        self.cost.rows_read += self.shape[0]
        own = [(start,) for start in self._parts.starts[:-1]]
        step = block_rows or self.default_block_rows()
        found = self._parts.each(_named("map", function), _map_blocks, None, own, (function, shared, step))
        return [result for results in found for result in results]

    def map_rows(
        self, function: Callable[..., _Result], indices: NDArray[np.int64], *shared: Any, block_rows: int | None = None
    ) -> list[_Result]:
        indices = np.asarray(indices, dtype=np.int64)
        self.cost.rows_read += indices.size
        asked = list(self._parts.holding(indices))
        own = [(self._parts.starts[p], indices[at]) for p, at in asked]
        step = block_rows or self.default_block_rows()
        which = [p for p, _ in asked]
        found = self._parts.each(_named("map", function), _map_rows, which, own, (function, shared, step))
        return [result for results in found for result in results]

    def map_parts(self, function: Callable[..., _Result], *shared: Any) -> list[_Result]:
        self.cost.rows_read += self.shape[0]
        own = [(start,) for start in self._parts.starts[:-1]]
        return self._parts.each(_named("part", function), _map_part, None, own, (function, shared))

    def transposed_dot(self, B: NDArray[np.float64]) -> NDArray[np.float64]:
        self.cost.rows_read += self.shape[0]
        own = [(B[start:stop],) for start, stop in pairwise(self._parts.starts)]
        return np.asarray(sum(self._parts.each("transposed-dot", _transposed_dot, None, own)))

    def sketch(self, V: NDArray[np.float64]) -> RemoteSketch:
        """The sketch of all rows, each part's where the part is."""
        self.cost.rows_read += self.shape[0]
        return RemoteSketch(V, self._parts.pool, self._parts.keep("sketch", sketched, (V,)), list(self._parts.starts))


@sketch_elsewhere.register
def _(matrix: DaskMatrix, V: NDArray[np.float64]) -> Sketch:
    return matrix.sketch(V)


def _named(prefix: str, function: Callable[..., Any]) -> str:
    """A name for tasks that a dashboard can show."""
    return f"{prefix}-{getattr(function, '__name__', 'function').strip('_<>').replace('_', '-')}"


# --- blocks of a Dask array or data frame ----------------------------------------------------------------------------


class _View(NamedTuple):
    """How a block becomes a matrix: where it stands, and what is expected of it."""

    number: int
    start: int
    length: int


class CollectionParts(Parts):
    """The blocks of a Dask array or data frame that have rows; each is checked whenever it is computed."""

    def __init__(self, collection: Collection, *, signed: bool, l1: bool) -> None:
        self.pool, self._collection, self._options = collection.pool, collection, (signed, l1)
        starts = collection.starts()
        blocks = [_View(i, low, high - low) for i, (low, high) in enumerate(pairwise(starts)) if high > low]
        self._views, self.starts = blocks, [*(view.start for view in blocks), starts[-1]]

    def l1_scaled(self) -> CollectionParts:
        """The same blocks with every row divided by its sum."""
        scaled = copy(self)
        scaled._options = (self._options[0], True)
        return scaled

    def _arguments(self, which: Sequence[int] | None, own: Any) -> tuple[list[int], list[tuple[Any, ...]]]:
        chosen = range(len(self._views)) if which is None else which
        views = [self._views[p] for p in chosen]
        return [view.number for view in views], [(view, own[i] if own else ()) for i, view in enumerate(views)]

    def each(
        self,
        name: str,
        function: Callable[..., _Result],
        which: Sequence[int] | None = None,
        own: Sequence[tuple[Any, ...]] | None = None,
        shared: tuple[Any, ...] = (),
    ) -> list[_Result]:
        numbers, places = self._arguments(which, own)
        return self._collection.each(name, _ask, numbers, places, (function, shared, *self._options))

    def keep(self, name: str, function: Callable[..., Any], shared: tuple[Any, ...]) -> list[Any]:
        numbers, places = self._arguments(None, None)
        tasks = self._collection.tasks(name, _ask, numbers, places, (function, shared, *self._options))
        return self.pool.persist(tasks, (places, shared))


# --- on the worker ---------------------------------------------------------------------------------------------------


def _ask(
    block: Any,
    view: _View,
    own: tuple[Any, ...],
    function: Callable[..., Any],
    shared: tuple[Any, ...],
    signed: bool,
    l1: bool,
) -> Any:
    check_length(block, view.number, view.length, "X")
    rows = as_matrix(as_block(block), finite=False, name="the block")
    check_finite(rows, signed=signed, first_row=view.start)
    matrix = ArrayMatrix(scale_rows(rows) if l1 else rows, normalize="l1" if l1 else None)
    return function(matrix, *own, *shared)


def _rows(matrix: RowMatrix, indices: Indices | None) -> Rows:
    return matrix.rows(np.arange(matrix.shape[0]) if indices is None else indices)


def _map_blocks(
    matrix: RowMatrix, start: int, function: Callable[..., Any], shared: tuple[Any, ...], step: int
) -> list[Any]:
    return [function(start + low, block, *shared) for low, block in matrix.blocks(step)]


def _map_part(matrix: RowMatrix, start: int, function: Callable[..., Any], shared: tuple[Any, ...]) -> Any:
    return function(matrix, start, *shared)


def _map_rows(
    matrix: RowMatrix,
    start: int,
    indices: Indices,
    function: Callable[..., Any],
    shared: tuple[Any, ...],
    step: int,
) -> list[Any]:
    pieces = (indices[at : at + step] for at in range(0, indices.size, step))
    return [function(piece, matrix.rows(piece - start), *shared) for piece in pieces]


def _transposed_dot(matrix: RowMatrix, B: NDArray[np.float64]) -> NDArray[np.float64]:
    return matrix.transposed_dot(B)
