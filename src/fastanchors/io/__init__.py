"""Readers of the formats people have: each gives the rows of a matrix in bounded blocks, with names."""

from __future__ import annotations

from .open import formats, open_source, register_object
from .row_source import Source

__all__ = ["Source", "formats", "open_source", "register_object"]
