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
from ..io.positions import write_all
from .files import (
    CLOSE_ON_EXEC,
    NO_LINKS,
    close_descriptor,
    create_file,
    disk_errors,
    read_file,
    state_of,
    sync_directory,
)

__all__ = ["Journal", "Record", "read_journal"]

MAGIC = b"FASTANCH"
HEAD = struct.Struct("<8sIQI")  # magic, version, generation, crc32 of what comes before
SLOT = struct.Struct("<QQI")  # commits, committed length of the file, crc32
FRAME = struct.Struct("<QQII")  # number of the commit, payload length, crc32 of the payload, crc32 of the frame
SLOTS = (32, 64)  # where the two slots are
START = 128  # where records begin
_PIECE = 1 << 20  # bytes that are read at a time to compare them


class Record(NamedTuple):
    """One commit: its number and its payload, a part of the content of the file."""

    number: int
    payload: memoryview


class State(NamedTuple):
    """What was read from a journal.

    ``frames`` identifies the history: the checksum of all frames, each of which has the checksum of its payload.
    ``before`` is the state of the file when reading began.
    """

    records: list[Record]
    end: int  # where the last committed record ends
    torn: int  # bytes after it
    head: bytes
    frames: int
    before: tuple[int, ...]


def read_journal(path: Path, generation: int, *, strict: bool = False) -> State:
    """All committed records. Raises on damage; with ``strict`` (verify) also on damage that does not affect reading."""
    before = state_of(os.stat(path, follow_symlinks=False))
    content = read_file(path)
    _check_head(content, path, generation)
    slots = [_slot(content, at) for at in SLOTS]
    known = [slot for slot in slots if slot is not None]
    if not known or (strict and content[96:START].strip(b"\0")):
        raise CorruptStoreError(f"{path}: its head is damaged; restore it from a copy")
    commits, committed_end = max(known)
    records: list[Record] = []
    end, frames = START, 0
    while True:
        record = _record(content, end, len(records) + 1)
        if record is None:
            break
        records.append(record)
        frames = _add_frame(frames, content[end : end + FRAME.size])
        end += FRAME.size + len(record.payload)
    if end < committed_end or len(records) < commits:
        raise CorruptStoreError(
            f"{path}: record {len(records) + 1} at byte {end} is damaged, though {commits} were committed; "
            "restore the journal from a copy"
        )
    if strict and len(known) < len(SLOTS):
        raise CorruptStoreError(
            f"{path}: its head is damaged in one of two slots, as a failed write leaves it; the records are whole, and "
            "fa.open(…, mode='r+') writes the slot again"
        )
    return State(records, end, len(content) - end, content[:START], frames, before)


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
    payload = memoryview(content)[start : start + length]
    return Record(number, payload) if zlib.crc32(payload) == payload_crc else None


