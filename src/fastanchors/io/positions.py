"""Read and write bytes at positions of a file that several threads, or a process and its forks, may use at once."""

from __future__ import annotations

import os
import threading
from typing import IO, Any

__all__ = ["read_bytes", "write_all", "write_bytes"]

_LOCK = threading.Lock()  # where the system has no such calls: the position is common to all who use the file


def read_bytes(file: IO[bytes], at: int, count: int) -> bytes:
    """``count`` bytes from ``at`` on; fewer if the file ends before."""
    if not hasattr(os, "pread"):
        with _LOCK:
            file.seek(at)
            return file.read(count)
    pieces = []
    while count > 0 and (piece := os.pread(file.fileno(), count, at)):
        pieces.append(piece)
        at, count = at + len(piece), count - len(piece)
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def write_bytes(file: IO[bytes], at: int, data: bytes) -> None:
    """Write ``data`` from ``at`` on; the file must not be written to in another way."""
    if not hasattr(os, "pwrite"):
        with _LOCK:
            file.seek(at)
            file.write(data)
            file.flush()
        return
    write_all(file.fileno(), data, at)


def write_all(file: int, piece: Any, at: int) -> int:
    """Write bytes to a place in a file; returns their number."""
    view = memoryview(piece).cast("B")
    done = 0
    while done < len(view):
        done += os.pwrite(file, view[done : done + (1 << 26)], at + done)
    return done
