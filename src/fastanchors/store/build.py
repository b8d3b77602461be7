"""Build a store (``fa.build``): one pass over the source, shards made in threads, and an atomic rename at the end."""

from __future__ import annotations

import itertools
import json
import os
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any, NamedTuple

from .._maps import release_freed
from .._parallel import LargePieces, one_blas_thread, use_threads
from .._validate import check_choice, check_flag, check_size
from ..errors import InvalidInputError, InvalidTypeError
from ..io import Source, open_source
from ..io.row_source import block_bytes, rebatch
from ..io.scratch import scratch_in
from ..matrix.contract import Rows
from ..sampling.row_block import Block
from .arrays_file import write_arrays
from .build_directory import Building, hold, publish, remove_dead_builds, restore
from .files import absolute, check_platform, disk_errors
from .journal import Journal
from .layout import check_json
from .manifest import Manifest, Shard
from .names import encode_names
from .shard_rows import (
    SMALLEST_LIMIT,
    block_of,
    bytes_of_names,
    check_rows,
    check_width,
    row_overhead,
    shard_bytes,
    shards_at_once,
    write_shard,
)
from .sidecars import Sidecar, SidecarHost, check_sidecars, write_whole
from .store import Store

__all__ = ["Progress", "Settings", "build", "check_view", "plain_metadata", "wanted_for"]

DEFAULT_MEMORY = 1 << 30
_AT_HAND = 1 << 31  # largest size in bytes of rows that are cheap to read again
_PER_ROW = 256  # bytes of memory per row that sidecars need to read the rows again


class Progress(NamedTuple):
    """Passed to a progress callback after each shard; ``total_rows`` is None if the source does not know it."""

    rows: int
    total_rows: int | None
    bytes: int
    seconds: float


def build(
    source: Any,
    path: str | os.PathLike[str],
    *,
    normalize: str | None = "auto",
    columns: bool | None = None,
    memory_limit: int = DEFAULT_MEMORY,
    overwrite: bool = False,
    progress: Callable[[Progress], None] | None = None,
    sidecars: Sequence[Sidecar] = (),
    metadata: dict[str, Any] | None = None,
    n_jobs: int | None = None,
    **options: Any,
) -> Store:
    """Build a store: the sample model of the paper (Proposition 1) on disk, larger than memory.

    Reads the source once, in blocks of rows. Each block becomes a shard with both orientations and its sum trees. The
    store is written to a temporary directory beside ``path``, which is renamed when everything is written and synced.
    So a build appears whole or not at all, and an interrupted one leaves nothing behind.

    Parameters
    ----------
    source
        An array, a sparse matrix, a path, an iterator of row blocks, a Dask array or data frame (whose workers then
        write the shards, see :mod:`fastanchors.dask.build`), or anything else that :func:`fastanchors.io.open_source`
        reads.
    path
        The directory to create; for a Dask source one that all workers share.
    normalize
        ``"l1"`` for the view with rows of unit l1 norm, or None, which also accepts signed entries. ``"auto"`` is that
        of the source if it is a store or a sample matrix, else ``"l1"``.
    columns
        False omits the column side: less space, but no draws from columns. None as a source that is a store has it,
        else True.
    memory_limit
        Bytes the build may hold at a time (besides the interpreter itself).
    overwrite
        Replace an existing store, in one step at the end; no other writer may have it open.
    progress
        Called with a :class:`Progress` after each shard, from the calling thread.
    sidecars
        Further files to make from the same blocks (see :mod:`fastanchors.store.sidecars`).
    metadata
        Stored in the manifest (JSON); None for that of a source that is a store, if any.
    n_jobs
        Number of threads; None for all cores that this process may use. The store does not depend on it.
    options
        Passed on to the reader, such as ``row_names`` or ``variable``.

    Returns
    -------
    The store, open for reading; the first change takes the writer's lock.
    """
    check_platform()
    check_view(normalize, columns)
    memory_limit = check_size(memory_limit, name="memory_limit", minimum=SMALLEST_LIMIT)
    metadata = plain_metadata(metadata)
    check_sidecars(sidecars)
    target = absolute(path)
    with disk_errors(target, "create"):
        restore(target)
        old = hold(target, overwrite)
    try:
        opened = open_source(source, **options)
        settings = Settings.of(opened, normalize, columns, metadata)
        check_width(opened, settings.columns, memory_limit)
        with disk_errors(target, "create"):
            target.parent.mkdir(parents=True, exist_ok=True)
            remove_dead_builds(target)
            building = Building(target)
        with building as folder:
            builder = getattr(opened, "builder", _Build)  # a distributed source is built by its workers
            job = builder(opened, folder, settings, memory_limit, progress, wanted_for(opened, sidecars))
            with use_threads(n_jobs), one_blas_thread(), scratch_in(folder):  # shards are made in our own threads
                job.run()
                release_freed()  # of every thread: the sidecars read the store in this one
                with disk_errors(target, "create"):
                    job.complete()
            with disk_errors(target, "create"):
                publish(folder, target, old)
    finally:
        if old is not None:
            old.release()
    store = Store(target, "lazy", memory_limit, [type(sidecar) for sidecar in sidecars])
    store.cost.bytes_moved = job.bytes_moved
    return store


