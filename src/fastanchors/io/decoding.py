"""Decode text files, and hints in error messages."""

from __future__ import annotations

import codecs
import difflib
import json
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._signals import pass_on
from ..errors import InvalidInputError, StoreError

__all__ = ["BOM", "check_encoding", "decoded", "did_you_mean", "json_value", "missing", "texts_of"]

BOM = b"\xef\xbb\xbf"  # byte-order mark of UTF-8


def check_encoding(encoding: str, *, whole: bool = False) -> str:
    """Check that text in this encoding can be split into lines and fields as bytes (not UTF-16 or UTF-32).

    Unless the ``whole`` text is decoded at once, no byte may shift the meaning of those after it (ISO-2022, HZ, UTF-7).
    """
    try:
        plain = codecs.lookup(encoding).name == "utf-8-sig" or "\n,0\t".encode(encoding) == b"\n,0\t"
        if plain and not whole:
            decoder = codecs.getincrementaldecoder(encoding)
            plain = all(len(decoder("replace").decode(bytes([byte]))) == 1 for byte in range(128))
    except UnicodeError:  # of the codec "undefined"
        plain = False
    except (LookupError, ValueError):  # the second of a null character
        raise InvalidInputError(f"unknown encoding {encoding!r}; use for example 'utf-8' or 'latin-1'") from None
    if not plain:
        raise InvalidInputError(f"text in {encoding} cannot be read as a stream; save it as UTF-8")
    return "utf-8" if codecs.lookup(encoding).name == "utf-8-sig" else encoding


def decoded(data: bytes, encoding: str, name: str, where: str = "", also: str = "") -> str:
    """Decode ``data``; the error names the invalid byte and suggests an encoding."""
    try:
        return data.decode(encoding)
    except UnicodeDecodeError as error:
        if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            raise StoreError(f"{name} is in UTF-16; save it as UTF-8") from None
        place = f"{name}{where}, byte {error.start + 1}"
        cure = "save it as UTF-8, or pass its encoding, such as encoding='latin-1'"
        raise StoreError(f"{place}: {data[error.start]:#04x} is not {encoding} text; {cure}{also}") from None


def json_value(text: str) -> Any:
    """The value that JSON text has; raises ``ValueError``."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("the JSON is nested too deeply") from None


def did_you_mean(given: Any, known: Any) -> str:
    """``"; did you mean 'headline'?"`` for the most similar known name, or an empty string."""
    near = difflib.get_close_matches(str(given), [str(name) for name in known], n=1)
    return f"; did you mean {near[0]!r}?" if near else ""


def missing(path: Path, also: str = "") -> StoreError:
    """The error for a file that does not exist, with the most similar name in its directory."""
    if path.is_symlink():
        return StoreError(f"{path} is a link to {os.readlink(path)}, which does not exist{also}")
    try:
        near = difflib.get_close_matches(path.name, os.listdir(path.parent), n=1)
    except OSError as error:
        pass_on(error)
        near = []
    hint = f"; did you mean {path.with_name(near[0])}?" if near else ""
    return StoreError(f"{path} does not exist{hint}{also}")


def texts_of(array: NDArray[np.str_]) -> list[str]:
    """The texts of an array from a file; NumPy does not check that they are valid, and Python's functions need that."""
    flat = np.ascontiguousarray(array).reshape(-1)
    if flat.dtype.kind != "U":
        raise ValueError(f"texts have the type {flat.dtype}")
    flat = flat.astype(flat.dtype.newbyteorder("="), copy=False)
    if flat.size and flat.dtype.itemsize and flat.view(np.uint32).max() > sys.maxunicode:
        raise ValueError("a text has an invalid character")
    return [str(text) for text in flat]
