"""A store whose shards are read by Dask workers: sampling and anchor search without moving the matrix."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any, NamedTuple, NoReturn

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from .._cached import cached
from .._validate import check_size
from ..errors import StoreError
from ..fas.bounds import Sketch
from ..fas.sidecar import FasSidecar, kept_sketch_elsewhere
from ..matrix.contract import Mutable, Rows
from ..matrix.fetched_names import FetchedNames
from ..sampling.access_guard import reads
from ..sampling.block_stack import by_block
from ..sampling.drawing import Draws
from ..sampling.l1_view import view_dtype
from ..sampling.segment_trees import Array
from ..store.build import DEFAULT_MEMORY
from ..store.manifest import Manifest
from ..store.names import Names
from ..store.shard_group import ShardGroup, ShardMatrix
from ..store.sidecars import Arrays, SidecarHost, whole_of
from ..store.storage import Directory, Storage, storage_of
from .collection import stacked
from .matrix import DaskMatrix
from .parts import HeldParts, call_method
from .sketches import RemoteSketch, mapped_sketch
from .tasks import Pool, calls

__all__ = ["RemoteStore", "connect"]


def connect(path: str | os.PathLike[str], client: Any = None) -> RemoteStore:
    """Open a store that all workers can read, with its shards distributed over them.

    Parameters
    ----------
    path : str or path
        The directory that :func:`fastanchors.build` made, which all workers see, or an address such as
        ``s3://bucket/x.store``.
    client : distributed.Client or None
        By default the current client, otherwise Dask's scheduler in this process.

    Returns
    -------
    RemoteStore
        All read methods of a store return the same values and, for the same seed, the same draws. Every solver accepts
        it: ``fa.FAS().seek(fa.dask.connect(path), 10)``. ``S.cost.bytes_moved`` counts the bytes sent between
        processes: results and pickled arguments (once per worker if sent to all).

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> import fastanchors as fa
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     fa.build(np.eye(4), folder + "/eye.store").close()
    ...     with fa.dask.connect(folder + "/eye.store") as S:
    ...         print(fa.SPA().seek(S, 2).indices.shape)
    (2,)
    """
    return RemoteStore(storage_of(path), Pool(client))


class _Totals(NamedTuple):
    """What the client knows about a shard."""

    row_total: float
    column_total: float
    nnz: int
    nbytes: int
    has_columns: bool
    drifted: bool = False


class RemoteStore(DaskMatrix, Draws, SidecarHost, Mutable):
    """A read-only store whose shards are on workers. Returned by :func:`connect`.

    All random numbers are drawn in the client, so draws do not depend on which worker answers.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> import fastanchors as fa
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     fa.build(np.eye(4), folder + "/eye.store").close()
    ...     with fa.dask.connect(folder + "/eye.store") as S:
    ...         print(type(S).__name__, S.shape)
    RemoteStore (4, 4)
    """

    rows_marked = 1 << 25  #: most rows marked at a time; rows of a scan are marked on their worker
    _parts: HeldParts

    def __init__(
        self, storage: Storage, pool: Pool, memory_limit: int = DEFAULT_MEMORY, manifest: Manifest | None = None
    ) -> None:
        known = storage.manifest() if manifest is None else manifest  # of a build: not written yet
        # What can fail comes first: an object store that has committed is initialised again.
        names = None if known.names is None else Names([(known.columns, storage.map(known.names))])
        here = known.extras.values() if isinstance(storage, Directory) else ()  # a compaction removes these files
        kept = {description["file"]: storage.map(description) for description in here}
        workers = len(pool.workers())
        self.storage, self.memory_limit, self.manifest, self._kept = storage, memory_limit, known, kept
        self._starts = np.cumsum([0, *(shard.rows for shard in known.shards)])
        groups = min(len(known.shards), max(1, workers))
        self._bounds = np.array([len(known.shards) * g // groups for g in range(groups + 1)])
        described = [ShardGroup.of(storage, known, low, high) for low, high in pairwise(self._bounds.tolist())]
        parts = HeldParts.of(pool, self._starts[self._bounds].tolist(), described)
        super().__init__(parts, known.columns, np.dtype(known.dtype), known.sparse, known.normalize)  # type: ignore[arg-type]
        if isinstance(storage, Directory):
            self._totals  # noqa: B018 - map the files now: mappings survive if a compaction removes the files
        if any("names.ends" in shard.data["arrays"] for shard in known.shards):
            self.row_names = _RowNames(self)
        self.column_names = names

    # --- properties -------------------------------------------------------------------------------------------------

    @property
    @reads
    def nnz(self) -> int:
        return sum(block.nnz for block in self._totals)

    @property
    @reads
    def memory(self) -> int:
        """Bytes of the shards."""
        return sum(block.nbytes for block in self._totals)

    @property
    def generation(self) -> int:
        return self.manifest.generation

    @property
    def cursor(self) -> int:
        """The number of rows: none ever changes, but a store in object storage grows with the commits of its object."""
        return self.shape[0]

    def changes_since(self, cursor: int) -> NDArray[np.int64]:
        """The rows appended since then."""
        cursor = check_size(cursor, name="cursor", minimum=0)
        return np.arange(min(cursor, self.shape[0]), self.shape[0])

    @property
    def changed_rows(self) -> NDArray[np.int64]:
        """Empty: :func:`connect` refuses a store with changes since its last compaction."""
        return np.zeros(0, np.int64)

    def shared_arrays(self, name: str) -> Arrays | None:
        """The arrays of a sidecar shared by all shards, read in this process; None if there are none."""
        description = self.manifest.extras.get(name)
        return None if description is None else self._map(description)

    @reads
    def sidecar_arrays(self, name: str) -> tuple[Arrays, int] | None:
        """The arrays of a sidecar for the whole store, read here, and the cursor; None if there are none."""
        description = whole_of(self.manifest, name)
        return None if description is None else (self._map(description), self.cursor)

    def _map(self, description: Mapping[str, Any]) -> Arrays:
        kept = self._kept.get(description["file"])
        return self.storage.map(description) if kept is None else kept

    def __repr__(self) -> str:
        kind = "sparse" if self.is_sparse else "dense"
        workers = len(self._parts.pool.workers())
        where = f"{workers} workers" if workers else "this process"
        return f"RemoteStore({str(self.storage)!r}, {self.shape[0]}×{self.shape[1]} {kind} {self.dtype}, on {where})"

    def __enter__(self) -> RemoteStore:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def close(self) -> None:
        """Release the shards on the workers; idempotent."""
        self._parts.close()

    # --- for the solvers --------------------------------------------------------------------------------------------

    def blocks(self, block_rows: int | None = None) -> Iterator[tuple[int, Rows]]:
        step = self._block_rows(block_rows)
        for start in range(0, self.shape[0], step):
            yield start, self.rows(np.arange(start, min(start + step, self.shape[0])))

    @reads
    def squared_norms(self) -> NDArray[np.float64]:
        if not self.norms_known:
            return super().squared_norms()
        self.cost.queries += self.shape[0]
        return np.concatenate(self._each("squared_norms"))

    @reads
    def kept_sketch(self, V: NDArray[np.float64]) -> RemoteSketch | None:
        """The sketch stored beside the shards; None unless every shard has one."""
        if not all(FasSidecar.name in shard.extras for shard in self.manifest.shards):
            return None
        return RemoteSketch.made(self._parts, "mapped-sketch", mapped_sketch, V)

    @reads
    def norm_bound(self) -> float:
        """The largest row norm; each worker sends one number."""
        return max(self._parts.each("largest-norm", _largest_norm))

    @reads
    def to_dask(self) -> Any:
        """The rows of the view as a lazy Dask array, one chunk per shard; sparse shards give sparse chunks."""
        self._parts.check_open()
        n = self.shape[1]
        dtype = self.dtype if self.normalize is None else view_dtype(self.dtype)
        meta = sp.csr_array((0, n), dtype=dtype) if self.is_sparse else np.empty((0, n), dtype)
        count = len(self.manifest.shards)
        groups = [ShardGroup.of(self.storage, self.manifest, b, b + 1) for b in range(count)]
        tasks = calls("rows", _shard_rows, [None] * count, [(group,) for group in groups], ())
        return stacked(tasks, [(shard.rows, n) for shard in self.manifest.shards], meta)

    # --- questions to the shards ------------------------------------------------------------------------------------

    def _each(self, method: str, *arguments: Any) -> list[Any]:
        """Call ``group.method(*arguments)`` on every group of shards."""
        return self._parts.each(method, call_method, None, None, (arguments, method))

    def _ask(self, out: Array, group: Array, method: str, *arguments: Any, **options: Any) -> Array:
        """Call ``group.method`` on the groups named in ``group``, each with its entries of the arrays; fill ``out``."""
        asked = list(by_block(group, len(self._bounds) - 1))
        own = [(tuple(x[at] if isinstance(x, np.ndarray) else x for x in arguments),) for _, at in asked]
        answers = self._parts.each(method, call_method, [g for g, _ in asked], own, (method, options))
        for (_, at), answer in zip(asked, answers):
            out[at] = answer
        return out

    @cached
    def _totals(self) -> list[_Totals]:
        return [totals for group in self._parts.each("totals", _totals) for totals in group]

    @property
    def _blocks(self) -> list[_Totals]:
        self._parts.check_open()
        return self._totals

    def _group(self, rows: Array) -> tuple[Array, Array]:
        """The group of each row, and its index in the group."""
        starts = np.asarray(self._parts.starts)
        group = np.searchsorted(starts, rows, side="right") - 1
        return group, rows.astype(np.int64) - starts[group]

    def _by_row(self, rows: Array, method: str) -> Array:
        group, local = self._group(rows)
        return self._ask(np.empty(len(rows)), group, "_by_row", local, method)

    def _raw(self, i: Array, j: Array) -> Array:
        group, local = self._group(i)
        return self._ask(np.empty(len(i), self.dtype), group, "_raw", local, j)

    def _gather(self, rows: Array, *, view: bool) -> Rows:
        return self._collect(rows, "rows" if view else "raw_rows")

    def _holding(self, rows: Array) -> Array:
        return np.searchsorted(self._starts, rows, side="right") - 1

    def _drawn(
        self, method: str, which: Array, *arguments: Array, numbered: bool = False, dtype: Any = np.int64
    ) -> Array:
        group = np.searchsorted(self._bounds, which, side="right") - 1
        local = which - self._bounds[group]
        drawn = self._ask(
            np.empty(len(which), dtype), group, "_drawn", method, local, *arguments, numbered=numbered, dtype=dtype
        )
        return drawn + np.asarray(self._parts.starts)[group] if numbered else drawn

    def _column_squares(self, columns: Array) -> Array:
        found = self._parts.each("column-squares", _column_squares, None, None, (columns,))
        return np.sum([squares for group in found for squares in group], axis=0)

    def _column_weights(self, columns: Array) -> list[Array]:
        return [weights for group in self._each("_column_weights", columns) for weights in group]

    # --- no changes -------------------------------------------------------------------------------------------------

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        raise StoreError(
            f"{self.storage} is connected to for reading; open it with fa.open(path, mode='r+') to change it"
        )

    __setitem__ = update = add = append = _refuse

    @reads
    def check(self) -> None:
        """Recompute every sum of the shards from the entries and raise if one is not bitwise equal."""
        self._each("check")


class _RowNames(FetchedNames):
    """Row names, fetched on demand."""

    def __init__(self, store: RemoteStore) -> None:
        self._store = store

    def __len__(self) -> int:
        return self._store.shape[0]

    def some(self, rows: Array) -> list[str]:
        parts, names = self._store._parts, [str(row) for row in rows.tolist()]
        asked = list(parts.holding(rows))
        own = [((rows[at] - parts.starts[p],),) for p, at in asked]
        found = parts.each("names", call_method, [p for p, _ in asked], own, ("names_of",))
        for (_, at), known in zip(asked, found):
            for i, name in zip(at.tolist(), known):
                names[i] = names[i] if name is None else name
        return names


# --- on the worker ---------------------------------------------------------------------------------------------------


def _totals(matrix: ShardMatrix) -> list[_Totals]:
    return [
        _Totals(b.row_total, b.column_total if b.has_columns else 0.0, b.nnz, b.nbytes, b.has_columns)
        for b in matrix._blocks
    ]


def _largest_norm(matrix: ShardMatrix) -> float:
    return float(matrix.row_norm(np.arange(matrix.shape[0])).max())


def _column_squares(matrix: ShardMatrix, columns: Array) -> list[Array]:
    return [block.column_squares(columns) for block in matrix._blocks]


def _shard_rows(_: None, group: ShardGroup) -> Rows:
    matrix = group.open()
    return matrix.rows(np.arange(matrix.shape[0]))


@kept_sketch_elsewhere.register
def _(store: RemoteStore, V: NDArray[np.float64]) -> Sketch | None:
    return store.kept_sketch(V)
