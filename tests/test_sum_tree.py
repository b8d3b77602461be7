"""The 16-ary sum tree against its naive twin, bit for bit."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastanchors.sampling.sum_tree import (
    FANOUT,
    LANES,
    aligned_zeros,
    build,
    draw,
    level_offsets,
    make_tree,
    set_many,
    set_one,
)
from naive.vector import naive_tree

SIZES = [1, 2, 15, 16, 17, 255, 256, 257, 4096, 4097, 5000]
weights_strategy = st.lists(st.just(0.0) | st.floats(2.0**-1000, 2.0**1000), min_size=1, max_size=600)


def unpack(nodes, offsets, n):
    """The levels as lists, without their padding, after checking that the padding is zero."""
    levels = []
    for level in range(offsets.size - 1):
        part = nodes[offsets[level] : offsets[level + 1]]
        assert not part[n:].any()
        levels.append(part[:n].tolist())
        n = -(-n // FANOUT)
    return levels


def draw_at(nodes, offsets, uniforms):
    u = np.array(uniforms, dtype=float)
    index = np.full(u.size, -1)
    draw(nodes, offsets, u, index)
    return index


@pytest.mark.parametrize("n", SIZES)
def test_build_equals_the_naive_tree_bit_for_bit(n):
    weights = np.random.default_rng(n).pareto(1.0, n)
    assert unpack(*make_tree(weights), n) == naive_tree(weights)


@pytest.mark.parametrize("n", SIZES)
def test_offsets_are_whole_groups_and_one_total(n):
    offsets = level_offsets(n)
    assert offsets[0] == 0
    assert offsets[-1] - offsets[-2] == 1
    assert not (offsets[:-1] % FANOUT).any()
    assert offsets[-1] <= n + n / 15 + FANOUT * offsets.size


def test_aligned_zeros_start_on_a_cache_line():
    for size in (1, 16, 1000):
        array = aligned_zeros(size)
        assert array.size == size
        assert array.ctypes.data % 128 == 0
        assert not array.any()


@given(weights_strategy, st.data())
def test_updates_one_by_one_in_a_batch_and_a_fresh_build_give_the_same_bits(weights, data):
    n = len(weights)
    changes = data.draw(
        st.lists(st.tuples(st.integers(0, n - 1), st.just(0.0) | st.floats(2.0**-1000, 2.0**1000)), max_size=80)
    )
    singly, offsets = make_tree(np.array(weights))
    together = singly.copy()
    final = list(weights)
    for i, w in changes:
        set_one(singly, offsets, i, w)
        final[i] = w
    indices = np.array([i for i, _ in changes], dtype=np.int64)
    kept = indices.copy()
    set_many(together, offsets, indices, np.array([w for _, w in changes], dtype=float))
    fresh = naive_tree(final)
    assert unpack(singly, offsets, n) == fresh
    assert unpack(together, offsets, n) == fresh
    assert (indices == kept).all()


@given(weights_strategy, st.lists(st.floats(0, 1, exclude_max=True), min_size=1, max_size=100))
def test_a_draw_inverts_the_cumulative_sum(weights, uniforms):
    """Up to rounding: the interval of the drawn entry, widened by a few ulps of the total, contains u."""
    w = np.array(weights)
    if not w.any():
        w[0] = 1.0
    drawn = draw_at(*make_tree(w), uniforms)
    assert (w[drawn] > 0).all()
    share = w / w.max()
    ends = np.cumsum(share, dtype=np.longdouble)
    u = np.array(uniforms) * ends[-1]
    slack = 64 * np.finfo(float).eps * ends[-1]
    assert (u <= ends[drawn] + slack).all()
    assert (u >= ends[drawn] - share[drawn] - slack).all()


@pytest.mark.parametrize("n", [1, 3, 16, 40, 300, 4100])
@pytest.mark.parametrize("uniform", [0.0, 5e-324, 0.5, 1 - 2**-53])
def test_zero_weights_are_never_drawn_at_any_edge(n, uniform):
    """A single non-zero weight gets every draw, at any position and for any size."""
    for place in {0, n // 3, n // 2, n - 1}:
        for weight in (5e-324, 2.0**-1022, 0.1, 1.7e308):
            w = np.zeros(n)
            w[place] = weight
            assert draw_at(*make_tree(w), [uniform]) == [place]


def test_a_draw_rounded_up_to_the_sum_has_a_non_zero_weight():
    """Weights whose prefix sums round up: 1 + ulp/2-like steps, then zeros behind them, at the largest uniforms."""
    rng = np.random.default_rng(3)
    for _ in range(200):
        w = np.where(rng.random(64) < 0.4, 0.0, np.exp2(rng.integers(-54, 2, 64)) * (1 + rng.random(64)))
        w[rng.integers(64)] = 1.0
        nodes, offsets = make_tree(w)
        ends = np.cumsum(w) / w.sum()
        near = np.clip(np.concatenate([np.nextafter(ends, 0), ends, np.nextafter(ends, 2)]), 0, 1 - 2**-53)
        assert (w[draw_at(nodes, offsets, near)] > 0).all()


def test_batches_of_any_size_give_the_same_draws():
    nodes, offsets = make_tree(np.random.default_rng(0).random(3000))
    u = np.random.default_rng(1).random(3 * LANES + 5)
    whole = draw_at(nodes, offsets, u)
    assert (whole == np.concatenate([draw_at(nodes, offsets, [x]) for x in u])).all()
    assert draw_at(nodes, offsets, []).size == 0


def test_counted_visits_grow_as_log_n():
    """A draw reads one group per level and an update recomputes one node per level: ⌈log₁₆ n⌉ levels."""
    draws, singles = [], []
    for exponent in range(1, 6):
        n = 16**exponent
        nodes, offsets = make_tree(np.ones(n))
        index = np.empty(1000, dtype=np.int64)
        draws.append(draw(nodes, offsets, np.random.default_rng(0).random(1000), index) / 1000)
        singles.append(set_one(nodes, offsets, n // 2, 2.0))
    assert draws == [1, 2, 3, 4, 5]
    assert singles == [1, 2, 3, 4, 5]


def test_a_batch_recomputes_each_shared_parent_once():
    n = 16**4
    nodes, offsets = make_tree(np.ones(n))
    same_group = np.arange(16, dtype=np.int64)
    assert set_many(nodes, offsets, same_group, np.full(16, 2.0)) == 4
    everything = np.random.default_rng(0).permutation(n)
    assert set_many(nodes, offsets, everything, np.full(n, 3.0)) == 16**3 + 16**2 + 16 + 1
    assert nodes[-1] == 3.0 * n
    assert set_many(nodes, offsets, everything[:0], np.empty(0)) == 0


def test_build_again_changes_nothing_after_many_batches():
    rng = np.random.default_rng(5)
    nodes, offsets = make_tree(rng.random(10_000))
    for _ in range(20):
        set_many(nodes, offsets, rng.integers(0, 10_000, 5_000), rng.random(5_000) * 10.0 ** rng.integers(-9, 9, 5_000))
    rebuilt = nodes.copy()
    build(rebuilt, offsets)
    assert (rebuilt == nodes).all()
