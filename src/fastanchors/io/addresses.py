"""Addresses of sources in object storage and on other file systems: ``s3://bucket/x.npy``, ``memory://…``.

fsspec opens them. Readers read the blocks they need, as from a local file; nothing is copied to disk.
"""

from __future__ import annotations

import errno
import io
import os
from collections.abc import Callable
from pathlib import Path, PurePosixPath
from typing import IO, Any, NamedTuple
from urllib.parse import unquote

from .._replacing import check_target
from .._signals import pass_on
from ..errors import InvalidTypeError, MissingExtraError, StoreError, one_line

__all__ = ["RemotePath", "exists", "is_address", "is_local", "local_path", "openable", "path_of", "path_to_write"]

#: formats that can be read from an address; the libraries for the others need a local file
STREAMED = ("npy", "npz", "mtx", "csv", "parquet", "ldac", "docword")

_ABSENT = {errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.EINVAL, errno.EBADF}  # nothing is there


def is_address(source: Any) -> bool:
    """Whether ``source`` is an address (``scheme://…``)."""
    return isinstance(source, str) and "://" in source


def is_local(address: str) -> bool:
    """Whether an address names a local file: ``file://…`` or ``local://…``."""
    return address.lower().startswith(("file://", "local://"))


def _file_path(address: str) -> Path:
    """The path of ``file://…``: as written if it exists, else with ``%20`` and the like decoded."""
    written = address.partition("://")[2].removeprefix("localhost")
    if not written:
        raise StoreError(f"{address} names no path")
    return _plain_path(written if os.path.exists(written) else unquote(written))


def _plain_path(path: Any) -> Path:
    """``path`` as a ``Path``; raises if the system does not support it."""
    try:
        plain = Path(path)
        if b"\0" in os.fsencode(plain):
            raise StoreError(f"{str(path)!r} is not a path: it contains a null character")
    except TypeError:
        raise InvalidTypeError(f"a path is expected, got {type(path).__name__}") from None
    except UnicodeEncodeError:
        raise StoreError(f"{str(path)!r} is not a path: it contains a lone surrogate") from None
    _check_reachable(plain)
    return plain


def _check_reachable(path: Path) -> None:
    """Raise if the system cannot say what is there: the path is too long, or in a folder that is closed to the user."""
    try:
        os.lstat(path)
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            raise StoreError(f"{str(path)[:40]!r}… is longer than a path or a name may be here") from None
        pass_on(error)
        if error.errno not in _ABSENT:
            raise StoreError(f"cannot reach {path}: {error.strerror}") from error


def exists(path: Any) -> bool:
    """Whether there is a file or folder; raises a ``StoreError`` if the system cannot say."""
    try:
        return bool(path.exists())
    except OSError as error:
        if isinstance(error, StoreError):
            raise
        pass_on(error)
        raise StoreError(f"cannot reach {path}: {error.strerror}") from error


def local_path(path: Any) -> Path:
    """The path of a local file or store, which may be given as ``file://…``; raises for other addresses."""
    if not is_address(path):
        return _plain_path(path)
    if is_local(path):
        return _file_path(path)
    raise StoreError(
        f"{path} is an address, but this needs a file or a store on this machine; pass its path. "
        "A table at an address is read by fa.build(address, path)"
    )


def path_to_write(path: Any) -> Path:
    """The path of a local file to write; raises where something else is, such as a folder."""
    target = local_path(path)
    check_target(target)
    return target


def path_of(source: Any) -> Any:
    """A local path, or a :class:`RemotePath` for an address; ``file://`` is local."""
    if isinstance(source, RemotePath):
        return source
    if not is_address(source):
        return _plain_path(source)
    if is_local(source):
        return _file_path(source)
    scheme, _, rest = source.partition("://")
    source = f"{scheme.lower()}://{rest}"
    try:
        from fsspec.core import url_to_fs
    except ImportError as error:
        raise MissingExtraError(f"reading {source} needs fsspec: pip install 'fastanchors[dask]'") from error
    try:
        system, path = url_to_fs(source)
    except (ImportError, ValueError, OSError) as error:
        pass_on(error)
        raise StoreError(f"cannot read {source}: {error}") from error
    return RemotePath(source, system, path)


class _Size(NamedTuple):
    """The part of ``os.stat_result`` that readers use."""

    st_size: int


class RemotePath:
    """The part of the interface of ``pathlib.Path`` that readers use, for an address."""

    def __init__(self, address: str, system: Any, path: str) -> None:
        self._address, self._system, self._path = address, system, path
        pure = PurePosixPath(path)
        self.name, self.stem, self.suffix, self.suffixes = pure.name, pure.stem, pure.suffix, pure.suffixes

    def __str__(self) -> str:
        return self._address

    __repr__ = __str__

    def _ask(self, question: Callable[[str], Any]) -> Any:
        """The answer of the file system on this address; its exceptions become a ``StoreError``."""
        try:
            return question(self._path)
        except FileNotFoundError:
            raise
        except Exception as error:  # of any package: file systems have exceptions of their own
            pass_on(error)
            raise StoreError(f"cannot read {self._address}: {one_line(str(error) or type(error).__name__)}") from error

    def exists(self) -> bool:
        return bool(self._ask(self._system.exists))

    def is_dir(self) -> bool:
        return bool(self._ask(self._system.isdir))

    def is_file(self) -> bool:
        return bool(self._ask(self._system.isfile))

    def absolute(self) -> RemotePath:
        return self

    def __truediv__(self, name: str) -> RemotePath:
        return RemotePath(f"{self._address}/{name}", self._system, f"{self._path}/{name}")

    def with_name(self, name: str) -> RemotePath:
        """Another file beside this one."""
        address, path = (text[: len(text) - len(self.name)] + name for text in (self._address, self._path))
        return RemotePath(address, self._system, path)

    def read_text(self, encoding: str = "utf-8") -> str:
        with self.open() as file:
            return file.read().decode(encoding)

    def stat(self) -> _Size:
        return _Size(int(self._ask(self._system.size) or 0))

    def open(self, mode: str = "rb") -> IO[bytes]:
        file = self._system.open(self._path, mode)
        # Files of fsspec have no limit of a line, as files of Python have.
        return file if isinstance(file, io.BufferedIOBase) or mode != "rb" else io.BufferedReader(file)


def openable(path: Any) -> Any:
    """The argument for libraries that take a path or a file object."""
    return path if isinstance(path, Path) else path.open("rb")
