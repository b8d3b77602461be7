"""The generators: sizes, non-negativity, the true factors that they return, one result per seed."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from fastanchors import datasets
from fastanchors.errors import FastAnchorsError, InvalidInputError, InvalidTypeError, TooLargeError


def dense(A):
    return A.toarray() if sp.issparse(A) else A


def assert_truth(data, m, n, k):
    """Shapes, labels and anchors agree with each other; without noise A = F·A_R exactly."""
    assert data.A.shape == (m, n)
    assert data.components.shape == (k, n)
    assert dense(data.A).min() >= 0
    assert len(data.anchors) == k
    np.testing.assert_array_equal(data.labels[data.anchors], np.arange(k))
    for a in range(k):
        assert data.anchors[a] == np.flatnonzero(data.labels == a)[0]
    F = dense(data.weights)
    assert F.min() >= 0
    np.testing.assert_allclose(F.sum(axis=1), 1.0, rtol=1e-6)


@pytest.mark.parametrize("condition", [3.0, 1e3, 1e6])
@pytest.mark.parametrize(("k", "n"), [(20, 20), (20, 40), (5, 60)])
def test_components_have_the_spectrum_and_no_negative_entry(k, n, condition):
    W = datasets.nonnegative_components(k, n, condition=condition, rng=0)
    assert W.min() >= 0
    expected = condition ** (-np.arange(k) / (k - 1))
    np.testing.assert_allclose(np.linalg.svd(W, compute_uv=False), expected, rtol=1e-5)


def test_impossible_components_are_refused():
    with pytest.raises(InvalidInputError, match="k ≤ n"):
        datasets.nonnegative_components(5, 4, condition=10)
    with pytest.raises(InvalidInputError, match="condition"):
        datasets.nonnegative_components(3, 4, condition=0.5)


SIZES = {  # rows, columns, anchors
    "rank_deficient_dirichlet": (240, 10, 20),
    "rank_deficient_middle_points": (210, 10, 20),
    "ill_conditioned_dirichlet": (240, 20, 20),
    "ill_conditioned_middle_points": (210, 20, 20),
    "well_conditioned_dirichlet": (220, 200, 20),
    "well_conditioned_middle_points": (210, 200, 20),
    "book_well_conditioned_dirichlet": (220, 40, 20),
    "book_ill_conditioned_dirichlet": (220, 40, 20),
    "book_well_conditioned_middle_points": (210, 40, 20),
    "book_ill_conditioned_middle_points": (210, 40, 20),
}


def test_every_family_is_listed():
    assert set(SIZES) == set(datasets.FAMILIES)


@pytest.mark.parametrize("name", sorted(SIZES))
def test_families(name):
    clean = datasets.family(name, rng=3)
    assert_truth(clean, *SIZES[name])
    np.testing.assert_allclose(clean.A, clean.weights @ clean.components, atol=1e-12)
    if "ill_conditioned" in name:
        condition = 1e6 if name.startswith("book") else 1e3
        assert np.linalg.cond(clean.components) == pytest.approx(condition, rel=1e-5)
    if "rank_deficient" in name:
        assert np.linalg.matrix_rank(clean.A) == 10
    noisy = datasets.family(name, noise=0.01, rng=3)
    assert_truth(noisy, *SIZES[name])
    np.testing.assert_array_equal(noisy.components, clean.components)
    assert not np.array_equal(noisy.A, clean.A)


def test_family_of_unknown_name():
    with pytest.raises(InvalidInputError, match="rank_deficient_dirichlet"):
        datasets.family("nonsense")


def test_dirichlet_noise_is_as_stated():
    absolute = datasets.dirichlet(2000, 50, 5, noise=0.01, rng=1)
    clean = absolute.weights @ absolute.components
    inside = clean > 0.1  # clipping changes none of these
    assert np.std((absolute.A - clean)[inside]) == pytest.approx(0.01, rel=0.02)
    relative = datasets.dirichlet(2000, 50, 5, noise=0.01, relative=True, rng=1)
    clean = relative.weights @ relative.components
    ratio = np.linalg.norm(relative.A - clean) / np.linalg.norm(clean)
    assert ratio == pytest.approx(0.01, rel=0.02)  # clipping removes a little


def test_middle_points_move_outwards_and_anchors_stay():
    data = datasets.middle_points(30, 6, noise=0.2, rng=5)
    np.testing.assert_array_equal(data.A[data.anchors], data.components)
    middle = data.labels < 0
    point = data.weights[middle] @ data.components
    moved = np.maximum(point + 0.2 * (point - data.components.mean(axis=0)), 0)
    np.testing.assert_allclose(data.A[middle], moved, atol=1e-12)
    assert set(np.unique(data.weights[middle])) == {0.0, 0.5}
    assert middle.sum() == 15


@given(
    m=st.integers(12, 60),
    n=st.integers(4, 12),
    k=st.integers(1, 4),
    copies=st.integers(1, 2),
    near_pure=st.integers(0, 1),
    sparse=st.sampled_from([None, 0.3]),
    seed=st.integers(0, 1000),
)
def test_separable_without_noise_is_the_product(m, n, k, copies, near_pure, sparse, seed):
    data = datasets.separable(m, n, k, copies=copies, near_pure=near_pure, sparse=sparse, rng=seed)
    assert_truth(data, m, n, k)
    assert (data.labels >= 0).sum() == k * copies
    np.testing.assert_allclose(dense(data.A), dense(data.weights) @ dense(data.components), atol=1e-12)
    assert sp.issparse(data.A) == (sparse is not None)
    copy = data.labels >= 0
    np.testing.assert_allclose(dense(data.A)[copy], dense(data.components)[data.labels[copy]], atol=1e-12)


@pytest.mark.parametrize("sparse", [None, 0.05])
def test_blocks_and_whole_are_the_same_matrix(sparse, monkeypatch):
    monkeypatch.setattr(datasets._separable, "_BLOCK_ENTRIES", 5000)
    options = {"noise": 0.1, "copies": 3, "near_pure": 2, "sparse": sparse, "dtype": np.float32, "rng": 8}
    whole = datasets.separable(1001, 100, 5, **options)
    parts = datasets.separable_blocks(1001, 100, 5, **options)
    assert len(parts) > 3
    for _ in range(2):  # every pass gives the same rows
        together = np.vstack([dense(block) for block in parts])
        np.testing.assert_array_equal(together, dense(whole.A))
    np.testing.assert_array_equal(parts.labels, whole.labels)
    np.testing.assert_array_equal(parts.anchors, whole.anchors)
    assert whole.A.dtype == np.float32
    assert datasets.separable(1001, 100, 5, keep_weights=False, **options).weights is None


def test_separable_noise_and_condition():
    data = datasets.separable(4000, 30, 6, noise=0.05, condition=50, rng=0)
    clean = data.weights @ data.components
    assert np.linalg.cond(data.components) == pytest.approx(50, rel=1e-6)
    inside = clean > 3 * 0.05 * np.sqrt(np.mean(clean**2))
    ratio = np.std((data.A - clean)[inside]) / np.sqrt(np.mean(clean**2))
    assert ratio == pytest.approx(0.05, rel=0.03)


def test_separable_refuses():
    with pytest.raises(InvalidInputError, match="need 20 rows"):
        datasets.separable(10, 5, 4, copies=5)
    with pytest.raises(InvalidInputError, match="mixing"):
        datasets.separable(10, 5, 2, mixing=3)
    with pytest.raises(InvalidInputError, match="cannot be combined"):
        datasets.separable(10, 5, 2, condition=10, sparse=0.5)
    with pytest.raises(InvalidInputError, match="its own column"):
        datasets.separable(10, 3, 4, sparse=0.5)
    with pytest.raises(InvalidTypeError, match="noise"):
        datasets.separable(10, 5, 2, noise="much")
    with pytest.raises(InvalidInputError, match="noise"):
        datasets.separable(10, 5, 2, noise=np.nan)


def test_topics():
    corpus = datasets.topics(20_000, 1000, 5, length=60, pure=2, rng=4)
    A = corpus.A
    assert sp.issparse(A)
    assert A.shape == (20_000, 1000)
    assert A.dtype == np.int32
    assert A.data.min() >= 1
    assert A.sum(axis=1).min() >= 1
    assert A.sum() / 20_000 == pytest.approx(60, rel=0.03)
    np.testing.assert_allclose(corpus.topics.sum(axis=1), 1.0)
    for t, words in enumerate(corpus.anchor_words):  # an anchor word has its topic only, and does occur
        assert np.all(corpus.topics[t, words] > 0)
        assert np.all(np.delete(corpus.topics, t, axis=0)[:, words] == 0)
        assert np.all(A[:, words].sum(axis=0) > 0)
        assert np.sum(corpus.labels == t) == 2
        pure = A[corpus.anchors[t]].toarray().ravel()
        assert np.all(corpus.topics[t, pure > 0] > 0)
    # the counts follow weights · topics: the frequency of each word within 6 standard errors (1000 words, < 1e-5)
    expected = (corpus.weights * A.sum(axis=1)[:, None]).sum(axis=0) @ corpus.topics
    assert np.all(np.abs(A.sum(axis=0) - expected) < 6 * np.sqrt(expected) + 6)
    assert len(set(corpus.vocabulary)) == 1000
    assert corpus.vocabulary[corpus.anchor_words[3, 1]] == "anchor3_1"


def test_topics_follow_zipf():
    corpus = datasets.topics(2000, 2000, 1, zipf=1.0, contrast=0.0, anchor_words=0, pure=0, rng=0)
    law = np.log(corpus.topics[0])
    slope = np.polyfit(np.log(np.arange(2000) + 3.7), law, 1)[0]
    assert slope == pytest.approx(-1.0, abs=1e-9)
    assert corpus.anchors.tolist() == [-1]


def test_topics_refuse():
    with pytest.raises(InvalidInputError, match="anchor words"):
        datasets.topics(100, 10, 5, anchor_words=2)
    with pytest.raises(InvalidInputError, match="pure documents"):
        datasets.topics(3, 100, 5)


def test_hyperspectral():
    scene = datasets.hyperspectral(24, 30, 50, 4, pure=2, snr=None, dark=7, outliers=3, rng=2)
    assert scene.cube.shape == (24, 30, 50)
    assert scene.maps.shape == (24, 30, 4)
    assert_truth(scene, 720, 50, 4)
    clean = scene.weights @ scene.components
    ordinary = np.setdiff1d(np.arange(720), np.concatenate([scene.dark, scene.outliers]))
    assert len(ordinary) == 710
    np.testing.assert_allclose(scene.A[ordinary], clean[ordinary], atol=1e-12)
    assert np.all(scene.A[scene.dark].sum(axis=1) < 0.051 * clean[scene.dark].sum(axis=1))
    assert np.all(scene.A[scene.outliers].max(axis=1) > 1.0)
    assert np.all(np.bincount(scene.labels[scene.labels >= 0]) == 2)
    # neighbours resemble each other: steps in the maps and spectra are small against their range
    assert np.abs(np.diff(scene.components, axis=1)).max() < 0.2 * np.ptp(scene.components)
    typical = np.median(np.abs(np.diff(scene.maps, axis=0)))
    assert typical < 0.1


def test_hyperspectral_noise_has_the_stated_ratio():
    scene = datasets.hyperspectral(40, 40, 60, 3, snr=30, rng=0)
    clean = scene.weights @ scene.components
    snr = 10 * np.log10(np.mean(clean**2) / np.mean((scene.A - clean) ** 2))
    assert snr == pytest.approx(30, abs=0.5)
    with pytest.raises(InvalidInputError, match="enlarge"):
        datasets.hyperspectral(3, 3, 10, 4, pure=3)


def test_hyperspectral_with_disturbances_of_real_scenes():
    plain = datasets.hyperspectral(40, 50, 60, 4, snr=None, rng=3)
    options = {"spiky_gaps": 2, "shore": 0.03, "shade": 0.2, "rare": 0.005, "bad_columns": 2}
    scene = datasets.hyperspectral(40, 50, 60, 4, snr=None, rng=3, **options)
    np.testing.assert_array_equal(scene.components, plain.components)
    np.testing.assert_allclose(scene.weights.sum(axis=1), 1)
    clean = scene.weights @ scene.components
    assert scene.spiky_bands.tolist() == [17, 18, 19, 20, 21, 22, 37, 38, 39, 40, 41, 42]
    assert len(scene.bad_columns) == 2
    column = np.arange(2000) % 50
    sound_bands = np.setdiff1d(np.arange(60), scene.spiky_bands)
    fine = ~np.isin(column, scene.bad_columns)
    lit = fine & ~np.isin(np.arange(2000), np.concatenate([scene.shore, scene.shaded]))
    np.testing.assert_allclose(scene.A[np.ix_(lit, sound_bands)], clean[np.ix_(lit, sound_bands)])
    noise = scene.A[np.ix_(lit, scene.spiky_bands)] - clean[np.ix_(lit, scene.spiky_bands)]
    assert noise.std() > 0.05 * clean[:, scene.spiky_bands].mean()
    # the shore: dark mixtures of the most common material and others
    only = np.setdiff1d(scene.shore, scene.shaded)
    only = only[fine[only]]
    bright = scene.A[np.ix_(only, sound_bands)].sum(axis=1) / clean[np.ix_(only, sound_bands)].sum(axis=1)
    fifth = 0.2 * np.median(clean.sum(axis=1))
    np.testing.assert_allclose(bright * clean[only].sum(axis=1), fifth, rtol=0.02)
    common = scene.weights.mean(axis=0).argmax()
    assert np.abs(scene.weights[scene.shore, common] - 0.5).max() < 0.25
    assert np.all(scene.labels[scene.shore] == -1)
    # shade, the rare material and the columns
    dimmed = np.setdiff1d(scene.shaded, scene.shore)
    dimmed = dimmed[fine[dimmed]]
    light = (scene.A[np.ix_(dimmed, sound_bands)] / clean[np.ix_(dimmed, sound_bands)]).mean(axis=1)
    assert light.min() >= 0.3
    assert light.max() <= 1.0
    assert light.std() > 0.15
    assert np.count_nonzero(scene.weights[:, 3]) <= 10 + 3
    assert np.count_nonzero(scene.labels == 3) == 3
    spoiled = ~fine & ~np.isin(np.arange(2000), np.concatenate([scene.shore, scene.shaded]))
    gains = scene.A[np.ix_(spoiled, sound_bands)] / clean[np.ix_(spoiled, sound_bands)]
    assert set(np.unique(gains.round(6))) == {0.7, 1.0, 1.3}
    with pytest.raises(InvalidInputError, match="50 columns wide"):
        datasets.hyperspectral(40, 50, 60, 4, bad_columns=51)
    with pytest.raises(InvalidInputError, match="shore"):
        datasets.hyperspectral(shore=2.0)


def test_ratings():
    data = datasets.ratings(5000, 200, 4, per_user=20, rng=6)
    A = data.A
    assert A.shape == (5000, 200)
    assert np.all(np.isin(A.data, np.arange(1, 11) / 2))
    assert np.diff(A.indptr).min() >= 1
    rows, columns = A.nonzero()
    liking = np.einsum("ij,ji->i", data.weights[rows], data.components[:, columns])
    assert np.corrcoef(liking, A.data)[0, 1] > 0.6


MAKERS = {
    "dirichlet": lambda rng: datasets.dirichlet(30, 8, 4, noise=0.1, rng=rng),
    "middle_points": lambda rng: datasets.middle_points(8, 4, noise=0.1, rng=rng),
    "separable": lambda rng: datasets.separable(50, 8, 4, noise=0.1, rng=rng),
    "sparse": lambda rng: datasets.separable(50, 20, 4, noise=0.1, sparse=0.2, rng=rng),
    "topics": lambda rng: datasets.topics(40, 60, 3, rng=rng),
    "hyperspectral": lambda rng: datasets.hyperspectral(8, 9, 10, 3, dark=2, outliers=2, rng=rng),
    "ratings": lambda rng: datasets.ratings(40, 30, 3, rng=rng),
}


@pytest.mark.parametrize("name", sorted(MAKERS))
def test_same_seed_same_data(name):
    make = MAKERS[name]
    one, same, other = make(11), make(np.random.default_rng(11)), make(12)
    np.testing.assert_array_equal(dense(one.A), dense(same.A))
    assert one.A.shape != other.A.shape or not np.array_equal(dense(one.A), dense(other.A))


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: datasets.separable(50, 30, 3, dtype="i4"), "dtype must be a type of floating-point numbers"),
        (lambda: datasets.separable(50, 30, 3, dtype="zz"), "dtype must be a type of floating-point numbers"),
        (lambda: datasets.separable(50, 30, 3, noise=1e308), "noise must be"),
        (lambda: datasets.dirichlet(50, 30, 3, alpha=1e308), "alpha must be"),
        (lambda: datasets.topics(50, 60, 3, length=1e18), "length must be"),
        (lambda: datasets.topics(50, 60, 3, zipf=1e9), "zipf must be"),
        (lambda: datasets.cells(50, 60, 3, depth=1e300), "depth must be"),
        (lambda: datasets.ratings(50, 60, 3, noise=1e308), "noise must be"),
        (lambda: datasets.hyperspectral(5, 5, 20, 3, snr=-1e9), "snr must be"),
    ],
)
def test_options_that_would_overflow_are_refused(make, said):
    with pytest.raises(FastAnchorsError, match=said):
        make()


@pytest.mark.parametrize(("m", "n", "needed"), [(10**7, 10**6, "8e[+]04 GB"), (10**12, 10**12, "8e[+]15 GB")])
def test_a_matrix_larger_than_memory_names_its_size(m, n, needed):
    with pytest.raises(TooLargeError, match=rf"need {needed} of memory; .* separable_blocks"):
        datasets.separable(m, n, 3)


def test_noise_beyond_the_type_is_refused():
    """It was infinite, with a warning of NumPy; for sparse float16 there was an error of SciPy."""
    with pytest.raises(InvalidInputError, match=r"noise = 1e\+30 gives entries that float16 cannot hold"):
        datasets.separable(20, 5, 2, noise=1e30, dtype="f2", rng=0)
    with pytest.raises(InvalidTypeError, match="no sparse matrices of float16"):
        datasets.separable(20, 5, 2, dtype="f2", sparse=0.5, rng=0)
    assert np.isfinite(datasets.separable(20, 5, 2, noise=1e30, dtype="f4", rng=0).A).all()
