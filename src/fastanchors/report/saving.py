"""Pages on disk: whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["save"]


def save(path: str | os.PathLike[str], text: str) -> Path:
    """Write a page beside ``path`` and give it that name when it is complete."""
    target = Path(path)
    partial = target.with_name(f".{target.name}.partial-{os.getpid()}")
    try:
        partial.write_text(text, encoding="utf-8")
        os.replace(partial, target)
    finally:
        partial.unlink(missing_ok=True)
    return target
