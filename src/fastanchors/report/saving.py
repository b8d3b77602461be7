"""Write pages to disk atomically."""

from __future__ import annotations

import os
from pathlib import Path

from .._replacing import replacing
from ..io.addresses import path_to_write

__all__ = ["save"]


def save(path: str | os.PathLike[str], text: str) -> Path:
    """Write a page to a temporary file beside ``path``, and rename it when it is complete."""
    target = path_to_write(path)
    with replacing(target) as partial:
        partial.write_text(text, encoding="utf-8", errors="replace")  # lone surrogates
    return target
