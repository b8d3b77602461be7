"""Random sequences of calls, checked in exact arithmetic; ``benchmarks/walks.py`` runs many more."""

from __future__ import annotations

from collections import Counter

import pytest

from walks import Walk, small_matrices


@pytest.mark.parametrize("part", range(10))
def test_walks_agree_with_exact_arithmetic(part):
    seen: Counter[str] = Counter()
    with small_matrices():
        for seed in range(20 * part, 20 * part + 20):
            Walk(100_000 + seed, seen).run(9, noise=seed % 10 == 0)
    assert seen["exact"] > 20
