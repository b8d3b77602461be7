"""Stores in object storage: ``fa.build(X, "s3://bucket/x.store")``, ``fa.open``, ``append`` and ``commit``.

They are read like a :class:`~fastanchors.dask.RemoteStore`: this process, or the workers of the current Dask client,
fetch shards into a local cache on demand. :mod:`fastanchors.store.storage` explains why commits are atomic.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, NoReturn

import numpy as np
from numpy.typing import NDArray

from .._parallel import one_blas_thread, use_threads
from .._signals import deferred_signals, from_handler
from .._validate import check_choice, check_size, is_dask
from ..errors import CorruptStoreError, StoreError
from ..io import open_source
from ..io.scratch import TemporaryFolder, scratch_in
from ..sampling.access_guard import AccessGuard, Keeping, Reading, Writing
from ..store.build import DEFAULT_MEMORY, Progress, Settings, build, check_view, plain_metadata, wanted_for
from ..store.manifest import Manifest, Shard
from ..store.object_files import OvertakenError, Uploading, commit_files, publish, upload, with_journal
from ..store.shard_rows import SMALLEST_LIMIT, block_of, check_width, new_rows, write_shard
from ..store.sidecars import Arrays, Sidecar, check_sidecars, loaded, shared_only, whole_of, write_whole
from ..store.storage import ObjectStorage, repeated
from .build import DaskBuild
from .remote_store import RemoteStore
from .tasks import Pool

__all__ = ["ObjectStore", "build_objects", "open_objects"]

_CHEAP = 1 << 31  # bytes of shards that a writer may fetch to make an index again


class ObjectStore(RemoteStore):
    """A store in object storage. Rows can be appended by one writer at a time; entries cannot be changed.

    Returned by :func:`fastanchors.build` and :func:`fastanchors.open` for an address.
    """

    storage: ObjectStorage

    def __init__(
        self,
        storage: ObjectStorage,
        mode: Literal["r", "r+"] = "r",
        memory_limit: int = DEFAULT_MEMORY,
        kinds: Sequence[type[Sidecar]] = (),
        manifest: Manifest | None = None,
    ) -> None:
        super().__init__(storage, Pool(), memory_limit, manifest)
        self.mode, self._kinds, self._guard = mode, kinds, AccessGuard()
        self._pending: list[Shard] = []
        self._tried: tuple[Manifest, int] | None = None  # a commit whose result is unknown, and its number of shards
        self._overtaken: OvertakenError | None = None  # by another writer: pending rows can no longer be committed

    def reading(self) -> Reading:
        """A context in which commits of other threads wait before they show new rows."""
        return Reading(self._guard, _nothing)

    def append(self, rows: Any, *, row_names: Sequence[str] | None = None, **options: Any) -> None:  # type: ignore[override]
        """Append rows: anything that :func:`fastanchors.build` reads, with the store's width and dtype.

        They are written at once, as separate shards, and become part of the store at the next :meth:`commit`.
        """
        with Keeping(self._guard):
            self._append(rows, row_names, options)

    def _append(self, rows: Any, row_names: Sequence[str] | None, options: dict[str, Any]) -> None:
        if self.mode != "r+":
            self._refuse()
        self._parts.check_open()
        self._check_overtaken()
        if row_names is not None:
            options["row_names"] = row_names
        made, before = list[Shard](), len(self._pending)
        first_row = self.shape[0] + sum(shard.rows for shard in self._pending)
        sidecars = loaded(self._kinds, self, self.manifest, shards=True)
        try:
            with TemporaryFolder() as place, scratch_in(Path(place)):
                for part, names in new_rows(rows, self, sidecars, options):
                    block = block_of(part, self.normalize, self.manifest.column_side)
                    with one_blas_thread():
                        shard = write_shard(Path(place), len(made), block, names, sidecars, first_row)
                    made.append(shard)
                    upload(self.storage, Path(place), shard.files())
                    first_row += shard.rows
                    del part, block  # before the next piece is read
            self._pending += made
        except BaseException:
            with deferred_signals():  # all of it is undone, so that it can be repeated
                del self._pending[before:]
                self.storage.remove(_files(made))
            raise

    def _no_change(self, *_: Any, **__: Any) -> NoReturn:
        raise StoreError(
            f"{self.storage} is in object storage, where files never change: its entries cannot be changed. "
            "Append rows, or copy the store to a disk and open the copy with mode='r+'"
        )

    __setitem__ = update = add = _no_change

    def compact(self) -> NoReturn:
        """Not possible in object storage; raises :class:`~fastanchors.errors.StoreError`."""
        raise StoreError(
            f"{self.storage} is in object storage, where files never change: there is nothing to compact. To merge "
            "small shards, build it again from itself: fa.build(address, address, overwrite=True)"
        )

    def commit(self) -> None:
        """Make the appended rows part of the store atomically: all, or none if another writer was first.

        If the storage does not answer, it raises, and the rows stay pending. Call it again: they are committed once,
        also if the first request has arrived. Other threads may read meanwhile; it waits for them before it returns.
        If only the copy ``manifest.json`` could not be written, it warns; another call tries that again, also without
        rows.
        """
        with Keeping(self._guard):
            self._commit()

    def _commit(self) -> None:
        if self.mode == "r+" and not self._pending:
            self.storage.renew_copy()
        while self._pending:
            self._check_overtaken()
            if self._tried is None:
                self._prepare()
            assert self._tried is not None
            manifest, count = self._tried
            try:
                written = {*_files(self._pending), *manifest.files()} - self.manifest.files()
                commit_files(self.storage, manifest, sorted(written))
            except OvertakenError as error:
                self._overtaken = error
                raise
            # A reader must not see the shards of one state and rows of another. What fails here is done again.
            with Writing(self._guard, wait=True), deferred_signals():
                super().__init__(self.storage, self._parts.pool, self.memory_limit, manifest)
                self.__dict__.pop("_totals", None)
                del self._pending[:count]
                self._tried = None

    def _prepare(self) -> None:
        """Make the manifest with the pending shards; raises if another store is at the address now."""
        known = self.manifest
        if self.storage.state(known.generation).encode() != known.encode():
            raise StoreError(f"{self.storage} has been replaced since it was opened; open it again")
        manifest = replace(
            known,
            generation=known.generation + 1,
            shards=[*known.shards, *self._pending],
            next_shard=known.next_shard + len(self._pending),
            extras=shared_only(known.extras),
        )
        with TemporaryFolder() as place, scratch_in(Path(place)):
            made = write_whole(Path(place), self._extended(manifest), manifest.generation)
            with Uploading(self.storage) as uploading:
                upload(self.storage, Path(place), list(made.values()), uploading.prefix)
                whole = with_journal(uploading, replace(manifest, extras=manifest.extras | made))
                with deferred_signals():
                    self._tried, uploading.kept = (whole, len(self._pending)), True

    def _extended(self, manifest: Manifest) -> dict[str, Arrays | None]:
        """The arrays of sidecars for the whole store with the pending rows, so that readers need no pass.

        Raises if the storage does not answer. A failure for any other reason is a warning: seeks can do without them.
        """
        made: dict[str, Arrays | None] = {}
        with _Appended(self.storage, self._parts.pool, self.memory_limit, manifest, self.manifest) as store:
            for sidecar in loaded(self._kinds, self, self.manifest, shards=False):
                sidecar.remote, sidecar.rows_at_hand = True, manifest.shard_bytes <= _CHEAP
                try:
                    made[sidecar.name] = sidecar.extend(store)
                except Exception as error:
                    is_damage = isinstance(error, CorruptStoreError)
                    if from_handler(error) or (isinstance(error, StoreError) and not is_damage):
                        raise
                    warnings.warn(
                        f"the sidecar {sidecar.name!r} of {self.storage} is left out, so that seeks read all rows: "
                        f"{error}",
                        stacklevel=4,
                    )
        return made

    def _check_overtaken(self) -> None:
        if self._overtaken is not None:
            raise OvertakenError(str(self._overtaken))

    def close(self, *, commit: bool = True) -> None:
        """Commit (unless ``commit=False``) and release the shards on the workers; idempotent.

        If the commit fails, its error is raised and the uncommitted rows are lost, as for :meth:`Store.close`.
        While another thread appends or commits, it raises :class:`~fastanchors.errors.ConcurrentAccessError`, and the
        store stays open.
        """
        with Keeping(self._guard):  # it removes files, which another thread may be about to commit
            try:
                if commit:
                    self._commit()
            finally:
                with deferred_signals():
                    if self._tried is None:  # otherwise they may be part of the store
                        self.storage.remove(_files(self._pending))
                    self._pending, self._tried = [], None
                    super().close()

    def __getstate__(self) -> dict[str, Any]:
        if self._pending:
            raise StoreError(f"{self.storage} has rows that are not committed; commit before sending it elsewhere")
        return self.__dict__

    def __exit__(self, kind: Any, *_: Any) -> None:
        self.close(commit=kind is None)


class _Appended(RemoteStore):
    """The store with rows that are about to be committed; its sidecars are those of the state before (cursor 0)."""

    def __init__(self, storage: ObjectStorage, pool: Pool, memory_limit: int, new: Manifest, before: Manifest) -> None:
        super().__init__(storage, pool, memory_limit, new)
        self._before = before

    @property
    def cursor(self) -> int:
        return 1

    def changes_since(self, cursor: int) -> NDArray[np.int64]:
        """The appended rows, all after cursor 0."""
        return np.arange(self.shape[0] if cursor else self._before.rows, self.shape[0])

    def sidecar_arrays(self, name: str) -> tuple[Arrays, int] | None:
        description = whole_of(self._before, name)
        return None if description is None else (self.storage.map(description), 0)


def _nothing() -> None:
    """What a thread that reads has to write first: there are no buffered entries in object storage."""


def _files(shards: Sequence[Shard]) -> list[str]:
    return [description["file"] for shard in shards for description in shard.files()]


def open_objects(
    address: str, mode: Literal["r", "r+"] = "r", *, memory_limit: int, sidecars: Sequence[type[Sidecar]]
) -> ObjectStore:
    """``fa.open`` of an address."""
    check_choice(mode, ("r", "r+"), name="mode")
    check_size(memory_limit, name="memory_limit", minimum=SMALLEST_LIMIT)
    check_sidecars(sidecars, kinds=True)
    return ObjectStore(ObjectStorage(address), mode, memory_limit, sidecars)


def build_objects(
    source: Any,
    address: str,
    *,
    normalize: str | None,
    columns: bool | None,
    memory_limit: int,
    overwrite: bool,
    progress: Callable[[Progress], None] | None,
    sidecars: Sequence[Sidecar],
    metadata: dict[str, Any] | None,
    n_jobs: int | None = None,
    **options: Any,
) -> ObjectStore:
    """``fa.build`` to an address.

    The workers of a Dask source write their shards there. Any other source is built on the local disk and uploaded.
    """
    check_view(normalize, columns)
    memory_limit = check_size(memory_limit, name="memory_limit", minimum=SMALLEST_LIMIT)
    metadata = plain_metadata(metadata)
    check_sidecars(sidecars)
    for sidecar in sidecars:
        sidecar.remote = True
    storage = ObjectStorage(address)
    storage.check_outside()
    before = storage.generation()
    if before and not overwrite:
        raise StoreError(f"{address} exists already; pass overwrite=True to replace it, or another address")
    with TemporaryFolder() as place, Uploading(storage) as uploading:
        folder = Path(place) / "store"
        if is_dask(source):
            opened = open_source(source, **options)
            settings = Settings.of(opened, normalize, columns, metadata)
            check_width(opened, settings.columns, memory_limit)
            folder.mkdir()
            job = _ObjectBuild(opened, folder, settings, memory_limit, progress, wanted_for(opened, sidecars))
            job.storage, job.prefix, job.mark = storage, uploading.prefix, f"{uploading.prefix}building"
            try:
                with use_threads(n_jobs), one_blas_thread(), scratch_in(folder):
                    job.run()
                manifest = publish(uploading, folder, before)
            finally:
                with deferred_signals():  # tasks that are still running then remove what they have written
                    storage.remove([job.mark])
        else:
            build(
                source,
                folder,
                normalize=normalize,
                columns=columns,
                memory_limit=memory_limit,
                progress=progress,
                sidecars=sidecars,
                metadata=metadata,
                n_jobs=n_jobs,
                **options,
            ).close()
            manifest = publish(uploading, folder, before)
    kinds = [type(sidecar) for sidecar in sidecars]
    try:
        return repeated(lambda: ObjectStore(storage, "r+", memory_limit, kinds, manifest))
    except StoreError as error:
        raise type(error)(f"the store {address} was built, but cannot be opened now; use fa.open: {error}") from error


class _ObjectBuild(DaskBuild):
    """A build whose tasks write to object storage; the client keeps its own files on disk until the end."""

    storage: ObjectStorage

    def run(self) -> None:
        self.storage.mark(self.mark)
        super().run()
        self.complete()

    def _shared_file(self, description: dict[str, Any]) -> dict[str, Any]:
        upload(self.storage, self.folder, [description], self.prefix)
        return description

    def _number(self, shards: list[Shard]) -> None:
        self.shards = dict(enumerate(shards))
        self.rows = sum(shard.rows for shard in shards)

    def _manifest(self) -> Manifest:
        """Its column names are uploaded too: the sidecars open the unfinished store, which reads them."""
        manifest = super()._manifest()
        if manifest.names is not None:
            self._shared_file(manifest.names)
        return manifest

    def _remove(self, files: list[str]) -> None:
        self.storage.remove(files)

    def open(self, manifest: Manifest) -> Any:
        return RemoteStore(self.storage, self.source.collection.pool, self.memory_limit, manifest)
