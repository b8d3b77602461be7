"""VectorSampler: exact sums, exact draws, clear errors."""

from __future__ import annotations

import copy
import math
import pickle

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from scipy.stats import chi2

import fastanchors as fa
from fastanchors.errors import InvalidInputError, InvalidTypeError
from naive.vector import NaiveVector

EPS = np.finfo(float).eps
entries = st.just(0.0) | st.floats(-(2.0**500), 2.0**500).filter(lambda x: abs(x) >= 2.0**-511)


def assert_draws_follow(v: fa.VectorSampler, probabilities: np.ndarray, draws: int, seed: int) -> None:
    """G test at false-alarm rate 1e-6 (the seed is fixed, so the outcome is too); entries of weight zero never.

    Entries expected less than 5 times are pooled into one cell, as the chi-square law of G needs.
    """
    counts = np.bincount(v.sample(draws, rng=seed), minlength=len(v))
    assert counts.sum() == draws
    assert not counts[np.asarray(v) == 0].any()
    expected = draws * probabilities
    rare = expected < 5
    seen = np.append(counts[~rare], counts[rare].sum())
    awaited = np.append(expected[~rare], expected[rare].sum())
    if awaited[-1] < 5:  # too few even when pooled: they may be drawn only a few times (Poisson, < 1e-6)
        assert seen[-1] <= 30
        seen, awaited = seen[:-1], awaited[:-1]
    if seen.size > 1:
        drawn = seen > 0
        g = 2 * float((seen[drawn] * np.log(seen[drawn] / awaited[drawn])).sum())
        assert g < chi2.isf(1e-6, seen.size - 1)