class Journal:
    """The journal opened for writing at the state that was read, and truncated after its last commit."""

    _file: int | None = None

    def __init__(self, path: Path, state: State) -> None:
        self.path, self.end, self.commits, self.frames = path, state.end, len(state.records), state.frames
        # As this writer left them; None if unknown, after a write that failed.
        self._head: bytes | None = state.head
        self._known: tuple[int, ...] | None = state.before
        self._last, self._last_at = b"", START  # the frame of the last record, and where it is
        self._torn = any(_slot(state.head, at) is None for at in SLOTS)  # after a write that failed
        with disk_errors(path, "open the journal"):
            self._file = os.open(path, os.O_RDWR | CLOSE_ON_EXEC | NO_LINKS)
            try:
                self.check()
                if os.fstat(self._file).st_size > self.end:
                    os.ftruncate(self._file, self.end)
                    self._known = state_of(os.fstat(self._file))
                if state.records:
                    self._last_at = self.end - len(state.records[-1].payload) - FRAME.size
                    self._last = self._read(self._last_at, FRAME.size)
                if self._torn:
                    self._write_slots()
            except BaseException:
                self.close()
                raise

    def _read(self, at: int, length: int) -> bytes:
        assert self._file is not None
        content = b""
        while len(content) < length and (piece := os.pread(self._file, length - len(content), at + len(content))):
            content += piece
        return content

    def check(self) -> None:
        """Raise if commits would be lost because the file was replaced or changed, or would change a linked copy.

        The head and the last record are read each time, all records only if the times of the file have changed.
        """
        assert self._file is not None
        held = os.fstat(self._file)
        try:
            there = os.stat(self.path, follow_symlinks=False)
        except FileNotFoundError:
            there = None
        if there is None or not os.path.samestat(there, held):
            raise StoreError(f"{self.path} has been replaced or removed since it was opened; open the store again")
        if held.st_size < self.end or not self._unchanged(state_of(held)):
            raise StoreError(f"another program has changed {self.path} since it was opened; open the store again")
        if held.st_nlink > 1:
            raise StoreError(
                f"{self.path} has hard links, whose content a commit would change too; write to a copy of the store "
                "that has its own files"
            )

    def _unchanged(self, now: tuple[int, ...]) -> bool:
        """Whether the file has what this writer read and wrote; ``now`` is its state before it is read again."""
        head = self._read(0, START)
        if self._head not in (None, head):
            return False
        if now == self._known:  # other content of the same time would have another last record
            same = self._read(self._last_at, len(self._last)) == self._last
        else:
            same = self._frames_now() == self.frames
        if same:
            self._head, self._known = head, now
        return same

    def _frames_now(self) -> int | None:
        """The checksum of all frames as they are in the file; None if a record is damaged."""
        at, frames = START, 0
        while at < self.end:
            frame = self._read(at, FRAME.size)
            if len(frame) < FRAME.size:
                return None
            number, length, payload_crc, _ = FRAME.unpack(frame)
            at, frames, crc = at + FRAME.size, _add_frame(frames, frame), 0
            if frame != _encode_frame(number, length, payload_crc) or at + length > self.end:
                return None
            for start in range(at, at + length, _PIECE):
                crc = zlib.crc32(self._read(start, min(_PIECE, at + length - start)), crc)
            if crc != payload_crc:
                return None
            at += length
        return frames

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
        frame = _encode_frame(self.commits + 1, length, crc)
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
            self._last, self._last_at = frame, self.end
            self.end, self.commits, self.frames = at, self.commits + 1, _add_frame(self.frames, frame)
        self._write_slots()

    def _write_slots(self) -> None:
        """Write the committed length to the next slot, or to both if one may be torn.

        The records are durable, so this may not fail: slots only help to detect damage.
        """
        assert self._file is not None
        places = SLOTS if self._torn else (SLOTS[self.commits % 2],)
        head, self._head, self._known, self._torn = self._head, None, None, True
        with contextlib.suppress(OSError):
            for place in places:
                slot = _encode_slot(self.commits, self.end)
                write_all(self._file, slot, place)
                head = head and head[:place] + slot + head[place + len(slot) :]
            self._head, self._torn = head, False
            self._known = state_of(os.fstat(self._file))

    def close(self) -> None:
        if self._file is not None:
            file, self._file = self._file, None
            close_descriptor(file)

    def __del__(self, ending: Callable[[], bool] = sys.is_finalizing) -> None:
        if not ending():  # then modules are empty already, and the system closes it
            self.close()


def _add_frame(frames: int, frame: bytes) -> int:
    """The checksum of frames, with one more; without its own checksum, because the CRC of all of it is a constant."""
    return zlib.crc32(frame[:-4], frames)


def _encode_frame(number: int, length: int, crc: int) -> bytes:
    body = struct.pack("<QQI", number, length, crc)
    return body + struct.pack("<I", zlib.crc32(body))


def _encode_slot(commits: int, length: int) -> bytes:
    body = struct.pack("<QQ", commits, length)
    return body + struct.pack("<I", zlib.crc32(body))
