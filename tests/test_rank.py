"""The choice of rank on families with known anchors, and its curve."""

from __future__ import annotations

import json

import numpy as np
import pytest
import scipy.sparse as sp

import fastanchors as fa
from fastanchors import datasets
from fastanchors.errors import InvalidInputError, RankError
from fastanchors.rank import _above_noise, _choose
from naive.encode import encode as naive_encode

# Low noise: a tenth or less of what hides the weakest anchor, whose distance is the condition number's inverse.
LOW_NOISE = {
    name: 1e-8 if name.startswith("book_ill") else 1e-5 if "ill" in name else 1e-3 for name in datasets.FAMILIES
}


def l1(A):
    return A / A.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("name", datasets.FAMILIES)
def test_right_at_low_noise_in_nine_of_ten(name):
    right = 0
    for seed in range(10):  # raw and scaled rows by turns
        A = datasets.family(name, noise=LOW_NOISE[name], rng=seed).A
        right += fa.rank_curve(l1(A) if seed % 2 else A, k_max=26, rng=0).k == 20
    assert right >= 9


@pytest.mark.parametrize("noise", [0.0, 1e-3])
def test_noisy_copies_are_not_counted_as_anchors(noise):
    """Two copies of 20 anchors in 10 dimensions: all 40 span every row; without noise 20 suffice."""
    for seed in range(3):
        A = datasets.family("rank_deficient_dirichlet", noise=noise, rng=100 + seed).A
        assert fa.rank_curve(A, rng=0).k == 20


@pytest.mark.parametrize("k", [3, 5, 8])
def test_the_rank_of_a_small_matrix_is_not_its_number_of_rows(k):
    """k(k+1)/2 rows, all of which can be tried; and a few noisy rows with many columns."""
    for seed in range(3):
        assert fa.rank_curve(datasets.middle_points(30, k, noise=1e-3, rng=seed).A, rng=0).k == k
        assert fa.rank_curve(datasets.separable(36, 100, k, noise=0.01, rng=seed).A, rng=0).k == k
    assert fa.rank_curve(np.eye(k), rng=0).k == k


def test_right_without_noise_for_other_numbers():
    for k in (1, 2, 3, 7, 12):
        assert fa.rank_curve(datasets.separable(150, 15, k, rng=k).A, k_max=20, rng=0).k == k


@pytest.mark.parametrize("snr", [40.0, 25.0])
def test_right_on_noisy_scenes_by_the_singular_values(snr):
    """At 25 dB the residual has no gap."""
    for seed in range(4):
        scene = datasets.hyperspectral(20, 20, 80, 5, snr=snr, rng=seed)
        assert fa.rank_curve(scene.A, k_max=12, rng=0).k == 5


@pytest.mark.parametrize("make", [np.asarray, sp.csr_array, lambda A: fa.SampleMatrix(A, normalize=None)])
def test_curves_equal_their_definition(make):
    A = datasets.separable(80, 9, 4, noise=0.01, rng=3).A
    curve = fa.rank_curve(make(A), k_max=6, rng=0)
    np.testing.assert_array_equal(curve.ks, np.arange(1, 7))
    largest = np.linalg.norm(A, axis=1).max()
    for k in curve.ks:
        C = A[curve.anchors[:k]]
        gap = np.linalg.norm(A - naive_encode(A, C) @ C, axis=1)
        assert curve.residuals[k - 1] == pytest.approx(gap.max(), rel=1e-8)
        assert curve.errors[k - 1] == pytest.approx(np.linalg.norm(gap) / np.linalg.norm(A), rel=1e-8)
        assert curve.falls[k - 1] == pytest.approx(largest / gap.max(), rel=1e-8)
        if k < 6:
            assert curve.anchors[k] == np.argmax(gap)
        largest = gap.max()
    np.testing.assert_allclose(curve.singular_values, np.linalg.svd(A, compute_uv=False)[:7], rtol=1e-8)
    assert curve.rows == 80


def test_more_columns_than_rows():
    A = datasets.separable(40, 300, 5, rng=4).A
    dense, sparse = fa.rank_curve(A, rng=0), fa.rank_curve(sp.csr_array(A), rng=0)
    assert dense.k == sparse.k == 5
    np.testing.assert_array_equal(dense.anchors[:5], sparse.anchors[:5])
    np.testing.assert_allclose(dense.singular_values[:5], np.linalg.svd(A, compute_uv=False)[:5], rtol=1e-7)


