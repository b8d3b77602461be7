"""Parse numbers from text, fast, with line numbers in errors.

One pass over a chunk of bytes turns tokens into float64. Short decimals (digits up to 2⁵³, a power of ten of at most
22) are exact with one multiplication or division. All other tokens are parsed by Python's ``float``, so every result is
correctly rounded.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._jit import jit
from .._signals import pass_on
from ..errors import StoreError
from .addresses import openable

__all__ = [
    "CHUNK",
    "Numbers",
    "check_line_count",
    "line_chunks",
    "malformed",
    "open_bytes",
    "parse_numbers",
    "piece_bytes",
    "read_line",
]

CHUNK = 1 << 21
LONGEST_LINE = 1 << 28  # bytes; a file with a longer line is not a text file
_GZIP_RATIO = 1032  # largest compression ratio of deflate
_POWERS = np.array([float(10**e) for e in range(23)])


class Numbers(NamedTuple):
    """All numbers of a piece of text in order, and the count per line."""

    values: NDArray[np.float64]
    counts: NDArray[np.int32]


def malformed(name: str, line: int, what: str) -> StoreError:
    """The error for a malformed text file."""
    return StoreError(f"{name}, line {line}: {what}")


def open_bytes(path: Path) -> IO[bytes]:
    """Open a file as bytes; a gzip file is decompressed."""
    try:
        file = path.open("rb")
        if file.read(2) == b"\x1f\x8b":
            file.close()
            return gzip.open(openable(path), "rb")
        file.seek(0)
    except OSError as error:
        pass_on(error)
        raise StoreError(f"cannot read {path}: {error.strerror or error}") from error
    return file


def check_line_count(path: Path, lines: int, line_bytes: int, name: str) -> None:
    """Raise if a header states more lines, of at least ``line_bytes`` each, than fit into the file."""
    with open_bytes(path) as file:
        packed = isinstance(file, gzip.GzipFile)
    size = path.stat().st_size * (_GZIP_RATIO if packed else 1)
    if lines * line_bytes > size + line_bytes:
        raise StoreError(f"{name}: the header states {lines} entries, more than the file can hold: it is truncated")


def piece_bytes(max_bytes: int) -> int:
    """Bytes of text to read at a time for blocks of ``max_bytes``; parsing needs about ten times that."""
    return min(CHUNK, max(1 << 16, max_bytes // 16))


def read_line(file: IO[bytes], name: str, number: int) -> bytes:
    """The next line; raises at the end of the file."""
    try:
        line = file.readline(LONGEST_LINE)
    except (EOFError, OSError, zlib.error) as error:
        pass_on(error)
        raise malformed(name, number, f"the compressed file is truncated or damaged ({error})") from error
    if not line:
        raise malformed(name, number, "the file ends inside its header")
    if len(line) == LONGEST_LINE:
        raise malformed(name, number, f"a line of more than {LONGEST_LINE:,} bytes; this is not a text file")
    return line


def line_chunks(file: IO[bytes], name: str, first_line: int = 1, size: int = CHUNK) -> Iterator[tuple[int, bytes]]:
    """(number of the first line, whole lines) until the end of the file."""
    rest: list[bytes] = []  # the beginning of an incomplete line
    held = 0
    line = first_line
    while True:
        try:
            data = file.read(size)
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise malformed(name, line, f"the compressed file is truncated or damaged ({error})") from error
        except OSError as error:
            pass_on(error)
            raise StoreError(f"cannot read {name}: {error.strerror or error}") from error
        if not data:
            break
        cut = data.rfind(b"\n") + 1
        if not cut:
            rest.append(data)
            held += len(data)
            if held > LONGEST_LINE:
                raise malformed(name, line, f"a line of more than {LONGEST_LINE:,} bytes; this is not a text file")
            continue
        chunk = b"".join([*rest, data[:cut]])
        rest, held = [data[cut:]], len(data) - cut
        yield line, chunk
        line += chunk.count(b"\n")
    if held:
        yield line, b"".join([*rest, b"\n"])


def parse_numbers(text: bytes, *, separator: str = " ", strict: bool = False, name: str, first_line: int) -> Numbers:
    """All numbers in ``text`` (whole lines).

    With ``strict`` each separator ends a field, and an empty field is an error (tables); otherwise runs of blanks and
    separators count as one. The error for a token that is not a number has its line.
    """
    buffer = np.frombuffer(text, dtype=np.uint8)
    capacity = buffer.size // 2 + 2  # a token and what ends it are two bytes at least; the scan ends at an empty field
    values = np.empty(capacity)
    slow = np.empty((capacity, 3), dtype=np.int64)
    counts = np.empty(text.count(b"\n") + 1, dtype=np.int32)
    n, lines, n_slow = _scan(buffer, ord(separator), strict, _POWERS, values, slow, counts)
    for at, start, stop in slow[:n_slow].tolist():
        token = text[start:stop].strip()
        try:
            if token[:1] == b'"' == token[-1:] and len(token) > 1:
                token = token[1:-1]
            if b"_" in token:  # Python's float accepts 1_000
                raise ValueError
            values[at] = float(token)
        except ValueError:
            line = text.count(b"\n", 0, start)
            field = at - int(counts[:line].sum()) + 1
            shown = token[:40].decode("utf-8", "replace")
            what = f"{shown!r} is not a number" if token else "the value is missing"
            raise malformed(name, first_line + line, f"field {field}: {what}") from None
    return Numbers(values[:n], counts[:lines])


@jit
def _scan(
    buffer: NDArray[np.uint8],
    separator: int,
    strict: bool,
    powers: NDArray[np.float64],
    values: NDArray[np.float64],
    slow: NDArray[np.int64],
    counts: NDArray[np.int32],
) -> tuple[int, int, int]:
    n = lines = n_slow = fields = p = 0
    pending = False  # strict: a separator was read, a field must follow
    while p < buffer.size:
        c = buffer[p]
        if c == 10:
            if pending:
                break
            counts[lines] = fields
            lines += 1
            fields = 0
            pending = False
            p += 1
            continue
        if strict and c == separator:
            break
        if c == 32 or c == 9 or c == 13 or c == separator:
            p += 1
            continue
        start = p
        while p < buffer.size:
            c = buffer[p]
            if c == 10 or c == separator or c == 13 or (not strict and (c == 32 or c == 9)):
                break
            p += 1
        ok, value = _decimal(buffer, start, p, powers)
        values[n] = value
        if not ok:
            slow[n_slow, 0], slow[n_slow, 1], slow[n_slow, 2] = n, start, p
            n_slow += 1
        n += 1
        fields += 1
        pending = False
        if strict and p < buffer.size and buffer[p] == separator:
            pending = True
            p += 1
    if p < buffer.size:  # an empty field, which is an error
        slow[n_slow, 0], slow[n_slow, 1], slow[n_slow, 2] = n, p, p
        return n + 1, lines, n_slow + 1
    if fields:
        counts[lines] = fields
        lines += 1
    return n, lines, n_slow


@jit
def _decimal(buffer: NDArray[np.uint8], start: int, stop: int, powers: NDArray[np.float64]) -> tuple[bool, float]:
    p = start
    negative = buffer[p] == 45
    if negative or buffer[p] == 43:
        p += 1
    mantissa = np.int64(0)
    digits = 0
    exponent = 0
    while p < stop and 48 <= buffer[p] <= 57:
        mantissa = mantissa * 10 + (buffer[p] - 48)
        digits += 1
        p += 1
        if mantissa > 9007199254740992:
            return False, 0.0
    if p < stop and buffer[p] == 46:
        p += 1
        while p < stop and 48 <= buffer[p] <= 57:
            mantissa = mantissa * 10 + (buffer[p] - 48)
            digits += 1
            exponent -= 1
            p += 1
            if mantissa > 9007199254740992:
                return False, 0.0
    if digits == 0:
        return False, 0.0
    if p < stop and (buffer[p] == 101 or buffer[p] == 69):
        p += 1
        down = p < stop and buffer[p] == 45
        if down or (p < stop and buffer[p] == 43):
            p += 1
        power = 0
        first = p
        while p < stop and 48 <= buffer[p] <= 57 and power < 1000:
            power = power * 10 + (buffer[p] - 48)
            p += 1
        if p == first:
            return False, 0.0
        exponent += -power if down else power
    if p < stop or exponent < -22 or exponent > 22:
        return False, 0.0
    value = np.float64(mantissa)
    value = value / powers[-exponent] if exponent < 0 else value * powers[exponent]
    return True, -value if negative else value