def check_view(normalize: Any, columns: Any) -> None:
    """Raise before the work starts if these are no settings of a store."""
    check_choice(normalize, ("auto", "l1", None), name="normalize")
    if columns is not None:
        check_flag(columns, name="columns")


class Settings(NamedTuple):
    """What a build does not take from the rows: the view, whether there is a column side, and the metadata."""

    normalize: str | None
    columns: bool
    metadata: dict[str, Any]

    @classmethod
    def of(
        cls, source: Source, normalize: str | None, columns: bool | None, metadata: dict[str, Any] | None
    ) -> Settings:
        """The given settings; others as in the source if it is a store or a sample matrix, else the usual ones."""
        own = source.matrix
        manifest = own.manifest if isinstance(own, SidecarHost) else None
        if normalize == "auto":
            normalize = "l1" if own is None else own.normalize
        if columns is None:
            columns = manifest is None or manifest.column_side
        if metadata is None:
            metadata = {} if manifest is None else manifest.metadata
        return cls(normalize, bool(columns), metadata)  # the manifest holds no bool of NumPy


def wanted_for(source: Source, sidecars: Sequence[Sidecar]) -> list[Sidecar]:
    """The sidecars to make for a source; each takes over its settings if that is a store."""
    wanted = [sidecar for sidecar in sidecars if sidecar.wanted(source.shape)]
    if isinstance(source.matrix, SidecarHost):
        for sidecar in wanted:
            sidecar.take_over(source.matrix)
    return wanted


def plain_metadata(metadata: dict[str, Any] | None) -> dict[str, Any] | None:
    """The metadata as JSON gives it back; raises before the work starts if it cannot be stored in a manifest."""
    if metadata is not None and not isinstance(metadata, dict):
        raise InvalidTypeError(f"metadata must be a dict or None, got {type(metadata).__name__}")
    for key, value in (metadata or {}).items():
        try:
            check_json({key: value})
        except (TypeError, ValueError) as error:
            raise InvalidInputError(f"metadata[{key!r}] cannot be written as JSON: {error}") from None
    return metadata and json.loads(json.dumps(metadata))


