"""The content of an open store: the shards of a manifest, mapped, with the operations of the journal applied.

Shards are mapped copy-on-write, so that operations change pages in this process only. Rows appended in the journal are
blocks in memory.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._distinct import distinct
from .._maps import release_pages
from .._rng import RngLike
from .._validate import check_index
from ..errors import CorruptStoreError, InvalidInputError, StoreError
from ..matrix.contract import Rows
from ..sampling.access_guard import AccessGuard
from ..sampling.delegate import SampleDelegate
from ..sampling.row_block import Block
from ..sampling.write_log import Entries, WriteLog, joined
from .few_pages import few_pages
from .journal import Record
from .manifest import Manifest
from .mapped_matrix import MappedMatrix
from .operations import AppendRows, AppendShard, Operation, check_operation, decode
from .shard_rows import block_of, shard_bytes, stacked, stored_rows
from .shards import MappedShards
from .sidecars import Arrays, Sidecar, SidecarHost, commit_of, loaded

__all__ = ["ClosedMatrix", "StoreContent"]

_Result = TypeVar("_Result")

_BATCH, _ENTRIES = 1 << 22, 1 << 17  # bytes of records, and entries, that are replayed at a time


class StoreContent(SampleDelegate, SidecarHost):
    """What a store has in memory, and all that reading it needs: rows, names, draws and sidecars.

    Attributes
    ----------
    path
        Directory of the store.
    mode
        ``"r"``, or one in which it may be changed.
    memory_limit
        Bytes.
    manifest
        The manifest of the generation.
    """

    path: Path
    mode: str
    memory_limit: int
    manifest: Manifest
    _kinds: Sequence[type[Sidecar]]
    _matrix: MappedMatrix

    # --- state ------------------------------------------------------------------------------------------------------

    def _take(self, mapped: MappedShards) -> None:
        """Make the matrix of these shards."""
        folder = None if self.mode == "r" else self.path
        self._matrix = MappedMatrix.of(mapped.first_blocks, mapped.manifest.normalize, folder, self.memory_limit)
        self._matrix._log = WriteLog(journaled=True)
        self._adopt(mapped)

    def _adopt(self, mapped: MappedShards) -> None:
        self._mapped, self.manifest = mapped, mapped.manifest
        self._written_at = self._matrix.cursor  # the state of the rows in the files
        self._cursors = {0: self._written_at}  # by number of commits: the states that sidecars may describe
        self._sidecars: dict[bool, list[Sidecar]] = {}  # those kept up to date: all, and those with arrays per shard
        self._changed: tuple[int, set[int]] | None = None  # blocks that differ from their files, at a cursor

    def _replay(self, records: Sequence[Record]) -> None:
        """Apply the records of the journal, and note the cursors of the states that sidecars describe."""
        journal, done = self.path / self.manifest.journal, 0
        described = {int(description.get("commit", 0)) for description in self.manifest.extras.values()}
        for stop in sorted({min(commit, len(records)) for commit in described} | {len(records)}):
            for some in _batches(records[done:stop]):
                operations = [decode(record.payload, str(journal)) for record in some]
                for operation in joined(list(itertools.chain.from_iterable(operations))):  # batches are faster
                    try:
                        self._apply(operation)
                    except (ValueError, KeyError, TypeError) as error:
                        raise CorruptStoreError(f"{journal} does not belong to this store: {error}") from None
            self._cursors[stop], done = self._matrix.cursor, stop

    def _apply(self, operation: Operation) -> None:
        """Apply an operation of the journal, a bounded number of entries at a time."""
        check_operation(operation, self.manifest, self.shape[0])
        if not isinstance(operation, Entries):
            self._append(operation)
            self._log.discard_operations()
            return
        for start in range(0, len(operation.rows), _ENTRIES):
            self._matrix._set(*(part[start : start + _ENTRIES] for part in operation))
            self._log.discard_operations()

    def _append(self, operation: Operation, loaded_shard: Any = None) -> None:
        """Add the rows of a validated operation to the matrix."""
        first_row, blocks = self.shape[0], list(self._blocks)
        if isinstance(operation, AppendShard):
            mapped = loaded_shard or self._mapped.load_shard(operation.shard)
            self._mapped.add_shard(operation.shard, mapped)
            self._log.record_append(first_row, operation)
            self._matrix._set_blocks([*blocks, mapped[0]])
        else:
            assert isinstance(operation, AppendRows)
            blocks = self._with_rows(blocks, operation)
            self._log.record_append(first_row, operation, operation.nbytes)
            self._matrix.append_in_memory(blocks)

    def _with_rows(self, blocks: list[Block], operation: AppendRows) -> list[Block]:
        """Add new rows as a block in memory.

        Blocks are merged up to the size of a shard, so that each is more than twice as large as the next.
        """
        rows, shards, most = operation.rows, list(self._mapped.shards), shard_bytes(self.memory_limit)
        while shards[-1] is None and blocks[-1].shape[0] <= 2 * rows.shape[0] and blocks[-1].nbytes <= most:
            rows = stacked([stored_rows(blocks.pop()), rows])
            shards.pop()
        blocks.append(block_of(rows, self.normalize, self.manifest.column_side))
        self._mapped.add_names(operation.rows.shape[0], operation.names)
        self._mapped.shards = [*shards, None]
        return blocks

    @property
    def _blocks(self) -> list[Block]:
        return self._matrix._blocks

    @property
    def _starts(self) -> NDArray[np.int64]:
        return self._matrix._starts

    @property
    def _log(self) -> WriteLog:
        return self._matrix._log

    @property
    def _guard(self) -> AccessGuard:
        return self._matrix._guard

    @property
    def _closed(self) -> bool:
        return isinstance(self._matrix, ClosedMatrix)

    def _check_open(self) -> None:
        if self._closed:
            self._matrix.shape  # noqa: B018 - raises

    # --- reading ----------------------------------------------------------------------------------------------------

    @property
    def row_names(self) -> Sequence[str] | None:  # type: ignore[override]
        """Names of the rows, or None."""
        return self._mapped.row_names

    @property
    def column_names(self) -> Sequence[str] | None:  # type: ignore[override]
        """Names of the columns, or None."""
        return self._mapped.column_names

    @property
    def generation(self) -> int:
        """Number of the generation, increased by compactions; a reader keeps the one it opened."""
        return self.manifest.generation

    @property
    def changed_rows(self) -> NDArray[np.int64]:
        """Rows that differ from their shard's file, and rows that have no file yet; sorted."""
        self._matrix._flush()
        written = self._log.rows_written_since(self._written_at)
        unwritten = self._mapped.unwritten_rows(self._starts)
        return distinct(np.concatenate([written, *unwritten])) if unwritten else written

    def rows_once(self, indices: ArrayLike) -> Rows:
        """Like :meth:`rows`, but releases the mapped pages afterwards, to save memory in long scans."""
        rows = check_index(indices, self.shape[0], name="row").reshape(-1)
        changed = self._changed_blocks()
        parts = []
        holding = np.searchsorted(self._starts, rows, side="right") - 1
        for some in few_pages(rows, holding, self._blocks, changed, self.memory_limit):
            parts.append(self.rows(some))
            touched = np.searchsorted(self._starts, some, side="right") - 1
            for number in set(touched.tolist()) - changed:
                release_pages(next(iter(self._blocks[number].arrays().values())))
        return stacked(parts)

    def map_stored(
        self, function: Callable[..., _Result], *shared: Any, block_rows: int | None = None
    ) -> list[_Result]:
        """As in :class:`RowMatrix`; releases the pages of shards after they were read if they are many."""
        changed = self._changed_blocks()
        many = sum(block.entries.nbytes for block in self._blocks) > self.memory_limit // 2

        def passed(number: int) -> None:
            if many and number not in changed:
                release_pages(self._blocks[number].entries)

        return self._matrix.map_stored(function, *shared, block_rows=block_rows, passed=passed)

    def _changed_blocks(self) -> set[int]:
        """Numbers of the blocks that differ from their files, or have none; kept until the next change."""
        self._matrix._flush()
        cursor, known = self._log.end, self._changed
        if known is None or known[0] != cursor:
            numbers = np.flatnonzero(np.diff(np.searchsorted(self.changed_rows, self._starts)))
            known = self._changed = cursor, set(numbers.tolist())
        return known[1]

    def __repr__(self) -> str:
        if self._closed:
            return f"Store({str(self.path)!r}, closed)"
        kind = "sparse" if self.is_sparse else "dense"
        shape = f"{self.shape[0]}×{self.shape[1]}"
        return f"Store({str(self.path)!r}, {shape} {kind} {self.dtype}, normalize={self.normalize!r})"

    def column_norm(self, j: ArrayLike) -> Any:
        """‖A^(j)‖ of the view."""
        self._check_columns()
        return super().column_norm(j)

    def sample_columns(self, size: int | None = None, *, rng: RngLike = None) -> Any:
        """Columns with probability ‖A^(j)‖² / ‖A‖_F². O(log n) each."""
        self._check_columns()
        return super().sample_columns(size, rng=rng)

    def sample_in_column(self, j: ArrayLike, size: int | None = None, *, rng: RngLike = None) -> Any:
        """Rows with probability A_ij² / ‖A^(j)‖²; for an array ``j`` of shape s, an array s + (size,)."""
        self._check_columns()
        return super().sample_in_column(j, size, rng=rng)

    def _check_columns(self) -> None:
        if not self.manifest.column_side:
            raise InvalidInputError(f"{self.path} was built with columns=False; rebuild it with columns=True")

    # --- sidecars ---------------------------------------------------------------------------------------------------

    def sidecars(self, *, shards: bool = True) -> list[Sidecar]:
        """The sidecars that are kept up to date; with ``shards`` only those with arrays per shard."""
        if shards not in self._sidecars:
            self._sidecars[shards] = loaded(self._kinds, self, self.manifest, shards=shards)
        return self._sidecars[shards]

    def shared_arrays(self, name: str) -> Arrays | None:
        """The arrays of a sidecar that all shards share; None if the store does not have it."""
        return self._mapped.shared(name)

    def sidecar_arrays(self, name: str) -> tuple[Arrays, int] | None:
        """The whole-store arrays of a sidecar, and the cursor of the state they describe; None if there are none."""
        manifest = self._mapped.manifest
        arrays, cursor = self._mapped.whole(name, manifest), self._cursors.get(commit_of(manifest, name))
        return None if arrays is None or cursor is None else (arrays, cursor)

    def shard_arrays(self, name: str) -> list[tuple[int, int, Arrays | None]]:
        """(first row, last row + 1, arrays of the sidecar or None) of every block."""
        starts = self._starts.tolist()
        return list(zip(starts[:-1], starts[1:], self._mapped.of_each(name), strict=True))


def _batches(records: Sequence[Record]) -> Iterator[list[Record]]:
    """Those records in order, with about as many bytes together as are worth it."""
    some: list[Record] = []
    size = 0
    for record in records:
        some.append(record)
        size += len(record.payload)
        if size > _BATCH:
            yield some
            some, size = [], 0
    yield some


class ClosedMatrix:
    """Placeholder for the matrix and the shards of a closed store: every use raises."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def _refuse(self, *_: Any) -> NoReturn:
        raise StoreError(f"the store {self._path} is closed; open it again")

    def __getattr__(self, name: str) -> NoReturn:
        self._refuse()

    __getitem__ = __setitem__ = _refuse
