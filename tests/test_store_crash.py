"""A few kills at random moments; ``benchmarks/crash.py`` does a thousand."""

from __future__ import annotations

import importlib.util
from pathlib import Path


def test_killed_writers_leave_a_committed_state():
    place = Path(__file__).parent.parent / "benchmarks" / "crash.py"
    spec = importlib.util.spec_from_file_location("crash", place)
    crash = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(crash)
    outcomes = crash.run(20, seed=3, every=5)
    assert sum(outcomes.values()) == 20
