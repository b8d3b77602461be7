"""Shared test settings: tests run from any directory and can import the naive reference implementations."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

import pytest
from hypothesis import settings

sys.path.insert(0, str(Path(__file__).parent))

settings.register_profile("fastanchors", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("fastanchors")


@pytest.fixture(autouse=True)
def usual_interrupt():
    """Each test begins with Python's handler: jobs that a shell starts in the background ignore the signal."""
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.default_int_handler)
