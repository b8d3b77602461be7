"""The store: a sample matrix whose blocks are mapped from files, and a journal that follows its write log.

Blocks are mapped copy-on-write: an update changes pages in this process only, and becomes durable as a record of the
journal at ``commit``. Opening maps the shards of the manifest and replays the journal; compaction writes changed shards
anew and replaces the manifest. So files that are referred to never change, a reader keeps what it has mapped, and every
step is atomic by one rename or one record.
"""

from __future__ import annotations

import itertools
import os
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal, NoReturn, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._maps import release_pages
from .._rng import RngLike
from .._validate import check_size
from ..errors import CorruptStoreError, InvalidInputError, StoreError
from ..io.addresses import local_path
from ..io.scratch import scratch_in
from ..matrix.contract import Rows
from ..sampling.access_guard import AccessGuard, writes
from ..sampling.delegate import SampleDelegate
from ..sampling.gather import is_range
from ..sampling.row_block import Block
from ..sampling.write_log import Entries, WriteLog, joined
from .compact import compact, moved_on, remove_leftovers, worth_compacting
from .files import absolute, check_platform, disk_error, disk_errors, remove_file, sync_directory, which_directory
from .journal import read_journal
from .manifest import Manifest
from .mapped_matrix import MappedMatrix
from .operations import AppendRows, AppendShard, Operation, check_operation, decode, encode
from .shard_rows import SMALLEST_LIMIT, block_of, new_rows, stacked, stored_rows, write_shard
from .shards import MappedShards
from .sidecars import Arrays, Sidecar, SidecarHost, loaded
from .writer import Writer

__all__ = ["Store", "open"]

