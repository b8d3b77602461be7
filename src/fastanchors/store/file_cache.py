"""Copies of files in object storage on the local disk; those that were not used for the longest time are removed.

Disks and memory can change bits of a copy. A file of arrays has checksums in the manifest, which are compared when this
process uses it for the first time, or after it was written again. A piece of a file has a checksum at its end, which is
compared whenever it is read. A copy that does not match is fetched again.
"""

from __future__ import annotations

import contextlib
import getpass
import os
import secrets
import tempfile
import time
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from .._signals import pass_on
from ..errors import InvalidInputError, StoreError
from .arrays_file import check_arrays

__all__ = ["FileCache", "check_copy"]

_LIMIT = 16_000_000_000
_CHECKSUM = 4  # bytes at the end of a piece
_checked: dict[Path, tuple[int, ...]] = {}  # copies that this process has compared, and the state that they had


class FileCache:
    """A directory of copies. Their names are hashes of what they are copies of, so a complete copy is never stale.

    Parameters
    ----------
    folder : path or None
        The directory; by default ``$FASTANCHORS_CACHE``, or one of this user in the system's temporary directory.
    limit : int or None
        Size limit in bytes; by default ``$FASTANCHORS_CACHE_BYTES``, or 16 GB.
    """

    def __init__(self, folder: str | os.PathLike[str] | None, limit: int | None) -> None:
        user = getattr(os, "getuid", getpass.getuser)()  # a user in a container may have a number, but no name
        self._default = Path(tempfile.gettempdir()) / f"fastanchors-cache-{user}"
        self.folder = Path(folder or os.environ.get("FASTANCHORS_CACHE") or self._default)
        self.limit = _given_limit() if limit is None else limit

    def path(self, name: str) -> Path:
        """The path of a copy, which need not exist."""
        return self.folder / f"{name}.bin"

    def has(self, file: Path, size: int) -> bool:
        """Whether there is a complete copy, which is then marked as recently used."""
        with self._errors():
            try:
                self._check_owner()
                known = file.stat()  # incomplete if the machine stopped while it was written
                with contextlib.suppress(PermissionError):  # a copy of another user
                    os.utime(file, ns=(time.time_ns(), known.st_mtime_ns))
            except FileNotFoundError:
                return False
            return known.st_size == size

    def has_sound(self, file: Path, description: Mapping[str, Any]) -> bool:
        """Whether there is a copy of a file of arrays with the right checksums."""
        if not self.has(file, description["bytes"]):
            return False
        with self._errors():
            try:
                state = _state_of(file)
                if _checked.get(file) != state:
                    check_copy(file, description)
                    _checked[file] = state
            except (StoreError, FileNotFoundError):  # also if it cannot be read: it is fetched again
                return False
        return True

    def note_sound(self, file: Path) -> None:
        """A copy of a file of arrays was compared with its checksums before it got its name."""
        with contextlib.suppress(OSError):
            _checked[file] = _state_of(file)

    def drop_unsound(self, file: Path, description: Mapping[str, Any]) -> None:
        """Compare a copy of a file of arrays with its checksums again, and remove it if it does not match."""
        _checked.pop(file, None)
        if not self.has_sound(file, description):
            with self._errors():
                file.unlink(missing_ok=True)

    def read(self, file: Path, size: int) -> bytes | None:
        """The content of a piece; None if it is missing, incomplete or damaged."""
        if not self.has(file, size + _CHECKSUM):
            return None
        with self._errors():
            try:
                content = file.read_bytes()
            except FileNotFoundError:  # removed meanwhile
                return None
        return content[:size] if content[size:] == _checksum(content[:size]) else None

    def write(self, file: Path, content: bytes) -> None:
        """Keep a piece."""
        with self.writing(file) as part:
            part.write_bytes(content + _checksum(content))

    @contextlib.contextmanager
    def writing(self, file: Path) -> Iterator[Path]:
        """The temporary name of a new copy, which gets its name at the end."""
        part = file.with_suffix(f".{secrets.token_hex(4)}.part")
        with self._errors():
            self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._check_owner()
            try:
                yield part
                os.replace(part, file)
            finally:
                part.unlink(missing_ok=True)

    def make_room(self, newest: Path) -> None:
        """Remove the least recently used files; maps of removed files stay valid."""
        files = []
        with contextlib.suppress(OSError):  # the copy is complete in any case
            for file in self.folder.glob("*.bin"):
                with contextlib.suppress(OSError):
                    files.append((file.stat().st_atime, file.stat().st_size, file))
        total = sum(size for _, size, _ in files)
        for _, size, file in sorted(files):
            if total <= self.limit or file == newest:
                break
            with contextlib.suppress(OSError):  # one of another user stays
                file.unlink(missing_ok=True)
                total -= size

    def _check_owner(self) -> None:
        """Anyone can create the default directory; do not read what others put there."""
        if self.folder == self._default and hasattr(os, "getuid") and os.lstat(self.folder).st_uid != os.getuid():
            raise StoreError(
                f"the cache {self.folder} belongs to another user; set FASTANCHORS_CACHE to a directory of yours"
            )

    @contextlib.contextmanager
    def _errors(self) -> Iterator[None]:
        """Turn an ``OSError`` into a :class:`StoreError` that names the cache."""
        try:
            yield
        except StoreError:
            raise
        except OSError as error:
            pass_on(error)
            reason = error.strerror or str(error)
            raise StoreError(
                f"cannot use the cache {self.folder}: {reason}; set FASTANCHORS_CACHE to a directory with room"
            ) from error


def check_copy(file: Path, description: Mapping[str, Any]) -> None:
    """Raise ``CorruptStoreError`` if a file of arrays does not match its description."""
    check_arrays(file.parent, {**description, "file": file.name})


def _checksum(content: bytes) -> bytes:
    return zlib.crc32(content).to_bytes(_CHECKSUM, "little")


def _state_of(file: Path) -> tuple[int, ...]:
    """What changes if a copy is written again; its use changes the time of access only."""
    known = file.stat()
    return known.st_ino, known.st_size, known.st_mtime_ns


def _given_limit() -> int:
    """The size limit of the environment, or the default."""
    given = os.environ.get("FASTANCHORS_CACHE_BYTES", "")
    if given and not given.isdecimal():
        raise InvalidInputError(f"FASTANCHORS_CACHE_BYTES must be a number of bytes, got {given!r}")
    return int(given or _LIMIT)
