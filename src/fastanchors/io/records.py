"""Split delimited text into records (RFC 4180): a quoted field may span several lines.

Lines may end in LF, CRLF or CR (old Macintosh files).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import IO

import numpy as np
from numpy.typing import NDArray

from .._jit import jit
from .decoding import BOM
from .numbers import CHUNK, line_chunks, malformed

__all__ = ["BLANKS", "record_chunks", "records", "split_fields"]

BLANKS = " \t"  # removed at both ends of a field, outside quotes; other white space may be part of a name
_BREAK = "\0"  # replaces a line break inside quotes
_LONGEST = 1 << 26  # bytes of a record with quotes


class _UnixLines:
    """Converts a file whose lines end in CR only to LF."""

    def __init__(self, file: IO[bytes]) -> None:
        self.file = file
        self.cr_only: bool | None = None

    def read(self, size: int) -> bytes:
        data = self.file.read(size)
        if self.cr_only is None:
            self.cr_only = b"\r" in data and b"\n" not in data.removesuffix(b"\n")
        return data.replace(b"\r", b"\n") if self.cr_only else data


def record_chunks(file: IO[bytes], name: str, separator: str, size: int = CHUNK) -> Iterator[tuple[int, bytes]]:
    """(number of the first line, whole records, one per line) until the end of the file, without a byte-order mark.

    A record of several lines is joined into one and followed by blank lines, so that line numbers stay correct.
    """
    mark = ord(separator)
    begun, begun_at = b"", 1  # an incomplete record, whose quote is still open, and its line
    for line, chunk in line_chunks(_UnixLines(file), name, size=size):  # type: ignore[arg-type]
        if line == 1:
            chunk = chunk.removeprefix(BOM)
        if not begun and b'"' not in chunk:
            yield line, chunk
            continue
        text, first = (begun + chunk, begun_at) if begun else (chunk, line)
        out = np.empty(len(text) + text.count(b"\n"), np.uint8)
        used, taken = _join_lines(np.frombuffer(text, np.uint8), mark, out)
        begun, begun_at = text[taken:], first + text.count(b"\n", 0, taken)
        if len(begun) > _LONGEST:
            break
        if used:
            yield first, out[:used].tobytes()
    if begun:
        raise malformed(name, begun_at, "a quote is opened in this line and never closed")


def records(file: IO[bytes], name: str, separator: str | None) -> Iterator[tuple[int, bytes]]:
    """(number of the line, record) of every record that is not blank; without a separator quotes have no meaning."""
    chunks = (
        line_chunks(_UnixLines(file), name)  # type: ignore[arg-type]
        if separator is None
        else record_chunks(file, name, separator)
    )
    for first, chunk in chunks:
        for line, record in enumerate((chunk.removeprefix(BOM) if first == 1 else chunk).split(b"\n"), start=first):
            if record.strip():
                yield line, record


@jit
def _join_lines(text: NDArray[np.uint8], separator: int, out: NDArray[np.uint8]) -> tuple[int, int]:
    """Copy whole records, with line breaks inside quotes as NUL; returns bytes written, and bytes of ``text`` read.

    As in Python's ``csv``, a quote opens a field only at its beginning, and two quotes inside are one.
    """
    written = taken = done = joined = 0
    quoted = closed = False
    begins = True  # a field begins here
    for p in range(text.size):
        c = text[p]
        if quoted:
            closed = c == 34  # it may still be the first of two
            quoted = not closed
            if c == 10:
                c = np.uint8(0)
                joined += 1
        else:
            quoted = c == 34 and (begins or closed)
            closed = False
        out[written] = c
        written += 1
        if not quoted and c == 10:
            for _ in range(joined):
                out[written] = 10
                written += 1
            joined = 0
            taken, done = p + 1, written
        begins = not quoted and (c == 10 or c == separator)
    return done, taken


def split_fields(record: str, separator: str) -> list[str]:
    """The fields of one record of :func:`record_chunks`, as in Python's ``csv`` but of any length.

    Blanks at the ends of a field are removed, unless they are in quotes.
    """
    record = record.removesuffix("\r")
    if '"' not in record:
        return [field.strip(BLANKS) for field in record.split(separator)]
    fields, at = [], 0
    while True:
        text, quoted = "", record.startswith('"', at)
        if quoted:
            text, at = _quoted(record, at + 1)
        end = record.find(separator, at)
        end = len(record) if end < 0 else end
        rest = record[at:end].rstrip(BLANKS)
        fields.append((text + (rest if quoted else rest.lstrip(BLANKS))).replace(_BREAK, "\n"))
        if end == len(record):
            return fields
        at = end + 1


def _quoted(record: str, at: int) -> tuple[str, int]:
    """The text from ``at`` to the closing quote, with double quotes as one, and the position after that quote."""
    parts: list[str] = []
    while True:
        end = record.find('"', at)
        if end < 0:
            return "".join([*parts, record[at:]]), len(record)
        parts.append(record[at:end])
        if not record.startswith('""', end):
            return "".join(parts), end + 1
        parts.append('"')
        at = end + 2
