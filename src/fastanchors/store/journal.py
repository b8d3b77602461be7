"""The write-ahead journal: the changes since the manifest, one atomic record per commit.

A commit appends one record, with its length and checksums, and syncs the file. A record that a crash cut short was
never committed and is ignored. After the sync, the committed length is also written to one of two slots in the head of
the file, so that damage inside committed records can be distinguished from an incomplete last record.
"""

from __future__ import annotations

import contextlib
import os
import struct
import sys
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from ..errors import CorruptStoreError, StoreError
from .files import CLOSE_ON_EXEC, NO_LINKS, close_descriptor, create_file, disk_errors, open_file, sync_directory

__all__ = ["Journal", "Record", "read_journal", "write_all"]

MAGIC = b"FASTANCH"
HEAD = struct.Struct("<8sIQI")  # magic, version, generation, crc32 of what comes before
SLOT = struct.Struct("<QQI")  # commits, committed length of the file, crc32
FRAME = struct.Struct("<QQII")  # number of the commit, payload length, crc32 of the payload, crc32 of the frame
SLOTS = (32, 64)  # where the two slots are
START = 128  # where records begin


class Record(NamedTuple):
    """One commit: its number and its payload."""

    number: int
    payload: bytes


class _State(NamedTuple):
    records: list[Record]
    end: int  # where the last committed record ends
    torn: int  # bytes after it


def read_journal(path: Path, generation: int, *, strict: bool = False) -> _State:
    """All committed records. Raises on damage; with ``strict`` (verify) also on damage that does not affect reading."""
    with open_file(path) as file:
        content = file.read()
    _check_head(content, path, generation)
    slots = [_slot(content, at) for at in SLOTS]
    known = [slot for slot in slots if slot is not None]
    if not known or (strict and (len(known) < 2 or content[96:START].strip(b"\0"))):
        raise CorruptStoreError(f"{path}: its head is damaged; restore it from a copy")
    commits, committed_end = max(known)
    records: list[Record] = []
    end = START
    while True:
        record = _record(content, end, len(records) + 1)
        if record is None:
            break
        records.append(record)
        end += FRAME.size + len(record.payload)
    if end < committed_end or len(records) < commits:
        raise CorruptStoreError(
            f"{path}: record {len(records) + 1} at byte {end} is damaged, though {commits} were committed; "
            "restore the journal from a copy"
        )
    return _State(records, end, len(content) - end)


def _check_head(content: bytes, path: Path, generation: int) -> None:
    if len(content) < START or content[: len(MAGIC)] != MAGIC:
        raise CorruptStoreError(f"{path} is truncated or not a journal")
    head = content[: HEAD.size]
    _, version, found, crc = HEAD.unpack(head)
    if crc != zlib.crc32(head[:-4]):
        raise CorruptStoreError(f"{path}: its head is damaged; restore it from a copy")
    if version != 1 or found != generation:
        raise CorruptStoreError(f"{path} belongs to generation {found} of a store, not to {generation}")
    if content[HEAD.size : SLOTS[0]].strip(b"\0"):
        raise CorruptStoreError(f"{path}: its head is damaged; restore it from a copy")


def _slot(content: bytes, at: int) -> tuple[int, int] | None:
    raw = content[at : at + 32]
    commits, length, crc = SLOT.unpack(raw[: SLOT.size])
    whole = crc == zlib.crc32(raw[: SLOT.size - 4]) and not raw[SLOT.size :].strip(b"\0")
    return (commits, length) if whole else None


def _record(content: bytes, at: int, number: int) -> Record | None:
    frame = content[at : at + FRAME.size]
    if len(frame) < FRAME.size:
        return None
    found, length, payload_crc, crc = FRAME.unpack(frame)
    start = at + FRAME.size
    if crc != zlib.crc32(frame[:-4]) or found != number or start + length > len(content):
        return None
    payload = content[start : start + length]
    return Record(number, payload) if zlib.crc32(payload) == payload_crc else None


