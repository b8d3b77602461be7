"""The store: a sample matrix whose blocks are mapped from files, with a journal of its changes.

Blocks are mapped copy-on-write: an update changes pages in this process only, and ``commit`` makes it durable as a
record of the journal. Opening maps the shards of the manifest and replays the journal; compaction rewrites changed
shards and replaces the manifest. So files that a manifest refers to never change, a reader can keep its maps, and every
step is made atomic by one rename or one record.
"""

from __future__ import annotations

import itertools
import os
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any, Literal, NoReturn, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._maps import release_freed, release_pages
from .._rng import RngLike
from .._signals import deferred_signals
from .._validate import check_choice, check_size
from ..errors import ConcurrentAccessError, CorruptStoreError, InvalidInputError, StoreError
from ..io.addresses import local_path
from ..io.scratch import scratch_in
from ..matrix.contract import Rows
from ..sampling.access_guard import AccessGuard, Keeping, Writing, writes
from ..sampling.delegate import SampleDelegate
from ..sampling.gather import is_range
from ..sampling.row_block import Block
from ..sampling.write_log import Entries, WriteLog, joined
from .compact import compact, moved_on, remove_leftovers, worth_compacting
from .files import absolute, check_platform, directory_id, disk_error, disk_errors, sync_directory
from .journal import Record, read_journal
from .manifest import Manifest
from .mapped_matrix import MappedMatrix
from .operations import AppendRows, AppendShard, Operation, check_operation, decode, encode
from .pending import PendingFile
from .renew import renew
from .shard_rows import SMALLEST_LIMIT, block_of, new_rows, shard_bytes, stacked, stored_rows, write_shard
from .shards import MappedShards
from .sidecars import Arrays, Sidecar, SidecarHost, check_sidecars, commit_of, loaded, without_later
from .writer import Writer

__all__ = ["Store", "open"]

_Result = TypeVar("_Result")

_ATTEMPTS = 20  # how often a reader retries if the store is compacted while it is opened
_PAGES = 1 << 22  # bytes of mapped pages that reading one row may load, with the read-ahead of the system
_PAGES_SHARE = 4  # one part in this many of the memory limit is for mapped pages of rows that are read together
_ROW_ARRAYS = ("indptr", "indices", "data", "l1_sums")  # of a block, read for its rows
_INLINE_ROWS = 1 << 20  # bytes of appended rows that are stored in the journal; larger pieces get a shard file at once


def open(
    path: str | os.PathLike[str],
    mode: Literal["r", "r+"] = "r",
    *,
    memory_limit: int = 1 << 30,
    sidecars: Sequence[type[Sidecar]] = (),
) -> Store:
    """Open a store; takes milliseconds for any size, plus the replay of its journal.

    Parameters
    ----------
    path
        The directory that :func:`fastanchors.build` made.
    mode
        ``"r"`` to read the last committed state; ``"r+"`` to change it, one writer at a time.
    memory_limit
        Bytes of changed pages and of new shards in memory at which a writer compacts.
    sidecars
        The kinds of sidecars that a writer keeps up to date; it does not write others.
    """
    check_choice(mode, ("r", "r+"), name="mode")
    check_size(memory_limit, name="memory_limit", minimum=SMALLEST_LIMIT)
    check_sidecars(sidecars, kinds=True)
    return Store(local_path(path), mode, memory_limit, sidecars)


