"""``DaskMatrix``, a :class:`~fastanchors.matrix.RowMatrix` whose rows stay on workers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any, Literal, TypeVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from .._validate import as_matrix, check_finite, check_index
from ..errors import InvalidInputError, InvalidTypeError
from ..fas.bounds import Sketch, sketch_elsewhere
from ..io.row_source import numeric_dtype
from ..matrix.array import ArrayMatrix
from ..matrix.contract import BLOCK_BYTES, RowMatrix, Rows, check_factor
from ..matrix.cost import Cost
from ..matrix.fetched_names import FetchedNames
from ..matrix.scaled import scale_rows
from ..sampling.access_guard import reads
from ..sampling.gather import in_order
from .collection import Collection, as_block, as_declared
from .parts import Parts, Question, TaskParts, call_method
from .sketches import RemoteSketch, sketched
from .tasks import Pool

__all__ = ["BlockParts", "DaskMatrix", "open_collection"]

_Result = TypeVar("_Result")
Indices = NDArray[np.int64]
_TOGETHER = 4  # parts loaded into this process at a time


class DaskMatrix(RowMatrix):
    """A matrix whose rows are on workers.

    Every method runs where the rows are. Blocks of a Dask array are computed again in every pass unless the array is
    persisted: call ``X = X.persist()`` if it fits into the workers' memory.

    Examples
    --------
    >>> import dask.array as da
    >>> import fastanchors as fa
    >>> matrix = fa.open_matrix(da.ones((6, 3), chunks=(2, 3)))
    >>> type(matrix).__name__, matrix.shape
    ('DaskMatrix', (6, 3))
    """

    def __init__(
        self,
        parts: Parts,
        columns: int,
        dtype: np.dtype[Any],
        is_sparse: bool | None,
        normalize: Literal["l1"] | None = None,
        row_names: Sequence[str] | None = None,
        column_names: Sequence[str] | None = None,
    ) -> None:
        self._parts, self._columns, self._dtype, self._normalize = parts, columns, dtype, normalize
        self.row_names, self.column_names = row_names, column_names
        # Whether blocks were sparse, if that is not known: Dask often declares such blocks dense.
        self._sparse_found: set[bool] = set() if is_sparse is None else {is_sparse}

    @property
    def shape(self) -> tuple[int, int]:
        return self._parts.starts[-1], self._columns

    @property
    def dtype(self) -> np.dtype[Any]:
        return self._dtype

    @property
    def is_sparse(self) -> bool:
        """Whether blocks are sparse; the first one is computed to know it, unless rows were read before."""
        if not self._sparse_found:
            self._learn(self._parts.each("kind", _is_sparse, [0]))
        return True in self._sparse_found

    def _learn(self, sparse: Iterable[bool]) -> None:
        self._sparse_found.update(sparse)
        if len(self._sparse_found) > 1:
            raise InvalidTypeError("some blocks are dense and others sparse; convert all blocks to one kind")

    @property
    def normalize(self) -> Literal["l1"] | None:
        return self._normalize

    @property
    def cost(self) -> Cost:
        return self._parts.cost

    @property
    def in_process(self) -> bool:
        return False

    def l1_scaled(self) -> RowMatrix:
        if self._normalize == "l1" or not isinstance(self._parts, BlockParts):
            return super().l1_scaled()
        dtype = np.dtype(np.float32 if self._dtype == np.float32 else np.float64)
        names = self.row_names, self.column_names
        made = DaskMatrix(self._parts.l1_scaled(), self._columns, dtype, None, "l1", *names)
        made._sparse_found = self._sparse_found
        return made

    @reads
    def rows(self, indices: ArrayLike) -> Rows:
        indices = check_index(indices, self.shape[0], name="row").reshape(-1)
        self.cost.rows_read += indices.size
        return self._collect(indices, "rows")

    def _collect(self, indices: Indices, method: str) -> Rows:
        """Rows by a method of the parts, in order."""
        asked = list(self._parts.holding(indices)) or [(0, indices)]  # no rows asked for: still return the right type
        own = [((indices[at] - self._parts.starts[p],),) for p, at in asked]
        found = self._parts.each("rows", call_method, [p for p, _ in asked], own, (method,))
        self._learn(sp.issparse(rows) for rows in found)
        return in_order(found, [at for _, at in asked], indices.size)

    def blocks(self, block_rows: int | None = None) -> Iterator[tuple[int, Rows]]:
        """One ordered pass in this process, a few parts at a time; :meth:`map_blocks` moves less data."""
        step, starts = self._block_rows(block_rows), self._parts.starts
        bounds = [*starts[:-1:_TOGETHER], starts[-1]]
        for start, stop in pairwise(bounds):
            rows = self.rows(np.arange(start, stop))
            for low in range(0, stop - start, step):
                yield start + low, rows[low : low + step]

    def default_block_rows(self) -> int:
        """For blocks of Dask as if they were dense: neither their kind nor their entries are known before a pass."""
        if not isinstance(self._parts, BlockParts):
            return super().default_block_rows()
        return max(1, BLOCK_BYTES // (8 * self._columns))

    @reads
    def map_blocks(
        self, function: Callable[..., _Result], *shared: Any, block_rows: int | None = None
    ) -> list[_Result]:
        step = self._block_rows(block_rows)
        found = self._each_part(_named("map", function), _map_blocks, function, shared, step)
        return [result for results in found for result in results]

    @reads
    def map_parts(self, function: Callable[..., _Result], *shared: Any) -> list[_Result]:
        return self._each_part(_named("part", function), _map_part, function, shared)

    def _each_part(self, name: str, function: Callable[..., Any], *shared: Any) -> list[Any]:
        self.cost.rows_read += self.shape[0]
        return self._parts.each(name, function, None, [(start,) for start in self._parts.starts[:-1]], shared)

    @reads
    def map_rows(
        self, function: Callable[..., _Result], indices: NDArray[np.int64], *shared: Any, block_rows: int | None = None
    ) -> list[_Result]:
        indices = check_index(indices, self.shape[0], name="row")
        self.cost.rows_read += indices.size
        asked = list(self._parts.holding(indices))
        own = [(self._parts.starts[p], indices[at]) for p, at in asked]
        common = (function, shared, self._block_rows(block_rows))
        found = self._parts.each(_named("map", function), _map_rows, [p for p, _ in asked], own, common)
        return [result for results in found for result in results]

    @reads
    def transposed_dot(self, B: NDArray[np.float64]) -> NDArray[np.float64]:
        B = check_factor(B, self.shape[0], vector=False)
        self.cost.rows_read += self.shape[0]
        own = [((B[start:stop],),) for start, stop in pairwise(self._parts.starts)]
        return np.asarray(sum(self._parts.each("transposed-dot", call_method, None, own, ("transposed_dot",))))

    @reads
    def sketch(self, V: NDArray[np.float64]) -> RemoteSketch:
        """The sketch of all rows; each part is sketched where it is."""
        self.cost.rows_read += self.shape[0]
        return RemoteSketch.made(self._parts, "sketch", sketched, V)


@sketch_elsewhere.register
def _(matrix: DaskMatrix, V: NDArray[np.float64]) -> Sketch:
    return matrix.sketch(V)


def _named(prefix: str, function: Callable[..., Any]) -> str:
    """A readable task name for the dashboard."""
    return f"{prefix}-{getattr(function, '__name__', 'function').strip('_<>').replace('_', '-')}"


class BlockParts(TaskParts):
    """The nonempty blocks of a Dask array or data frame; each is checked whenever it is computed."""

    def __init__(self, collection: Collection, *, signed: bool, l1: bool) -> None:
        collection.count_rows()
        bounds = enumerate(pairwise(collection.starts))
        self._blocks = [(number, low, high - low) for number, (low, high) in bounds if high > low]
        super().__init__(collection.pool, [*(low for _, low, _ in self._blocks), collection.starts[-1]])
        self._collection, self._signed, self._l1 = collection, signed, l1

    def l1_scaled(self) -> BlockParts:
        """The same blocks with every row divided by its sum."""
        return BlockParts(self._collection, signed=self._signed, l1=True)

    def tasks(self, asked: Question) -> list[Any]:
        blocks = [self._blocks[p] for p in asked.which]
        known = self._collection.layout
        shared = (asked.function, asked.shared, known.columns, known.dtype, self._signed, self._l1)
        which = [number for number, *_ in blocks]
        return self._collection.tasks(Question(asked.name, _ask, which, list(zip(blocks, asked.own)), shared))


class _IndexNames(FetchedNames):
    """The index of a data frame; partitions of the rows that are asked for are computed again."""

    def __init__(self, collection: Collection) -> None:
        self._collection = collection

    def __len__(self) -> int:
        return self._collection.starts[-1]

    def some(self, rows: Indices) -> list[str]:
        first, starts = self._collection.named_from, self._collection.starts
        asked = [(p, at) for p, at in self._collection.holding(rows) if first is not None and p >= first]
        own = [(rows[at] - starts[p],) for p, at in asked]
        names = [str(row) for row in rows.tolist()]
        answers = self._collection.each("names", _names, [p for p, _ in asked], own) if asked else []
        for (_, at), found in zip(asked, answers):
            for i, name in zip(at.tolist(), found):
                names[i] = name
        return names


def open_collection(
    source: Any,
    *,
    normalize: Literal["l1"] | None = None,
    signed: bool = False,
    row_names: Any = None,
    column_names: Any = None,
) -> RowMatrix:
    """Open a Dask array or data frame; its rows stay where they are. Called by :func:`fastanchors.open_matrix`.

    Parameters
    ----------
    source : Dask array or data frame
        Blocks may be dense or sparse.
    normalize : "l1" or None
        ``"l1"`` divides every row by its sum, block by block.
    signed : bool
        Whether negative entries are allowed.
    row_names, column_names : sequence of str, path or None
        Names of rows and columns. By default those of a data frame: its columns, and its index unless that
        is a range that counts from 0, in each partition or through all.
    """
    collection = Collection(source, Pool(), row_names, column_names)
    known = collection.layout
    parts = BlockParts(collection, signed=signed, l1=False)
    if parts.starts[-1] == 0:
        raise InvalidInputError(f"{known.name} has no rows; at least one is needed")
    dtype = numeric_dtype(known.dtype, known.name)
    inside = _IndexNames(collection) if collection.named_from is not None else collection.row_names
    names: Any = (inside, collection.column_names)
    matrix = DaskMatrix(parts, known.columns, dtype, None, None, *names)
    return matrix.l1_scaled() if normalize == "l1" else matrix


# --- on the worker ---------------------------------------------------------------------------------------------------


def _ask(
    block: Any,
    place: tuple[int, int, int],
    own: tuple[Any, ...],
    function: Callable[..., Any],
    shared: tuple[Any, ...],
    columns: int,
    dtype: np.dtype[Any],
    signed: bool,
    l1: bool,
) -> Any:
    number, start, length = place
    rows = as_declared(as_block(block, number, length, columns), dtype, number)
    rows = as_matrix(rows, finite=False, name="the block")
    check_finite(rows, signed=signed, first_row=start)
    return function(ArrayMatrix(scale_rows(rows) if l1 else rows, normalize="l1" if l1 else None), *own, *shared)


def _is_sparse(part: RowMatrix) -> bool:
    return part.is_sparse


def _names(frame: Any, rows: Indices) -> list[str]:
    return [str(name) for name in frame.index[rows]]


def _map_blocks(
    matrix: RowMatrix, start: int, function: Callable[..., Any], shared: tuple[Any, ...], step: int
) -> list[Any]:
    return matrix.map_blocks(lambda low, block: function(start + low, block, *shared), block_rows=step)


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
    return matrix.map_rows(lambda some, rows: function(some + start, rows, *shared), indices - start, block_rows=step)
