"""Kernels of the segment trees against recomputed sums."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fastanchors.sampling.row_block import build_forest, without_sums
from fastanchors.sampling.segment_trees import NO_SCALE, Forest, fresh_nodes, renew
from fastanchors.sampling.tree import draw_from_tree, fresh_tree, renew_tree
from fastanchors.sampling.tree_draws import draw


def forest_of(lengths: list[int], seed: int) -> Forest:
    """Segments of these lengths with small integer entries (sums are exact), a third of them zero."""
    rng = np.random.default_rng(seed)
    indptr = np.cumsum([0, *lengths]).astype(np.int32)
    data = (rng.integers(1, 9, indptr[-1]) * (rng.random(indptr[-1]) < 2 / 3)).astype(np.float64)
    other = np.concatenate([np.arange(length) for length in lengths]).astype(np.int32)
    forest = Forest(
        indptr[:-1],
        indptr[1:],
        other,
        data,
        fresh_nodes(len(data)),
        np.zeros(len(lengths)),
        fresh_nodes(len(data)),
        np.zeros(len(lengths)),
    )
    build_forest(forest, NO_SCALE)
    return forest


# Lengths around each change of the tree's height, next to segments of every kind.
LENGTHS = st.lists(st.sampled_from([0, 1, 31, 32, 33, 511, 512, 513, 530, 8193]), min_size=1, max_size=8)


@settings(max_examples=40)
@given(lengths=LENGTHS, seed=st.integers(0, 1000))
def test_sums_and_draws_of_every_segment(lengths, seed):
    forest = forest_of(lengths, seed)
    for s, (begin, end) in enumerate(zip(forest.begin, forest.end)):
        squares = forest.data[begin:end] ** 2
        assert forest.sums[s] == squares.sum()
        assert forest.l1_sums[s] == forest.data[begin:end].sum()
        if not squares.any():
            continue
        # Both ends of the interval of each entry, and a draw that rounding has moved past the end.
        prefix = np.cumsum(squares)
        u = np.concatenate([prefix - squares, prefix - 0.5, [prefix[-1]]])
        u = u[u >= 0]
        expected = np.minimum(np.searchsorted(prefix, u, side="right"), np.flatnonzero(squares)[-1])
        drawn = draw(forest, NO_SCALE, np.full(len(u), s), u)
        np.testing.assert_array_equal(drawn, expected)


@settings(max_examples=30)
@given(lengths=LENGTHS.filter(any), seed=st.integers(0, 1000))
def test_renewed_sums_are_those_of_a_build(lengths, seed):
    forest = forest_of(lengths, seed)
    rng = np.random.default_rng(seed)
    full = np.flatnonzero(lengths)
    for batch in (1, 1, 40, 100):
        segments = rng.choice(full, batch)
        places = (rng.random(batch) * np.array(lengths)[segments]).astype(np.int64)
        forest.data[forest.begin[segments] + places] = rng.random(batch) * 10.0 ** rng.integers(-9, 9, batch)
        renew(forest, NO_SCALE, segments, places >> 5)
    fresh = without_sums(forest)
    build_forest(fresh, NO_SCALE)
    for name in ("nodes", "sums", "l1_nodes", "l1_sums"):
        np.testing.assert_array_equal(getattr(forest, name), getattr(fresh, name))


@pytest.mark.parametrize("n", [1, 32, 33, 600, 9000])
def test_tree(n):
    rng = np.random.default_rng(n)
    weights = rng.integers(0, 4, n).astype(np.float64)
    weights[0] = 2.0
    tree = fresh_tree(weights.copy())
    changed = np.append(rng.integers(0, n, 50), n - 1)
    tree.data[changed] = weights[changed] = 3.0
    renew_tree(*tree, changed)
    for kept, fresh in zip(tree, fresh_tree(weights), strict=True):
        np.testing.assert_array_equal(kept, fresh)
    assert tree.total[0] == weights.sum()
    u = rng.random(500) * weights.sum()
    np.testing.assert_array_equal(draw_from_tree(tree, u), np.searchsorted(np.cumsum(weights), u, side="right"))
