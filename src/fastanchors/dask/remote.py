"""A store whose shards are answered for by Dask's workers: the sample model and the seek, without moving the matrix."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from .._rng import RngLike, as_generator
from .._validate import check_index
from ..errors import StoreError
from ..fas.bounds import Part, Sketch
from ..io.addresses import local_path
from ..matrix.contract import Rows
from ..matrix.cost import Cost
from ..sampling.block import Block
from ..sampling.dense_block import DenseBlock
from ..sampling.drawing import refuse_zero, split
from ..sampling.forest import Array
from ..sampling.gather import in_order
from ..sampling.matrix import SampleMatrix
from ..sampling.sparse_block import SparseBlock
from ..sampling.stack import by_block
from ..sampling.view import view_dtype
from ..sampling.write_log import Cursor
from ..solvers._rows import MatrixRows
from ..store.arrays_file import map_arrays
from ..store.build import DEFAULT_MEMORY
from ..store.journal import read_journal
from ..store.manifest import Manifest, Shard
from ..store.names import Names
from ..store.sidecars import Arrays, SidecarHost, whole_of
from .crew import Crew, Mobile, stacked
from .rows import RemoteRows, RemoteSketch

__all__ = ["RemoteStore", "connect"]

_PARTS_PER_THREAD = 4  # so that no worker waits long for the slowest


def connect(path: str | os.PathLike[str], client: Any = None) -> RemoteStore:
    """A store on a path that all workers share, its shards spread over them.

    Parameters
    ----------
    path : the directory that :func:`fastanchors.build` made.
    client : a ``distributed.Client``; by default the current one, else Dask's scheduler in this process.

    The result answers every reading call of a store with the same values and, for the same seed, the same draws, and
    every solver takes it: ``fa.FAS().seek(fa.dask.connect(path), 10)``. ``S.cost.bytes_moved`` counts what crossed
    between processes: pickled arguments, times the number of workers where all get them, and results.
    """
    return RemoteStore(local_path(path), client)


class _Facts(NamedTuple):
    """What the client knows of a shard."""

    shape: tuple[int, int]
    row_total: float
    column_total: float
    nnz: int
    nbytes: int
    has_columns: bool


class RemoteStore(SampleMatrix, SidecarHost):
    """A store for reading, whose blocks are on workers. Made by :func:`connect`.

    A worker maps the files of its shards where it runs and keeps no state: when it dies, another takes its shards.
    Every draw is made from uniform numbers drawn here, so that it does not depend on who answers.
    """

    rows_marked = 1 << 25  #: rows that are marked at a time, at most; those of a scan are marked where they are

    def __init__(
        self,
        path: Path,
        client: Any = None,
        cost: Cost | None = None,
        memory_limit: int = DEFAULT_MEMORY,
        manifest: Manifest | None = None,
    ) -> None:
        self.path, self.memory_limit = path, memory_limit
        self.manifest = Manifest.read(path) if manifest is None else manifest  # of a build: not written yet
        if manifest is None and read_journal(path / self.manifest.journal, self.generation).records:
            raise StoreError(f"{path} has changes in its journal; open it with mode='r+' and compact() it first")
        self._set_normalize(self.manifest.normalize)  # type: ignore[arg-type]
        if cost is not None:
            self._cost = cost
        self._crew = client if isinstance(client, Crew) else Crew(client, self._cost)
        shards = self.manifest.shards
        pieces = min(len(shards), _PARTS_PER_THREAD * self._crew.threads())
        self._bounds = [len(shards) * i // pieces for i in range(pieces + 1)]
        self._kept: list[Any] | None = self._spread()
        facts = self._crew.each("facts", _facts, self._parts)
        self._set_blocks([fact for each in facts for fact in each])
        named = any("names.ends" in shard.data["arrays"] for shard in shards)
        self.row_names = _RowNames(self) if named else None
        names = self.manifest.names
        self.column_names = None if names is None else Names([(self.manifest.columns, map_arrays(path, names))])

    # --- what it is -------------------------------------------------------------------------------------------------

    @property
    def dtype(self) -> np.dtype[Any]:
        return np.dtype(self.manifest.dtype)

    @property
    def is_sparse(self) -> bool:
        return self.manifest.sparse

    @property
    def generation(self) -> int:
        return self.manifest.generation

    @property
    def changed_rows(self) -> NDArray[np.int64]:
        """None: a store with changes since its last compaction is not connected to."""
        return np.zeros(0, np.int64)

    def shared_arrays(self, name: str) -> Arrays | None:
        """What the shards share of a sidecar, read here; None where the store has none."""
        description = self.manifest.extras.get(name)
        return None if description is None else map_arrays(self.path, description)

    def sidecar_arrays(self, name: str) -> tuple[Arrays, Cursor] | None:
        """What a sidecar says about the whole store, read here, and the state of the rows; None if nothing."""
        description = whole_of(self.manifest, name)
        return None if description is None else (map_arrays(self.path, description), self.cursor)

    def __repr__(self) -> str:
        kind = "sparse" if self.is_sparse else "dense"
        where = f"{self._crew.workers()} workers" if self._crew.client is not None else "this process"
        return f"RemoteStore({str(self.path)!r}, {self.shape[0]}×{self.shape[1]} {kind} {self.dtype}, on {where})"

    def __enter__(self) -> RemoteStore:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def close(self) -> None:
        """Let the workers forget the shards; harmless when repeated."""
        self._kept = None

    def _spread(self) -> list[Any]:
        own = [(_Shards.described(self, low, high),) for low, high in zip(self._bounds[:-1], self._bounds[1:])]
        return self._crew.keep("shards", _Shards, [os.path.abspath(self.path)] * len(own), own)

    @property
    def _parts(self) -> list[Any]:
        """The tasks that hold the shards: spread anew where the cluster was restarted."""
        if self._kept is None:
            raise StoreError(f"the connection to {self.path} is closed; connect again")
        if self._crew.lost(self._kept):
            self._kept = self._spread()
        return self._kept

    # --- for the solvers --------------------------------------------------------------------------------------------

    def as_rows(self) -> RemoteRows:
        """The rows as solvers read them."""
        starts = self._starts[self._bounds].tolist()
        return RemoteRows(self, self._crew, self._parts, starts)

    def kept_sketch(self, V: NDArray[np.float64]) -> RemoteSketch | None:
        """The sketch kept beside the shards, where every shard has one."""
        if not all("fas" in shard.extras for shard in self.manifest.shards):
            return None
        return RemoteSketch(V, self._crew, self._parts, self._starts[self._bounds].tolist())

    def largest_norm(self) -> float:
        """The largest norm of a row; one number crosses for each part."""
        return float(np.sqrt(max(self._crew.each("largest-norm", _largest_weight, self._parts))))

    def to_dask(self) -> Any:
        """The rows of the view as a lazy Dask array, one chunk for each shard; sparse shards give sparse chunks."""
        n = self.shape[1]
        dtype = self.dtype if self._normalize is None else view_dtype(self.dtype)
        meta = sp.csr_array((0, n), dtype=dtype) if self.is_sparse else np.empty((0, n), dtype)
        tasks = []
        for low, high, part in zip(self._bounds[:-1], self._bounds[1:], self._parts):
            tasks += [self._crew.later("rows", _view, part, b) for b in range(high - low)]
        return stacked(tasks, [block.shape for block in self._blocks], meta)

    # --- questions to the shards ------------------------------------------------------------------------------------

    def _ask(self, method: str, jobs: Iterable[tuple[int, tuple[Any, ...]]], **options: Any) -> list[Any]:
        """``method`` of each of those blocks, with its own arguments, in one batch of tasks; answers in that order."""
        jobs, kept = list(jobs), self._parts
        asked: dict[int, list[int]] = {}
        for at, (b, _) in enumerate(jobs):
            asked.setdefault(int(np.searchsorted(self._bounds, b, side="right")) - 1, []).append(at)
        parts = [kept[p] for p in asked]
        own = [([(jobs[at][0] - self._bounds[p], jobs[at][1]) for at in places],) for p, places in asked.items()]
        answers: list[Any] = [None] * len(jobs)
        found = self._crew.each(method.replace("_", "-"), _answer, parts, own, (method, options))
        for places, each in zip(asked.values(), found):
            for at, answer in zip(places, each):
                answers[at] = answer
        return answers

    def _ask_rows(self, method: str, rows: Array, *more: Array, **options: Any) -> list[tuple[Array, Any]]:
        """(places in ``rows``, answer of their block for their numbers in it and those places of ``more``)."""
        which = np.searchsorted(self._starts, rows, side="right") - 1
        groups = [(b, np.flatnonzero(which == b)) for b in np.unique(which).tolist()]
        jobs = ((b, (rows[at].astype(np.int64) - self._starts[b], *(x[at] for x in more))) for b, at in groups)
        return [(at, answer) for (_, at), answer in zip(groups, self._ask(method, jobs, **options))]

    def _by_row(self, rows: Array, method: str) -> Array:
        out = np.empty(len(rows))
        for at, answer in self._ask_rows(method, rows):
            out[at] = answer
        return out

    def _raw(self, i: Array, j: Array) -> Array:
        out = np.empty(len(i), self.dtype)
        for at, answer in self._ask_rows("raw", i, j):
            out[at] = answer
        return out

    def _gather(self, rows: Array, *, view: bool) -> Rows:
        found = self._ask_rows("rows", rows, view=view)
        if not found:
            return self._ask("rows", [(0, (rows.astype(np.int64),))], view=view)[0]
        return in_order([answer for _, answer in found], [at for at, _ in found], len(rows))

    def column_norm(self, j: ArrayLike) -> Any:
        self._need_columns()
        columns = check_index(j, self.shape[1], name="column")
        squares = sum(self._ask_all("column_squares", columns.reshape(-1)), start=np.zeros(columns.size))
        return self._answer(np.sqrt(squares), columns.shape)

    def sample_rows(self, size: int | None = None, *, rng: RngLike = None) -> Any:
        generator = as_generator(rng)
        totals = self._positive([block.row_total for block in self._blocks])

        def draw(count: int) -> Array:
            return self._drawn("draw_rows", *split(totals, generator.random(count)), first=True)

        return self._many(draw, size)

    def sample_columns(self, size: int | None = None, *, rng: RngLike = None) -> Any:
        self._need_columns()
        generator = as_generator(rng)
        totals = self._positive([block.column_total for block in self._blocks])

        def draw(count: int) -> Array:
            return self._drawn("draw_columns", *split(totals, generator.random(count)), first=False)

        return self._many(draw, size)

    def sample_in_row(self, i: ArrayLike, size: int | None = None, *, rng: RngLike = None) -> Any:
        generator = as_generator(rng)
        rows = check_index(i, self.shape[0], name="row")
        refuse_zero(self._by_row(rows.reshape(-1), "row_weights"), rows, "row")

        def draw(rows: Array) -> Array:
            out = np.empty(len(rows), np.int64)
            for at, answer in self._ask_rows("draw_in_row", rows, generator.random(len(rows))):
                out[at] = answer
            return out

        return self._many_in(draw, rows, size)

    def sample_in_column(self, j: ArrayLike, size: int | None = None, *, rng: RngLike = None) -> Any:
        self._need_columns()
        generator = as_generator(rng)
        columns = check_index(j, self.shape[1], name="column")
        refuse_zero(np.sum(self._column_weights(columns.reshape(-1)), axis=0), columns, "column")

        def draw(columns: Array) -> Array:
            groups = list(by_block(self._blocks_of(columns, generator), len(self._blocks)))
            r = generator.random(len(columns))
            jobs = [(b, (columns[at], r[at])) for b, at in groups]
            out = np.empty(len(columns), np.int64)
            for (b, at), rows in zip(groups, self._ask("draw_in_column", jobs)):
                out[at] = self._starts[b] + rows
            return out

        return self._many_in(draw, columns, size)

    def _drawn(self, method: str, which: Array, u: Array, *, first: bool) -> Array:
        """One draw for each ``u`` in its block; row numbers count from the block's ``first`` row."""
        groups = list(by_block(which, len(self._blocks)))
        out = np.empty(len(u), np.int64)
        for (b, at), drawn in zip(groups, self._ask(method, [(b, (u[at],)) for b, at in groups])):
            out[at] = drawn + (self._starts[b] if first else 0)
        return out

    def _ask_all(self, method: str, columns: Array) -> list[Any]:
        columns = columns.astype(np.int64, copy=False)
        return self._ask(method, [(b, (columns,)) for b in range(len(self._blocks))])

    def _column_weights(self, columns: Array) -> list[Array]:
        return self._ask_all("column_weights", columns)

    # --- no changes -------------------------------------------------------------------------------------------------

    def _set(self, i: Any, j: Any, x: Any) -> NoReturn:
        raise StoreError(f"{self.path} is connected to for reading; open it with fa.open(path, mode='r+') to change it")

    _set_plain = _set

    def append(self, rows: Any, *, row_names: Sequence[str] | None = None) -> NoReturn:
        self._set(rows, rows, rows)

    def consolidate(self) -> None:
        """Nothing to do: a connected store has no changes."""

    def check(self) -> None:
        self._ask("check", [(b, ()) for b in range(len(self._blocks))])