_ATTEMPTS = 20  # a reader that meets a compaction starts again
_Result = TypeVar("_Result")

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
    path
        The directory that :func:`fastanchors.build` made.
    mode
        ``"r"`` to read the state committed last; ``"r+"`` to change it, one writer at a time.
    memory_limit
        Bytes of changed pages and of shards in the making that a writer may hold before it compacts.
    sidecars
        The kinds of sidecars that a writer keeps up to date; others are left out of what it writes.
    """
    if mode not in ("r", "r+"):
        raise InvalidInputError(f"mode must be 'r' or 'r+', got {mode!r}")
    check_size(memory_limit, name="memory_limit", minimum=SMALLEST_LIMIT)
    return Store(local_path(path), mode, memory_limit, sidecars)


class Store(SampleDelegate, SidecarHost):
    """A sample matrix on disk: every call of :class:`~fastanchors.SampleMatrix`, and the ones below.

    Made by :func:`fastanchors.build` and :func:`fastanchors.open`. Changes live in memory until :meth:`commit`; what is
    committed survives a crash. :meth:`close` and the end of a ``with`` block commit, except after an exception.
    Pickling sends the path: the other process opens what is committed.

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

    def __init__(
        self, path: Path, mode: str = "r", memory_limit: int = 1 << 30, kinds: Sequence[type[Sidecar]] = ()
    ) -> None:
        check_platform()
        # Mode "lazy" (what a build returns) takes the writer's lock with the first change.
        self.path, self.mode, self.memory_limit, self._kinds = absolute(path), mode, memory_limit, kinds
        self._writer = Writer(self.path, mode)
        if mode == "r+":
            Manifest.read(self.path)  # a clear error before a lock file is made in some other directory
            self._writer.lock()
        try:
            self._load()
            if mode == "r+":
                self._start_writing()
        except BaseException:
            self._writer.release()
            raise

    @classmethod
    def unwritten(cls, path: Path, manifest: Manifest, memory_limit: int) -> Store:
        """The store of a manifest that is not written yet, to read: for the sidecars of a build."""
        self = cls.__new__(cls)
        self.path, self.mode, self.memory_limit, self._kinds = absolute(path), "r", memory_limit, ()
        self._writer = Writer(self.path, "r")
        self._take(MappedShards(self.path, manifest))
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
                if attempt >= 3 or self._writer.locked:
                    raise
                time.sleep(0.01)
            except StoreError:
                raise
            except OSError as error:
                raise disk_error(self.path, "open", error) from error
        raise StoreError(f"{self.path} is being replaced again and again; try later")

    def _map(self, manifest: Manifest) -> None:
        journal = self.path / manifest.journal
        state = read_journal(journal, manifest.generation)
        self._take(MappedShards(self.path, manifest))
        committed = itertools.chain.from_iterable(decode(record.payload, str(journal)) for record in state.records)
        for operation in joined(list(committed)):  # many changes at once cost less each
            try:
                check_operation(operation, manifest, self.shape[0])
                if isinstance(operation, Entries):
                    self._matrix._set(*operation)
                else:
                    self._append(operation)
            except (ValueError, KeyError, TypeError) as error:
                raise CorruptStoreError(f"{journal} does not belong to this store: {error}") from None
        self._log.discard_operations()
        self._writer.end, self._writer.commits = state.end, len(state.records)

    def _take(self, mapped: MappedShards) -> None:
        """Become the matrix of those shards."""
        folder = None if self.mode == "r" else self.path
        self._matrix = MappedMatrix.of(mapped.first_blocks, mapped.manifest.normalize, folder, self.memory_limit)
        self._matrix._log = WriteLog(journaled=True)
        self._adopt(mapped)

    def _adopt(self, mapped: MappedShards) -> None:
        self._mapped, self.manifest = mapped, mapped.manifest
        self._written_at = self._matrix.cursor  # the files hold the rows of this state
        self._sidecars: list[Sidecar] | None = None  # with arrays beside the shards, of kinds that are kept up
        self._compact_from = 0  # bytes of the journal before a compaction that failed is tried again

    @property
    def row_names(self) -> Sequence[str] | None:  # type: ignore[override]
        """Names of the rows, where there are any."""
        return self._mapped.row_names

    @property
    def column_names(self) -> Sequence[str] | None:  # type: ignore[override]
        """Names of the columns, where there are any."""
        return self._mapped.column_names

    # --- changes ----------------------------------------------------------------------------------------------------

    def __setitem__(self, index: tuple[Any, Any], value: ArrayLike) -> None:
        """``S[i, j] = x`` sets stored entries, new non-zeros included."""
        if not self._writer.active:
            self._start_writing()
        self._matrix[index] = value

    def update(self, rows: ArrayLike, columns: ArrayLike, values: ArrayLike) -> None:
        """Set many stored entries; of several values for one entry the last wins. All are set or none."""
        self._start_writing()
        self._matrix.update(rows, columns, values)

    def add(self, rows: ArrayLike, columns: ArrayLike, deltas: ArrayLike) -> None:
        """Add to many stored entries; several deltas for one entry are summed (in double precision) and added."""
        self._start_writing()
        self._matrix.add(rows, columns, deltas)

    @writes
    def append(self, rows: Any, *, row_names: Sequence[str] | None = None, **options: Any) -> None:
        """New rows at the end: anything that :func:`fastanchors.build` reads, of the store's width and type.

        All of it or, where something is refused, nothing. Few rows are kept in the journal, many written as shards
        aside; they are part of the store with the next commit. Rows without names are called by their index.
        """
        self._write_here()
        self._matrix._flush()
        if row_names is not None:
            options["row_names"] = row_names
        made: list[tuple[Operation, Any]] = []
        number, first_row = self._mapped.next_shard, self.shape[0]
        try:
            with scratch_in(self.path):
                for part, names in new_rows(rows, self, options):
                    block = block_of(part, self.normalize, self.manifest.column_side)
                    if block.nbytes <= _INLINE_ROWS:
                        made.append((AppendRows(part, names), None))
                    else:
                        shard = write_shard(self.path, number, block, names, self.sidecars(), first_row)
                        made.append((AppendShard(shard), None))
                        with disk_errors(self.path, "append to"):
                            made[-1] = (AppendShard(shard), self._mapped.load_shard(shard))
                        number += 1
                    first_row += part.shape[0]
                if number > self._mapped.next_shard:
                    with disk_errors(self.path, "append to"):
                        sync_directory(self.path)  # the record of the next commit refers to these files by their names
        except BaseException:
            for operation, _ in made:
                if isinstance(operation, AppendShard):
                    for description in operation.shard.files():
                        remove_file(self.path / description["file"])
            raise
        for operation, loaded_shard in made:
            self._append(operation, loaded_shard)

    def _append(self, operation: Operation, loaded_shard: Any = None) -> None:
        """Rows of a checked operation become part of the matrix."""
        first_row, blocks = self.shape[0], list(self._blocks)
        if isinstance(operation, AppendShard):
            mapped = loaded_shard or self._mapped.load_shard(operation.shard)
            self._mapped.add_shard(operation.shard, mapped)
            blocks.append(mapped[0])
        else:
            assert isinstance(operation, AppendRows)
            blocks = self._with_rows(blocks, operation)
        self._log.record_append(first_row, operation)
        self._matrix._set_blocks(blocks)

    def _with_rows(self, blocks: list[Block], operation: AppendRows) -> list[Block]:
        """New rows as a block in memory, joined with those before it so that sizes halve from one to the next."""
        rows, shards = operation.rows, list(self._mapped.shards)
        while shards[-1] is None and blocks[-1].shape[0] <= 2 * rows.shape[0]:
            rows = stacked([stored_rows(blocks.pop()), rows])
            shards.pop()
        blocks.append(block_of(rows, self.normalize, self.manifest.column_side))
        self._mapped.add_names(operation.rows.shape[0], operation.names)
        self._mapped.shards = [*shards, None]
        return blocks

    def commit(self) -> None:
        """Make every change so far durable, as one: after a crash all of them are there or none. One sync of the disk.

        When the journal has grown long, or changed pages fill the memory limit, the store is compacted too. Where that
        fails, as on a full disk, a warning says so: the commit itself is done, and the store is as good as before.
        """
        self._commit()
        if self._writer.active and self._writer.end >= self._compact_from and worth_compacting(self):
            try:
                self.compact()
            except StoreError as error:
                if self._closed:
                    raise
                self._compact_from = 2 * self._writer.end
                warnings.warn(f"committed, but not compacted: {error}", stacklevel=3)

    @writes
    def _commit(self) -> None:
        """Pending changes become one record of the journal."""
        self._matrix._flush()
        if self._log.pending:
            self._write_here()
            self._writer.commit(encode(self._log.operations()))
            self._log.discard_operations()

    def compact(self) -> None:
        """Write changed shards anew, merge small ones and start an empty journal: one new generation, atomically.

        Commits first. Holds as much as a build, besides what has changed; readers keep the old generation.
        """
        self._write_here()
        self._commit()
        with disk_errors(self.path, "compact"):
            try:
                with self.reading():  # what is written is one state
                    manifest = compact(self)
            except BaseException:
                if moved_on(self.path, self.generation):
                    self.close(commit=False)  # what it would write from now on belongs to the old generation
                raise
            self._follow(manifest)

    def _follow(self, manifest: Manifest) -> None:
        """Become the store of a new generation, which is in place; where that fails, this object is closed."""
        guard = self._guard
        guard.wait_to_write()  # until threads that read have finished with the old files
        try:
            mapped = MappedShards(self.path, manifest)
            self._matrix._set_blocks(mapped.first_blocks)
            self._adopt(mapped)
            self._writer.follow(manifest)
            remove_leftovers(self)
        except BaseException:
            self.close(commit=False)
            raise
        finally:
            guard.end_write()

    def consolidate(self) -> None:
        """The same as :meth:`compact` for a writer; a reader rebuilds what changed in memory."""
        if self.mode == "r":
            self._matrix.consolidate()
        else:
            self.compact()

    # --- the writer -------------------------------------------------------------------------------------------------

    def _start_writing(self) -> None:
        """Hold the lock and the journal, at the state that is in memory."""
        if not self._writer.active:
            self._check_open()
            if self._writer.start(self.manifest):
                remove_leftovers(self)

    def _write_here(self) -> None:
        """The same, and the directory is still the store that was opened, and this the process that opened it."""
        self._start_writing()
        self._writer.check()

    @property
    def _closed(self) -> bool:
        return isinstance(self._matrix, _Closed)

    def _check_open(self) -> None:
        if self._closed:
            self._matrix.shape  # noqa: B018 - raises

    def close(self, *, commit: bool = True) -> None:
        """Commit (by default) and release the files and the writer's lock; repeated calls do nothing."""
        if self._closed:
            return
        try:
            if commit and self._log.pending:
                self.commit()
        finally:
            self._writer.release()
            self._matrix = _Closed(self.path)  # type: ignore[assignment]
            self._mapped.row_names = self._mapped.column_names = None

    def __enter__(self) -> Store:
        self._check_open()
        return self

    def __exit__(self, kind: Any, *_: Any) -> None:
        self.close(commit=kind is None)

    def __del__(self) -> None:
        writer = vars(self).get("_writer")
        if writer is not None:
            writer.release()

    def __reduce__(self) -> Any:
        if self._log.pending:
            raise StoreError(f"{self.path} has changes that are not committed; commit before sending it elsewhere")
        return open, (os.fspath(self.path),)

    # --- what it is -------------------------------------------------------------------------------------------------

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
        """Counts compactions; a reader stays at the one it opened."""
        return self.manifest.generation

    @property
    def changed_rows(self) -> NDArray[np.int64]:
        """Rows that differ from their shard's file (and its sidecars), and rows that have no file yet; sorted."""
        self._matrix._flush()
        written = self._log.rows_written_since(self._written_at)
        return np.unique(np.concatenate([written, *self._mapped.unwritten_rows(self._starts)]))

    def sidecars(self, *, shards: bool = True) -> list[Sidecar]:
        """The sidecars of this store that are kept up to date; with ``shards`` those with arrays beside the shards."""
        if not shards:
            return loaded(self._kinds, self, self.manifest, shards=False)
        if self._sidecars is None:
            self._sidecars = loaded(self._kinds, self, self.manifest, shards=True)
        return self._sidecars

    def shared_arrays(self, name: str) -> Arrays | None:
        """What the shards share of a sidecar; None where the store has none."""
        return self._mapped.shared(name)

    def sidecar_arrays(self, name: str) -> tuple[Arrays, int] | None:
        """What a sidecar says about the whole store, and the cursor of the rows that it describes; None if nothing."""
        arrays = self._mapped.whole(name)
        return None if arrays is None else (arrays, self._written_at)

    def shard_arrays(self, name: str) -> list[tuple[int, int, Arrays | None]]:
        """(first row, last row + 1, arrays of the sidecar) of every block; None where the block has none."""
        starts = self._starts.tolist()
        return list(zip(starts[:-1], starts[1:], self._mapped.of_each(name), strict=True))

    def rows_once(self, indices: ArrayLike) -> Rows:
        """As :meth:`rows`, without holding on to the mapped pages they lie in: for much reading in little memory."""
        rows = np.asarray(indices, dtype=np.int64).reshape(-1)
        changed = self._changed_blocks()
        parts, step = [], max(1, rows.size if is_range(rows) else self.memory_limit // _PAGES)
        for at in range(0, max(1, rows.size), step):
            some = rows[at : at + step]
            parts.append(self.rows(some))
            touched = np.searchsorted(self._starts, some, side="right") - 1
            for number in set(touched.tolist()) - changed:
                release_pages(next(iter(self._blocks[number].arrays().values())))
        return stacked(parts)

    def map_stored(
        self, function: Callable[..., _Result], *shared: Any, block_rows: int | None = None
    ) -> list[_Result]:
        """As of any matrix; pages of shards that the pass has come through are given back."""
        changed = self._changed_blocks()

        def passed(number: int) -> None:
            if number not in changed:
                release_pages(self._blocks[number].entries)

        return self._matrix.map_stored(function, *shared, block_rows=block_rows, passed=passed)

    def _changed_blocks(self) -> set[int]:
        """Numbers of the blocks that are not what their files say."""
        return set((np.searchsorted(self._starts, self.changed_rows, side="right") - 1).tolist())

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
            raise InvalidInputError(f"{self.path} was built with columns=False: build it again for the column side")


class _Closed:
    """In place of the matrix of a closed store: every use says so."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def _refuse(self, *_: Any) -> NoReturn:
        raise StoreError(f"the store {self._path} is closed; open it again")

    def __getattr__(self, name: str) -> NoReturn:
        self._refuse()

    __getitem__ = __setitem__ = _refuse
