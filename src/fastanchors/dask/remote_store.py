"""A store whose shards are answered for by Dask's workers: the sample model and the seek, without moving the matrix."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple, NoReturn, TypeVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from .._parallel import map_ordered
from .._validate import check_index
from ..errors import StoreError
from ..fas.bounds import Sketch
from ..fas.sidecar import kept_sketch_elsewhere
from ..matrix.contract import Mutable, Rows
from ..sampling.block_stack import by_block
from ..sampling.drawing import Draws
from ..sampling.gather import in_order
from ..sampling.l1_view import view_dtype
from ..sampling.matrix import SampleMatrix
from ..sampling.segment_trees import Array
from ..store.build import DEFAULT_MEMORY
from ..store.manifest import Manifest
from ..store.names import Names
from ..store.sidecars import Arrays, SidecarHost, whole_of
from ..store.storage import Directory, Storage, storage_of
from .blockwise import stacked
from .matrix import DaskMatrix, Parts
from .shards import Shards
from .sketches import RemoteSketch, sketched
from .tasks import Pool

__all__ = ["RemoteStore", "connect"]

_Result = TypeVar("_Result")


def connect(path: str | os.PathLike[str], client: Any = None) -> RemoteStore:
    """A store that all workers can read, its shards spread over them.

    Parameters
    ----------
    path : str or path
        The directory that :func:`fastanchors.build` made, which all workers see, or an address such as
        ``s3://bucket/x.store``.
    client
        Distributed.Client or None By default the current one, else Dask's scheduler in this process.

    Returns
    -------
    RemoteStore
        It answers every reading call of a store with the same values and, for the same seed, the same draws, and every
        solver takes it: ``fa.FAS().seek(fa.dask.connect(path), 10)``. ``S.cost.bytes_moved`` counts what crossed
        between processes: pickled arguments, times the number of workers where all get them, and results.
    """
    return RemoteStore(storage_of(path), Pool(client))


class _Totals(NamedTuple):
    """What the client knows of a shard."""

    row_total: float
    column_total: float
    nnz: int
    nbytes: int
    has_columns: bool
    drifted: bool = False


class ShardParts(Parts):
    """The shards of a store, a group of them for each worker, which answers for it in one task with all its threads.

    A worker maps the files of its shards where it runs and keeps no other state: when it dies, another takes its
    shards.
    """

    def __init__(self, storage: Storage, manifest: Manifest, pool: Pool) -> None:
        self.pool, self.storage, self.manifest = pool, storage, manifest
        shards = manifest.shards
        self.starts = np.cumsum([0, *(shard.rows for shard in shards)]).tolist()
        groups = min(len(shards), len(pool.workers()) or pool.threads())
        self.threads = pool.task_threads()
        self._bounds = [len(shards) * g // groups for g in range(groups + 1)]
        self._kept: list[Any] | None = self._spread()

    def close(self) -> None:
        """Let the workers forget the shards; harmless when repeated."""
        self._kept = None

    def _spread(self) -> list[Any]:
        manifest = self.manifest
        described = [Shards(self.storage, manifest, low, high) for low, high in pairwise(self._bounds)]
        return self.pool.keep("shards", _itself, [None] * len(described), [(group,) for group in described])

    @property
    def groups(self) -> list[Any]:
        """The tasks that hold the shards: spread anew where the cluster was restarted."""
        if self._kept is None:
            raise StoreError(f"the connection to {self.storage} is closed; connect again")
        if self.pool.lost(self._kept):
            self._kept = self._spread()
        return self._kept

    def group_starts(self) -> list[int]:
        """The first row of each group, and the number of all rows."""
        return [self.starts[b] for b in self._bounds]

    def each(
        self,
        name: str,
        function: Callable[..., _Result],
        which: Sequence[int] | None = None,
        own: Sequence[tuple[Any, ...]] | None = None,
        shared: tuple[Any, ...] = (),
    ) -> list[_Result]:
        count = len(self.manifest.shards) if which is None else len(which)
        wrapped = [(arguments,) for arguments in own or [()] * count]
        return self.each_shard(name, _on_matrix, which, wrapped, (function, shared))

    def each_shard(
        self,
        name: str,
        function: Callable[..., _Result],
        which: Sequence[int] | None = None,
        own: Sequence[tuple[Any, ...]] | None = None,
        shared: tuple[Any, ...] = (),
    ) -> list[_Result]:
        """``function(shards, b, *own[i], *shared)`` for those shards, b counted in its group; one task for a group."""
        asked: dict[int, list[int]] = {}
        shards = range(len(self.manifest.shards)) if which is None else which
        for at, shard in enumerate(shards):
            asked.setdefault(int(np.searchsorted(self._bounds, shard, side="right")) - 1, []).append(at)
        groups = self.groups
        jobs = [
            ([(shards[at] - self._bounds[g], own[at] if own else ()) for at in places],) for g, places in asked.items()
        ]
        results: list[Any] = [None] * len(shards)
        found = self.pool.each(
            name, _on_shards, [groups[g] for g in asked], jobs, (function, shared), threads=self.threads
        )
        for places, answers in zip(asked.values(), found):
            for at, answer in zip(places, answers):
                results[at] = answer
        return results

    def keep(self, name: str, function: Callable[..., Any], shared: tuple[Any, ...]) -> list[Any]:
        return self.pool.keep(name, function, self.groups, None, shared, threads=self.threads)

    def later(self, name: str, function: Callable[..., Any]) -> list[Any]:
        """Tasks for all shards that nobody has asked for yet."""
        tasks = []
        for (low, high), group in zip(pairwise(self._bounds), self.groups):
            tasks += self.pool.tasks(name, function, [group] * (high - low), [(b,) for b in range(high - low)])
        return tasks


class RemoteStore(DaskMatrix, Draws, SidecarHost, Mutable):
    """A store for reading, whose shards are on workers. Made by :func:`connect`.

    Every draw is made from uniform numbers drawn here, so that it does not depend on which worker answers.
    """

    rows_marked = 1 << 25  #: rows that are marked at a time, at most; those of a scan are marked where they are
    _parts: ShardParts

    def __init__(
        self, storage: Storage, pool: Pool, memory_limit: int = DEFAULT_MEMORY, manifest: Manifest | None = None
    ) -> None:
        self.storage, self.memory_limit = storage, memory_limit
        self.manifest = known = storage.manifest() if manifest is None else manifest  # of a build: not written yet
        parts = ShardParts(storage, known, pool)
        super().__init__(parts, known.columns, np.dtype(known.dtype), known.sparse, known.normalize)  # type: ignore[arg-type]
        self._starts = np.asarray(parts.starts)
        if isinstance(storage, Directory):
            self._totals  # noqa: B018 - maps the files now: what is mapped stays, whatever a compaction removes
        if any("names.ends" in shard.data["arrays"] for shard in known.shards):
            self.row_names = _RowNames(self)
        if known.names is not None:
            self.column_names = Names([(known.columns, storage.map(known.names))])

    # --- what it is -------------------------------------------------------------------------------------------------

    @property
    def nnz(self) -> int:
        return sum(block.nnz for block in self._totals)

    @property
    def memory(self) -> int:
        """Bytes of the shards."""
        return sum(block.nbytes for block in self._totals)

    @property
    def generation(self) -> int:
        return self.manifest.generation

    @property
    def cursor(self) -> int:
        """The one state of the rows: a connected store does not change."""
        return 0

    def changes_since(self, cursor: int) -> NDArray[np.int64]:
        """None of the rows."""
        return np.zeros(0, np.int64)

    @property
    def changed_rows(self) -> NDArray[np.int64]:
        """None: a store with changes since its last compaction is not connected to."""
        return np.zeros(0, np.int64)

    def shared_arrays(self, name: str) -> Arrays | None:
        """What the shards share of a sidecar, read here; None where the store has none."""
        description = self.manifest.extras.get(name)
        return None if description is None else self.storage.map(description)

    def sidecar_arrays(self, name: str) -> tuple[Arrays, int] | None:
        """What a sidecar says about the whole store, read here, and the state of the rows; None if nothing."""
        description = whole_of(self.manifest, name)
        return None if description is None else (self.storage.map(description), self.cursor)

    def __repr__(self) -> str:
        kind = "sparse" if self.is_sparse else "dense"
        pool = self._parts.pool
        where = f"{len(pool.workers())} workers" if pool.client is not None else "this process"
        return f"RemoteStore({str(self.storage)!r}, {self.shape[0]}×{self.shape[1]} {kind} {self.dtype}, on {where})"

    def __enter__(self) -> RemoteStore:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def close(self) -> None:
        """Let the workers forget the shards; harmless when repeated."""
        self._parts.close()

    # --- for the solvers --------------------------------------------------------------------------------------------

    def squared_norms(self) -> NDArray[np.float64]:
        if not self.norms_known:
            return super().squared_norms()
        self.cost.queries += self.shape[0]
        return np.concatenate(self._parts.each_shard("norms", _row_weights))

    def sketch(self, V: NDArray[np.float64]) -> RemoteSketch:
        self.cost.rows_read += self.shape[0]
        kept = self._parts.keep("sketch", sketched, (V,))
        return RemoteSketch(V, self._parts.pool, kept, self._parts.group_starts(), self._parts.threads)

    def kept_sketch(self, V: NDArray[np.float64]) -> RemoteSketch | None:
        """The sketch kept beside the shards, where every shard has one."""
        if not all("fas" in shard.extras for shard in self.manifest.shards):
            return None
        parts = self._parts
        return RemoteSketch(V, parts.pool, parts.groups, parts.group_starts(), parts.threads)

    def norm_bound(self) -> float:
        """The largest norm of a row; one number crosses for each shard."""
        return float(np.sqrt(max(self._parts.each_shard("largest-norm", _largest_weight))))

    def to_dask(self) -> Any:
        """The rows of the view as a lazy Dask array, one chunk for each shard; sparse shards give sparse chunks."""
        n = self.shape[1]
        dtype = self.dtype if self.normalize is None else view_dtype(self.dtype)
        meta = sp.csr_array((0, n), dtype=dtype) if self.is_sparse else np.empty((0, n), dtype)
        shapes = [(shard.rows, n) for shard in self.manifest.shards]
        return stacked(self._parts.later("rows", _view), shapes, meta)

    # --- questions to the shards ------------------------------------------------------------------------------------

    @cached_property
    def _totals(self) -> list[_Totals]:
        return self._parts.each_shard("totals", _totals)

    @property
    def _blocks(self) -> list[_Totals]:
        return self._totals

    def _ask(self, method: str, jobs: Iterable[tuple[int, tuple[Any, ...]]], **options: Any) -> list[Any]:
        """``method`` of each of those blocks, with its own arguments, in one batch of tasks; answers in that order."""
        jobs = list(jobs)
        name, which, own = method.replace("_", "-"), [b for b, _ in jobs], [(arguments,) for _, arguments in jobs]
        return self._parts.each_shard(name, _answer, which, own, (method, options))

    def _ask_rows(self, method: str, rows: Array, *more: Array, **options: Any) -> list[tuple[Array, Any]]:
        """(places in ``rows``, answer of their block for their numbers in it and those places of ``more``)."""
        groups = list(self._parts.holding(rows))
        jobs = ((b, (rows[at].astype(np.int64) - self._starts[b], *(x[at] for x in more))) for b, at in groups)
        return [(at, answer) for (_, at), answer in zip(groups, self._ask(method, jobs, **options))]

    def _by_row(self, rows: Array, method: str) -> Array:
        return _placed(np.empty(len(rows)), self._ask_rows(method, rows))

    def _raw(self, i: Array, j: Array) -> Array:
        return _placed(np.empty(len(i), self.dtype), self._ask_rows("raw", i, j))

    def _gather(self, rows: Array, *, view: bool) -> Rows:
        found = self._ask_rows("rows", rows, view=view)
        if not found:
            return self._ask("rows", [(0, (rows.astype(np.int64),))], view=view)[0]
        return in_order([answer for _, answer in found], [at for at, _ in found], len(rows))

    def _holding(self, rows: Array) -> Array:
        return np.searchsorted(self._starts, rows, side="right") - 1

    def _drawn(
        self, method: str, which: Array, *arguments: Array, numbered: bool = False, dtype: Any = np.int64
    ) -> Array:
        groups = list(by_block(which, len(self._totals)))
        found = self._ask(method, [(b, tuple(x[at] for x in arguments)) for b, at in groups])
        first = (self._starts[b] if numbered else 0 for b, _ in groups)
        return _placed(np.empty(len(which), dtype), [(at, low + x) for low, (_, at), x in zip(first, groups, found)])

    def _column_squares(self, columns: Array) -> Array:
        return np.sum(self._ask_all("column_squares", columns), axis=0)

    def _column_weights(self, columns: Array) -> list[Array]:
        return self._ask_all("column_weights", columns)

    def _ask_all(self, method: str, columns: Array) -> list[Any]:
        columns = columns.astype(np.int64, copy=False)
        return self._parts.each_shard(method.replace("_", "-"), _answer, None, None, ((columns,), method, {}))

    # --- no changes -------------------------------------------------------------------------------------------------

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        raise StoreError(
            f"{self.storage} is connected to for reading; open it with fa.open(path, mode='r+') to change it"
        )

    __setitem__ = update = add = append = _refuse

    def check(self) -> None:
        """Recompute every sum of the shards from the entries and raise where one differs in a single bit."""
        self._parts.each_shard("check", _answer, None, None, ((), "check", {}))


def _placed(out: Array, answers: Iterable[tuple[Array, Any]]) -> Array:
    for at, answer in answers:
        out[at] = answer
    return out


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
        parts = self._store._parts
        b = int(np.searchsorted(parts.starts, row, side="right")) - 1
        (name,) = parts.each_shard("name", _name, [b], [(row - parts.starts[b],)])
        return str(row) if name is None else name


# --- on the worker ---------------------------------------------------------------------------------------------------


def _itself(_: None, shards: Shards) -> Shards:
    return shards


def _on_shards(
    shards: Shards, jobs: list[tuple[int, tuple[Any, ...]]], function: Callable[..., Any], shared: tuple[Any, ...]
) -> list[Any]:
    return map_ordered(lambda b, own: function(shards, b, *own, *shared), jobs)


def _on_matrix(
    shards: Shards, b: int, own: tuple[Any, ...], function: Callable[..., Any], shared: tuple[Any, ...]
) -> Any:
    matrix = SampleMatrix.from_blocks([shards.blocks[b]], shards.normalize)  # type: ignore[arg-type]
    return function(matrix, *own, *shared)


def _answer(shards: Shards, b: int, arguments: tuple[Any, ...], method: str, options: dict[str, Any]) -> Any:
    return getattr(shards.blocks[b], method)(*arguments, **options)


def _name(shards: Shards, b: int, row: int) -> str | None:
    return shards.name_of(b, row)


def _totals(shards: Shards, b: int) -> _Totals:
    block = shards.blocks[b]
    columns = block.column_total if block.has_columns else 0.0
    return _Totals(block.row_total, columns, block.nnz, block.nbytes, block.has_columns)


def _row_weights(shards: Shards, b: int) -> NDArray[np.float64]:
    block = shards.blocks[b]
    return block.row_weights(np.arange(block.shape[0]))


def _largest_weight(shards: Shards, b: int) -> float:
    return float(_row_weights(shards, b).max())


def _view(shards: Shards, b: int) -> Rows:
    block = shards.blocks[b]
    return block.rows(np.arange(block.shape[0]), view=True)


@kept_sketch_elsewhere.register
def _(store: RemoteStore, V: NDArray[np.float64]) -> Sketch | None:
    return store.kept_sketch(V)