class _RowNames(Sequence[str]):
    """Names of rows, asked for one by one."""

    def __init__(self, store: RemoteStore) -> None:
        self._store = store

    def __len__(self) -> int:
        return self._store.shape[0]

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        row = int(check_index(index, len(self), name="row"))
        ((_, name),) = self._store._ask_rows("name_of", np.array([row]))
        return str(row) if name is None else name


# --- on the worker ---------------------------------------------------------------------------------------------------


class _Shards(Mobile):
    """Some consecutive shards, mapped where they are asked for. Moving it to another worker moves names of files."""

    def __init__(self, folder: str, described: dict[str, Any]) -> None:
        self.folder = Path(folder)
        self.__dict__.update(described)
        self.shards: list[Shard]
        self.columns: int
        self.sparse: bool
        self.normalize: Any
        self.fas: dict[str, Any] | None

    @staticmethod
    def described(store: RemoteStore, low: int, high: int) -> dict[str, Any]:
        manifest = store.manifest
        return {
            "shards": manifest.shards[low:high],
            "columns": manifest.columns,
            "sparse": manifest.sparse,
            "normalize": manifest.normalize,
            "fas": manifest.extras.get("fas"),
        }

    def __getstate__(self) -> dict[str, Any]:
        return {key: value for key, value in self.__dict__.items() if key not in ("arrays", "blocks", "_matrix")}

    def _map(self, description: dict[str, Any]) -> Any:
        try:
            return map_arrays(self.folder, description)
        except FileNotFoundError:
            raise StoreError(
                f"{self.folder / description['file']} is not there: every worker needs the same path, and a store that "
                "has been compacted meanwhile must be connected to again"
            ) from None

    @cached_property
    def arrays(self) -> list[Any]:
        return [self._map(shard.data) for shard in self.shards]

    @cached_property
    def blocks(self) -> list[Block]:
        kind = SparseBlock if self.sparse else DenseBlock
        l1 = self.normalize == "l1"
        pairs = zip(self.arrays, self.shards, strict=True)
        return [kind.from_arrays(arrays, (shard.rows, self.columns), l1=l1) for arrays, shard in pairs]

    @cached_property
    def _matrix(self) -> SampleMatrix:
        return SampleMatrix.from_blocks(self.blocks, self.normalize)

    def matrix_rows(self) -> MatrixRows:
        return MatrixRows(self._matrix, self._matrix.shape)

    def kept_sketch(self) -> Sketch:
        assert self.fas is not None
        parts, start = [], 0
        for shard in self.shards:
            arrays = self._map(shard.extras["fas"])
            parts.append(Part(start, *(np.asarray(arrays[name]) for name in ("coordinates", "left", "norms"))))
            start += shard.rows
        return Sketch(np.asarray(self._map(self.fas)["V"]), parts)

    def name_of(self, b: int, rows: Array) -> str | None:
        arrays = self.arrays[b]
        return Names([(self.shards[b].rows, arrays)])[int(rows[0])] if "names.ends" in arrays else None


def _facts(part: _Shards) -> list[_Facts]:
    return [
        _Facts(b.shape, b.row_total, b.column_total if b.has_columns else 0.0, b.nnz, b.nbytes, b.has_columns)
        for b in part.blocks
    ]


def _largest_weight(part: _Shards) -> float:
    return max(float(block.row_weights(np.arange(block.shape[0])).max()) for block in part.blocks)


def _answer(part: _Shards, jobs: list[tuple[int, tuple[Any, ...]]], method: str, options: dict[str, Any]) -> list[Any]:
    if method == "name_of":
        return [part.name_of(b, *arguments) for b, arguments in jobs]
    return [getattr(part.blocks[b], method)(*arguments, **options) for b, arguments in jobs]


def _view(part: _Shards, b: int) -> Rows:
    block = part.blocks[b]
    return block.rows(np.arange(block.shape[0]), view=True)
