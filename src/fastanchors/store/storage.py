"""Storage of the files of a store: a directory, or an object storage such as ``s3://bucket/x.store``.

An object storage has no renames and no locks, but it can create an object only if none of that name exists. Therefore

- the files that a manifest refers to have random names and never change;
- each committed state is a manifest ``generations/NNNNNN.json``. Creating it is the commit: of two writers the second
  gets an error. A writer that is killed before leaves files that nothing refers to;
- ``manifest.json`` is a copy of the newest one, so that a copy of the whole prefix on disk is a store.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import time
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any, TypeVar

from .._parallel import SharedLock
from .._signals import ignored_errors, pass_on
from ..errors import CorruptStoreError, MissingExtraError, StoreError
from ..io.addresses import is_address, is_local, local_path
from .arrays_file import map_arrays
from .file_cache import FileCache, check_copy
from .files import absolute, disk_error, disk_errors
from .journal import read_journal
from .listed import check_listed
from .manifest import MANIFEST, Manifest

__all__ = ["Directory", "ObjectStorage", "Storage", "is_object_address", "repeated", "storage_of"]

_T = TypeVar("_T")

_GENERATIONS = "generations"
_GENERATION = re.compile(r"(?:[0-9]{6}|[1-9][0-9]{6,17})\.json")
_WAITS = (0.1, 0.5)  # seconds before what failed at or after a commit is tried again
_RANGE = 1 << 26  # bytes per request
_PIECE = 1 << 18  # bytes of a cached piece of a file, if only some of its rows are read


def is_object_address(path: Any) -> bool:
    """Whether ``path`` is an address of an object storage; ``file://`` is a directory."""
    return is_address(path) and not is_local(path)


def storage_of(path: Any) -> Storage:
    """The storage of the store at a path or an address."""
    return ObjectStorage(path) if is_object_address(path) else Directory(local_path(path))


def repeated(attempt: Callable[[], _T]) -> _T:
    """What ``attempt`` returns; it is tried again if the storage does not answer."""
    for wait in _WAITS:
        try:
            return attempt()
        except StoreError:
            time.sleep(wait)
    return attempt()


class Storage(ABC):
    """Read access to the files of a store. Files that a manifest refers to never change."""

    @abstractmethod
    def __str__(self) -> str:
        """The name of the store in error messages."""

    @abstractmethod
    def manifest(self) -> Manifest:
        """The last committed state."""

    @abstractmethod
    def map(self, description: Mapping[str, Any]) -> Mapping[str, Any]:
        """The arrays of a file, given its description in the manifest."""


class Directory(Storage):
    """A store in a directory that all readers share; ``unfinished`` while it is built and has no manifest."""

    def __init__(self, path: Path, *, unfinished: bool = False) -> None:
        self.path, self._unfinished = absolute(path), unfinished

    def __str__(self) -> str:
        return str(self.path)

    def manifest(self) -> Manifest:
        manifest = Manifest.read(self.path)
        journal = self.path / manifest.journal
        try:
            with disk_errors(self.path, "read"):
                records = read_journal(journal, manifest.generation).records
        except StoreError as error:
            if Manifest.read(self.path) != manifest:  # compacted meanwhile
                return self.manifest()
            if isinstance(error.__cause__, FileNotFoundError):
                raise CorruptStoreError(f"{journal} is missing; restore it from a copy") from None
            raise
        if records:
            raise StoreError(f"{self.path} has changes in its journal; open it with mode='r+' and compact() it first")
        return manifest

    def map(self, description: Mapping[str, Any]) -> Mapping[str, Any]:
        try:
            arrays = map_arrays(self.path, description)
        except FileNotFoundError:
            raise StoreError(
                f"{self.path / description['file']} does not exist: every worker needs the same path, and a store that "
                "was replaced or compacted meanwhile must be connected to again"
            ) from None
        except CorruptStoreError:
            self._check_listed(description)  # a file of another store of that name is not damaged
            raise
        except OSError as error:
            raise disk_error(self.path, "read", error) from error
        self._check_listed(description)  # after it was opened: what is mapped stays
        return arrays

    def _check_listed(self, description: Mapping[str, Any]) -> None:
        if not self._unfinished:
            check_listed(self.path, description)


