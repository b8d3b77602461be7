"""Build the script of the page from readable modules, without a bundler."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Sequence
from importlib.resources import files
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["MODULES", "embedded", "inlined", "packed", "policy", "read"]

# Each module comes after those it imports.
MODULES = (
    "nnls", "model", "dom", "lines", "words", "cards", "compare", "maps", "plot", "curve", "rows", "live", "memory",
    "main", "start",
)  # fmt: skip
_LARGEST = float(np.finfo(np.float32).max)
_IMPORT = re.compile(r"^import (\{[^}]*\}) from '\./(\w+)\.js';\n", re.MULTILINE)
_EXPORT = re.compile(r"^export (?=(?:async )?(?:function|class|const) (\w+))", re.MULTILINE)


def read(name: str) -> str:
    """The text of a file of this package."""
    return files(__package__).joinpath(name).read_text(encoding="utf-8")


def inlined(modules: Sequence[str] = MODULES) -> str:
    """The modules as one script: each in its own scope, with its imports by name."""
    parts = []
    for at, name in enumerate(modules):
        text = read(f"js/{name}.js")
        missing = {imported for _, imported in _IMPORT.findall(text)} - set(modules[:at])
        if missing:
            raise ValueError(f"{name}.js imports {', '.join(sorted(missing))}, which must come before it")
        body = _EXPORT.sub("", _IMPORT.sub(r"const \1 = modules.\2;\n", text))
        parts.append(f"modules.{name} = (() => {{\n{body}return {{ {', '.join(_EXPORT.findall(text))} }};\n}})();\n")
    return "(() => {\n'use strict';\nconst modules = {};\n" + "\n".join(parts) + "})();\n"


def embedded(data: Any) -> str:
    """JSON that is safe in a script element: it contains no ``<``, ``>`` or ``&``."""
    text = json.dumps(data, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def packed(values: NDArray[Any], kind: Any) -> str:
    """Numbers in little-endian order as base64 text; those beyond the range of single precision are its largest."""
    if kind == np.float32:
        values = np.clip(values, -_LARGEST, _LARGEST)
    numbers = np.ascontiguousarray(values, dtype=np.dtype(kind).newbyteorder("<"))
    return base64.b64encode(numbers.tobytes()).decode("ascii")


def policy(script: str, *, connect: bool = False) -> str:
    """The content security policy: only this script (by its hash) and the page's own styles are allowed."""
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode("ascii")
    return (
        f"default-src 'none'; script-src 'sha256-{digest}'; style-src 'unsafe-inline'; img-src data:; "
        f"connect-src '{'self' if connect else 'none'}'; "
        "base-uri 'none'; form-action 'none'"
    )
