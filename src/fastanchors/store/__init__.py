"""The sample model on disk: format, one-pass build, journal, compaction."""

from __future__ import annotations

from ..io import register_object
from .build import Progress, build
from .sidecars import Sidecar, SidecarHost
from .store import Store, open
from .store_source import is_matrix, matrix_source
from .verify import verify

__all__ = ["Progress", "Sidecar", "SidecarHost", "Store", "build", "open", "verify"]

register_object(is_matrix, matrix_source)
