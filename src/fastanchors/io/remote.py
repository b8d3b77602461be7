"""Sources in object storage and on other file systems, by their address: ``s3://bucket/x.npy``, ``memory://…``.

fsspec opens them; readers read the blocks they need, as from a local file, and nothing is copied to disk.
"""

from __future__ import annotations

from pathlib import Path, PurePosixPath
from typing import IO, Any

from ..errors import MissingExtraError, StoreError

__all__ = ["RemotePath", "is_address", "openable", "path_of"]

#: formats that are read in order or by pieces; the libraries behind the others want a local file
STREAMED = ("npy", "npz", "mtx", "csv", "parquet", "ldac", "docword")


def is_address(source: Any) -> bool:
    """Whether ``source`` is the address of something fsspec opens."""
    return isinstance(source, str) and "://" in source


def path_of(source: Any) -> Any:
    """A local path, or a :class:`RemotePath` for an address; ``file://`` is local."""
    if not is_address(source):
        return Path(source)
    try:
        from fsspec.core import url_to_fs
    except ImportError as error:
        raise MissingExtraError(f"reading {source} needs fsspec: pip install 'fastanchors[dask]'") from error
    try:
        system, path = url_to_fs(source)
    except (ImportError, ValueError, OSError) as error:
        raise StoreError(f"cannot read {source}: {error}") from error
    if "file" in ((system.protocol,) if isinstance(system.protocol, str) else system.protocol):
        return Path(path)
    return RemotePath(source, system, path)


class RemotePath:
    """What readers ask of a ``pathlib.Path``, for an address."""

    def __init__(self, address: str, system: Any, path: str) -> None:
        self._address, self._system, self._path = address, system, path
        pure = PurePosixPath(path)
        self.name, self.suffix, self.suffixes = pure.name, pure.suffix, pure.suffixes

    def __str__(self) -> str:
        return self._address

    __repr__ = __str__

    def exists(self) -> bool:
        return bool(self._system.exists(self._path))

    def is_dir(self) -> bool:
        return bool(self._system.isdir(self._path))

    def open(self, mode: str = "rb") -> IO[bytes]:
        return self._system.open(self._path, mode)


def openable(path: Any) -> Any:
    """What libraries that take a path or a file are given."""
    return path if isinstance(path, Path) else path.open("rb")
