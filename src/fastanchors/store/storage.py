"""Storage of the files of a store: a directory, or an object storage such as ``s3://bucket/x.store``.

An object storage has no renames and no locks, but it can create an object only if none of that name exists. Therefore

- the files that a manifest refers to have random names and never change;
- each committed state is a manifest ``generations/NNNNNN.json``. Creating it is the commit: of two writers the second
  gets an error. A writer that is killed before leaves files that nothing refers to;
- ``manifest.json`` is a copy of the newest one, so that a copy of the whole prefix on disk is a store.
"""

from __future__ import annotations

import contextlib
import getpass
import hashlib
import json
import os
import secrets
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

from .._parallel import SharedLock
from .._replacing import replacing
from ..errors import MissingExtraError, StoreError
from ..io.addresses import is_address, local_path
from .arrays_file import map_arrays
from .journal import read_journal
from .manifest import MANIFEST, Manifest

__all__ = ["Directory", "ObjectStorage", "Storage", "is_object_address", "storage_of"]

_GENERATIONS = "generations"
_RANGE = 1 << 26  # bytes per request
_PIECE = 1 << 18  # bytes of a cached piece of a file, if only some of its rows are read
_CACHE_BYTES = 1 << 34


def is_object_address(path: Any) -> bool:
    """Whether ``path`` is an address of an object storage; ``file://`` is a directory."""
    return is_address(path) and not path.lower().startswith("file://")


def storage_of(path: Any) -> Storage:
    """The storage of the store at a path or an address."""
    return ObjectStorage(path) if is_object_address(path) else Directory(local_path(path))


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
    """A store in a directory that all readers share."""

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()

    def __str__(self) -> str:
        return str(self.path)

    def manifest(self) -> Manifest:
        manifest = Manifest.read(self.path)
        if read_journal(self.path / manifest.journal, manifest.generation).records:
            raise StoreError(f"{self.path} has changes in its journal; open it with mode='r+' and compact() it first")
        return manifest

    def map(self, description: Mapping[str, Any]) -> Mapping[str, Any]:
        try:
            return map_arrays(self.path, description)
        except FileNotFoundError:
            raise StoreError(
                f"{self.path / description['file']} does not exist: every worker needs the same path, and a store that "
                "was compacted meanwhile must be connected to again"
            ) from None


