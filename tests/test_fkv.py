"""FKV against its definition, on every kind of sample access."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

import fastanchors as fa
from fastanchors.errors import InvalidInputError, InvalidTypeError, RankError, TooLargeError
from fastanchors.lowrank.sampled_svd import SampleSize
from naive import lowrank as naive
from naive.sampling import NaiveSampleMatrix


def low_rank(m: int, n: int, k: int, *, noise: float = 0.0, kappa: float = 3.0, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    left = np.linalg.qr(rng.standard_normal((m, k)))[0]
    right = np.linalg.qr(rng.standard_normal((n, k)))[0]
    A = left * np.geomspace(kappa, 1.0, k) @ right.T
    return A + noise * np.linalg.norm(A) / np.sqrt(m * n) * rng.standard_normal((m, n))


def access(kind: str, A: np.ndarray):
    if kind == "naive":
        return NaiveSampleMatrix(A, normalize=None)
    return fa.SampleMatrix(sp.csr_array(A) if kind == "sparse" else A, normalize=None)


class Shape(NaiveSampleMatrix):
    """The shape of a large matrix without entries: refused before anything is read."""

    shape = (0, 0)

    def __init__(self, shape: tuple[int, int]) -> None:
        super().__init__(np.ones((1, 1)), normalize=None)
        self.shape = shape  # type: ignore[misc]


KINDS = ["naive", "dense", "sparse"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("side", ["right", "left"])
def test_equals_the_definition_for_the_rows_and_columns_drawn(kind, side):
    A = low_rank(30, 20, 3, noise=0.1)
    S = access(kind, A)
    p, q = 14, 11
    V = fa.fkv(S, 3, side=side, rows=p, columns=q, rng=7)
    rng = np.random.default_rng(7)
    if side == "right":
        lines = S.sample_rows(p, rng=rng)
        places = S.sample_in_row(lines[rng.integers(p, size=q)], rng=rng)
    else:
        lines = S.sample_columns(q, rng=rng)
        places = S.sample_in_column(lines[rng.integers(q, size=p)], rng=rng)
    B = A if side == "right" else A.T
    expected, sigma = naive.fkv_vectors(B, lines, places, 3)
    got = V.query(np.arange(B.shape[1]))
    signs = np.sign((got * expected).sum(axis=0))
    assert np.allclose(got, expected * signs)
    assert np.allclose(V.singular_values, sigma)
    assert np.array_equal(V.indices, np.unique(lines))


@pytest.mark.parametrize("kind", KINDS)
def test_exact_rank_is_spanned_exactly(kind):
    A = low_rank(60, 40, 4)
    S = access(kind, A)
    V = fa.fkv(S, 4, rng=0).orthonormalize().query(np.arange(40))
    U = fa.fkv(S, 4, side="left", rng=0).orthonormalize("exact").query(np.arange(60))
    assert np.linalg.norm(A - A @ V @ V.T) < 1e-6 * np.linalg.norm(A)
    assert np.linalg.norm(A - U @ U.T @ A) < 1e-6 * np.linalg.norm(A)


def test_cost_does_not_depend_on_the_size_of_the_matrix():
    for m in (100, 1000):
        S = NaiveSampleMatrix(low_rank(m, 50, 3, noise=0.1), normalize=None)
        fa.fkv(S, 3, rows=25, columns=15, rng=0)
        assert (S.cost.samples, S.cost.rows_read) == (25 + 15, 0)
        assert S.cost.queries <= 25 * 15 + 25  # less if something is drawn twice


def test_default_size_is_twenty_per_rank():
    S = NaiveSampleMatrix(low_rank(200, 150, 2, noise=0.1), normalize=None)
    fa.fkv(S, 2, rng=0)
    assert S.cost.samples == 80
    assert S.cost.queries <= 40 * 40 + 40


def test_singular_values_approach_the_true_ones():
    A = low_rank(150, 120, 3)
    V = fa.fkv(access("dense", A), 3, rows=2000, columns=2000, rng=0)
    # relative error of order √(k·κ²/p) ≈ 0.1; 0.15 has margin over twenty seeds tried
    assert np.allclose(V.singular_values, [3.0, np.sqrt(3.0), 1.0], rtol=0.15)


@pytest.mark.parametrize("noise", [0.0, 0.3])
def test_theorem_1_holds_at_the_size_proved(noise):
    k, eps, delta = 2, 0.6, 0.1
    A = low_rank(50, 40, k, noise=noise, kappa=5.0)
    S = access("dense", A)
    best = (np.linalg.svd(A, compute_uv=False)[k:] ** 2).sum()
    size = fa.fkv_sample_size(k, eps, delta)
    for seed in range(10):
        V = fa.fkv(S, k, eps=eps, delta=delta, rng=seed).orthonormalize().query(np.arange(40))
        # each fails with probability below 0.1 by the theorem; the bound is loose by an order of magnitude
        assert np.linalg.norm(A - A @ V @ V.T) ** 2 <= best + eps * np.linalg.norm(A) ** 2
    assert size.rows == size.columns == 1057


def test_sample_sizes():
    size = fa.fkv_sample_size(10, 0.01)
    assert isinstance(size, SampleSize)
    assert size.rows == int(np.ceil(160 * (1 + np.sqrt(2 * np.log(20))) ** 2 / 1e-4))
    assert size.bytes == 8 * size.rows**2
    assert "Drineas" in size.source
    original = fa.fkv_sample_size(10, 0.01, theorem="fkv")
    assert original.rows == 10**10
    assert "Frieze" in original.source


def test_a_size_that_cannot_be_held_says_how_much_it_takes():
    S = Shape((10**7, 10**6))
    with pytest.raises(TooLargeError, match=r"1\.43e\+06 rows.*1\.14e\+04 GB.*20·k = 60"):
        fa.fkv(S, 3, eps=0.02, delta=0.1)
    with pytest.raises(TooLargeError, match="80 GB"):
        fa.fkv(S, 3, rows=10**5, columns=10**5)
    small = NaiveSampleMatrix(low_rank(50, 40, 3), normalize=None)
    with pytest.raises(TooLargeError, match="draws"):
        fa.fkv(small, 3, rows=10**9, columns=10**9)
    assert small.cost.samples == 0
    with pytest.raises(TooLargeError, match="eps = 1e-170 needs more than"):
        fa.fkv(small, 3, eps=1e-170)
    with pytest.raises(TooLargeError, match="eps = 1e-100 needs more than"):
        fa.fkv_sample_size(3, 1e-100, theorem="fkv")


def test_arrays_are_given_sample_access():
    A = low_rank(30, 20, 2)
    assert np.allclose(fa.fkv(A, 2, rng=0).query([0, 1]), fa.fkv(access("dense", A), 2, rng=0).query([0, 1]))


def test_zero_rows_are_never_drawn():
    A = low_rank(40, 20, 2)
    A[::2] = 0.0
    V = fa.fkv(NaiveSampleMatrix(A, normalize=None), 2, rng=0)
    assert (V.indices % 2 == 1).all()


def test_rank_below_k_is_an_error_that_says_the_rank():
    A = low_rank(50, 40, 2)
    for side in ("right", "left"):
        with pytest.raises(RankError, match="rank 2, below k = 3") as caught:
            fa.fkv(NaiveSampleMatrix(A, normalize=None), 3, side=side, rng=0)
        assert caught.value.rank == 2


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"k": 0}, InvalidInputError, "k must be at least 1"),
        ({"k": 41}, InvalidInputError, r"k = 41 is more than min\(rows, columns\) = 40"),
        ({"k": 2.0}, InvalidTypeError, "k must be an integer"),
        ({"side": "both"}, InvalidInputError, "side must be"),
        ({"rows": 0}, InvalidInputError, "rows must be at least 1"),
        ({"rows": 1}, InvalidInputError, "at least k = 2"),
        ({"eps": 0.0}, InvalidInputError, "eps must be strictly between 0 and 1"),
        ({"eps": 0.5, "delta": 1.0}, InvalidInputError, "delta must be strictly between 0 and 1"),
        ({"eps": 0.5, "rows": 10}, InvalidInputError, "either rows and columns or eps and delta"),
        ({"delta": 0.5}, InvalidInputError, "delta needs eps"),
        ({"rng": "seed"}, InvalidTypeError, "rng must be"),
    ],
)
def test_bad_options_are_refused(options, error, message):
    S = NaiveSampleMatrix(low_rank(50, 40, 2), normalize=None)
    with pytest.raises(error, match=message):
        fa.fkv(S, **{"k": 2, **options})


def test_all_zero_matrix_is_refused():
    with pytest.raises(InvalidInputError, match="every entry of the matrix is zero"):
        fa.fkv(np.zeros((5, 4)), 1)


def test_unknown_theorem_is_refused():
    with pytest.raises(InvalidInputError, match="'span' or 'fkv'"):
        fa.fkv_sample_size(3, 0.1, theorem="mine")


def test_sizes_beyond_all_numbers_are_one_clear_error():
    A = np.random.default_rng(0).random((6, 5))
    for size in ({"rows": 10**400}, {"columns": 10**400}):
        with pytest.raises(fa.errors.InvalidInputError, match=r"must be below 2\^63"):
            fa.fkv(A, 2, **size)
    with pytest.raises(fa.errors.TooLargeError, match="pass rows"):
        fa.fkv(A, 2, rows=2**62)
