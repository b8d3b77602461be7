"""Inputs of commands: paths, addresses, and standard input or pipes, which are copied to a temporary file first."""

from __future__ import annotations

import gzip
import re
import shutil
import sys
import zlib
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

import click

from .._replacing import full_disk_errors
from ..io.addresses import is_address, path_of
from ..io.open import format_of_content
from ..io.scratch import TemporaryFolder
from ._options import FilePath

__all__ = ["ADDRESS", "FILE", "SCENE", "WORD_OR_FILE", "as_lines", "is_copy", "is_pipe"]

_STANDARD_INPUT = "fastanchors standard input"
_COPIES = ("fastanchors-standard-input-", "fastanchors-pipe-")
# First bytes of a stream -> the suffix of its copy; without one, the reader determines the format from the content.
_SUFFIXES = {
    b"\x93NUMPY": ".npy",
    b"PK\x03\x04": ".npz",
    b"%%Matrix": ".mtx",
    b"PAR1": ".parquet",
    b"MATLAB": ".mat",
    b"II*\0": ".tif",
    b"MM\0*": ".tif",
    b"CDF": ".nc",
    b"\x89HDF": "",
}
_GZIP = b"\x1f\x8b"
_HEAD = 1 << 16  # bytes that are examined
_JSON = re.compile(rb"\s*(\{\s*[\"}]|\[\s*[\"{])")
_JSON_LINES = re.compile(rb"\s*\{.*\}\s*\n\s*\{")  # an object on each line


class _File(FilePath):
    """An input: a path, a pipe, or ``-`` for standard input. ``hdf5`` is the suffix of a stream in HDF5."""

    def __init__(self, hdf5: str = "") -> None:
        super().__init__(path_type=Path)
        self._hdf5 = hdf5

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        copy = self._copy(value, param, ctx)
        return super().convert(value, param, ctx) if copy is None else copy

    def _copy(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path | None:
        """A temporary file with the content of a stream, because a command may read it twice; None for other values."""
        if ctx is None or not value or is_address(value):
            return None
        if value == "-":
            if sys.stdin.isatty():
                self.fail("'-' reads standard input, which is a terminal; pipe a file into the command", param, ctx)
            if ctx.meta.setdefault(_STANDARD_INPUT, param) is not param:
                self.fail("'-' can be used only once: standard input is read to its end", param, ctx)
            return self._named(_copied(sys.stdin.buffer, "standard-input", ctx), param, ctx)
        if not is_pipe(value):
            return None
        with Path(value).open("rb") as pipe:
            return self._named(_copied(pipe, "pipe", ctx), param, ctx)

    def _named(self, path: Path, param: click.Parameter | None, ctx: click.Context) -> Path:
        """The copy with the suffix of its content; text is taken as ``.csv``."""
        with path.open("rb") as file:
            head = file.read(_HEAD)
        if re.match(rb"ENVI\s", head):
            self.fail("an ENVI image is two files, which a stream does not have; give the path of one", param, ctx)
        if head.startswith(_GZIP):
            return path.rename(path.with_suffix(_packed_suffix(path)))
        known = {**_SUFFIXES, b"\x89HDF": self._hdf5}
        found = [suffix for magic, suffix in known.items() if head.startswith(magic)]
        return path.rename(path.with_suffix(found[0] if found else _text_suffix(head)))


class _Address(_File):
    """An input that may also be an address such as ``s3://bucket/x.npy``."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        return path_of(value) if is_address(value) else super().convert(value, param, ctx)


class _WordOrFile(_File):
    """A word such as ``english`` or ``3,17,5``, or an input file; as text."""

    name = "text"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if value == "":
            self.fail("the name is empty", param, ctx)
        return str(self._copy(value, param, ctx) or value)


FILE = _File()
SCENE = _File(hdf5=".h5")
ADDRESS = _Address()
WORD_OR_FILE = _WordOrFile()


def _text_suffix(head: bytes) -> str:
    return ((".jsonl" if _JSON_LINES.match(head) else ".json") if _JSON.match(head) else None) or ".csv"


def _packed_suffix(path: Path) -> str:
    """The suffix of a compressed copy; none if the reader determines the format from the content."""
    if format_of_content(path) is not None:
        return ""
    with suppress(OSError, EOFError, zlib.error), gzip.open(path) as file:
        return f"{_text_suffix(file.read(_HEAD))}.gz"
    return ""


def is_pipe(value: str) -> bool:
    """Whether the name is that of a pipe, which can be read once."""
    try:
        return Path(value).is_fifo()
    except (OSError, ValueError):  # a name that is too long, or has a NUL
        return False


def _copied(stream: IO[bytes], name: str, ctx: click.Context) -> Path:
    """A temporary file with the rest of the stream."""
    folder = TemporaryFolder(name)
    ctx.find_root().call_on_close(folder.cleanup)  # also if another argument is refused, unlike the context itself
    path = Path(folder.name) / name
    with full_disk_errors(f"temporary files for {name.replace('-', ' ')}"), path.open("wb") as file:
        shutil.copyfileobj(stream, file)
    return path


def is_copy(path: Any) -> bool:
    """Whether the file is the copy of a stream."""
    return isinstance(path, Path) and path.parent.name.startswith(_COPIES)


def as_lines(path: Path, column: Any) -> Path:
    """A corpus: the copy of a stream of text has a document on each line, unless a column of a table is given."""
    if column is None and is_copy(path) and path.name.endswith((".csv", ".csv.gz")):
        return path.rename(path.with_name(path.name.replace(".csv", ".txt")))
    return path