class ObjectStorage(Storage):
    """A store in an object storage, read through fsspec, with a local cache of its files.

    Parameters
    ----------
    address : str
        For example ``s3://bucket/x.store``. The package of the file system (``s3fs``, ``gcsfs``, …) must be installed.
    cache : path or None
        The directory of the cache; by default ``$FASTANCHORS_CACHE``, or one in the system's temporary directory.
    cache_bytes : int or None
        Size limit of the cache, by default ``$FASTANCHORS_CACHE_BYTES`` or 16 GB; the least recently used files are
        removed first.

    Attributes
    ----------
    requests : int
        Number of requests so far.
    """

    def __init__(
        self, address: str, *, cache: str | os.PathLike[str] | None = None, cache_bytes: int | None = None
    ) -> None:
        self.address, self.requests = address.rstrip("/"), 0
        if not is_address(self.address):  # only a scheme
            scheme = address.partition(":")[0]
            raise StoreError(f"{address} names no store; pass an address such as {scheme}://bucket/x.store")
        self._cache = FileCache(cache, cache_bytes)
        self._copied = False  # whether manifest.json is known to be a copy of the newest state
        self._system, self._root = _file_system(self.address)

    def __reduce__(self) -> Any:
        return _again, (self.address, self._cache.folder, self._cache.limit)

    def __str__(self) -> str:
        return self.address

    # --- reading ----------------------------------------------------------------------------------------------------

    def generation(self) -> int:
        """The number of the last committed state; 0 if there is no store."""
        return max(self._generations(), default=0)

    def check_outside(self) -> None:
        """Raise if the address is inside another store, whose objects are not to be mixed with others."""
        scheme = self.address.partition("://")[0]
        for folder in PurePosixPath(self._root).parents:
            found: list[int] = []
            with contextlib.suppress(StoreError):  # this folder may be closed to the user
                found = self._generations(str(folder)) if folder.name else []
            if found:
                where = f"{scheme}://{str(folder).lstrip('/')}"
                raise StoreError(f"{self.address} is inside the store {where}; choose another address")

    def _generations(self, root: str | None = None) -> list[int]:
        """The numbers of all committed states that are still there."""
        with self._errors("read"):
            try:
                found = self._system.ls(f"{root or self._root}/{_GENERATIONS}", detail=False, refresh=True)
            except FileNotFoundError:
                return []
        names = (PurePosixPath(name).name for name in found)
        return [int(name.removesuffix(".json")) for name in names if _GENERATION.fullmatch(name)]

    def manifest(self) -> Manifest:
        return self.newest()[0]

    def newest(self) -> tuple[Manifest, bytes]:
        """The last committed state, and its manifest as it is stored."""
        number = self.generation()
        if number == 0:
            raise StoreError(
                f"{self.address} does not exist or is not a store; build one with fa.build(source, address)"
            )
        return self._state(number)

    def state(self, number: int) -> Manifest:
        """The manifest of a generation."""
        return self._state(number)[0]

    def _state(self, number: int) -> tuple[Manifest, bytes]:
        name = _state_name(number)
        content = self.read(name)
        manifest = Manifest._decode(content, Path(self._root, name))
        if manifest.generation != number:
            raise CorruptStoreError(
                f"{self.address}/{name} is the manifest of generation {manifest.generation}; restore it from a copy"
            )
        return manifest, content

    def read(self, name: str) -> bytes:
        """The content of a small object."""
        with self._errors("read", name):
            # With a range, s3fs asks the server; without, it trusts the size in a listing that it may have kept.
            return bytes(self._system.cat_file(f"{self._root}/{name}", start=0))

    def map(self, description: Mapping[str, Any]) -> Mapping[str, Any]:
        for last in (False, True):
            file = self.fetch(description)
            try:
                return map_arrays(file.parent, {**description, "file": file.name})
            except OSError as error:
                if last or not isinstance(error, FileNotFoundError):  # removed meanwhile, to make room for others
                    raise disk_error(file, "read", error) from error
        raise AssertionError

    def fetch(self, description: Mapping[str, Any]) -> Path:
        """The path of a local copy of a whole file, which has the checksums of the manifest."""
        file = self._cached(description)
        if not self._cache.has_sound(file, description):
            with self._cache.writing(file) as part:
                self.download(description, part)
                try:
                    check_copy(part, description)
                except CorruptStoreError as error:
                    where = f"{self.address}/{description['file']}"
                    raise CorruptStoreError(str(error).replace(str(part), where)) from None
            self._cache.note_sound(file)
            self._cache.make_room(file)
        return file

    def check_cached(self, descriptions: Iterable[Mapping[str, Any]]) -> None:
        """Remove cached copies of whole files that do not have the checksums of the manifest."""
        for description in descriptions:
            self._cache.drop_unsound(self._cached(description), description)

    def holds(self, description: Mapping[str, Any]) -> bool:
        """Whether the whole file is in the cache."""
        return self._cache.has(self._cached(description), description["bytes"])

    def download(self, description: Mapping[str, Any], file: Path) -> None:
        """Write a whole file of the store to a local file, in ranges."""
        name, size = description["file"], description["bytes"]
        with open(file, "wb") as target:
            for start in range(0, size, _RANGE):
                stop = min(size, start + _RANGE)
                with self._errors("read", name):
                    content = self._system.cat_file(f"{self._root}/{name}", start=start, end=stop)
                target.write(self._whole(content, stop - start, name))

    def ranges(self, description: Mapping[str, Any], spans: Sequence[tuple[int, int]]) -> list[bytes]:
        """The bytes (start, stop) of a file, from cached pieces of 256 KiB; missing ones are fetched together."""
        name, size = description["file"], description["bytes"]
        every = [range(start // _PIECE, -(-stop // _PIECE)) for start, stop in spans]
        numbers = sorted({number for some in every for number in some})
        files = {number: self._cached(description, f"-{number}") for number in numbers}
        lengths = {number: min(size - number * _PIECE, _PIECE) for number in numbers}
        kept = {number: self._cache.read(files[number], lengths[number]) for number in numbers}
        found = {number: content for number, content in kept.items() if content is not None}
        missing = [number for number in numbers if number not in found]
        if missing:
            self.requests += len(missing) - 1
            starts = [number * _PIECE for number in missing]
            ends = [number * _PIECE + lengths[number] for number in missing]
            with self._errors("read", name):
                fetched = self._system.cat_ranges([f"{self._root}/{name}"] * len(missing), starts, ends)
                for content in fetched:
                    if isinstance(content, BaseException):  # fsspec returns what single requests raise
                        raise content
            for number, content in zip(missing, fetched, strict=True):
                found[number] = self._whole(content, lengths[number], name)
                self._cache.write(files[number], found[number])
            self._cache.make_room(files[missing[-1]])
        return [
            b"".join(found[number] for number in some)[start - some.start * _PIECE : stop - some.start * _PIECE]
            for some, (start, stop) in zip(every, spans)
        ]

    def _whole(self, content: Any, size: int, name: str) -> bytes:
        """The bytes of an answer, if they are as many as were asked for."""
        if len(content) != size:
            raise StoreError(
                f"cannot read {self.address}/{name}: {size} bytes were asked for, {len(content)} came; read it again, "
                "or run fa.verify"
            )
        return bytes(content)

    def _cached(self, description: Mapping[str, Any], more: str = "") -> Path:
        """The path of a cached copy; its name is a hash of address and description, so that it is unique."""
        key = hashlib.sha256(f"{self.address}\n{json.dumps(description, sort_keys=True)}".encode()).hexdigest()[:32]
        return self._cache.path(f"{key}{more}")

    # --- writing ----------------------------------------------------------------------------------------------------

    def put(self, file: Path, name: str) -> None:
        """Upload a local file; it is not part of the store until a manifest refers to it."""
        with self._errors("write", name):
            self._system.put_file(str(file), f"{self._root}/{name}")

    def mark(self, name: str) -> None:
        """Create a small object that says that a build is running."""
        with self._errors("write", name):
            self._system.pipe_file(f"{self._root}/{name}", b"building")

    def has(self, name: str) -> bool:
        """Whether there is an object of that name now; a listing that was kept is not used."""
        return self.find(name) is not None

    def find(self, name: str) -> bytes | None:
        """The content of a small object now; None if there is none."""
        with self._errors("read", name):
            try:
                return bytes(self._system.cat_file(f"{self._root}/{name}", start=0))
            except FileNotFoundError:
                return None

    def size(self, name: str) -> int | None:
        """The number of bytes of an object now; None if there is none."""
        with self._errors("read"):
            self._system.invalidate_cache()
            try:
                return int(self._system.info(f"{self._root}/{name}")["size"])
            except FileNotFoundError:
                return None

    def remove(self, names: list[str]) -> None:
        """Remove objects that no manifest refers to; errors are ignored."""
        for name in names:
            with ignored_errors():
                self._system.rm_file(f"{self._root}/{name}")

    def remove_before(self, generation: int, files: set[str]) -> None:
        """Remove files that only states before ``generation`` refer to; errors are ignored."""
        with ignored_errors():
            old = [_state_name(number) for number in sorted(self._generations()) if number < generation]
            for name in old:
                with contextlib.suppress(StoreError):  # of a damaged manifest
                    self.remove(sorted(Manifest._decode(self.read(name), Path(name)).files() - files))
            self.remove(old)

    def remove_prefix(self, prefix: str) -> None:
        """Remove all objects whose names begin with ``prefix``; errors are ignored."""
        with ignored_errors():
            found = self._system.ls(self._root, detail=False, refresh=True)
            self.remove([name for name in (PurePosixPath(path).name for path in found) if name.startswith(prefix)])

    def commit(self, manifest: Manifest) -> bool:
        """Create the manifest of a generation; False if another writer has created it.

        Raises ``StoreError`` if it cannot be known whether it was created. Its files must not be removed then, and the
        same manifest can be committed again.
        """
        content, name = manifest.encode(), _state_name(manifest.generation)
        try:
            found = repeated(lambda: self._create(name, content))
        except StoreError as error:
            raise StoreError(
                f"cannot write {self.address}/{name}, or cannot know that it was written; try again, or open the "
                f"store again and look for your changes: {error}"
            ) from error
        if found != content:
            return False
        self._copied = False
        self.renew_copy(content)
        return True

    def renew_copy(self, content: bytes | None = None) -> None:
        """Make ``manifest.json`` a copy of the newest state, unless it is known to be one; a warning if that fails.

        ``content`` is what has just been committed. Later it is read again: another writer may have committed more.
        """
        try:
            if content is not None:
                with contextlib.suppress(StoreError):
                    self._put_copy(content)
            if not self._copied:
                repeated(self._renew_copy)
        except StoreError as error:
            warnings.warn(
                f"what was committed to {self} is stored, but {MANIFEST} may be stale or missing, so that a copy of "
                "the whole prefix on disk lacks it: commit() or close() tries again, also after opening it again with "
                f"mode='r+': {error}",
                stacklevel=5,
            )

    def _renew_copy(self) -> None:
        number = self.generation()
        if number == 0:  # the store was removed
            return
        newest, found = self._state(number)[1], None
        with contextlib.suppress(StoreError):  # S3 refuses to read an empty object
            found = self.find(MANIFEST)
        if found == newest:
            self._copied = True
        else:
            self._put_copy(newest)

    def _put_copy(self, content: bytes) -> None:
        with self._errors("write", MANIFEST):
            self._system.pipe_file(f"{self._root}/{MANIFEST}", content)
        self._copied = True

    def _create(self, name: str, content: bytes) -> bytes:
        """Create an object if there is none; its content now. Raises the error of the attempt if that is unknown."""
        try:
            with self._errors("write", name):
                self._system.pipe_file(f"{self._root}/{name}", content, mode="create")
            return content
        except StoreError:
            # It may be ours: a request is repeated if its answer was lost. Names of files are random, so content tells.
            with contextlib.suppress(StoreError):
                found = self.read(name)
                Manifest._decode(found, Path(name))  # half an answer is not what another writer has written
                return found
            raise

    @contextlib.contextmanager
    def _errors(self, doing: str, name: str = "") -> Iterator[None]:
        """Turn any exception of the file system into a :class:`StoreError`."""
        self.requests += 1
        try:
            yield
        except StoreError:
            raise
        except FileNotFoundError as error:
            if not name:
                raise
            if doing == "write":
                raise StoreError(
                    f"cannot write {self.address}/{name}: {str(error) or 'there is no such bucket or folder'}"
                ) from error
            raise StoreError(
                f"{self.address}/{name} does not exist: the store was replaced meanwhile, open it again"
            ) from error
        except Exception as error:
            pass_on(error)
            where = f"{self.address}/{name}".rstrip("/")
            raise StoreError(f"cannot {doing} {where}: {str(error) or type(error).__name__}") from error


def _state_name(generation: int) -> str:
    """The name of the manifest of a generation."""
    return f"{_GENERATIONS}/{generation:06d}.json"


def _again(address: str, cache: Path, cache_bytes: int) -> ObjectStorage:
    return ObjectStorage(address, cache=cache, cache_bytes=cache_bytes)


_opening = SharedLock()


def _file_system(address: str) -> tuple[Any, str]:
    try:
        from fsspec.core import url_to_fs
    except ImportError as error:
        raise MissingExtraError(f"a store at {address} needs fsspec: pip install 'fastanchors[dask]'") from error
    try:
        with _opening:
            system, root = url_to_fs(address)
    except (ImportError, ValueError, OSError) as error:
        pass_on(error)
        raise StoreError(f"cannot open {address}: {error}") from error
    return system, root.rstrip("/")
