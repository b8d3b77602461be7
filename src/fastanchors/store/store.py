"""The store: :class:`~fastanchors.SampleMatrix` with its blocks mapped from files and a journal of its changes.

Blocks are mapped copy-on-write: an update changes pages in this process only, and becomes durable as a record of the
journal at ``commit``. Opening maps the shards of the manifest and replays the journal; compaction writes changed shards
anew and replaces the manifest. So files that are referred to never change, a reader keeps what it has mapped, and every
step is atomic by one rename or one record.
"""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NoReturn

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._maps import let_go
from .._rng import RngLike
from .._validate import check_size
from ..errors import CorruptStoreError, InvalidInputError, StoreError
from ..io.addresses import local_path
from ..io.scratch import scratch_in
from ..matrix.contract import Rows
from ..matrix.cost import Cost
from ..sampling.block import Block
from ..sampling.dense_block import DenseBlock
from ..sampling.forest import Array
from ..sampling.matrix import SampleMatrix
from ..sampling.sparse_block import SparseBlock
from ..sampling.write_log import Cursor, WriteLog
from .arrays_file import map_arrays
from .compact import compact, remove_leftovers, worth_compacting
from .files import WriterLock, absolute, which_directory
from .journal import START, Journal, read_journal
from .manifest import Manifest, Shard
from .names import Names, encode_names
from .operations import AppendRows, AppendShard, Operation, SetEntries, check_operation, decode, encode, joined
from .rows import SMALLEST_LIMIT, block_of, new_rows, stacked, stored_rows, write_shard
from .sidecars import Arrays, Sidecar, SidecarHost, loaded, whole_of

__all__ = ["Store", "open"]

_ATTEMPTS = 20  # a reader that meets a compaction starts again
_JOIN = 1 << 12
_PAGES = 1 << 22  # bytes of mapped pages that a row read here and there may bring in, as systems map in advance
_INLINE_ROWS = 1 << 20  # bytes of appended rows that are kept in the journal; larger pieces get a shard file at once


def open(
    path: str | os.PathLike[str],
    mode: Literal["r", "r+"] = "r",
    *,
    memory_limit: int = 1 << 30,
    sidecars: Sequence[type[Sidecar]] = (),
) -> Store:
    """Open a store; costs milliseconds, whatever its size, plus the replay of its journal.

    Parameters
    ----------
    path : the directory that :func:`fastanchors.build` made.
    mode : ``"r"`` to read the state committed last; ``"r+"`` to change it, one writer at a time.
    memory_limit : bytes of changed pages and of shards in the making that a writer may hold before it compacts.
    sidecars : the kinds of sidecars that a writer keeps up to date; others are left out of what it writes.
    """
    if mode not in ("r", "r+"):
        raise InvalidInputError(f"mode must be 'r' or 'r+', got {mode!r}")
    check_size(memory_limit, name="memory_limit", minimum=SMALLEST_LIMIT)
    return Store(local_path(path), mode, memory_limit, sidecars)