class ObjectStorage(Storage):
    """A store in an object storage, read through fsspec, with a local cache of its files.

    Parameters
    ----------
    address : str
        For example ``s3://bucket/x.store``. The package of the file system (``s3fs``, ``gcsfs``, …) must be installed.
    cache : path or None
        The directory of the cache; by default ``$FASTANCHORS_CACHE``, or one in the system's temporary directory.
    cache_bytes : int
        Size limit of the cache; the least recently used files are removed first.

    Attributes
    ----------
    requests : int
        Number of requests so far.
    """

    def __init__(
        self, address: str, *, cache: str | os.PathLike[str] | None = None, cache_bytes: int = _CACHE_BYTES
    ) -> None:
        self.address, self.cache_bytes, self.requests = address.rstrip("/"), cache_bytes, 0
        default = Path(tempfile.gettempdir()) / f"fastanchors-cache-{getpass.getuser()}"
        self.cache = Path(cache or os.environ.get("FASTANCHORS_CACHE") or default)
        self._system, self._root = _file_system(self.address)

    def __reduce__(self) -> Any:
        return _again, (self.address, self.cache, self.cache_bytes)

    def __str__(self) -> str:
        return self.address

    # --- reading ----------------------------------------------------------------------------------------------------

    def generation(self) -> int:
        """The number of the last committed state; 0 if there is no store."""
        with self._errors("read"):
            try:
                found = self._system.ls(f"{self._root}/{_GENERATIONS}", detail=False, refresh=True)
            except FileNotFoundError:
                return 0
        numbers = (PurePosixPath(name).stem for name in found)
        return max((int(number) for number in numbers if number.isdigit()), default=0)

    def manifest(self) -> Manifest:
        number = self.generation()
        if number == 0:
            raise StoreError(
                f"{self.address} does not exist or is not a store; build one with fa.build(source, address)"
            )
        name = f"{_GENERATIONS}/{number:06d}.json"
        return Manifest._decode(self.read(name), Path(self._root, name))

    def read(self, name: str) -> bytes:
        """The content of a small object."""
        with self._errors("read", name):
            return bytes(self._system.cat_file(f"{self._root}/{name}"))

    def map(self, description: Mapping[str, Any]) -> Mapping[str, Any]:
        file = self.fetch(description)
        return map_arrays(file.parent, {**description, "file": file.name})

    def fetch(self, description: Mapping[str, Any]) -> Path:
        """The path of a local copy of a whole file."""
        file = self._cached(description)
        try:
            whole = file.stat().st_size == description["bytes"]  # not so if the machine stopped while it was written
            os.utime(file)  # mark as recently used
        except FileNotFoundError:
            whole = False
        if not whole:
            self._download(description["file"], description["bytes"], file)
        return file

    def holds(self, description: Mapping[str, Any]) -> bool:
        """Whether the whole file is in the cache."""
        return self._cached(description).exists()

    def ranges(self, description: Mapping[str, Any], spans: Sequence[tuple[int, int]]) -> list[bytes]:
        """The bytes (start, stop) of a file, from cached pieces of 256 KiB; missing ones are fetched together."""
        every = [range(start // _PIECE, -(-stop // _PIECE)) for start, stop in spans]
        numbers = sorted({number for some in every for number in some})
        files = {number: self._cached(description, f"-{number}") for number in numbers}
        found = {}
        for number, file in files.items():
            with contextlib.suppress(FileNotFoundError):
                found[number] = file.read_bytes()
                os.utime(file)  # mark as recently used
        missing = [number for number in numbers if number not in found]
        ends = [min(description["bytes"], (number + 1) * _PIECE) for number in missing]
        if missing:
            self.requests += len(missing) - 1
            self.cache.mkdir(parents=True, exist_ok=True, mode=0o700)
            with self._errors("read", description["file"]):
                path = f"{self._root}/{description['file']}"
                fetched = self._system.cat_ranges([path] * len(missing), [n * _PIECE for n in missing], ends)
            for number, content in zip(missing, fetched, strict=True):
                found[number] = bytes(content)
                with replacing(files[number]) as aside:
                    aside.write_bytes(found[number])
            self._make_room(files[missing[-1]])
        return [
            b"".join(found[number] for number in some)[start - some.start * _PIECE : stop - some.start * _PIECE]
            for some, (start, stop) in zip(every, spans)
        ]

    def _cached(self, description: Mapping[str, Any], more: str = "") -> Path:
        """The path of a cached copy; its name is a hash of address and description, so that it is unique."""
        key = hashlib.sha256(f"{self.address}\n{json.dumps(description, sort_keys=True)}".encode()).hexdigest()[:32]
        return self.cache / f"{key}{more}.bin"

    def _download(self, name: str, size: int, file: Path) -> None:
        """Download a file in ranges, under a temporary name until it is complete."""
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        part = file.with_suffix(f".{secrets.token_hex(4)}.part")
        try:
            with open(part, "wb") as target:
                for start in range(0, size, _RANGE):
                    with self._errors("read", name):
                        content = self._system.cat_file(
                            f"{self._root}/{name}", start=start, end=min(size, start + _RANGE)
                        )
                    target.write(content)
            os.replace(part, file)
        except BaseException:
            part.unlink(missing_ok=True)
            raise
        self._make_room(file)

    def _make_room(self, newest: Path) -> None:
        """Remove the least recently used files; maps of removed files stay valid."""
        files = []
        for file in self.cache.glob("*.bin"):
            with contextlib.suppress(FileNotFoundError):
                files.append((file.stat().st_mtime, file.stat().st_size, file))
        total = sum(size for _, size, _ in files)
        for _, size, file in sorted(files):
            if total <= self.cache_bytes or file == newest:
                break
            file.unlink(missing_ok=True)
            total -= size

    # --- writing ----------------------------------------------------------------------------------------------------

    def put(self, file: Path, name: str) -> None:
        """Upload a local file; it is not part of the store until a manifest refers to it."""
        with self._errors("write", name):
            self._system.put_file(str(file), f"{self._root}/{name}")

    def remove(self, names: list[str]) -> None:
        """Remove objects that no manifest refers to; errors are ignored."""
        for name in names:
            with contextlib.suppress(Exception):
                self._system.rm_file(f"{self._root}/{name}")

    def remove_before(self, generation: int, files: set[str]) -> None:
        """Remove files that only states before ``generation`` refer to; errors are ignored."""
        with contextlib.suppress(Exception):
            names = self._system.ls(f"{self._root}/{_GENERATIONS}", detail=False, refresh=True)
            old = sorted(PurePosixPath(name).name for name in names)
            old = [f"{_GENERATIONS}/{name}" for name in old if int(PurePosixPath(name).stem) < generation]
            for name in old:
                self.remove(sorted(Manifest._decode(self.read(name), Path(name)).files() - files))
            self.remove(old)

    def remove_prefix(self, prefix: str) -> None:
        """Remove all objects whose names begin with ``prefix``; errors are ignored."""
        with contextlib.suppress(Exception):
            found = self._system.ls(self._root, detail=False, refresh=True)
            self.remove([name for name in (PurePosixPath(path).name for path in found) if name.startswith(prefix)])

    def commit(self, manifest: Manifest) -> bool:
        """Create the manifest of a generation; False if another writer has created it.

        Raises ``StoreError`` if it cannot be known whether it was created. Its files must not be removed then.
        """
        content, name = manifest.encode(), f"{_GENERATIONS}/{manifest.generation:06d}.json"
        try:
            with self._errors("write", name):
                self._system.pipe_file(f"{self._root}/{name}", content, mode="create")
        except (FileExistsError, StoreError) as error:
            # It may be ours: a request is repeated if its answer was lost. Names of files are random, so content tells.
            try:
                found = self.read(name)
            except StoreError:
                raise StoreError(
                    f"cannot write {self.address}/{name}, or cannot know that it was written; open the store again and "
                    f"look for your changes: {error}"
                ) from error
            if found != content:
                return False
        with contextlib.suppress(Exception):  # a copy for tools that do not know generations
            self._system.pipe_file(f"{self._root}/{MANIFEST}", content)
        return True

    @contextlib.contextmanager
    def _errors(self, doing: str, name: str = "") -> Iterator[None]:
        """Turn any exception of the file system into a :class:`StoreError`."""
        self.requests += 1
        try:
            yield
        except (StoreError, FileExistsError):
            raise
        except FileNotFoundError as error:
            if not name:
                raise
            raise StoreError(
                f"{self.address}/{name} does not exist: the store was replaced meanwhile, open it again"
            ) from error
        except Exception as error:
            where = f"{self.address}/{name}".rstrip("/")
            raise StoreError(f"cannot {doing} {where}: {str(error) or type(error).__name__}") from error


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
        raise StoreError(f"cannot open {address}: {error}") from error
    return system, root.rstrip("/")
