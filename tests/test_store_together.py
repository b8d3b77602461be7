"""Concurrent readers and a writer; ``benchmarks/together.py`` runs them for minutes."""

from __future__ import annotations

import pytest

from together import one_matrix, together


@pytest.mark.parametrize("sparse", [True, False], ids=["sparse", "dense"])
def test_concurrent_readers_see_committed_states_only(tmp_path, sparse):
    states, looks, wrong = together(tmp_path / "s", 3, 1, 1.0, sparse=sparse)
    assert not wrong, wrong[0]
    assert states
    assert looks


def test_threads_on_one_matrix_see_one_state_or_are_refused():
    states, answers, wrong = one_matrix(0.7)
    assert not wrong, wrong[0]
    assert states + answers