class Store(SampleMatrix, SidecarHost):
    """A sample matrix on disk: every call of :class:`~fastanchors.SampleMatrix`, and the ones below.

    Made by :func:`fastanchors.build` and :func:`fastanchors.open`. Changes live in memory until :meth:`commit`; what is
    committed survives a crash. :meth:`close` and the end of a ``with`` block commit, except after an exception.
    Pickling sends the path: the other process opens what is committed.
    """

    def __init__(
        self, path: Path, mode: str = "r", memory_limit: int = 1 << 30, kinds: Sequence[type[Sidecar]] = ()
    ) -> None:
        # Mode "lazy" (what a build returns) takes the writer's lock with the first change.
        self.path, self.mode, self.memory_limit = absolute(path), mode, memory_limit
        self._lock: WriterLock | None = None
        self._journal: Journal | None = None
        self._log = WriteLog(following=True)
        self._kinds = kinds
        if mode == "r+":
            Manifest.read(self.path)  # a clear error before a lock file is made in some other directory
            self._lock = WriterLock(self.path)
        try:
            self._load()
            if mode == "r+":
                self._start_writing()
        except BaseException:
            self._release()
            raise

    @classmethod
    def unwritten(cls, path: Path, manifest: Manifest, memory_limit: int) -> Store:
        """The store of a manifest that is not written yet, to read: for the sidecars of a build."""
        self = cls.__new__(cls)
        self.path, self.mode, self.memory_limit = absolute(path), "r", memory_limit
        self._lock = self._journal = None
        self._log, self._kinds = WriteLog(following=True), ()
        self._adopt(manifest, [self._mapped(shard, manifest) for shard in manifest.shards])
        return self

    # --- loading ----------------------------------------------------------------------------------------------------

    def _load(self) -> None:
        """Map the newest generation and replay its journal; start again if it is compacted or replaced meanwhile."""
        for attempt in range(_ATTEMPTS):
            place, manifest = which_directory(self.path), Manifest.read(self.path)
            try:
                self._map(manifest)
                if which_directory(self.path) == place:
                    return
            except FileNotFoundError as error:
                if Manifest.read(self.path) == manifest:
                    raise CorruptStoreError(f"{error.filename} is missing; restore it from a copy") from None
            except CorruptStoreError:
                # A journal read in the middle of a commit can look damaged; one that stays so is.
                if attempt >= 3 or self._lock is not None:
                    raise
                time.sleep(0.01)
        raise StoreError(f"{self.path} is being replaced again and again; try later")

    def _map(self, manifest: Manifest) -> None:
        journal = self.path / manifest.journal
        state = read_journal(journal, manifest.generation)
        self._adopt(manifest, [self._mapped(shard, manifest) for shard in manifest.shards])
        committed = (decode(record.payload, str(journal)) for record in state.records)
        for operation in joined(itertools.chain.from_iterable(committed)):  # many changes at once cost less each
            try:
                check_operation(operation, manifest, self.shape[0])
            except (ValueError, KeyError, TypeError) as error:
                raise CorruptStoreError(f"{journal} does not belong to this store: {error}") from None
            self._apply(operation)
        self._journal_end, self._commits = state.end, len(state.records)

    def _mapped(self, shard: Shard, manifest: Manifest) -> tuple[Block, Mapping[str, NDArray[Any]]]:
        """The block of a shard and the arrays of its names."""
        arrays = map_arrays(self.path, shard.data)
        kind = SparseBlock if manifest.sparse else DenseBlock
        block = kind.from_arrays(arrays, (shard.rows, manifest.columns), l1=manifest.normalize == "l1")
        return block, arrays

    def _adopt(self, manifest: Manifest, mapped: list[tuple[Block, Mapping[str, NDArray[Any]]]]) -> None:
        """Become the state of ``manifest``, with nothing changed since."""
        # All of it is mapped now, sidecars too: a later compaction removes the names of these files.
        further = [description for shard in manifest.shards for description in shard.extras.values()]
        self._maps = self._map_all([*further, *manifest.extras.values()])
        self.manifest = manifest
        self._normalize, self._cost = manifest.normalize, Cost()  # type: ignore[assignment]
        self._set_blocks([block for block, _ in mapped])
        self._written_at = self.cursor  # the files hold the rows of this state
        self._shards: list[Shard | None] = list(manifest.shards)  # beside the blocks; None: in memory only
        self._name_parts = [(block.shape[0], arrays) for block, arrays in mapped]
        self._set_row_names()
        columns = map_arrays(self.path, manifest.names) if manifest.names is not None else None
        self.column_names = Names([(manifest.columns, columns)]) if columns is not None else None
        self._entries_changed = self._singles = 0
        self._pending: list[Operation] = []
        self._next_shard = manifest.next_shard
        self._sidecars: list[Sidecar] | None = None  # with arrays beside the shards, of kinds that are kept up

    def _map_all(self, descriptions: Iterable[Mapping[str, Any]]) -> dict[str, Mapping[str, NDArray[Any]]]:
        """The arrays of sidecars by file."""
        return {description["file"]: map_arrays(self.path, description) for description in descriptions}

    def _set_row_names(self) -> None:
        named = any("names.ends" in arrays for _, arrays in self._name_parts)
        self.row_names = Names(self._name_parts) if named else None

    # --- changes ----------------------------------------------------------------------------------------------------

    def _apply(self, operation: Operation) -> None:
        """Make a change in memory."""
        if isinstance(operation, SetEntries):
            super()._set(operation.rows, operation.columns, operation.values)
            self._entries_changed += len(operation.rows)
        elif isinstance(operation, AppendRows):
            self._take_rows(operation)
        else:
            block, arrays = self._mapped(operation.shard, self.manifest)
            self._maps |= self._map_all(operation.shard.extras.values())
            self._shards.append(operation.shard)
            self._set_blocks([*self._blocks, block])
            self._name_parts.append((block.shape[0], arrays))
            self._set_row_names()
            self._next_shard += 1

    def _take_rows(self, operation: AppendRows) -> None:
        """New rows as a block in memory, joined with those before it so that sizes halve from one to the next."""
        rows, blocks = operation.rows, list(self._blocks)
        names = encode_names(operation.names) if operation.names is not None else {}
        self._name_parts.append((rows.shape[0], names))
        self._set_row_names()
        while self._shards[-1] is None and blocks[-1].shape[0] <= 2 * rows.shape[0]:
            rows = stacked([stored_rows(blocks.pop()), rows])
            self._shards.pop()
        self._shards.append(None)
        self._set_blocks([*blocks, block_of(rows, self._normalize, self.manifest.column_side)])

    def _set(self, i: Array, j: Array, x: Array) -> None:
        self._start_writing()
        self._settle()
        operation = SetEntries(i.copy(), j.copy(), x.copy())
        self._pending.append(operation)
        try:
            self._apply(operation)
        except BaseException:
            self._pending.pop()
            raise

    def _set_plain(self, i: int, j: int, x: float) -> None:
        if self._journal is None:
            self._start_writing()
        super()._set_plain(i, j, x)

    def _write_noted(self, i: Array, j: Array, x: Array) -> None:
        super()._write_noted(i, j, x)
        self._pending.append(SetEntries(i, j, x))
        self._entries_changed += len(i)
        self._singles += 1
        if self._singles % _JOIN == 0:  # many small arrays take more memory than a few long ones
            self._pending[-_JOIN:] = joined(self._pending[-_JOIN:])

    def append(self, rows: Any, *, row_names: Sequence[str] | None = None, **options: Any) -> None:
        """New rows at the end: anything that :func:`fastanchors.build` reads, of the store's width and type.

        All of it or, where something is refused, nothing. Few rows are kept in the journal, many written as shards
        aside; they are part of the store with the next commit. Rows without names are called by their index.
        """
        self._write_here()
        self._settle()
        if row_names is not None:
            options["row_names"] = row_names
        made: list[Operation] = []
        number, first_row = self._next_shard, self.shape[0]
        try:
            with scratch_in(self.path):
                for part, names in new_rows(rows, self, options):
                    block = block_of(part, self._normalize, self.manifest.column_side)
                    if block.nbytes <= _INLINE_ROWS:
                        made.append(AppendRows(part, names))
                    else:
                        shard = write_shard(self.path, number, block, names, self.sidecars(), first_row)
                        made.append(AppendShard(shard))
                        number += 1
                    first_row += part.shape[0]
        except BaseException:
            for operation in made:
                if isinstance(operation, AppendShard):
                    for description in operation.shard.files():
                        (self.path / description["file"]).unlink(missing_ok=True)
            raise
        for operation in made:
            self._pending.append(operation)
            self._apply(operation)

    def commit(self) -> None:
        """Make every change so far durable, as one: after a crash all of them are there or none. One sync of the disk.

        When the journal has grown long, or changed pages fill the memory limit, the store is compacted too.
        """
        self._flush()
        if self._journal is not None and worth_compacting(self):
            self.compact()

    def _flush(self) -> None:
        """Pending changes become one record of the journal."""
        self._settle()
        if self._pending:
            self._write_here()
            assert self._journal is not None
            self._journal.commit(encode(self._pending))
            self._journal_end, self._commits = self._journal.end, self._journal.commits
            self._pending = []

    def compact(self) -> None:
        """Write changed shards anew, merge small ones and start an empty journal: one new generation, atomically.

        Commits first. Holds as much as a build, besides what has changed; readers keep the old generation.
        """
        self._write_here()
        self._flush()
        try:
            manifest = compact(self)
        except BaseException:
            if Manifest.read(self.path).generation != self.generation:
                self.close(commit=False)  # it failed after the new generation was in place: this object is behind
            raise
        assert self._journal is not None
        self._journal.close()
        cost = self._cost
        self._adopt(manifest, [self._mapped(shard, manifest) for shard in manifest.shards])
        self._cost = cost
        self._journal_end, self._commits = START, 0
        self._journal = Journal(self.path / manifest.journal, START, 0)
        remove_leftovers(self)

    def consolidate(self) -> None:
        """The same as :meth:`compact` for a writer; a reader rebuilds what changed in memory."""
        if self.mode == "r":
            super().consolidate()
        else:
            self.compact()

    # --- the writer -------------------------------------------------------------------------------------------------

    def _start_writing(self) -> None:
        """Hold the lock and the journal, at the state that is in memory."""
        if self._journal is not None:
            return
        self._check_open()
        if self.mode == "r":
            raise StoreError(f"{self.path} is open for reading; open it with mode='r+' to change it")
        if self._lock is None:
            self._lock = WriterLock(self.path)
        try:
            self._lock.check()
            # A store that took this one's place is told by its manifest, down to the checksum of every array.
            journal, same = self.path / self.manifest.journal, Manifest.read(self.path) == self.manifest
            if not same or read_journal(journal, self.generation).end != self._journal_end:
                raise StoreError(f"{self.path} has been changed since it was opened; open it again")
            self._journal = Journal(journal, self._journal_end, self._commits)
            remove_leftovers(self)
        except BaseException:
            self._release()
            raise

    def _write_here(self) -> None:
        """The same, and the directory is still the store that was opened, and this the process that opened it."""
        self._start_writing()
        assert self._lock is not None
        self._lock.check()

    def _check_open(self) -> None:
        if isinstance(self._held, _Closed):
            self._held[0]

    def close(self, *, commit: bool = True) -> None:
        """Commit (unless told not to) and let go of the files and the writer's lock; harmless when repeated."""
        if isinstance(self._held, _Closed):
            return
        try:
            if commit and (self._pending or self._noted):
                self.commit()
        finally:
            self._release()
            self._pending = []
            self._blocks = _Closed(self.path)
            self._name_parts, self.row_names, self.column_names = [], None, None

    def _release(self) -> None:
        if self._journal is not None:
            self._journal.close()
            self._journal = None
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def __enter__(self) -> Store:
        self._check_open()
        return self

    def __exit__(self, kind: Any, *_: Any) -> None:
        self.close(commit=kind is None)

    def __del__(self) -> None:
        if hasattr(self, "_lock"):
            self._release()

    def __reduce__(self) -> Any:
        if self._pending or self._noted:
            raise StoreError(f"{self.path} has changes that are not committed; commit before sending it elsewhere")
        return open, (os.fspath(self.path),)

    # --- what it is -------------------------------------------------------------------------------------------------

    @property
    def generation(self) -> int:
        """Counts compactions; a reader stays at the one it opened."""
        return self.manifest.generation

    @property
    def changed_rows(self) -> NDArray[np.int64]:
        """Rows that differ from their shard's file (and its sidecars), and rows that have no file yet; sorted."""
        self._settle()
        fresh = [
            np.arange(start, stop)
            for shard, start, stop in zip(self._shards, self._starts[:-1], self._starts[1:], strict=True)
            if shard is None
        ]
        return np.unique(np.concatenate([self._log.since(self._written_at.writes), *fresh]))

    def sidecars(self, *, shards: bool = True) -> list[Sidecar]:
        """The sidecars of this store that are kept up to date; with ``shards`` those with arrays beside the shards."""
        if not shards:
            return loaded(self._kinds, self, self.manifest, shards=False)
        if self._sidecars is None:
            self._sidecars = loaded(self._kinds, self, self.manifest, shards=True)
        return self._sidecars

    def shared_arrays(self, name: str) -> Arrays | None:
        """What the shards share of a sidecar; None where the store has none."""
        description = self.manifest.extras.get(name)
        return None if description is None else self._maps[description["file"]]

    def sidecar_arrays(self, name: str) -> tuple[Arrays, Cursor] | None:
        """What a sidecar says about the whole store, and the state of the rows that it describes; None if nothing."""
        description = whole_of(self.manifest, name)
        return None if description is None else (self._maps[description["file"]], self._written_at)

    def shard_arrays(self, name: str) -> list[tuple[int, int, Arrays | None]]:
        """(first row, last row + 1, arrays of the sidecar) of every block; None where the block has none."""
        bounds = zip(self._shards, self._starts[:-1].tolist(), self._starts[1:].tolist(), strict=True)
        return [
            (start, stop, self._maps[shard.extras[name]["file"]] if shard and name in shard.extras else None)
            for shard, start, stop in bounds
        ]

    def rows_once(self, indices: ArrayLike) -> Rows:
        """As :meth:`rows`, without holding on to the mapped pages they lie in: for much reading in little memory."""
        rows = np.asarray(indices, dtype=np.int64).reshape(-1)
        changed = np.unique(np.searchsorted(self._starts, self.changed_rows, side="right") - 1)
        parts, step = [], max(1, self.memory_limit // _PAGES)
        for at in range(0, max(1, rows.size), step):
            some = rows[at : at + step]
            parts.append(self.rows(some))
            touched = np.unique(np.searchsorted(self._starts, some, side="right") - 1)
            for number in np.setdiff1d(touched, changed).tolist():
                let_go(next(iter(self._blocks[number].arrays().values())))
        return stacked(parts)

    def __repr__(self) -> str:
        if isinstance(self._held, _Closed):
            return f"Store({str(self.path)!r}, closed)"
        kind = "sparse" if self.is_sparse else "dense"
        shape = f"{self.shape[0]}×{self.shape[1]}"
        return f"Store({str(self.path)!r}, {shape} {kind} {self.dtype}, normalize={self._normalize!r})"

    def column_norm(self, j: ArrayLike) -> Any:
        self._check_columns()
        return super().column_norm(j)

    def sample_columns(self, size: int | None = None, *, rng: RngLike = None) -> Any:
        self._check_columns()
        return super().sample_columns(size, rng=rng)

    def sample_in_column(self, j: ArrayLike, size: int | None = None, *, rng: RngLike = None) -> Any:
        self._check_columns()
        return super().sample_in_column(j, size, rng=rng)

    def _check_columns(self) -> None:
        if not self.manifest.column_side:
            raise InvalidInputError(f"{self.path} was built with columns=False: build it again for the column side")


class _Closed(list[Any]):
    """In place of the blocks of a closed store: every use says so."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path

    def _refuse(self, *_: Any) -> NoReturn:
        raise StoreError(f"the store {self.path} is closed; open it again")

    __getitem__ = __iter__ = __len__ = _refuse