class Journal:
    """The journal opened for writing, truncated after its last commit."""

    def __init__(self, path: Path, end: int, commits: int) -> None:
        self.path, self.end, self.commits = path, end, commits
        self._file: int | None = None
        self._slots: bytes | None = None  # as this writer left them; None if unknown
        with disk_errors(path, "open the journal"):
            self._file = os.open(path, os.O_RDWR | CLOSE_ON_EXEC | NO_LINKS)
            try:
                self._slots = self._read_slots()
                self.check()
                if os.fstat(self._file).st_size > end:
                    os.ftruncate(self._file, end)
            except BaseException:
                self.close()
                raise

    def _read_slots(self) -> bytes:
        assert self._file is not None
        content = b""
        while piece := os.pread(self._file, START - SLOTS[0] - len(content), SLOTS[0] + len(content)):
            content += piece
        return content

    def check(self) -> None:
        """Raise if commits would be lost because the file was replaced or changed, or would change a linked copy."""
        assert self._file is not None
        held = os.fstat(self._file)
        try:
            there = os.stat(self.path, follow_symlinks=False)
        except FileNotFoundError:
            there = None
        if there is None or not os.path.samestat(there, held):
            raise StoreError(f"{self.path} has been replaced or removed since it was opened; open the store again")
        if held.st_size < self.end or self._slots not in (None, self._read_slots()):
            raise StoreError(f"another program has changed {self.path} since it was opened; open the store again")
        if held.st_nlink > 1:
            raise StoreError(
                f"{self.path} has hard links, whose content a commit would change too; write to a copy of the store "
                "that has its own files"
            )

    @staticmethod
    def create(path: Path, generation: int) -> None:
        """Create an empty journal and sync it."""
        head = HEAD.pack(MAGIC, 1, generation, 0)[:-4]
        content = bytearray(START)
        content[: HEAD.size] = head + struct.pack("<I", zlib.crc32(head))
        for at in SLOTS:
            content[at : at + SLOT.size] = _encode_slot(0, START)
        with disk_errors(path, "write"):
            with create_file(path) as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            sync_directory(path.parent)

    def commit(self, parts: list[Any]) -> None:
        """Append one record that consists of ``parts`` (bytes-like) and sync it, atomically."""
        if self._file is None:
            raise StoreError(f"the journal {self.path} is closed")
        length = sum(memoryview(part).nbytes for part in parts)
        crc = 0
        for part in parts:
            crc = zlib.crc32(part, crc)
        frame = struct.pack("<QQI", self.commits + 1, length, crc)
        frame += struct.pack("<I", zlib.crc32(frame))
        with disk_errors(self.path, "write"):
            try:
                at = self.end
                for piece in [frame, *parts]:
                    at += write_all(self._file, piece, at)
                (os.fdatasync if hasattr(os, "fdatasync") else os.fsync)(self._file)
            except BaseException:
                with contextlib.suppress(OSError):  # if it fails, the next commit overwrites it
                    os.ftruncate(self._file, self.end)
                raise
            self.end = at
            self.commits += 1
        # The record is durable, so nothing after this may fail. The slot only helps to detect damage.
        self._slots = None
        with contextlib.suppress(OSError):
            write_all(self._file, _encode_slot(self.commits, self.end), SLOTS[self.commits % 2])
            self._slots = self._read_slots()

    def close(self) -> None:
        if self._file is not None:
            file, self._file = self._file, None
            close_descriptor(file)

    def __del__(self, ending: Callable[[], bool] = sys.is_finalizing) -> None:
        if not ending():  # then modules are empty already, and the system closes it
            self.close()


def _encode_slot(commits: int, length: int) -> bytes:
    body = struct.pack("<QQ", commits, length)
    return body + struct.pack("<I", zlib.crc32(body))


def write_all(file: int, piece: Any, at: int) -> int:
    """Write bytes to a place in a file; returns their number."""
    view = memoryview(piece).cast("B")
    done = 0
    while done < len(view):
        done += os.pwrite(file, view[done : done + (1 << 26)], at + done)
    return done
