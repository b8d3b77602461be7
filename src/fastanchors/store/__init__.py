"""The sample model on disk: format, one-pass build, journal, compaction."""

from __future__ import annotations

from ..io import register_object
from .build import Progress, build
from .extras import Extra, register_extra
from .source import is_matrix, matrix_source
from .store import Store, open
from .verify import verify

__all__ = ["Extra", "Progress", "Store", "build", "open", "register_extra", "verify"]

register_object(is_matrix, matrix_source)