@pytest.mark.parametrize("make", [np.asarray, sp.csr_array, fa.SampleMatrix])
def test_a_large_matrix_is_judged_by_a_sample(make):
    made = datasets.separable(3000, 25, 6, noise=1e-3, rng=5)
    curve = fa.rank_curve(make(made.A), k_max=10, rows=300, rng=0)
    assert curve.k == 6
    assert curve.rows <= 310
    full = fa.rank_curve(l1(made.A) if make is fa.SampleMatrix else made.A, k_max=10, rows=3000)
    # Each error is a mean over 300 draws, each singular value that of a sample.
    np.testing.assert_allclose(curve.errors[:5], full.errors[:5], rtol=0.25, atol=1e-3)
    np.testing.assert_allclose(curve.singular_values[:2], full.singular_values[:2], rtol=0.25)
    again = fa.rank_curve(make(made.A), k_max=10, rows=300, rng=0)
    np.testing.assert_array_equal(curve.errors, again.errors)


def test_noise_edge_counts_components():
    rng = np.random.default_rng(6)
    wrong = 0
    for _ in range(40):  # a component of 1.5 times the edge is found, none is made up: few misses of 40 with this seed
        m, n, r = 150, 60, 3
        U, V = np.linalg.qr(rng.standard_normal((m, r)))[0], np.linalg.qr(rng.standard_normal((n, r)))[0]
        A = 1.5 * (np.sqrt(m) + np.sqrt(n)) * U @ V.T + rng.standard_normal((m, n))
        wrong += _above_noise(np.linalg.svd(A, compute_uv=False), float((A**2).sum()), (m, n), 10) != r
    assert wrong <= 4
    assert _above_noise(np.array([3.0, 2.0]), 13.0, (5, 2), 10) is None


def test_reasons():
    flat, gap, chasm = np.array([1.1, 1.2, 1.1, 1.05]), np.array([1.5, 1.2, 9.0, 1.1]), np.array([1.5, 1.2, 90.0, 1.1])
    assert _choose(gap, None, exhausted=False)[0] == 3
    assert _choose(gap, 2, exhausted=False)[0] == 3
    assert _choose(gap, 4, exhausted=False)[0] == 4
    assert _choose(chasm, 4, exhausted=False)[0] == 3
    assert _choose(np.array([1.5, 3.0]), 7, exhausted=True) == (2, "2 anchors leave nothing but rounding")
    assert _choose(np.array([3.0]), 7, exhausted=True) == (1, "1 anchor leaves nothing but rounding")
    assert _choose(flat, 4, exhausted=False)[0] == 4
    for earlier, above, dependent, everything, expected in (
        (chasm, 3, False, False, 5),  # independent anchors with zero residual: that is the rank
        (chasm, 2, True, False, 3),
        (chasm, None, True, False, 3),
        (chasm, 4, True, False, 5),
        (gap, 2, True, False, 5),
        (gap, 3, True, False, 3),
        (gap, 3, False, True, 3),
        (chasm, 2, False, True, 5),
    ):
        falls = np.append(earlier, 1e9)
        assert _choose(falls, above, exhausted=True, dependent=dependent, everything=everything)[0] == expected
    assert "cannot tell" in _choose(np.append(flat, 1e9), None, exhausted=True, everything=True)[1]
    k, reason = _choose(flat, None, exhausted=False)
    assert k == 2
    assert "no clear gap" in reason


def test_table_and_json():
    curve = fa.rank_curve(datasets.separable(60, 8, 3, noise=0.01, rng=7).A, k_max=5, rng=0)
    text = str(curve)
    assert text.startswith("k = 3: ")
    assert sum(line.startswith("->") for line in text.splitlines()) == 1
    assert len(text.splitlines()) == 8
    assert json.loads(json.dumps(curve.as_dict()))["anchors"] == [int(i) for i in curve.anchors]


def test_bad_input():
    with pytest.raises(RankError, match="zero"):
        fa.rank_curve(np.zeros((4, 3)))
    with pytest.raises(InvalidInputError, match=r"A\[1, 0\] is negative"):
        fa.rank_curve(np.array([[1.0, 2.0], [-1.0, 0.0]]))
    with pytest.raises(InvalidInputError, match="k_max"):
        fa.rank_curve(np.ones((4, 3)), k_max=0)