class _Build:
    """One build in its temporary directory."""

    bytes_moved = 0  # between processes

    def __init__(
        self,
        source: Source,
        folder: Path,
        settings: Settings,
        memory_limit: int,
        progress: Callable[[Progress], None] | None,
        sidecars: Sequence[Sidecar],
    ) -> None:
        self.source, self.folder, self.progress, self.sidecars = source, folder, progress, sidecars
        self.normalize, self.columns, self.metadata = settings
        self.memory_limit, self.shard_bytes = memory_limit, shard_bytes(memory_limit)
        for sidecar in sidecars:
            sidecar.memory_limit = memory_limit
        self.shared: dict[str, dict[str, Any]] = {}
        self.shards: dict[int, Shard] = {}
        self.started = time.perf_counter()
        self.rows = self.bytes = 0

    def run(self) -> None:
        wide = self.source.shape[1] if self.source.is_sparse else 0
        with LargePieces[tuple[int, Shard, int]](shards_at_once(self.memory_limit, wide)) as pieces:
            numbers = itertools.count()  # enumerate() would keep each piece until the next one is read
            for first_row, rows, names in self._pieces():
                number = next(numbers)
                made = self._prepare(rows) if number == 0 and self.sidecars else None
                size = block_bytes(rows)
                pieces.submit(size, self._shard, number, first_row, rows, names, made)
                del rows, made
                self._collect(pieces.finished(size))
            self._collect(pieces.finished())

    def _pieces(self) -> Iterator[tuple[int, Rows, Sequence[str] | None]]:
        """Yield (first row, rows, their names): checked, each about the size of a shard."""
        first_row = 0
        blocks = self.source.blocks(self.shard_bytes, signed=self.normalize is None, warn_gaps=True)

        def per_row() -> int:  # the names of a stream are known with its first rows
            return row_overhead(self.source, self.sidecars, bytes_of_names(self.source.row_names))

        for rows in rebatch(blocks, 2 * self.shard_bytes, row_bytes=per_row):
            stop = first_row + rows.shape[0]
            check_rows(rows, self.normalize, first_row, self.source.matrix_name)
            known = self.source.row_names
            yield first_row, rows, (known[first_row:stop] if known is not None else None)
            first_row = stop
            del rows  # before the next piece is read

    def open(self, manifest: Manifest) -> Any:
        """The unfinished store, for the sidecars; its manifest is not written yet."""
        return Store.unwritten(self.folder, manifest, self.memory_limit)

    def _prepare(self, rows: Rows) -> Block:
        """Make the shared arrays of the sidecars from the first block."""
        block = block_of(rows, self.normalize, self.columns)
        for sidecar in self.sidecars:
            sidecar.rows_at_hand = self._at_hand(rows)
            self.shared[sidecar.name] = write_arrays(self.folder / f"{sidecar.name}.bin", sidecar.begin(block))
        return block

    def _at_hand(self, rows: Rows) -> bool:
        """Whether the matrix that starts with these rows is small enough to be in the page cache after the build."""
        m = self.source.shape[0]
        if m is None:
            return False
        return block_bytes(rows) / rows.shape[0] * m <= _AT_HAND and m * _PER_ROW <= self.memory_limit

    def _shard(
        self, number: int, first_row: int, rows: Rows, names: Sequence[str] | None, made: Block | None
    ) -> tuple[int, Shard, int]:
        """The number of a shard, its entry in the manifest, and the bytes of its rows."""
        size = block_bytes(rows)
        block = block_of(rows, self.normalize, self.columns) if made is None else made
        del rows, made
        return number, write_shard(self.folder, number, block, names, self.sidecars, first_row), size

    def _collect(self, finished: Sequence[Future[tuple[int, Shard, int]]]) -> None:
        for future in finished:
            number, shard, size = future.result()
            self.shards[number] = shard
            self.rows += shard.rows
            self.bytes += size
            if self.progress is not None:
                total = self.source.shape[0]
                self.progress(Progress(self.rows, total, self.bytes, time.perf_counter() - self.started))

    def complete(self) -> None:
        """Let the sidecars process the whole store, now that every shard is written; then write the manifest, once."""
        manifest = self._manifest()
        unwanted: list[str] = []
        if self.sidecars:
            with self.open(manifest) as store:
                wholes = {sidecar.name: sidecar.finish(store) for sidecar in self.sidecars}
                unwanted = [sidecar.name for sidecar in self.sidecars if not sidecar.keep_shards(store)]
            described = write_whole(self.folder, wholes, manifest.generation)
            files = [manifest.extras.pop(name)["file"] for name in unwanted]
            shards = [(shard, name) for shard in manifest.shards for name in unwanted if name in shard.extras]
            files += [shard.extras.pop(name)["file"] for shard, name in shards]
            manifest.extras |= described
            self._remove(files)
        Journal.create(self.folder / manifest.journal, manifest.generation)
        manifest.write(self.folder)

    def _remove(self, files: list[str]) -> None:
        """Remove files that only the build used."""
        for file in files:
            (self.folder / file).unlink()

    def _manifest(self) -> Manifest:
        names = self.source.column_names
        return Manifest(
            generation=1,
            columns=self.source.shape[1],
            dtype=self.source.dtype.newbyteorder("<").str,
            sparse=self.source.is_sparse,
            normalize=self.normalize,
            column_side=self.columns,
            shards=[self.shards[number] for number in sorted(self.shards)],
            journal="journal-000001.log",
            next_shard=len(self.shards),
            names=write_arrays(self.folder / "columns.bin", encode_names(names)) if names is not None else None,
            extras=dict(self.shared),
            metadata=self.metadata,
        )
