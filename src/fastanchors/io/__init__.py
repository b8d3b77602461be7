"""Readers of files and other sources: each yields the rows of a matrix in bounded blocks, with names."""

from __future__ import annotations

from .open import formats, open_source, register_object
from .row_source import Source

__all__ = ["Source", "formats", "open_source", "register_object"]
