"""Text in files: bytes as words, or an error that names the place and the cure; files that are not there."""

from __future__ import annotations

import codecs
import difflib
import os
from pathlib import Path
from typing import Any

from ..errors import InvalidInputError, StoreError

__all__ = ["BOM", "check_encoding", "decoded", "did_you_mean", "missing"]

BOM = b"\xef\xbb\xbf"  # the mark some programs put before UTF-8 text


def check_encoding(encoding: str) -> str:
    """The encoding, if text in it can be split into lines and fields as bytes (not so UTF-16 and UTF-32)."""
    try:
        plain = codecs.lookup(encoding).name == "utf-8-sig" or "\n,0\t".encode(encoding) == b"\n,0\t"
    except LookupError:
        raise InvalidInputError(f"unknown encoding {encoding!r}; such as 'utf-8', 'latin-1', 'cp1252'") from None
    if not plain:
        raise InvalidInputError(f"text in {encoding} cannot be read as a stream; save it as UTF-8")
    return "utf-8" if codecs.lookup(encoding).name == "utf-8-sig" else encoding


def decoded(data: bytes, encoding: str, name: str, where: str = "", also: str = "") -> str:
    """The text of ``data``; the error says which byte of what is wrong, and how to read it instead."""
    try:
        return data.decode(encoding)
    except UnicodeDecodeError as error:
        if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            raise StoreError(f"{name} is in UTF-16; save it as UTF-8") from None
        place = f"{name}{where}, byte {error.start + 1}"
        cure = "save it as UTF-8, or say what it is in, such as encoding='latin-1'"
        raise StoreError(f"{place}: {data[error.start]:#04x} is not {encoding} text; {cure}{also}") from None


def did_you_mean(given: str, known: Any) -> str:
    """``"; did you mean 'headline'?"`` for the nearest of the known names, or nothing."""
    near = difflib.get_close_matches(given, [str(name) for name in known], n=1)
    return f"; did you mean {near[0]!r}?" if near else ""


def missing(path: Path, also: str = "") -> StoreError:
    """The error for a file that is not there, with the nearest name beside it."""
    try:
        near = difflib.get_close_matches(path.name, os.listdir(path.parent), n=1)
    except OSError:
        near = []
    hint = f"; did you mean {path.with_name(near[0])}?" if near else ""
    return StoreError(f"{path} does not exist{hint}{also}")
