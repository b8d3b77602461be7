"""Shared settings of the tests: they run from any directory and find the naive twins."""

from __future__ import annotations

import sys
from pathlib import Path

from hypothesis import settings

sys.path.insert(0, str(Path(__file__).parent))

settings.register_profile("fastanchors", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("fastanchors")
