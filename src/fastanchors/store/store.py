"""The store: its content in memory (:mod:`.content`), and the writer that makes changes durable.

An update changes pages in this process only, and ``commit`` makes it durable as a record of the journal. Opening maps
the shards of the manifest and replays the journal; compaction rewrites changed shards and replaces the manifest. So
files that a manifest refers to never change, a reader can keep its maps, and every step is made atomic by one rename or
one record.
"""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Sequence
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any, Literal

from numpy.typing import ArrayLike

from .._maps import release_freed
from .._signals import deferred_signals, from_handler
from .._validate import check_choice, check_size
from ..errors import ConcurrentAccessError, CorruptStoreError, StoreError
from ..io.addresses import local_path
from ..io.scratch import scratch_in
from ..sampling.access_guard import Keeping, Writing, writes
from .compact import compact, moved_on, remove_leftovers, worth_compacting
from .content import ClosedMatrix, StoreContent
from .files import absolute, check_platform, directory_id, disk_error, disk_errors, sync_directory
from .journal import Record, read_journal
from .manifest import Manifest
from .operations import AppendRows, AppendShard, Operation, encode
from .pending import PendingFile
from .renew import renew
from .shard_rows import SMALLEST_LIMIT, block_of, new_rows, write_shard
from .shards import MappedShards
from .sidecars import Sidecar, check_sidecars, without_later
from .writer import Writer

__all__ = ["Store", "open"]

_ATTEMPTS = 20  # how often a reader retries if the store is compacted while it is opened
_INLINE_ROWS = (
    1 << 20
)  # bytes of rows of an append that are stored in the journal; further ones get shard files at once


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


class Store(StoreContent):
    """A sample matrix on disk: all methods of :class:`~fastanchors.SampleMatrix`, and those below.

    Made by :func:`fastanchors.build` and :func:`fastanchors.open`. Changes are in memory until :meth:`commit`, after
    which they survive a crash. :meth:`close` and the end of a ``with`` block commit, except after an exception.
    Pickling sends the path, so the other process opens the last committed state; commit changes before.

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

    _compact_from = 0  # length of the journal at which a compaction that failed is tried again
    _pending: PendingFile | None = None  # of a writer

    def __init__(
        self, path: Path, mode: str = "r", memory_limit: int = 1 << 30, kinds: Sequence[type[Sidecar]] = ()
    ) -> None:
        check_platform()
        # Mode "lazy" (the result of a build) takes the writer's lock at the first change.
        self.path, self.mode, self.memory_limit, self._kinds = absolute(path), mode, memory_limit, kinds
        self._writer = Writer(self.path, mode)
        if mode == "r+":
            Manifest.read(self.path)  # raises before a lock file is created in a directory that is not a store
        try:
            if mode == "r+":
                self._writer.lock()
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
        self._writer.stands_at(state)

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
        number, first_row, inline = self._mapped.next_shard, self.shape[0], 0
        try:
            with scratch_in(self.path):
                for part, names in new_rows(rows, self, self.sidecars(), options):
                    block = block_of(part, self.normalize, self.manifest.column_side)
                    inline += block.nbytes
                    if inline <= _INLINE_ROWS:
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
        except Exception as error:  # memory and threads may be short too, and the commit is durable
            if self._closed or from_handler(error) or isinstance(error, ConcurrentAccessError):
                raise
            if compacting:
                self._compact_from = 2 * self._writer.end
            what = "compacted" if compacting else "renewed its sidecars"
            why = str(error) or type(error).__name__
            warnings.warn(f"committed, but not {what}: {why}", stacklevel=4)

    @writes
    def _commit(self) -> None:
        """Write pending changes as one record of the journal."""
        self._matrix._flush()
        if self._log.pending:
            self._write_here()
            self._drop_later_sidecars()
            record = [*(self._pending.parts() if self._pending else []), *encode(self._log.operations())]
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
                    self._mapped.check(self._matrix.changed_numbers)
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
                    self._mapped.check(self._matrix.changed_numbers)  # what was read meanwhile
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
                self._compact_from = 0
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
                    self._pending = PendingFile(self.path, self.memory_limit, self._guard)
                    self._log.overflow = self._pending
                    remove_leftovers(self)

    def _write_here(self) -> None:
        """Like :meth:`_start_writing`; also checks that the directory, its files and the process are still the same."""
        self._start_writing()
        self._writer.check(self.manifest)
        self._mapped.check(self._matrix.changed_numbers)

    def close(self, *, commit: bool = True) -> None:
        """Commit (by default) and release the files and the writer's lock; further calls have no effect.

        If the commit fails, its error is raised, the store is closed and the uncommitted changes are lost. Call
        :meth:`commit` before, which can be repeated. While another thread changes the store, or uses it and there is
        something to commit, it raises :class:`~fastanchors.errors.ConcurrentAccessError`, and the store stays open.
        """
        matrix, stays = self._matrix, False
        if isinstance(matrix, ClosedMatrix):
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
                    self._end()

    def _end(self) -> None:
        """Release the files and the lock."""
        with deferred_signals():
            self._writer.release()
            self._matrix = self._mapped = ClosedMatrix(self.path)  # type: ignore[assignment]
            self._sidecars = {}
            if self._pending is not None:
                self._pending.close()

    def __enter__(self) -> Store:
        self._check_open()
        return self

    def __exit__(self, kind: Any, *_: Any) -> None:
        self.close(commit=kind is None)

    def __reduce__(self) -> Any:
        if self._log.pending:
            raise StoreError(f"{self.path} has changes that are not committed; commit before sending it elsewhere")
        return open, (os.fspath(self.path),)