def weights(kind: str, n: int) -> np.ndarray:
    rng = np.random.default_rng(7)
    signs = rng.choice([-1.0, 1.0], n)
    if kind == "uniform":
        return signs
    if kind == "zipf":
        return signs * rng.permutation(np.arange(1, n + 1) ** -0.5)
    if kind == "spike":
        x = np.full(n, 1e-3)
        x[n // 3] = 1.0
        return signs * x
    if kind == "lonely spike":
        x = np.zeros(n)
        x[n // 3] = -1e-140
        return x
    if kind == "wide":  # 1e-150 … 1e150: all the weight is in the few largest
        return signs * np.logspace(-150, 150, n)
    if kind == "wide blocks":  # the same range, and many entries of each size
        return signs * np.repeat([1e-150, 0.0, 1e150, 0.9e150], -(-n // 4))[:n]
    raise AssertionError(kind)


KINDS = ["uniform", "zipf", "spike", "lonely spike", "wide", "wide blocks"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n", [1, 7, 16, 100, 5000])
def test_draws_follow_the_squares(kind, n):
    x = weights(kind, n)
    if not x.any():
        x[0] = 1e-150
    assert_draws_follow(fa.VectorSampler(x), NaiveVector(x).probabilities(), 200_000, seed=n)


@pytest.mark.parametrize("kind", KINDS)
def test_draws_follow_the_squares_after_updates(kind):
    n = 1000
    rng = np.random.default_rng(11)
    v = fa.VectorSampler(rng.standard_normal(n))
    x = weights(kind, n)
    for part in np.array_split(rng.permutation(n), 10):
        v.update(part, x[part])
    v[5] = 3.0
    v[5] = x[5]
    assert_draws_follow(v, NaiveVector(x).probabilities(), 200_000, seed=13)


def test_the_test_of_draws_can_fail():
    """The same test rejects draws that are off by 5 % on half of the entries."""
    x = np.ones(100)
    wrong = np.where(np.arange(100) < 50, 1.05, 0.95) / 100
    with pytest.raises(AssertionError):
        assert_draws_follow(fa.VectorSampler(x), wrong, 200_000, seed=1)


def test_a_million_updates_leave_sums_as_exact_as_a_fresh_build():
    rng = np.random.default_rng(0)
    n, rounds, batch = 3000, 20, 50_000
    v = fa.VectorSampler(rng.standard_normal(n))
    for _ in range(rounds):
        v.update(rng.integers(0, n, batch), rng.standard_normal(batch) * 10.0 ** rng.integers(-8, 9, batch))
    v.update(np.arange(0, n, 2), 0.0)
    v.update(np.arange(1, n, 2), rng.standard_normal(n // 2))  # small again, after sums of 1e19
    exact = math.fsum(x * x for x in np.asarray(v))
    assert v.norm == fa.VectorSampler(v.values).norm
    assert v.norm == pytest.approx(math.sqrt(exact), rel=20 * EPS)
    assert not np.isin(v.sample(100_000, rng=1), np.arange(0, n, 2)).any()


class Twins(RuleBasedStateMachine):
    """Long random sequences of operations on the sampler and on the naive vector."""

    @initialize(values=st.lists(entries, min_size=1, max_size=80))
    def start(self, values):
        self.v, self.naive = fa.VectorSampler(values), NaiveVector(values)

    @rule(data=st.data(), value=entries)
    def set_one(self, data, value):
        i = data.draw(st.integers(0, len(self.v) - 1))
        self.v[i] = value
        self.naive.set(i, value)

    @rule(data=st.data())
    def set_many(self, data):
        pairs = data.draw(st.lists(st.tuples(st.integers(0, len(self.v) - 1), entries), max_size=40))
        self.v.update(np.array([i for i, _ in pairs], dtype=int), [x for _, x in pairs])
        for i, x in pairs:
            self.naive.set(i, x)

    @rule(data=st.data(), bad=st.sampled_from([math.nan, math.inf, -math.inf, 1e-200, -1e200, 5e-324]))
    def refuse(self, data, bad):
        i = data.draw(st.integers(0, len(self.v) - 1))
        with pytest.raises(InvalidInputError, match=f"entry {i} is"):
            self.v.update([0, i], [1.0, bad])

    @rule(seed=st.integers(0, 2**32))
    def draw(self, seed):
        if self.naive.norm == 0:
            with pytest.raises(InvalidInputError, match="every entry is zero"):
                self.v.sample(rng=seed)
            return
        drawn = self.v.sample(20, rng=seed)
        for i, u in zip(drawn, np.random.default_rng(seed).random(20)):
            assert self.naive.entries[i] != 0
            neighbours = {self.naive.draw(u * (1 - 1e-13)), self.naive.draw(u), self.naive.draw(u * (1 + 1e-13))}
            assert i in range(min(neighbours), max(neighbours) + 1)

    @invariant()
    def same(self):
        if hasattr(self, "v"):
            assert list(self.v) == self.naive.entries
            assert self.v.norm == pytest.approx(self.naive.norm, rel=20 * EPS)
            assert self.v.norm == fa.VectorSampler(self.naive.entries).norm


TestTwins = Twins.TestCase
TestTwins.settings = settings(max_examples=150, stateful_step_count=40)


@pytest.mark.parametrize("index", [4, -1, 2**70, 1.0, [0, 4], True])
def test_refused_queries(index):
    v = fa.VectorSampler([1.0, 2.0, 3.0, 4.0])
    with pytest.raises((InvalidInputError, InvalidTypeError), match=r"^index "):
        v[index]


def test_query_and_set_scalars_arrays_and_slices():
    v = fa.VectorSampler([1, -2, 3, 0])
    assert len(v) == 4
    assert v[1] == -2.0
    assert isinstance(v[1], float)
    assert v[[[3, 1], [0, 0]]].tolist() == [[0, -2], [1, 1]]
    assert v[1:3].tolist() == [-2, 3]
    v[[0, 2]] = 5
    v[::3] = [7, 8]
    v[np.int32(1)] = np.float32(0.5)
    assert v.values.tolist() == [7, 0.5, 5, 8]
    assert list(v) == [7, 0.5, 5, 8]
    assert v.norm == math.sqrt(49 + 0.25 + 25 + 64)
    assert repr(v) == "VectorSampler(n=4, norm=11.758)"


def test_of_duplicates_in_one_batch_the_last_wins():
    rng = np.random.default_rng(2)
    indices, values = rng.integers(0, 50, 10_000), rng.standard_normal(10_000)
    batch, singly = fa.VectorSampler(np.ones(50)), fa.VectorSampler(np.ones(50))
    batch.update(indices, values)
    for i, x in zip(indices, values):
        singly[int(i)] = x
    last = dict(zip(indices.tolist(), values.tolist()))
    assert batch.values.tolist() == singly.values.tolist() == [last[i] for i in range(50)]
    assert batch.norm == singly.norm


def test_arrays_of_the_values():
    given = np.arange(5.0)
    v = fa.VectorSampler(given)
    given[0] = 9.0
    assert v[0] == 0.0
    assert not v.values.flags.writeable
    assert np.asarray(v) is not v.values
    assert np.asarray(v, dtype=np.float32).dtype == np.float32
    taken = np.array(v)
    taken[1] = -1.0
    assert v[1] == 1.0
    view = v.values
    v[1] = 4.0
    assert view[1] == 4.0


def test_sizes_and_seeds():
    v = fa.VectorSampler(np.arange(1, 200))
    assert isinstance(v.sample(rng=3), int)
    assert v.sample(0, rng=3).shape == (0,)
    assert v.sample(1, rng=3).tolist() == [v.sample(rng=3)]
    long = v.sample(200_000, rng=4)  # several chunks of uniforms
    assert (long == v.sample(200_000, rng=np.random.default_rng(4))).all()
    rng = np.random.default_rng(4)
    assert (long == np.concatenate([v.sample(130_000, rng=rng), v.sample(70_000, rng=rng)])).all()
    assert (v.sample(100) != v.sample(100)).any()


def test_copies_and_pickles_are_independent():
    v = fa.VectorSampler([3.0, 4.0])
    for twin in (copy.deepcopy(v), pickle.loads(pickle.dumps(v))):
        twin[0] = 0.0
        assert (twin.norm, v.norm) == (4.0, 5.0)
        assert twin.sample(3, rng=0).tolist() == [1, 1, 1]


@pytest.mark.parametrize(
    ("values", "error", "message"),
    [
        ([], InvalidInputError, r"not empty, got shape \(0,\)"),
        ([[1.0]], InvalidInputError, r"one-dimensional and not empty, got shape \(1, 1\)"),
        (3.0, InvalidInputError, "one-dimensional"),
        ([1.0, math.nan], InvalidInputError, "entry 1 is nan; .*remove or replace it"),
        ([1.0, 0.0, -math.inf], InvalidInputError, "entry 2 is -inf"),
        ([1e-200], InvalidInputError, "entry 0 is 1e-200; .*divide all of them by a constant"),
        ([1.0] * 20 + [1e160], InvalidInputError, "entry 20 is 1e\\+160"),
        (["a"], InvalidTypeError, "real numbers, got dtype <U1"),
        ([1j], InvalidTypeError, "real numbers, got dtype complex128"),
        ([None], InvalidTypeError, "values is missing"),
    ],
)
def test_refused_values(values, error, message):
    with pytest.raises(error, match=message):
        fa.VectorSampler(values)


def test_the_ends_of_the_range_are_in_and_their_neighbours_out():
    for size in (2.0**-511, 2.0**500):
        v = fa.VectorSampler([size, -size])
        assert v.norm == math.sqrt(2) * size
        assert np.bincount(v.sample(1000, rng=0)).min() > 400  # fair coin: below 400 with probability 1e-10
    for size in (np.nextafter(2.0**-511, 0), np.nextafter(2.0**500, math.inf)):
        with pytest.raises(InvalidInputError, match="entry 0"):
            fa.VectorSampler([size])


@pytest.mark.parametrize(
    ("index", "value", "error", "message"),
    [
        (4, 1.0, InvalidInputError, "index 4 is out of range 0 … 3"),
        (-1, 1.0, InvalidInputError, "index -1 is out of range"),
        ([0, 9], 1.0, InvalidInputError, "index 9"),
        (2**70, 1.0, InvalidTypeError, "integer"),
        (1.0, 1.0, InvalidTypeError, "integer"),
        (1, math.nan, InvalidInputError, "entry 1 is nan"),
        (1, -math.inf, InvalidInputError, "entry 1 is -inf"),
        (1, 1e-160, InvalidInputError, "entry 1 is 1e-160"),
        ([True, False, True, True], 1.0, InvalidTypeError, "integer"),
        ([0, 1], [1.0, 2.0, 3.0], InvalidInputError, r"values of shape \(3,\) do not fit indices of shape \(2,\)"),
        (0, "x", InvalidTypeError, "real numbers"),
        ([3, 2], [1.0, math.nan], InvalidInputError, "entry 2 is nan"),
    ],
)
def test_refused_updates_change_nothing(index, value, error, message):
    v = fa.VectorSampler([1.0, 2.0, 3.0, 4.0])
    with pytest.raises(error, match=message):
        v.update(index, value)
    with pytest.raises(error, match=message):
        v[index] = value
    assert v.values.tolist() == [1, 2, 3, 4]
    assert v.norm == math.sqrt(30)


def test_a_sum_of_squares_that_overflows_is_refused_before_anything_changes():
    n = 1 << 23  # squares of 2¹⁰⁰⁰ reach 2¹⁰²³
    full = np.full(n, 2.0**500)
    with pytest.raises(InvalidInputError, match="sum of all squares exceeds"):
        fa.VectorSampler(full)
    full[:2] = 0.0
    v = fa.VectorSampler(full)
    before = v.norm
    with pytest.raises(InvalidInputError, match="sum of all squares exceeds"):
        v.update([0, 1], 2.0**500)
    assert (v[0], v.norm) == (0.0, before)
    v[0] = 2.0**500
    with pytest.raises(InvalidInputError, match="sum of all squares exceeds"):
        v[1] = 2.0**500
    assert (v[0], v[1]) == (2.0**500, 0.0)
    assert before <= v.norm < math.inf


@pytest.mark.parametrize("size", [-1, 2.5, True, "3"])
def test_refused_sizes(size):
    with pytest.raises((InvalidInputError, InvalidTypeError), match="size must be"):
        fa.VectorSampler([1.0]).sample(size)


def test_sampling_from_zeros_is_refused_and_possible_again_later():
    v = fa.VectorSampler(np.zeros(40))
    assert v.norm == 0.0
    with pytest.raises(InvalidInputError, match="every entry is zero"):
        v.sample(3, rng=0)
    v[33] = -1e-150
    assert v.sample(3, rng=0).tolist() == [33, 33, 33]
    v[33] = 0.0
    with pytest.raises(InvalidInputError, match="every entry is zero"):
        v.sample(rng=0)
    v.update([7, 20, 7], [5.0, 4.0, -3.0])  # a batch into groups whose sums are zero
    assert v.norm == 5.0
    assert set(v.sample(100, rng=0).tolist()) == {7, 20}


def test_counted_visits_grow_as_log_n():
    """⌈log₁₆ n⌉ groups of 16 for each draw and each update, from 256 to a million entries."""
    for exponent in (2, 3, 4, 5):
        v = fa.VectorSampler(np.ones(16**exponent))
        v.sample(100, rng=0)
        assert v.node_visits == 100 * exponent
        v.node_visits = 0
        v[3] = 2.0
        assert v.node_visits == exponent
        v.node_visits = 0
        v.update(np.arange(16), 3.0)  # one group, so one path
        assert v.node_visits == exponent


def test_ragged_and_masked_values_are_refused():
    with pytest.raises(InvalidInputError, match="cannot be converted"):
        fa.VectorSampler([[1.0], [1.0, 2.0]])
    with pytest.raises(InvalidInputError, match="masked"):
        fa.VectorSampler(np.ma.masked_array([1.0, 2.0], mask=[False, True]))


def test_packed_arrays_of_xarray_are_refused():
    """Only those with two axes were: stored numbers were taken for values."""
    xr = pytest.importorskip("xarray", reason="extra io")
    packed = xr.DataArray(np.array([1, 2, 3], np.int16), attrs={"scale_factor": 0.1})
    gone = xr.DataArray(np.array([1, 2, -1], np.int16), attrs={"_FillValue": -1})
    vector = fa.VectorSampler(np.ones(3))
    for refused in (
        lambda: fa.VectorSampler(packed),
        lambda: vector.update([0, 1, 2], packed),
        lambda: vector.__setitem__(slice(0, 3), packed),
        lambda: vector.update(packed[:1], 1.0),
        lambda: fa.SampleMatrix([packed, packed]),
        lambda: fa.SPA().seek([packed, packed], 1),
    ):
        with pytest.raises(InvalidInputError, match="is packed: its attribute scale_factor"):
            refused()
    with pytest.raises(InvalidInputError, match=r"values\[2\] is missing: it is the _FillValue -1"):
        fa.VectorSampler(gone)
    assert vector.values.tolist() == [1, 1, 1]
    plain = xr.DataArray(np.array([1.0, 2.0]), attrs={"units": "m"})
    assert fa.VectorSampler(plain).values.tolist() == [1, 2]
