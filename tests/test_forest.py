"""Kernels of the forest of sum trees against sums taken anew."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fastanchors.sampling.forest import (
    Forest,
    build_segments,
    draw_from_tree,
    draw_many,
    forest_path,
    fresh_nodes,
    fresh_tree,
    tree_path,
)

NONE = np.zeros(0)


def forest_of(lengths: list[int], seed: int) -> Forest:
    """Segments of these lengths with small whole entries (sums are exact), a third of them zero."""
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
    build(forest)
    return forest


def build(forest: Forest) -> None:
    begin, end, other, data, nodes, sums, l1_nodes, l1_sums = forest
    build_segments(data, other, NONE, 2, nodes, begin, end, sums, 0, len(sums))
    build_segments(data, other, NONE, 1, l1_nodes, begin, end, l1_sums, 0, len(sums))


# On both sides of each change of the tree's height, neighbours of every kind.
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
        # Both ends of the stretch of each entry, and a draw that rounding has carried past the end.
        prefix = np.cumsum(squares)
        u = np.concatenate([prefix - squares, prefix - 0.5, [prefix[-1]]])
        u = u[u >= 0]
        expected = np.minimum(np.searchsorted(prefix, u, side="right"), np.flatnonzero(squares)[-1])
        p, out = np.full(len(u), begin, np.int64), np.empty(len(u), np.int64)
        size = np.full(len(u), end - begin, np.int64)
        draw_many(forest.data, forest.other, NONE, 1, 2, forest.nodes, p, size, p, u, out)
        np.testing.assert_array_equal(out, expected)


@settings(max_examples=30)
@given(lengths=LENGTHS.filter(any), seed=st.integers(0, 1000))
def test_paths_leave_what_a_build_would(lengths, seed):
    forest = forest_of(lengths, seed)
    rng = np.random.default_rng(seed)
    full = np.flatnonzero(lengths)
    for _ in range(40):
        s = int(rng.choice(full))
        t = int(rng.integers(lengths[s]))
        forest.data[forest.begin[s] + t] = rng.random() * 10.0 ** rng.integers(-9, 9)
        forest_path(forest, NONE, s, t)
    sums = ("nodes", "sums", "l1_nodes", "l1_sums")
    fresh = forest._replace(**{name: np.zeros_like(getattr(forest, name)) for name in sums})
    build(fresh)
    for name in sums:
        np.testing.assert_array_equal(getattr(forest, name), getattr(fresh, name))


@pytest.mark.parametrize("n", [1, 32, 33, 600, 9000])
def test_tree(n):
    rng = np.random.default_rng(n)
    weights = rng.integers(0, 4, n).astype(np.float64)
    weights[0] = 2.0
    tree = fresh_tree(weights.copy())
    tree_path(tree, n - 1, 3.0)
    weights[n - 1] = 3.0
    assert tree.total[0] == weights.sum()
    u = rng.random(500) * weights.sum()
    np.testing.assert_array_equal(draw_from_tree(tree, u), np.searchsorted(np.cumsum(weights), u, side="right"))
