"""Pages on disk: whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path

from .._replacing import replacing

__all__ = ["save"]


def save(path: str | os.PathLike[str], text: str) -> Path:
    """Write a page beside ``path`` and give it that name when it is complete."""
    target = Path(path)
    with replacing(target) as partial:
        partial.write_text(text, encoding="utf-8")
    return target
