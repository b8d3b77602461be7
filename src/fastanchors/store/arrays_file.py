"""Files of named flat arrays: write, map and check them.

Arrays are stored one after the other, little-endian, each beginning at a multiple of 64 bytes, so that they can be
mapped. Their types, shapes, offsets and CRC-32 checksums are in the *description* of the file, which is part of the
manifest or of a record of the journal: see ``docs/format.md``.
"""

from __future__ import annotations

import errno
import mmap
import os
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import CorruptStoreError, StoreError
from .files import content_state, create_file, disk_error, disk_errors, open_file, remove_file
from .layout import ALIGN

__all__ = ["check_arrays", "map_arrays", "write_arrays"]

_CRC_PIECE = 1 << 26


def write_arrays(path: Path, arrays: Mapping[str, NDArray[Any]], *, durable: bool = True) -> dict[str, Any]:
    """Write ``arrays`` to a new file, sync it and return its description (JSON-ready).

    If writing fails, the file is removed. ``durable=False`` skips the sync, for temporary files.
    """
    entries: dict[str, Any] = {}
    offset = 0
    with disk_errors(path, "write"):
        file = create_file(path)
    try:
        with disk_errors(path, "write"), file:
            for name, array in arrays.items():
                array = np.ascontiguousarray(array)
                flat = array.astype(array.dtype.newbyteorder("<"), copy=False).reshape(-1).view(np.uint8)
                pad = -(offset + flat.size) % ALIGN
                _write(file, flat)
                file.write(bytes(pad))
                entries[name] = {
                    "dtype": array.dtype.newbyteorder("<").str,
                    "shape": list(array.shape),
                    "offset": offset,
                    "crc32": zlib.crc32(bytes(pad), _crc(flat)),
                }
                offset += flat.size + pad
            file.flush()
            if durable:
                os.fsync(file.fileno())
    except BaseException:
        remove_file(path)
        raise
    return {"file": path.name, "bytes": offset, "arrays": entries}


def _write(file: Any, flat: NDArray[np.uint8]) -> None:
    for start in range(0, flat.size, _CRC_PIECE):
        file.write(flat[start : start + _CRC_PIECE].data)


def _crc(flat: NDArray[np.uint8]) -> int:
    crc = 0
    for start in range(0, flat.size, _CRC_PIECE):
        crc = zlib.crc32(flat[start : start + _CRC_PIECE].data, crc)
    return crc


def map_arrays(
    folder: Path,
    description: Mapping[str, Any],
    *,
    shared: bool = False,
    states: dict[str, tuple[int, ...]] | None = None,
) -> dict[str, NDArray[Any]]:
    """The arrays of a file, mapped copy-on-write: changes stay in this process. With ``shared`` they go to the file.

    The state of the file (:func:`.files.content_state`) is put into ``states`` under its name.

    Raises ``FileNotFoundError`` if the file does not exist any more (a compaction replaced it).
    """
    path = folder / description["file"]
    try:
        content, state = _map(path, shared)
    except OSError as error:
        if error.errno != errno.EMFILE or not _allow_more_files():
            raise
        content, state = _map(path, shared)
    size = len(content)
    if size != description["bytes"]:
        raise CorruptStoreError(
            f"{path} has {size} bytes, the manifest says {description['bytes']}: it is truncated or foreign"
        )
    if states is not None:
        states[path.name] = state
    arrays = {}
    for name, entry in description["arrays"].items():
        dtype = np.dtype(entry["dtype"])
        count = 1
        for length in entry["shape"]:
            count *= length
        if entry["offset"] + count * dtype.itemsize > size:
            raise CorruptStoreError(f"{path}: array {name!r} lies beyond the end of the file")
        flat = np.frombuffer(content, dtype, count, entry["offset"]) if count else np.empty(0, dtype)
        arrays[name] = flat.reshape(entry["shape"])
    return arrays


def _map(path: Path, shared: bool) -> tuple[Any, tuple[int, ...]]:
    """The content of a file, and its state before that."""
    with open_file(path, write=shared) as file:
        there = os.fstat(file.fileno())
        access = mmap.ACCESS_WRITE if shared else mmap.ACCESS_COPY
        content = mmap.mmap(file.fileno(), 0, access=access) if there.st_size else bytearray()
        return content, content_state(there)


def _allow_more_files() -> bool:
    """Raise the limit of open files of this process: a map keeps its file open, and a store may have many shards."""
    import resource  # not available on Windows, which has no stores

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == hard:
        return False
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return True


def check_arrays(folder: Path, description: Mapping[str, Any]) -> None:
    """Read the whole file and compare every checksum; the error names the file and the array.

    Raises ``FileNotFoundError`` if the file does not exist, and ``StoreError`` if the disk fails: it may be sound then.
    """
    path = folder / description["file"]
    try:
        with open_file(path) as file:
            size = os.fstat(file.fileno()).st_size
            content = np.memmap(file, np.uint8, "r") if size else np.empty(0, np.uint8)
    except (FileNotFoundError, StoreError):
        raise
    except OSError as error:
        raise disk_error(path, "read", error) from error
    except ValueError as error:  # it becomes shorter meanwhile
        raise CorruptStoreError(f"cannot read {path}: {error}") from error
    if content.size != description["bytes"]:
        raise CorruptStoreError(f"{path} has {content.size} bytes, the manifest says {description['bytes']}")
    entries = sorted(description["arrays"].items(), key=lambda item: item[1]["offset"])
    if not entries:
        if content.size:
            raise CorruptStoreError(f"{path} has {content.size} bytes, but the manifest names no array in it")
        return
    ends = [entry["offset"] for _, entry in entries[1:]] + [content.size]
    for (name, entry), end in zip(entries, ends, strict=True):
        if _crc(content[entry["offset"] : end]) != entry["crc32"]:
            raise CorruptStoreError(f"{path}: the checksum of array {name!r} does not match; restore it from a copy")
