"""Whether a store still lists the files that it listed when it was connected to.

Files of a directory are opened by path, possibly long after the manifest was read: by a task, or by a worker that
replaces a lost one. Meanwhile the store may have been built again, with files of the same names. A build exchanges the
directories in one step, so a file that was opened before the manifest is read belongs to this or an earlier state.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .._parallel import SharedLock
from .._signals import pass_on
from ..errors import StoreError
from .files import open_file
from .manifest import MANIFEST, Manifest

__all__ = ["check_listed"]

_KNOWN: dict[Path, tuple[tuple[int, ...], dict[str, bytes]]] = {}  # of the manifests read last
_MOST = 4
_reading = SharedLock()


def check_listed(folder: Path, description: Mapping[str, Any]) -> None:
    """Raise if the manifest there does not list a file, already opened, with this description any more."""
    with _reading:
        listed = _listed(folder)
    if listed.get(description["file"]) != _digest(description):
        raise StoreError(
            f"{folder} was replaced or compacted since it was connected to: {description['file']} is not the file that "
            "it had then; connect to it again"
        )


def _listed(folder: Path) -> dict[str, bytes]:
    """The files that the manifest lists now; it is read again only if it is another file."""
    try:
        with open_file(folder / MANIFEST) as file:  # opened, because network file systems keep what ``stat`` returns
            now = os.fstat(file.fileno())
    except OSError as error:
        pass_on(error)
        return _read(folder)  # raises
    same = (now.st_dev, now.st_ino, now.st_size, now.st_mtime_ns, now.st_ctime_ns)
    known, files = _KNOWN.pop(folder, ((), {}))
    if known != same:
        files = _read(folder)  # a later one if it is replaced here, which is then read once more
    _KNOWN[folder] = same, files
    for oldest in list(_KNOWN)[:-_MOST]:
        del _KNOWN[oldest]
    return files


def _read(folder: Path) -> dict[str, bytes]:
    return {description["file"]: _digest(description) for description in Manifest.read(folder).descriptions()}


def _digest(description: Mapping[str, Any]) -> bytes:
    """A short form of a description: a store has many files."""
    return hashlib.blake2b(json.dumps(description, sort_keys=True).encode(), digest_size=16).digest()
