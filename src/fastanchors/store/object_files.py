"""Write the files of a store to object storage: immutable files under random names, then one commit.

:mod:`fastanchors.store.storage` explains why commits are atomic.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from .._signals import deferred_signals
from ..errors import CorruptStoreError, StoreError
from ..io.scratch import TemporaryFolder
from .files import disk_errors
from .journal import Journal
from .manifest import MANIFEST, Manifest
from .storage import ObjectStorage
from .verify import verify

__all__ = ["OvertakenError", "Uploading", "commit_files", "publish", "upload", "verify_objects", "with_journal"]


class OvertakenError(StoreError):
    """Another writer has committed the generation that this one wanted to commit."""


class Uploading:
    """The objects of a state that is not committed yet; they are removed if the ``with`` statement fails.

    Attributes
    ----------
    prefix
        The beginning of their names.
    kept
        Whether they stay: they may be part of the store, or will be tried again.
    """

    def __init__(self, storage: ObjectStorage) -> None:
        self.storage, self.prefix, self.kept = storage, f"{secrets.token_hex(8)}-", False

    def __enter__(self) -> Uploading:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None and not self.kept:
            with deferred_signals():
                self.storage.remove_prefix(self.prefix)


def publish(uploading: Uploading, folder: Path, before: int) -> Manifest:
    """Upload the files on the local disk and commit the next generation; returns its manifest."""
    storage, manifest, generation = uploading.storage, Manifest.read(folder), before + 1
    for description in manifest.extras.values():  # data about the whole store belongs to this generation
        if "generation" in description:
            description["generation"] = generation
    upload(storage, folder, manifest.descriptions(), uploading.prefix)
    manifest = with_journal(uploading, replace(manifest, generation=generation))
    written = [description["file"] for description in manifest.descriptions()]
    uploading.kept = True
    commit_files(storage, manifest, written)
    if before:
        storage.remove_before(generation, manifest.files())
    return manifest


def with_journal(uploading: Uploading, manifest: Manifest) -> Manifest:
    """The manifest with an empty journal that was uploaded, so that a copy of the store on disk is writable."""
    journal = {"file": "journal.log"}
    with TemporaryFolder() as place:
        Journal.create(Path(place) / journal["file"], manifest.generation)
        upload(uploading.storage, Path(place), [journal], uploading.prefix)
    return replace(manifest, journal=journal["file"])


def commit_files(storage: ObjectStorage, manifest: Manifest, written: list[str]) -> None:
    """Commit a manifest; if another writer was first, remove the files ``written`` for it, and raise."""
    if not storage.commit(manifest):
        storage.remove([manifest.journal, *written])
        raise OvertakenError(
            f"another writer has committed generation {manifest.generation} of {storage} meanwhile; your changes were "
            "not committed: open the store again and repeat them"
        )


def upload(
    storage: ObjectStorage, folder: Path, descriptions: Sequence[dict[str, Any]], prefix: str | None = None
) -> None:
    """Upload the files that are on the local disk under unique names, and put these into the descriptions."""
    for description in descriptions:
        file = folder / description["file"]
        with disk_errors(file, "read"):
            made = file.exists()
        if made:
            description["file"] = (prefix or f"{secrets.token_hex(8)}-") + file.name
            storage.put(file, description["file"])
            file.unlink()


def verify_objects(address: str, **options: Any) -> dict[str, Any]:
    """``fa.verify`` of an address, on a temporary copy on disk; damaged copies in the cache of readers are removed."""
    storage = ObjectStorage(address)
    manifest = storage.manifest()
    with TemporaryFolder() as place:
        folder = Path(place)
        with disk_errors(folder, "copy the store to"):
            for description in manifest.descriptions():
                with _whole(storage, manifest, description):
                    storage.download(description, folder / description["file"])
            with _whole(storage, manifest, {"file": manifest.journal}):
                (folder / manifest.journal).write_bytes(storage.read(manifest.journal))
        manifest.write(folder)
        try:
            found = verify(folder, **options)
        except CorruptStoreError as error:
            raise CorruptStoreError(str(error).replace(place, address)) from None
    storage.check_cached(manifest.descriptions())
    if found["commits"]:
        raise CorruptStoreError(f"{address}/{manifest.journal} has commits, which are not read in object storage")
    _check_copy(storage, manifest)
    return {**found, "path": address}


@contextmanager
def _whole(storage: ObjectStorage, manifest: Manifest, description: dict[str, Any]) -> Iterator[None]:
    """Inside, an object that cannot be read because it is missing or cut is an error that says so."""
    try:
        yield
    except StoreError as error:
        where, size = f"{storage}/{description['file']}", storage.size(description["file"])
        _check_newest(storage, manifest, error)
        if size is None:
            raise CorruptStoreError(f"{where} is missing; restore it from a copy") from error
        known = description.get("bytes")
        if size == 0 or size != (known or size):
            rather = "" if known is None else f" instead of {known}"
            raise CorruptStoreError(f"{where} has {size} bytes{rather}; restore it from a copy") from error
        raise


def _check_newest(storage: ObjectStorage, manifest: Manifest, error: StoreError | None = None) -> None:
    """Raise if another state was committed since ``manifest`` was read."""
    if storage.generation() != manifest.generation:
        raise StoreError(f"{storage} was changed meanwhile, by a writer; verify it again") from error


def _check_copy(storage: ObjectStorage, manifest: Manifest) -> None:
    """Raise unless ``manifest.json`` is a copy of the newest manifest; a writer may have ended before it wrote it."""
    try:
        content = storage.find(MANIFEST)
    except StoreError:
        if storage.size(MANIFEST) != 0:
            raise
        content = b""  # S3 refuses to read it
    if content == storage.newest()[1]:
        return
    _check_newest(storage, manifest)
    what = "is missing" if content is None else "is damaged"
    with suppress(StoreError):
        generation = Manifest._decode(content or b"", Path(MANIFEST)).generation
        stale = generation < manifest.generation
        what = f"is {'a stale copy, ' if stale else ''}not that of generation {manifest.generation}"
    raise CorruptStoreError(
        f"{storage}/{MANIFEST} {what}, so that a copy of the whole prefix on disk is not this store; all else is "
        "sound: open the store with mode='r+' and close() it, which writes it again"
    )
