"""Disturbances of real scenes: spikes, noisy bands, rare materials, no pure pixels; each part against a naive twin."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import nnls

import fastanchors as fa
from fastanchors.apps._groups import Judge, Pixels, _swapped, best_groups, refined_spectra
from fastanchors.apps._outliers import ScaledPixels
from fastanchors.apps._spikes import find_spikes
from fastanchors.encoder import encode
from fastanchors.greedy.groups import cores
from fastanchors.greedy.noise import excess_noise
from fastanchors.greedy.selection import smoothed_groups


@pytest.fixture(scope="module")
def scene():
    return fa.datasets.hyperspectral(40, 50, 60, 4, snr=30.0, rng=5)


def angle(scene, result):
    return fa.metrics.matched_spectral_angle(scene.components, result.endmembers).mean


def test_hot_pixels_are_distinguished_from_spiky_bands(scene):
    rng = np.random.default_rng(0)
    clean = [flags.sum() for flags in find_spikes(scene.A)]
    assert clean == [0, 0]
    hot, at = scene.A.copy(), rng.choice(2000, 80, replace=False)
    hot[at, rng.integers(0, 60, 80)] = 5 * scene.A.max()
    pixels, bands = find_spikes(hot)
    assert sorted(np.flatnonzero(pixels)) == sorted(at)
    assert not bands.any()
    spiky = scene.A.copy()
    spiky[rng.choice(2000, 300, replace=False), 20] += 5 * scene.A.max()
    pixels, bands = find_spikes(spiky)
    assert np.flatnonzero(bands).tolist() == [20]
    assert not pixels.any()
    assert [flags.sum() for flags in find_spikes(scene.A[:, :3])] == [0, 0]


def test_noise_of_a_band_is_its_residual_from_the_others(scene):
    noisy = scene.A.copy()
    noisy[:, [7, 31]] += 0.3 * np.random.default_rng(1).standard_normal((2000, 2))
    values, axes = np.linalg.eigh(noisy.T @ noisy)
    found = excess_noise(values[::-1], axes[:, ::-1], np.linalg.norm(noisy, axis=0), 2000)
    assert np.flatnonzero(found > 1).tolist() == [7, 31]
    left = [
        np.linalg.norm(noisy[:, b] - np.delete(noisy, b, 1) @ np.linalg.lstsq(np.delete(noisy, b, 1), noisy[:, b])[0])
        for b in range(60)
    ]
    assert np.flatnonzero(left > 5 * np.median(left)).tolist() == [7, 31]
    np.testing.assert_allclose(1 / np.sqrt(axes**2 @ (1 / values)), left, rtol=1e-6)
    np.testing.assert_allclose(found[[7, 31]], np.array(left)[[7, 31]] / np.median(left), rtol=1e-6)
    too_few = excess_noise(values[::-1], axes[:, ::-1], np.linalg.norm(noisy, axis=0), 100)
    assert (too_few == 1).all()


def test_the_result_lists_noisy_bands_and_its_spectra_have_them():
    made = fa.datasets.hyperspectral(40, 50, 60, 4, spiky_gaps=2, rng=3)
    result = fa.apps.unmix(made.cube, 4)
    assert set(result.hot_bands) <= set(made.spiky_bands)
    assert result.hot_bands.size >= 10
    assert angle(made, result) < 0.03


def test_residuals_equal_least_squares_pixel_by_pixel(scene):
    judge = Judge(scene.A, np.arange(60) != 5)
    pixels, spectra = np.delete(scene.A, 5, axis=1)[:40], np.delete(scene.components[:3], 5, axis=1)
    left = [nnls(spectra.T, pixel)[1] for pixel in pixels]
    np.testing.assert_allclose(judge.missed(spectra)[:40], (left / np.linalg.norm(pixels, axis=1)) ** 2, atol=1e-12)


def test_spectra_are_scaled_so_that_shares_sum_to_one(scene):
    judge = Judge(scene.A, np.ones(60, dtype=bool))
    dim = scene.components * np.array([[0.8], [1.0], [1.25], [1.1]])
    np.testing.assert_allclose(judge.as_bright(dim) * dim, scene.components, rtol=0.02)
    wrong = scene.components[[0, 1, 2, 2]] * np.array([[1.0], [1.0], [1.0], [0.9]])
    factors = judge.as_bright(wrong)  # kept if pixels are explained no worse
    before, after = (np.sqrt(judge.missed(each, sum_to_one=True).mean()) for each in (wrong, wrong * factors))
    assert after <= 1.1 * before


def grouped(X, k, count, **options):
    sound = np.ones(X.shape[1], dtype=bool)
    return best_groups(Pixels.of(X, sound, ScaledPixels(X, np.flatnonzero(sound)), k), k, count, **options)


@pytest.mark.parametrize("seed", range(3))
def test_a_rare_material_takes_the_place_of_a_group(seed):
    rng = np.random.default_rng(seed)
    spectra = fa.datasets.hyperspectral(8, 8, 40, 3, rng=0).components
    shares = np.vstack([np.column_stack([rng.dirichlet([1, 1], 2000), np.zeros(2000)]), np.tile([0, 0, 1], (12, 1))])
    X = np.maximum(shares @ spectra + 0.002 * rng.standard_normal((2012, 40)), 0)
    groups = grouped(X, 3, 168)
    assert any(set(range(2000, 2012)) >= set(group) for group in groups)
    assert max(map(len, groups)) > 12  # the other groups keep their size
    assert [len(group) for group in grouped(X[:2000], 2, 100, exactly=True)] == [100, 100]


def test_the_pixels_choose_between_scaled_and_raw_geometry(scene):
    """Shade shortens raw pixels, and noise lengthens scaled dark pixels: the geometry that explains more is used."""
    rng = np.random.default_rng(0)
    for light in (np.ones(2000), rng.uniform(0.05, 1, 2000)):
        X = np.maximum(scene.A * light[:, None], 0)
        judge = Judge(X, np.ones(60, dtype=bool))
        pixels = Pixels.of(X, np.ones(60, dtype=bool), ScaledPixels(X, np.arange(60)), 4)
        best = judge.missed(pixels.spectra(best_groups(pixels, 4, 60, exactly=True))).mean()
        for points in (pixels.scaled, pixels.raw):
            tried = judge.missed(pixels.spectra(cores(points, smoothed_groups(points, 4, 60)))).mean()
            assert best <= tried * (1 + 1e-12)


def test_a_group_of_another_set_takes_the_place_of_a_false_one(scene):
    pixels = Pixels.of(scene.A, np.ones(60, dtype=bool), ScaledPixels(scene.A, np.arange(60)), 4)
    pure = [np.flatnonzero(scene.labels == j) for j in range(4)]
    mixed = np.argsort(-np.minimum(scene.weights[:, 0], scene.weights[:, 2]))[:20]
    swapped = _swapped(pixels, [pure[0], mixed, pure[2], pure[3]], [mixed, pure[3], pure[1]])
    assert [group.tolist() for group in swapped] == [group.tolist() for group in pure]
    same = _swapped(pixels, pure, [mixed, pure[2]])
    assert [group.tolist() for group in same] == [group.tolist() for group in pure]


def test_a_dark_material_is_refined_by_its_own_pixels():
    """Pixels of a dark material that are brighter than it are mixtures; they must not outweigh the pure ones."""
    rng = np.random.default_rng(0)
    spectra = fa.datasets.hyperspectral(8, 8, 60, 3, rng=3).components * np.array([[0.05], [1.0], [1.0]])
    water, shore, land = (rng.dirichlet(a, m) for a, m in (([1000, 1, 1], 500), ([20, 1, 1], 100), ([0.1, 1, 1], 900)))
    shares = np.vstack([water, shore, land])
    X = shares @ spectra + 0.001 * rng.random((1500, 60))
    groups = [np.argsort(-shares[:, j])[:60] for j in range(3)]
    start = np.array([np.median(X[group], axis=0) for group in groups])
    found = refined_spectra(ScaledPixels(X, np.arange(60)), start, groups)[0]
    before, after = (fa.metrics.spectral_angles(each[:1], spectra[:1])[0, 0] for each in (start, found))
    assert after < before


def test_refined_spectra_equal_their_twin(scene):
    pixels = ScaledPixels(scene.A, np.arange(60))
    groups = [np.flatnonzero(scene.labels == j) for j in range(4)]
    start = np.array([np.median(scene.A[group], axis=0) for group in groups])
    found, shares = refined_spectra(pixels, start, groups)
    brightness = scene.A.sum(axis=1)
    middle = np.median(brightness)
    rows = scene.A / np.maximum(brightness, 0.1 * middle)[:, None]
    profiles = start / start.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(shares, encode(rows, profiles, sum_to_one=True))
    main = shares.argmax(axis=1)
    usual = np.array([min(np.median(brightness[group]), middle) for group in groups])
    weights = np.minimum(1, brightness / usual[main]) ** 2 * (500 / np.bincount(main))[main]
    pure = [(np.eye(4)[j], profiles[j], weights[group].sum()) for j, group in enumerate(groups)]
    left = np.vstack([shares, [f for f, _, _ in pure]])
    right = np.vstack([rows, [p for _, p, _ in pure]])
    root = np.sqrt(np.concatenate([weights, [w for _, _, w in pure]]))[:, None]
    twin = np.linalg.lstsq(left * root, right * root)[0]
    np.testing.assert_allclose(found / found.sum(axis=1, keepdims=True), twin / twin.sum(axis=1, keepdims=True))
    np.testing.assert_allclose(found.sum(axis=1), start.sum(axis=1))


@pytest.mark.parametrize("seed", range(3))
def test_spectra_without_pure_pixels_are_nearer_than_any_group(seed):
    made, rng = fa.datasets.hyperspectral(50, 50, 60, 3, pure=1, snr=None, rng=seed), np.random.default_rng(seed)
    shares = 0.8 * rng.dirichlet([0.5] * 3, 2500) + 0.2 / 3
    varied = (shares * np.exp(0.05 * rng.standard_normal(shares.shape))) @ made.components
    varied *= np.exp(0.02 * np.cumsum(rng.standard_normal((2500, 60)), axis=1) / np.sqrt(60))
    auto, groups = fa.apps.unmix(varied, 3), fa.apps.unmix(varied, 3, method="groups")
    assert auto.method == "refined"
    assert angle(made, auto) < angle(made, groups)


@pytest.mark.parametrize("order", ["C", "F"])
def test_columns_of_another_gain_are_found_and_set_aside(order):
    made = fa.datasets.hyperspectral(60, 50, 60, 4, bad_columns=2, rng=0)
    cube = made.cube.copy()
    cube[3] = 0.0
    flat = cube.reshape(-1, 60) if order == "C" else cube.transpose(1, 0, 2).reshape(-1, 60)
    result = fa.apps.unmix(flat, 4, shape=(60, 50), order=order)
    assert result.bad_columns.tolist() == made.bad_columns.tolist()
    assert angle(made, result) < 0.02
    columns = np.unravel_index(result.anchors, (60, 50), order=order)[1]
    assert not set(columns) & set(made.bad_columns)
    assert fa.apps.unmix(cube, 4, keep_outliers=True).bad_columns.size == 0
    assert fa.apps.unmix(made.A, 4).bad_columns.size == 0  # no image, no columns
    for seed in range(3):
        clean = fa.datasets.hyperspectral(60, 50, 60, 4, rng=seed)
        assert fa.apps.unmix(clean.cube, 4).bad_columns.size == 0


def test_the_curve_over_k_has_the_evidence_for_each_k():
    made = fa.datasets.hyperspectral(40, 40, 60, 4, snr=30.0, rng=0)
    curve = fa.apps.material_curve(made.cube, 6)
    assert curve.k.tolist() == [2, 3, 4, 5, 6]
    assert curve.chosen == curve.suggested == 4
    assert "suggests 4 materials, and all of them would be found again" in curve.statement
    assert curve.missed[2] < 0.6 * curve.missed[0]
    assert curve.missed[4] > 0.8 * curve.missed[2]
    assert curve.as_dict()["chosen"] == 4
    few = fa.apps.material_curve(made.cube, 3)
    assert few.chosen is None
    assert "more than were tried" in few.statement


def test_no_number_is_guessed_where_spectra_vary():
    made, rng = fa.datasets.hyperspectral(40, 40, 60, 4, snr=30.0, rng=0), np.random.default_rng(0)
    bend = np.cumsum(rng.standard_normal((1600, 60)), axis=1) / 20
    curve = fa.apps.material_curve(made.A * np.exp(bend), 5)
    assert curve.chosen is None
    plain = fa.apps.material_curve(fa.datasets.hyperspectral(20, 20, 30, 3, snr=None, rng=0).cube, 5)
    assert plain.suggested == 3
    assert plain.firm[1] == 3


@pytest.mark.parametrize("interleave", ["bsq", "bil", "bip"])
@pytest.mark.parametrize("spoil", ["nothing", "a zero pixel", "an empty pixel", "a zero band", "a gap", "a first gap"])
def test_mapped_images_give_the_same_as_arrays(tmp_path, interleave, spoil):
    cube = np.round(fa.datasets.hyperspectral(20, 25, 12, 3, rng=0).cube * 1000 + 5).astype(np.int16)
    if spoil == "a zero pixel":
        cube[7, 9] = 0
    elif spoil == "an empty pixel":
        cube[7, 9] = -9999
    elif spoil == "a zero band":
        cube[:, :, 4] = 0
    elif spoil == "a first gap":
        cube[7, 9, 0] = -9999
    elif spoil == "a gap":
        cube[7, 9, 3] = -9999
    axes = {"bsq": (2, 0, 1), "bil": (0, 2, 1), "bip": (0, 1, 2)}[interleave]
    cube.transpose(axes).tofile(tmp_path / "x.img")
    text = f"ENVI\nsamples = 25\nlines = 20\nbands = 12\ndata type = 2\ninterleave = {interleave}\n"
    (tmp_path / "x.hdr").write_text(text + "data ignore value = -9999\n")
    mapped, array = fa.apps.unmix(tmp_path / "x.img", 3), fa.apps.unmix(cube, 3, nodata=-9999)
    for name in ("empty", "incomplete", "dead_bands", "anchors"):
        np.testing.assert_array_equal(getattr(mapped, name), getattr(array, name))
    np.testing.assert_allclose(mapped.abundances, array.abundances, atol=1e-9)
    assert mapped.empty.size + mapped.incomplete.size + mapped.dead_bands.size == (spoil != "nothing")


@pytest.mark.parametrize("noise", [0.0, 1e-6, 1e-5])
def test_scenes_with_almost_no_noise_are_unmixed_exactly_in_every_unit(noise):
    """The purest pixels are then as likely as refined vertices; groups of pixels, a thousand times less exact, are not
    taken because rounding prefers the former."""
    scene = fa.datasets.hyperspectral(24, 24, 40, 7, pure=1, snr=None, rng=0)
    cube = scene.cube + noise * np.random.default_rng(0).random(scene.cube.shape)
    found = [fa.apps.unmix(cube * factor, 7) for factor in (1.0, 3.0, 1 / 3)]
    for result in found:
        assert fa.metrics.matched_spectral_angle(scene.components, result.endmembers).mean <= 2 * noise + 1e-7
        assert result.method == "vertices"
        assert result.anchors.tolist() == found[0].anchors.tolist()


@pytest.mark.parametrize("seed", range(2))
def test_the_order_of_materials_does_not_depend_on_the_unit(seed):
    """Several sizes of groups explain a scene without noise: rounding must not choose among them."""
    scene = fa.datasets.hyperspectral(30, 40, 50, 4, snr=None, rng=seed)
    orders = {tuple(fa.apps.unmix(scene.cube * factor, 4).anchors.tolist()) for factor in (1.0, 3.0, 7.0, 0.1, 1 / 3)}
    assert len(orders) == 1


def test_counts_and_reflectance_give_the_same_materials():
    scene = fa.datasets.hyperspectral(24, 24, 40, 6, pure=2, snr=None, rng=3)
    counts = np.rint(20_000 * scene.cube).astype(np.uint16)
    found = [fa.apps.unmix(each, 6) for each in (counts, counts / 20_000, 3 * counts.astype(np.int64))]
    for result in found:
        assert fa.metrics.matched_spectral_angle(scene.components, result.endmembers).mean < 1e-4
        assert (result.method, result.anchors.tolist()) == (found[0].method, found[0].anchors.tolist())