class Store(SampleDelegate, SidecarHost):
    """A sample matrix on disk: all methods of :class:`~fastanchors.SampleMatrix`, and those below.

    Made by :func:`fastanchors.build` and :func:`fastanchors.open`. Changes are in memory until :meth:`commit`, after
    which they survive a crash. :meth:`close` and the end of a ``with`` block commit, except after an exception.
    Pickling sends the path: the other process opens the last committed state.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> import fastanchors as fa
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with fa.build(np.eye(3), folder + "/eye.store", normalize=None) as S:
    ...         S.append(np.ones((2, 3)))
    ...         S[0, 1] = 7.0
    ...         S.commit()
    ...     with fa.open(folder + "/eye.store") as S:
    ...         print(S.shape, S[0, 1])
    (5, 3) 7.0
    """

    _matrix: MappedMatrix

    def __init__(
        self, path: Path, mode: str = "r", memory_limit: int = 1 << 30, kinds: Sequence[type[Sidecar]] = ()
    ) -> None:
        check_platform()
        # Mode "lazy" (the result of a build) takes the writer's lock at the first change.
        self.path, self.mode, self.memory_limit, self._kinds = absolute(path), mode, memory_limit, kinds
        self._writer = Writer(self.path, mode)
        if mode == "r+":
            Manifest.read(self.path)  # raises before a lock file is created in a directory that is not a store
            self._writer.lock()
        try:
            self._load()
            if mode == "r+":
                self._start_writing()
        except BaseException:
            self._writer.release()
            raise

    @classmethod
    def unwritten(cls, path: Path, manifest: Manifest, memory_limit: int, records: Sequence[Record] = ()) -> Store:
        """A store opened for reading from a manifest, which need not be written yet, and records of its journal."""
        self = cls.__new__(cls)
        self.path, self.mode, self.memory_limit, self._kinds = absolute(path), "r", memory_limit, ()
        self._writer = Writer(self.path, "r")
        self._take(MappedShards(self.path, manifest))
        self._replay(records)
        return self

    # --- loading ----------------------------------------------------------------------------------------------------

    def _load(self) -> None:
        """Map the newest generation and replay its journal; retry if it is compacted or replaced meanwhile."""
        for attempt in range(_ATTEMPTS):
            place, manifest = directory_id(self.path), Manifest.read(self.path)
            try:
                self._map(manifest)
                if directory_id(self.path) == place:
                    return
            except FileNotFoundError as error:
                if Manifest.read(self.path) == manifest:
                    raise CorruptStoreError(f"{error.filename} is missing; restore it from a copy") from None
            except CorruptStoreError:
                # A journal read during a commit can look damaged; it is damaged only if retries fail too.
                if attempt >= 3 or self._writer.locked:
                    raise
                time.sleep(0.01)
            except StoreError:
                raise
            except OSError as error:
                raise disk_error(self.path, "open", error) from error
        raise StoreError(f"{self.path} was replaced during each of {_ATTEMPTS} attempts to open it; try again later")

    def _map(self, manifest: Manifest) -> None:
        state = read_journal(self.path / manifest.journal, manifest.generation)
        self._take(MappedShards(self.path, manifest))
        self._replay(state.records)
        self._writer.end, self._writer.commits = state.end, len(state.records)

    def _replay(self, records: Sequence[Record]) -> None:
        """Apply the records of the journal, and note the cursors of the states that sidecars describe."""
        journal, done = self.path / self.manifest.journal, 0
        described = {int(description.get("commit", 0)) for description in self.manifest.extras.values()}
        for stop in sorted({min(commit, len(records)) for commit in described} | {len(records)}):
            operations = [decode(record.payload, str(journal)) for record in records[done:stop]]
            for operation in joined(list(itertools.chain.from_iterable(operations))):  # batches are faster
                try:
                    check_operation(operation, self.manifest, self.shape[0])
                    if isinstance(operation, Entries):
                        self._matrix._set(*operation)
                    else:
                        self._append(operation)
                except (ValueError, KeyError, TypeError) as error:
                    raise CorruptStoreError(f"{journal} does not belong to this store: {error}") from None
            self._log.discard_operations()
            self._cursors[stop], done = self._matrix.cursor, stop

    def _take(self, mapped: MappedShards) -> None:
        """Make the matrix of these shards."""
        folder = None if self.mode == "r" else self.path
        self._matrix = MappedMatrix.of(mapped.first_blocks, mapped.manifest.normalize, folder, self.memory_limit)
        self._matrix._log = WriteLog(journaled=True)
        self._pending = PendingFile(self.path, self.memory_limit, self._guard)
        self._adopt(mapped)

    def _adopt(self, mapped: MappedShards) -> None:
        self._mapped, self.manifest = mapped, mapped.manifest
        self._written_at = self._matrix.cursor  # the state of the rows in the files
        self._cursors = {0: self._written_at}  # by number of commits: the states that sidecars may describe
        self._sidecars: dict[bool, list[Sidecar]] = {}  # those kept up to date: all, and those with arrays per shard
        self._changed: tuple[int, set[int]] | None = None  # blocks that differ from their files, at a cursor
        self._compact_from = 0  # length of the journal at which a failed compaction is tried again

    @property
    def row_names(self) -> Sequence[str] | None:  # type: ignore[override]
        """Names of the rows, or None."""
        return self._mapped.row_names

    @property
    def column_names(self) -> Sequence[str] | None:  # type: ignore[override]
        """Names of the columns, or None."""
        return self._mapped.column_names

    # --- changes ----------------------------------------------------------------------------------------------------

    def __setitem__(self, index: tuple[Any, Any], value: ArrayLike) -> None:
        """``S[i, j] = x`` sets stored entries, new non-zeros included."""
        if not self._writer.active:
            self._start_writing()
        self._matrix[index] = value

    def update(self, rows: ArrayLike, columns: ArrayLike, values: ArrayLike) -> None:
        """Set many stored entries; of several values for one entry the last wins. If one is refused, none is set."""
        self._start_writing()
        self._matrix.update(rows, columns, values)

    def add(self, rows: ArrayLike, columns: ArrayLike, deltas: ArrayLike) -> None:
        """Add to many stored entries; several deltas for one entry are summed first (in double precision)."""
        self._start_writing()
        self._matrix.add(rows, columns, deltas)

    @writes
    def append(self, rows: Any, *, row_names: Sequence[str] | None = None, **options: Any) -> None:
        """Append rows: anything that :func:`fastanchors.build` reads, with the columns and the type of the store.

        If a row is refused, nothing is appended. Few rows are stored in the journal, many as new shards; the next
        commit makes them part of the store. Rows without names have their index as name.
        """
        self._write_here()
        self._matrix._flush()
        remove_leftovers(self)  # of an append that failed and could not remove its files either
        if row_names is not None:
            options["row_names"] = row_names
        made: list[tuple[Operation, Any]] = []
        number, first_row = self._mapped.next_shard, self.shape[0]
        try:
            with scratch_in(self.path):
                for part, names in new_rows(rows, self, self.sidecars(), options):
                    block = block_of(part, self.normalize, self.manifest.column_side)
                    if block.nbytes <= _INLINE_ROWS:
                        made.append((AppendRows(part.copy(), names), None))  # the caller may reuse its buffer
                    else:
                        shard = write_shard(self.path, number, block, names, self.sidecars(), first_row)
                        made.append((AppendShard(shard), None))
                        with disk_errors(self.path, "append to"):
                            made[-1] = (AppendShard(shard), self._mapped.load_shard(shard))
                        number += 1
                    first_row += part.shape[0]
                    del part, block  # before the next piece is read
                if number > self._mapped.next_shard:
                    with disk_errors(self.path, "append to"):
                        sync_directory(self.path)  # the record of the next commit refers to these files
            with deferred_signals():
                for operation, loaded_shard in made:
                    self._append(operation, loaded_shard)
        except BaseException:
            remove_leftovers(self)
            raise

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

    def commit(self) -> None:
        """Make all changes so far durable, atomically: after a crash all of them are there or none. Takes one sync.

        If the journal is long, or changed pages exceed the memory limit, the store is also compacted. Otherwise
        sidecars that the changes made stale are renewed. If that fails, for example on a full disk, there is a warning:
        the commit itself is done, and the store is intact.
        """
        guard = self._guard
        self._commit()
        # While another thread changes, compacts or closes the store, the rest is left to a later commit.
        with suppress(ConcurrentAccessError), Keeping(guard):
            if self._writer.active:
                self._maintain()

    def _maintain(self) -> None:
        """Compact the store if it is worth it, or renew its sidecars; a failure is a warning."""
        compacting = self._writer.end >= self._compact_from and worth_compacting(self)
        try:
            if compacting:
                self.compact()
            else:
                self._renew_sidecars()
        except StoreError as error:
            if self._closed:
                raise
            if compacting:
                self._compact_from = 2 * self._writer.end
            what = "compacted" if compacting else "renewed its sidecars"
            warnings.warn(f"committed, but not {what}: {error}", stacklevel=4)

    @writes
    def _commit(self) -> None:
        """Write pending changes as one record of the journal."""
        self._matrix._flush()
        if self._log.pending:
            self._write_here()
            self._drop_later_sidecars()
            record = [*self._pending.parts(), *encode(self._log.operations())]
            with deferred_signals():
                self._writer.commit(record)
                self._log.discard_operations()

    def _drop_later_sidecars(self) -> None:
        """Drop sidecars of more commits than the journal has: after further commits they would seem to be valid.

        A copy of a store that was made during a commit can have them.
        """
        manifest = without_later(self.manifest, self._writer.commits)
        if manifest is not self.manifest:
            try:
                with deferred_signals():
                    self._replace_manifest(manifest)
                    self._sidecars = {}
            except BaseException:
                self._stay_or_close()
                raise

    def _replace_manifest(self, manifest: Manifest) -> None:
        """Install a manifest that differs in sidecars only."""
        manifest.write(self.path)
        self._mapped.follow(manifest)
        self.manifest = manifest
        remove_leftovers(self)

    def _renew_sidecars(self) -> None:
        """Write the sidecars again that the commits made stale; readers that open the store later find them."""
        with disk_errors(self.path, "renew the sidecars of"), self.reading():
            if self._log.pending:  # of another thread: the rows are not those of a commit
                return
            commit, cursor = self._writer.commits, self.cursor
            try:
                manifest = renew(self, commit)
                if manifest is not None:
                    with deferred_signals():
                        self._cursors[commit] = cursor
                        self._replace_manifest(manifest)
            except BaseException:
                self._stay_or_close()
                raise

    def compact(self) -> None:
        """Rewrite changed shards, merge small ones and start an empty journal: a new generation, atomically.

        Commits first. Needs as much memory as a build, plus the changes; readers keep the old generation.
        """
        with Keeping(self._guard):  # from the commit on, other threads must not write, compact or renew
            self._write_here()
            self._commit()
            with disk_errors(self.path, "compact"):
                try:
                    manifest = compact(self)
                    with deferred_signals():
                        manifest.write(self.path)
                        self._follow(manifest)
                except BaseException:
                    self._stay_or_close()
                    raise
        release_freed()

    def _stay_or_close(self) -> None:
        """After a failure: remove the new files, or close if a new manifest may be in place, which refers to them."""
        if moved_on(self.path, self.manifest):
            self.close(commit=False)  # further writes would go to the old generation
        else:
            remove_leftovers(self)

    def _follow(self, manifest: Manifest) -> None:
        """Switch to a new generation, which is in place; if that fails, this object is closed."""
        with Writing(self._guard, wait=True):  # until other threads have finished reading
            try:
                mapped = MappedShards(self.path, manifest)
                self._matrix._set_blocks(mapped.first_blocks)
                self._adopt(mapped)
                self._writer.follow(manifest)
                remove_leftovers(self)
            except BaseException:
                self.close(commit=False)
                raise

    def consolidate(self) -> None:
        """:meth:`compact` for a writer; a reader rebuilds the changed blocks in memory."""
        if self.mode == "r":
            self._matrix.consolidate()
        else:
            self.compact()

    # --- the writer -------------------------------------------------------------------------------------------------

    def _start_writing(self) -> None:
        """Take the lock and open the journal at the state that is in memory."""
        if not self._writer.active:
            self._check_open()
            self._writer.check_mode()
            with Writing(self._guard):  # a second thread would take the lock and the journal twice
                self._check_open()
                if self._writer.start(self.manifest):
                    self._log.overflow = self._pending
                    remove_leftovers(self)

    def _write_here(self) -> None:
        """Like :meth:`_start_writing`; also checks that the directory and the process are still the same."""
        self._start_writing()
        self._writer.check(self.manifest)

    @property
    def _closed(self) -> bool:
        return isinstance(self._matrix, _Closed)

    def _check_open(self) -> None:
        if self._closed:
            self._matrix.shape  # noqa: B018 - raises

    def close(self, *, commit: bool = True) -> None:
        """Commit (by default) and release the files and the writer's lock; further calls have no effect.

        If the commit fails, its error is raised, the store is closed and the uncommitted changes are lost. Call
        :meth:`commit` before, which can be repeated. While another thread changes the store, or uses it and there is
        something to commit, it raises :class:`~fastanchors.errors.ConcurrentAccessError`, and the store stays open.
        """
        matrix, stays = self._matrix, False
        if isinstance(matrix, _Closed):
            return
        guard = matrix._guard
        with nullcontext() if guard.lost else Keeping(guard):  # a fork has no other threads
            try:
                if commit and matrix._log.pending:
                    self.commit()
            except ConcurrentAccessError:
                stays = guard.lost is None
                raise
            finally:
                if not stays:
                    self._writer.release()
                    self._matrix = _Closed(self.path)  # type: ignore[assignment]
                    self._mapped.row_names = self._mapped.column_names = None

    def __enter__(self) -> Store:
        self._check_open()
        return self

    def __exit__(self, kind: Any, *_: Any) -> None:
        self.close(commit=kind is None)

    def __reduce__(self) -> Any:
        if self._log.pending:
            raise StoreError(f"{self.path} has changes that are not committed; commit before sending it elsewhere")
        return open, (os.fspath(self.path),)

    # --- properties -------------------------------------------------------------------------------------------------

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
    def generation(self) -> int:
        """Number of the generation, increased by compactions; a reader keeps the one it opened."""
        return self.manifest.generation

    @property
    def changed_rows(self) -> NDArray[np.int64]:
        """Rows that differ from their shard's file, and rows that have no file yet; sorted."""
        self._matrix._flush()
        written = self._log.rows_written_since(self._written_at)
        return np.unique(np.concatenate([written, *self._mapped.unwritten_rows(self._starts)]))

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

    def rows_once(self, indices: ArrayLike) -> Rows:
        """Like :meth:`rows`, but releases the mapped pages afterwards, to save memory in long scans."""
        rows = np.asarray(indices, dtype=np.int64).reshape(-1)
        changed = self._changed_blocks()
        parts = []
        for some in self._few_pages(rows, changed):
            parts.append(self.rows(some))
            touched = np.searchsorted(self._starts, some, side="right") - 1
            for number in set(touched.tolist()) - changed:
                release_pages(next(iter(self._blocks[number].arrays().values())))
        return stacked(parts)

    def _few_pages(self, rows: NDArray[np.int64], changed: set[int]) -> Iterator[NDArray[np.int64]]:
        """Those rows in parts that load few mapped pages: at most those of the rows of their blocks."""
        few = max(1, self.memory_limit // _PAGES)
        if rows.size <= few or is_range(rows):
            yield rows
            return
        blocks = np.searchsorted(self._starts, rows, side="right") - 1
        sizes = np.zeros(len(self._blocks), dtype=np.int64)  # pages of changed blocks are not released
        for number in set(blocks.tolist()) - changed:
            arrays = self._blocks[number].arrays()
            sizes[number] = sum(arrays[name].nbytes for name in _ROW_ARRAYS if name in arrays)
        begins = np.flatnonzero(np.diff(blocks, prepend=-1))  # of rows of one block
        order = np.arange(rows.size)
        order -= np.repeat(begins, np.diff(begins, append=rows.size))
        before = np.minimum(sizes[blocks], _PAGES * order)  # loaded by the rows before it in the same block
        ends = np.cumsum(np.minimum(sizes[blocks] - before, _PAGES))
        start = 0
        while start < rows.size:
            loaded = (ends[start - 1] if start else 0) - before[start]
            room = loaded + self.memory_limit // _PAGES_SHARE
            stop = max(start + few, int(np.searchsorted(ends, room, side="right")))
            yield rows[start:stop]
            start = stop

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
        """Numbers of the blocks that differ from their files; kept until the next change, for passes in many pieces."""
        self._matrix._flush()
        cursor, known = self._log.end, self._changed
        if known is None or known[0] != cursor:
            places = np.searchsorted(self._starts, self.changed_rows, side="right") - 1
            known = self._changed = cursor, set(places.tolist())
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


class _Closed:
    """Placeholder for the matrix of a closed store: every use raises."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def _refuse(self, *_: Any) -> NoReturn:
        raise StoreError(f"the store {self._path} is closed; open it again")

    def __getattr__(self, name: str) -> NoReturn:
        self._refuse()

    __getitem__ = __setitem__ = _refuse
