"""Noise-aware selection: coordinates, rules, refinement, noise, stability and the number of anchors."""

from __future__ import annotations

import pickle
import tracemalloc
from pathlib import Path

import dask.array as da
import numpy as np
import pytest
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

import fastanchors as fa
from fastanchors.errors import InvalidInputError, RankError
from fastanchors.greedy import extremes
from fastanchors.greedy.anchoring import ALL, _directions_shown, find_anchors, spread_of_noise, working_rows
from fastanchors.greedy.clipping import Unclipped, clipped_noise, with_clipping
from fastanchors.greedy.coordinates import (
    Coordinates,
    _leverage,
    _with_neighbours,
    block_coordinates,
    coordinates,
    fit_frame,
    pilot_frame,
)
from fastanchors.greedy.corners import Hull
from fastanchors.greedy.extremes import Extremes, extreme_rows, towards
from fastanchors.greedy.hidden import _standing_out, dense_groups_for_hidden
from fastanchors.greedy.how_many import how_many
from fastanchors.greedy.likelihood import WIDTHS, Proportions, SimplexLikelihood
from fastanchors.greedy.neighbours import nearest_points
from fastanchors.greedy.noise import Noise, estimate_noise
from fastanchors.greedy.notable import _drawn, notable_rows
from fastanchors.greedy.principal import principal_directions, settled, signs_of
from fastanchors.greedy.refine import refine
from fastanchors.greedy.selection import (
    RULES,
    best_volume,
    groups_by_rule,
    hull_corners,
    lifted,
    pseudo_points,
    select,
    successive_projection,
)
from fastanchors.greedy.stability import stability
from fastanchors.greedy.summary import summarise
from fastanchors.matrix import open_matrix
from naive.noise_aware import (
    naive_extremes,
    naive_farthest_from_hull,
    naive_hull_corners,
    naive_log_likelihood,
    naive_pseudo_points,
    naive_smoothed_one,
    naive_spa,
    naive_standing_out,
    naive_subspace_iteration,
    naive_unclipped,
)

Array = NDArray[np.float64]


def mixed(seed: int, rows: int = 1200, columns: int = 120, k: int = 5) -> tuple[Array, Array, np.random.Generator]:
    rng = np.random.default_rng(seed)
    H = rng.gamma(0.3, size=(k, columns)) + 1e-6
    H /= H.sum(axis=1, keepdims=True)
    W = rng.dirichlet(np.full(k, 0.3), rows)
    W[:k] = np.eye(k)
    return W @ H, H, rng


def counted(seed: int, depth: float = 1000.0) -> tuple[Array, Array]:
    X, H, rng = mixed(seed)
    return rng.poisson(X * depth * rng.lognormal(0, 0.5, (len(X), 1))) + 0.0, H


def blurred(seed: int, level: float) -> tuple[Array, Array]:
    X, H, rng = mixed(seed)
    return np.maximum(X + level * X.mean() * rng.standard_normal(X.shape), 0), H


def angle(found: Array, true: Array) -> float:
    unit = [x / np.linalg.norm(x, axis=1, keepdims=True) for x in (found, true)]
    angles = np.arccos(np.clip(unit[0] @ unit[1].T, -1, 1))
    return float(angles[linear_sum_assignment(angles)].mean())


def kept(X: object, d: int = 32) -> Coordinates:
    return coordinates(open_matrix(X), d)


# --- coordinates ------------------------------------------------------------------------------------------------------


def test_coordinates_are_projections_of_profiles() -> None:
    X, _ = counted(0)
    found = kept(X)
    frame = found.frame
    z = (X / X.sum(axis=1, keepdims=True) - frame.centre) * frame.scale
    np.testing.assert_allclose(found.values, z @ frame.directions, rtol=1e-4, atol=1e-6 * np.abs(z).max())
    np.testing.assert_allclose(frame.directions.T @ frame.directions, np.eye(32), atol=1e-10)
    points, left = found.leading(4)
    rest = z - z @ frame.directions[:, :4] @ frame.directions[:, :4].T
    np.testing.assert_allclose(left, np.sum(rest**2, axis=1), rtol=1e-4)
    assert points.shape == (len(X), 4)


@pytest.mark.parametrize("columns", [120, 700])  # by Gram matrix, by subspace iteration
def test_sparse_rows_have_the_same_coordinates(columns: int) -> None:
    X, _, rng = mixed(1, columns=columns)
    X = rng.poisson(2000 * X) + 0.0
    dense, sparse = kept(X), kept(sp.csr_array(X))
    signs = np.sign(np.sum(dense.frame.directions * sparse.frame.directions, axis=0))[:4]
    np.testing.assert_allclose(
        dense.values[:, :4], sparse.values[:, :4] * signs, atol=1e-4 * np.abs(dense.values).max()
    )


def scattered(seed: int, rows: int, columns: int, entries: int) -> sp.csr_array:
    """Rows of a few entries in many columns, most of which are zero."""
    rng = np.random.default_rng(seed)
    at = np.repeat(np.arange(rows), entries), rng.integers(0, columns, rows * entries)
    return sp.csr_array((rng.random(rows * entries), at), shape=(rows, columns))


@pytest.mark.parametrize("form", ["dense", "sparse"])
@pytest.mark.parametrize("rows", [4, 60, 900])  # fewer than directions, fewer than columns, more
@pytest.mark.parametrize("rank", [3, 600])
def test_principal_directions_are_those_of_the_naive_iteration(rows: int, rank: int, form: str) -> None:
    rng = np.random.default_rng(rows + rank)
    X = np.maximum(rng.random((rows, rank)) - 0.7, 0.0) @ np.maximum(rng.random((rank, 600)) - 0.9, 0.0) + 1e-3
    w, centre, scale, start = rng.random(rows) + 0.1, X.mean(axis=0), rng.random(600) + 0.5, rng.random((600, 12))
    Z = np.sqrt(w / w.sum())[:, None] * (X - centre) * scale
    values, V = naive_subspace_iteration(Z, start, 3)
    given = sp.csr_array(X) if form == "sparse" else X
    found, W, spread = principal_directions(given, w, centre, scale, start, 8, 3)
    d = min(8, int(np.sum(values > 1e-10 * values[0])), len(found))
    np.testing.assert_allclose(found[:d], values[:d], rtol=1e-8, atol=1e-13 * values[0])
    np.testing.assert_allclose(np.abs(np.sum(W[:, :d] * V[:, :d], axis=0)), 1.0, atol=1e-8)
    np.testing.assert_allclose(W.T @ W, np.eye(W.shape[1]), atol=1e-12)
    assert spread.shape == (600,)


def test_columns_of_zeros_change_no_direction() -> None:
    A = scattered(0, 120, 700, 40).tocoo()
    A = sp.csr_array(A)[:, np.flatnonzero(A.sum(axis=0))]
    places = np.sort(np.random.default_rng(1).choice(20_000, A.shape[1], replace=False))
    spaced = sp.csr_array((A.data, places[A.indices], A.indptr), shape=(120, 20_000))
    few, many = (
        fit_frame(rows, 8, weights="none", rng=np.random.default_rng(2)) for rows in (spaced, spaced.toarray())
    )
    np.testing.assert_allclose(few.centre, many.centre, atol=1e-15)
    np.testing.assert_allclose(few.scale, many.scale, rtol=1e-10)
    np.testing.assert_allclose(few.directions, many.directions, atol=1e-9)
    assert not np.delete(few.directions, places, axis=0).any()


def test_the_frame_does_not_depend_on_how_zeros_are_stored():
    """The rows of the first rounds were counted with the zeros of dense rows: noisy rows had other anchors in CSR."""
    rng = np.random.default_rng(0)
    A = rng.poisson(rng.dirichlet(np.full(8, 0.3), size=6000) @ rng.dirichlet(np.full(360, 0.3), size=8) * 200.0)
    dense, sparse = (fit_frame(rows, 8) for rows in (A, sp.csr_array(A)))
    assert A.size > 2 << 20 > np.count_nonzero(A)
    np.testing.assert_allclose(dense.scale, sparse.scale, rtol=1e-9)
    np.testing.assert_allclose(dense.directions, sparse.directions, atol=1e-9)


@pytest.mark.parametrize("columns", [33, 700])
def test_signs_of_directions_do_not_depend_on_rounding(columns: int) -> None:
    """The extreme rows of many depend on them: dense and sparse rows would have other anchors."""
    rng = np.random.default_rng(5)
    A = rng.random((ALL + 500, columns)) * (rng.random((ALL + 500, columns)) < 0.4)
    A[:, 0] += 0.05
    some = A[: 900 if columns > 33 else None]
    frames = [fit_frame(rows) for rows in (some, sp.csr_array(some))]
    assert (np.sum(frames[0].directions * frames[1].directions, axis=0) > 0).all()
    assert all((f.directions.max(axis=0) > -(1 - 1e-6) * f.directions.min(axis=0)).all() for f in frames)
    if columns == 33:
        found = [fa.FAS().seek(rows, 2) for rows in (A, sp.csr_array(A), *map(fa.SampleMatrix, (A, sp.csr_array(A))))]
        assert all(each.indices.tolist() == found[0].indices.tolist() for each in found)


def test_signs_of_vectors() -> None:
    V = np.array([[1.0, -2.0, -1.0, 0.0], [-3.0, 1.0, 1.0 + 1e-9, 0.0]])
    assert signs_of(V).tolist() == [-1.0, -1.0, -1.0, 1.0]


def test_many_columns_of_few_entries_take_little_memory() -> None:
    """The directions are n × d numbers; nothing else of that size is made."""
    A = scattered(0, 300, 200_000, 20)
    fit_frame(A[:, :2000])
    tracemalloc.start()
    try:
        frame = fit_frame(A)
        block_coordinates(0, A, frame)
        assert tracemalloc.get_traced_memory()[1] < 1.6 * frame.directions.nbytes
    finally:
        tracemalloc.stop()


def test_scaling_rows_changes_nothing() -> None:
    X, _, rng = mixed(2)
    X = rng.poisson(500 * X) + 0.0
    scale = rng.uniform(0.1, 10, (len(X), 1))
    one, other = find_anchors(kept(X), 5), find_anchors(kept(X * scale), 5)
    assert one is not None
    assert other is not None
    np.testing.assert_array_equal(one.indices, other.indices)
    np.testing.assert_allclose(one.profiles, other.profiles, atol=1e-5)


@pytest.mark.parametrize("rule", ["lifted", "whitened", "smoothed", "smoothed-one", "pseudo-points"])
def test_multiples_of_one_row_have_one_anchor(rule: str) -> None:
    rng = np.random.default_rng(0)
    A = rng.random(20) * (1 + rng.random((30, 1)))
    for rows in (A, sp.csr_array(A), fa.SampleMatrix(A)):
        with pytest.raises(RankError, match="at most 1 anchors"):
            fa.FAS(selection=rule).seek(rows, 3)  # type: ignore[arg-type]


@pytest.mark.parametrize("difference", [1e-3, 1e-5, 1e-7, 1e-9])
@pytest.mark.parametrize("rule", ["auto", "lifted", "pseudo-points"])
def test_rows_that_are_nearly_alike_give_the_same_anchors_in_every_form(rule: str, difference: float) -> None:
    for seed in range(5):
        rng = np.random.default_rng(seed)
        A = rng.random((40, 1)) * rng.random(15) * (1 + difference * rng.random((40, 15)))
        found = [fa.FAS(selection=rule).seek(rows, 3).indices for rows in (A, sp.csr_array(A), fa.SampleMatrix(A))]  # type: ignore[arg-type]
        np.testing.assert_array_equal(found[1], found[0])
        np.testing.assert_array_equal(found[2], found[0])


def test_zero_rows_are_never_anchors() -> None:
    X, _ = counted(3)
    X[::7] = 0
    found = find_anchors(kept(X), 5)
    assert found is not None
    assert not np.any(found.indices % 7 == 0)
    with pytest.raises(InvalidInputError, match="every row of A is zero"):
        kept(np.zeros((5, 4)))


def test_k_beyond_the_directions_kept_says_what_to_do() -> None:
    X, _ = counted(4)
    with pytest.raises(InvalidInputError, match="rebuild with directions=11"):
        find_anchors(kept(X, 8), 12)


@pytest.mark.parametrize("weights", ["auto", "poisson", "none", "given"])
def test_weights(weights: str) -> None:
    X, H = counted(5)
    given = X.sum(axis=1) if weights == "given" else weights
    found = find_anchors(coordinates(open_matrix(X), weights=given), 5)  # type: ignore[arg-type]
    assert found is not None
    assert angle(found.profiles, H) < 0.05


# --- rules ------------------------------------------------------------------------------------------------------------


def test_successive_projection_is_spa() -> None:
    points = np.random.default_rng(0).standard_normal((200, 6))
    np.testing.assert_array_equal(successive_projection(points, 6), naive_spa(points, 6))
    with pytest.raises(RankError, match="only 2 of 3"):
        successive_projection(np.array([[1.0, 2.0, 1.0], [2.0, 4.0, 1.0], [3.0, 6.0, 1.0]]), 3)


def test_pseudo_points_are_means_of_neighbours() -> None:
    rng = np.random.default_rng(1)
    points, precision = rng.uniform(size=(80, 3)), rng.uniform(0.5, 2, 80)
    np.testing.assert_allclose(pseudo_points(points, 6, precision), naive_pseudo_points(points, 6, precision))
    with_odd = np.vstack([points, [[50.0, 0, 0]]])
    assert pseudo_points(with_odd, 6, np.ones(81)).max() < 2  # an isolated point is left out


@pytest.mark.parametrize("seed", range(4))
def test_smoothed_from_one_direction_per_step_is_as_published(seed: int) -> None:
    rng = np.random.default_rng(seed)
    corners = rng.standard_normal((5, 4))
    points = rng.dirichlet(np.full(5, 0.3), 150) @ corners + 0.05 * rng.standard_normal((150, 4))
    expected = naive_smoothed_one(lifted(points), 5, 7)
    groups = groups_by_rule(lifted(points), 5, 7, "smoothed-one")
    np.testing.assert_allclose([lifted(points)[group].mean(axis=0) for group in groups], expected, atol=1e-12)
    moved = points.mean(axis=0) + expected[:, :-1]  # the last coordinate is the constant
    np.testing.assert_allclose(select(points, 5, "smoothed-one", neighbours=7), moved, atol=1e-12)


def test_best_volume_never_shrinks() -> None:
    points = np.random.default_rng(2).standard_normal((300, 4))
    start = successive_projection(lifted(points), 5)
    flat = np.column_stack([np.ones(300), points])
    before, after = (abs(np.linalg.det(flat[c])) for c in (start, best_volume(points, start)))
    assert after >= before


def test_hull_corners_are_found_if_there_are_more_than_dimensions() -> None:
    rng = np.random.default_rng(12)
    corners = np.array([[0.0, 0], [4, 0], [5, 3], [2, 5], [-1, 3]])
    points = np.vstack([corners, rng.dirichlet(np.ones(5), 300) @ corners])
    assert set(hull_corners(points, 5).tolist()) == set(range(5))
    hull = Hull(points, np.arange(3), 4)
    assert hull.farthest() == naive_farthest_from_hull(points, corners[:3])
    hull.put(3, 3)  # a hull that grows
    assert hull.farthest() == naive_farthest_from_hull(points, corners[:4])


@pytest.mark.parametrize("seed", range(3))
def test_hull_corners_are_those_of_an_exhaustive_search(seed: int) -> None:
    rng = np.random.default_rng(seed)
    d, k = [(2, 5), (2, 4), (3, 6)][seed]
    points = rng.dirichlet(np.full(k, 0.7), 30) @ rng.standard_normal((k, d)) + 0.03 * rng.standard_normal((30, d))
    first = best_volume(points, successive_projection(lifted(points), d + 1)).tolist()
    assert hull_corners(points, k).tolist() == naive_hull_corners(points, first, k, 2)


def test_directions_of_noise_are_not_searched() -> None:
    """Six anchors in three dimensions: the other two of the five leading directions are noise."""
    rng = np.random.default_rng(13)
    directions = np.linalg.qr(rng.standard_normal((80, 3)))[0]
    corners = np.vstack([np.eye(3), -np.eye(3)]) @ directions.T * 0.002
    H = np.full((6, 80), 1 / 80) + corners - corners.mean(axis=1, keepdims=True)
    X = rng.dirichlet(np.full(6, 0.2), 2000) @ H + 5e-5 * rng.standard_normal((2000, 80))
    found = find_anchors(kept(X), 6)
    assert found is not None
    assert found.refined is not None
    assert found.refined.reason == "the rows show 3 of 5 directions"
    assert angle(found.profiles, H) < 0.2 * angle(np.roll(H, 1, axis=0)[[0, 0, 2, 2, 4, 4]], H)


def documents(seed: int, number: int, length: int) -> sp.csr_array:
    """Documents on four subjects with mostly rare words; the first has two words, one of which is in two others."""
    rng = np.random.default_rng(seed)
    subjects = rng.gamma(0.3, size=(4, 3000)) / np.arange(1, 3001)
    subjects /= subjects.sum(axis=1, keepdims=True)
    A = np.array([rng.multinomial(length, subjects[i % 4]) for i in range(number)])
    A[0] = 0
    A[0, 2994] = 1
    A[:3, 2995] = 1
    return sp.csr_array(A.astype(float))


def test_no_direction_is_defined_by_a_single_row() -> None:
    """The residual of a row from a direction defined by it says nothing about the row's noise."""
    values = kept(documents(0, 800, 30)).values.astype(float)
    axes = np.linalg.qr(values)[0]
    hat = values @ np.linalg.inv(values.T @ values) @ values.T
    np.testing.assert_allclose(_leverage(axes), np.diag(hat), rtol=1e-9)
    assert np.max(values**2 / np.sum(values**2, axis=0)) < 0.1


def test_heavy_tailed_directions_are_not_used_as_noise_level() -> None:
    """Three of five directions stand out; later ones are as large as the other two, Gaussian or heavy-tailed."""
    rng = np.random.default_rng(15)
    noise, rows = Noise(np.ones(2000), 1.0, 0.5, True), np.arange(2000)
    shown = []
    for drawn in (rng.standard_normal((2000, 12)), rng.laplace(size=(2000, 12)) / np.sqrt(2)):
        drawn[:, :3] *= 5
        at = Coordinates(kept(mixed(16)[0]).frame, drawn.astype(np.float32), np.ones(2000), np.ones(2000))
        shown.append(_directions_shown(at, rows, noise, 6))
    assert shown == [3, 5]


def test_copies_of_anchors_keep_full_weight_and_outliers_do_not() -> None:
    X, H, rng = mixed(14)
    W = rng.dirichlet(np.full(5, 3.0), 1200)
    W[:100] = np.tile(np.eye(5), (20, 1))
    X = np.maximum(W @ H + 0.3 * H.mean() * rng.standard_normal(X.shape), 0)
    points, variance = kept(X).values.astype(float), float(np.median(kept(X).left)) / 87
    assert _with_neighbours(points, np.arange(100), variance).size > 90
    far = rng.standard_normal((50, 32))
    assert _with_neighbours(far, np.arange(50), 1e-4).size == 0


def test_few_rows_of_a_new_kind_need_no_new_directions() -> None:
    X, H, rng = mixed(17)
    X = np.maximum(X + 0.3 * H.mean() * rng.standard_normal(X.shape), 0)
    summary = summarise(open_matrix(X), 16)
    frame, kind = summary.coordinates.frame, rng.dirichlet(np.ones(X.shape[1]))
    whole = float(np.sum(frame.beyond(kind[None]) ** 2))
    enough = float(np.mean(summary.coordinates.values[:, -1].astype(float) ** 2)) * len(X)  # over all rows
    row = frame.centre + np.sqrt(enough / 20 / whole) * (kind - frame.centre)  # twenty of these have that much energy
    few, many = (
        summary.missed_directions(len(X) + np.arange(m), lambda some: np.tile(row, (len(some), 1))) for m in (12, 42)
    )
    assert few.shape == (X.shape[1], 0)
    assert many.shape == (X.shape[1], 1)
    rest = frame.beyond(row[None])[0]
    assert abs(many[:, 0] @ rest) > 0.999 * np.linalg.norm(rest)
    outliers = np.eye(2, X.shape[1], 5)  # far, but only two
    assert summary.missed_directions(np.array([0, 1, 2]), lambda some: np.vstack([outliers, X[2]])[some]).size == 0


def test_extreme_rows_reach_farthest() -> None:
    values = np.random.default_rng(3).standard_normal((40_000, 5)).astype(np.float32)
    noise = np.zeros(len(values))
    assert set(naive_extremes(values, 16, 2)) <= set(extreme_rows(values, noise, directions=16, depth=2))


def test_extremes_of_parts_are_those_of_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """For any order and pieces of the rows; with ties, and with repeated selection."""
    rng = np.random.default_rng(4)
    values = np.round(rng.standard_normal((9000, 4)), 1).astype(np.float32)
    noise, directions = rng.random(9000), towards(values, 20)
    along = directions @ values.T
    reach = np.concatenate([along, -along]) - noise.astype(np.float32)
    expected = {int(row) for each in reach for row in np.argsort(-each, kind="stable")[:3]}
    for waiting in (extremes._WAITING, 50):
        monkeypatch.setattr(extremes, "_WAITING", waiting)
        parts = []
        for low, high in ((5000, 9000), (0, 2), (2, 5000)):
            part = Extremes(directions, 3)
            for at in range(low, high, 1300):
                piece = slice(at, min(at + 1300, high))
                part.look(values[piece], noise[piece], np.arange(piece.start, piece.stop))
            parts.append(pickle.loads(pickle.dumps(part)))
        for other in parts[1:]:
            parts[0].merge(other)
        assert set(parts[0].rows().tolist()) == expected


@pytest.mark.parametrize("zeros", [0.0, 0.4, 0.9])
def test_a_summary_in_parts_is_that_of_the_whole(zeros: float) -> None:
    X, _, rng = mixed(8, rows=40_000, columns=30)
    X = rng.poisson(300 * X) + 0.0
    X[rng.random(len(X)) < zeros] = 0
    filled = np.flatnonzero(X.sum(axis=1))
    whole = summarise(open_matrix(X))
    assert whole.total == len(filled)
    assert np.isin(whole.rows, filled).all()
    if len(filled) <= ALL:
        assert whole.complete
        np.testing.assert_array_equal(whole.rows, filled)
    else:
        assert not whole.complete
        assert 5500 < len(whole.sample) < 6500
    parts = summarise(open_matrix(da.from_array(X, chunks=(7000, 30))))
    for name in ("rows", "candidates", "sample"):
        np.testing.assert_array_equal(getattr(parts, name), getattr(whole, name))
    np.testing.assert_allclose(parts.coordinates.values, whole.coordinates.values, atol=1e-6)


@pytest.mark.parametrize("count", [2, 7, 80, 300])
@pytest.mark.parametrize("dimension", [3, 10, 11, 60])
def test_nearest_points_by_tree_and_by_all_pairs(dimension: int, count: int) -> None:
    points = np.random.default_rng(6).standard_normal((300, dimension)) + 50.0
    distances, near = nearest_points(points, count)
    gaps = np.linalg.norm(points[:, None] - points, axis=2)
    np.testing.assert_array_equal(near, np.argsort(gaps, axis=1, kind="stable")[:, :count])
    np.testing.assert_allclose(distances, np.sort(gaps, axis=1)[:, :count], atol=1e-12)


@pytest.mark.parametrize("scale", [1e-160, 1.0, 1e150])
def test_nearest_points_of_tight_groups_and_of_far_points(scale: float) -> None:
    """Differences far below the single precision of the products."""
    rng = np.random.default_rng(7)
    groups = np.repeat(rng.standard_normal((20, 12)), 20, axis=0) + 1e-7 * rng.standard_normal((400, 12))
    points = scale * np.vstack([groups, 1e4 * rng.standard_normal((5, 12))])
    gaps = np.linalg.norm((points[::3, None] - points) / scale, axis=2)
    distances, near = nearest_points(points, 9, 3)
    np.testing.assert_array_equal(near, np.argsort(gaps, axis=1, kind="stable")[:, :9])
    np.testing.assert_allclose(distances / scale, np.sort(gaps, axis=1)[:, :9], rtol=1e-6)


@pytest.mark.parametrize("rule", ["smoothed", "smoothed-one", "pseudo-points", "lifted", "whitened", "auto"])
def test_every_rule_finds_the_corners_of_a_clean_simplex(rule: str) -> None:
    rng = np.random.default_rng(4)
    corners = rng.standard_normal((4, 3))
    points = np.vstack([np.repeat(corners, 12, axis=0), rng.dirichlet(np.ones(4), 200) @ corners])
    found = select(points, 4, rule, neighbours=5)
    np.testing.assert_allclose(np.sort(found, axis=0), np.sort(corners, axis=0), atol=1e-9)


def test_unknown_rule() -> None:
    with pytest.raises(InvalidInputError, match="selection"):
        find_anchors(kept(counted(0)[0]), 5, "best")


@pytest.mark.parametrize("kind", ["float32", "float64", "uint8", "clean", "counts", "sizes", "store", "l1 store"])
def test_notable_rows_are_those_of_double_precision(kind: str, tmp_path: Path) -> None:
    """Projecting in single precision first does not change which rows are extreme, nor their coordinates."""
    X, _, rng = mixed(9, rows=20_000, columns=40)
    if kind != "clean":
        X = np.maximum(X + 0.03 * X.mean() * rng.standard_normal(X.shape), 0)
    if kind == "counts":
        X = rng.poisson(100 * X / X.mean()) + 0.0
    if kind == "sizes":  # sums beyond single precision, and zero rows
        X *= 10.0 ** rng.uniform(-150, 150, (len(X), 1))
        X[::9] = 0
    if kind == "uint8":
        X = np.round(250 * X / X.max())
    matrix = open_matrix(
        X.astype(kind if kind in ("float64", "uint8") else "float64" if kind == "sizes" else "float32")
    )
    if "store" in kind:
        matrix = fa.build(matrix.data, tmp_path / "s", normalize="l1" if "l1" in kind else None, sidecars=())
    frame, pilot, filled = pilot_frame(matrix, 16)
    found = notable_rows(matrix, frame, pilot, filled)
    values, left, sums = block_coordinates(0, matrix.rows(np.arange(len(X))), frame)
    full = np.flatnonzero(sums > 0)
    extremes = Extremes(found.extremes.directions)
    extremes.look(values[full], spread_of_noise(frame, left[full]), full)
    np.testing.assert_array_equal(found.extremes.rows(), extremes.rows())
    assert found.filled == len(full)
    for mine, all_of_them in zip(found.kept, (values, left, sums)):
        np.testing.assert_array_equal(mine, all_of_them[found.rows])
    assert set(found.rows) == set(extremes.rows()) | set(found.sample())


# --- refinement -------------------------------------------------------------------------------------------------------


def cloud(seed: int, rows: int = 60) -> tuple[Array, Array, Array]:
    rng = np.random.default_rng(seed)
    corners = rng.standard_normal((4, 3))
    points = rng.dirichlet(np.full(4, 0.5), rows) @ corners + 0.1 * rng.standard_normal((rows, 3))
    return points, rng.uniform(0.05, 0.2, rows), corners


def test_likelihood_is_that_of_its_naive_twin() -> None:
    points, noise, corners = cloud(5)
    model = SimplexLikelihood(points, noise)
    found = model.proportions(corners, Proportions.first(4), 3)
    for vertices in (corners, 0.7 * corners):  # with the second, points are far outside
        expected = naive_log_likelihood(points, noise, vertices, found.rows, found.parts, WIDTHS)
        np.testing.assert_allclose(model.of_points(vertices, found), expected, atol=1e-3)


def test_proportions_make_points_more_likely() -> None:
    points, noise, corners = cloud(6)
    model, start = SimplexLikelihood(points, noise), Proportions.first(4)
    found = model.proportions(corners, start, 5)
    assert model.of_points(corners, found).mean() > model.of_points(corners, start).mean()
    assert found.rows.sum() == pytest.approx(1)
    np.testing.assert_allclose(found.parts.sum(axis=1), 1)


def test_gradient_of_the_likelihood() -> None:
    points, noise, corners = cloud(5)
    model, first = SimplexLikelihood(points, noise), Proportions.first(4)
    _, gradient = model.gradient(corners, first)
    for place in np.ndindex(4, 3):
        step = np.zeros((4, 3))
        step[place] = 1e-3
        ahead, behind = (model.of_points(corners + sign * step, first).mean() for sign in (1, -1))
        assert gradient[place] == pytest.approx((ahead - behind) / 2e-3, rel=1e-2, abs=2e-3)


def test_rows_that_vary_by_more_than_their_noise_are_recognised() -> None:
    points, _, corners = cloud(7, rows=3000)
    start = corners * 1.1
    told = refine(points, np.full(3000, 0.02), start[None], np.random.default_rng(0))  # the noise is 0.1
    assert told.kept
    assert 4 <= told.variation <= 8
    assert np.linalg.norm(told.vertices - corners) < 0.6 * np.linalg.norm(start - corners)
    assert refine(points, np.full(3000, 0.1), start[None], np.random.default_rng(0)).variation == 1


def test_refinement_is_rejected_if_rows_are_not_mixtures() -> None:
    rng = np.random.default_rng(6)
    ball = rng.standard_normal((2000, 3))
    start = ball[successive_projection(lifted(ball), 4)]
    refined = refine(ball, np.full(2000, 0.01), start[None], np.random.default_rng(0))
    assert not refined.kept
    np.testing.assert_array_equal(refined.vertices, start)


def test_the_likelier_start_is_taken() -> None:
    points, _, corners = cloud(8, rows=2000)
    inside = corners.mean(axis=0) + 0.3 * (corners - corners.mean(axis=0))
    noise = np.full(2000, 0.1)
    told = refine(points, noise, np.array([inside, corners]), np.random.default_rng(0))
    alone = refine(points, noise, corners[None], np.random.default_rng(0))
    np.testing.assert_array_equal(told.vertices, alone.vertices)


def test_too_few_rows_are_not_refined() -> None:
    refined = refine(np.eye(3)[:, :2], np.ones(3), np.eye(3)[None, :, :2], np.random.default_rng(0))
    assert "too few" in refined.reason


# --- results ----------------------------------------------------------------------------------------------------------


def test_no_noise_is_left_to_spa() -> None:
    assert find_anchors(kept(mixed(0)[0]), 5) is None
    assert find_anchors(kept(mixed(0)[0].astype(np.float32)), 5) is None


@pytest.mark.parametrize("make", [lambda s: counted(s), lambda s: blurred(s, 0.3), lambda s: blurred(s, 1.0)])
def test_nearer_to_the_truth_than_plain_spa(make: object) -> None:
    ratios = []
    for seed in range(3):
        X, H = make(seed)  # type: ignore[operator]
        P = X / X.sum(axis=1, keepdims=True)
        found = find_anchors(kept(X), 5)
        assert found is not None
        ratios.append(angle(found.profiles, H) / angle(P[naive_spa(P, 5)], H))
    assert np.mean(ratios) < 0.3


def test_anchors_that_are_much_rarer_than_others_are_found() -> None:
    """Means of neighbours have no vertex there, so the refinement starts again from rows."""
    for seed in range(3):
        rng = np.random.default_rng(seed)
        H = rng.gamma(0.1, size=(6, 300)) + 1e-6
        H /= H.sum(axis=1, keepdims=True)
        W = rng.dirichlet(0.3 * np.array([4, 2, 1, 0.1, 0.1, 0.1]), 3000)
        X = rng.poisson(W @ H * 500 * rng.lognormal(0, 0.5, (3000, 1))) + 0.0
        at = kept(X[X.sum(axis=1) > 0])
        found, means = find_anchors(at, 6), find_anchors(at, 6, "pseudo-points")
        assert found is not None
        assert means is not None
        assert angle(means.profiles, H) > 0.2
        assert angle(found.profiles, H) < 0.15
        assert found.refined is not None
        assert found.refined.kept


def test_same_seed_same_answer_and_rows_are_distinct() -> None:
    X, _ = counted(7)
    one, other = find_anchors(kept(X), 5), find_anchors(kept(X), 5)
    assert one is not None
    assert other is not None
    np.testing.assert_array_equal(one.profiles, other.profiles)
    assert len(set(one.indices.tolist())) == 5


def test_many_rows_work_on_few() -> None:
    X, H, rng = mixed(8, rows=30_000, columns=60)
    X = rng.poisson(500 * X) + 0.0
    found = kept(X[X.sum(axis=1) > 0])
    working = working_rows(found)
    assert len(working.candidates) < 9000
    assert len(working.sample) == 6000
    answer = find_anchors(found, 5, working=working)
    assert answer is not None
    assert angle(answer.profiles, H) < 0.05


# --- anchors that are no corners --------------------------------------------------------------------------------------


def test_an_anchor_inside_the_hull_is_its_densest_group() -> None:
    rng = np.random.default_rng(20)
    corners = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.3, 0.3]])
    points = rng.dirichlet(np.full(4, 0.3), 2000) @ corners + 0.01 * rng.standard_normal((2000, 2))
    outermost = np.vstack([corners[:3], [0.52, 0.5]])  # the last is made by the noise
    found = dense_groups_for_hidden(outermost, points, 0.01)
    np.testing.assert_array_equal(found[:3], corners[:3])
    assert np.linalg.norm(found[3] - corners[3]) < 0.02
    square = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    np.testing.assert_array_equal(dense_groups_for_hidden(square, points, 0.01), square)  # all stand out
    np.testing.assert_array_equal(dense_groups_for_hidden(outermost, points, 10.0), outermost)  # nothing is apart
    many = np.vstack([outermost, points[:4]])
    assert dense_groups_for_hidden(many, points, 0.01) is many  # k exceeds what the rows show by far


def test_corners_that_stand_out_as_in_the_naive_way() -> None:
    rng = np.random.default_rng(21)
    for _ in range(10):
        corners = rng.standard_normal((9, 2))
        assert _standing_out(corners, 0.05) == naive_standing_out(corners, 3.5 * 0.05)


def test_anchors_nearly_mixtures_of_others_are_found() -> None:
    angles = []
    for seed in range(4):
        _, H, rng = mixed(seed, columns=200)
        H = (H + 1 / 200) / 2
        H[4] = 0.1 * H[:4].sum(axis=0) + 0.3 * (H[0] + H[1])
        X = rng.dirichlet(np.full(5, 0.3), 2500) @ H
        found = find_anchors(kept(np.maximum(X + 0.1 * X.mean() * rng.standard_normal(X.shape), 0)), 5)
        assert found is not None
        assert found.refined is not None
        assert "directions" in found.refined.reason
        angles.append(angle(found.profiles, H))
    assert np.median(angles) < 0.02


# --- noise ------------------------------------------------------------------------------------------------------------


def test_noise_of_rows_is_recovered() -> None:
    rng = np.random.default_rng(9)
    level = rng.uniform(0.5, 2, 3000)
    left = np.sum((level[:, None] * rng.standard_normal((3000, 200))) ** 2, axis=1)
    noise = estimate_noise(rng.standard_normal((3000, 3)), left, 204)
    np.testing.assert_allclose(noise.each, level, rtol=0.25)


def test_clipping_is_recognised() -> None:
    rng = np.random.default_rng(10)
    H = rng.gamma(0.5, size=(4, 4000))
    H /= H.sum(axis=1, keepdims=True)
    sigma = 0.7 / 4000
    rows = np.maximum(H[:, None] + sigma * rng.standard_normal((4, 400, 4000)), 0)
    means, variance = rows.mean(axis=1), float(rows.var(axis=1).sum(axis=1).mean())
    assert clipped_noise(means, float(np.mean(rows == 0)), variance) == pytest.approx(sigma, rel=0.05)
    assert clipped_noise(means, 0.0, variance) == 0
    assert clipped_noise(means, 0.9, variance) == 0


def test_means_with_clipping_are_those_of_rows() -> None:
    rng = np.random.default_rng(11)
    H = rng.dirichlet(np.full(50, 0.3), 3)
    rows = np.maximum(H[:, None] + 0.01 * rng.standard_normal((3, 100_000, 50)), 0).mean(axis=1)
    sums = rows.sum(axis=1, keepdims=True)
    for row, total, h in zip(rows, sums, H, strict=True):
        np.testing.assert_allclose(with_clipping(h[None], 0.01 / float(total[0]))[0], row / total, atol=2e-4)


def clipped_mixtures(seed: int) -> tuple[Coordinates, Unclipped, Array, Array]:
    """Mean profiles of mixtures with clipped noise, as coordinates with and without clipping; shares and anchors."""
    _, H, rng = mixed(seed)
    W = rng.dirichlet(np.full(5, 0.7), 1500)
    at = kept(with_clipping(W @ H, 0.3 / H.shape[1]))
    return at, Unclipped(at.frame, at.leading(4)[0], 0.3 / H.shape[1]), W, H


def test_clipping_is_undone_as_in_the_naive_way() -> None:
    at, unclipped, _, _ = clipped_mixtures(12)
    points = at.leading(4)[0][:200]
    naive = np.array([naive_unclipped(profile, 0.3 / 120) for profile in at.frame.profiles(points)])
    found = unclipped._undone(points).astype(np.float64)
    np.testing.assert_allclose(found / found.sum(axis=1, keepdims=True), naive, atol=5e-3 * unclipped.sigma)


def test_mixtures_are_straight_without_clipping() -> None:
    at, unclipped, W, H = clipped_mixtures(13)
    points = at.leading(4)[0]

    def bent(points: Array) -> float:
        rest = points - W @ np.linalg.lstsq(W, points, rcond=None)[0]
        return float(np.linalg.norm(rest) / np.linalg.norm(points))

    straight = unclipped.points(points)
    assert bent(straight) < 0.5 * bent(points)
    corners = np.linalg.lstsq(W, straight, rcond=None)[0]
    assert angle(unclipped.profiles(corners), H) < 0.3 * angle(at.frame.profiles(unclipped.clipped(corners)), H)
    flat = np.column_stack([np.ones(len(points)), points])
    moved = np.linalg.lstsq(flat, straight, rcond=None)[0][1:]  # only the curvature moves points: noise stays
    np.testing.assert_allclose(moved, np.eye(4), atol=0.02)


def test_without_clipping_nothing_changes() -> None:
    X, _ = counted(14)
    at = kept(X)
    points = at.leading(4)[0]
    same = Unclipped(at.frame, points, 0.0)
    assert same.points(points) is points
    assert same.clipped(points) is points
    np.testing.assert_array_equal(same.profiles(points[:5]), at.frame.profiles(points[:5]))


def test_clipped_noise_with_few_pure_rows() -> None:
    angles = []
    for seed in range(3):
        _, H, rng = mixed(seed, columns=300)
        W = np.vstack([np.repeat(np.eye(5), 20, axis=0), rng.dirichlet(np.full(5, 2.0), 2000)])
        X = W @ H
        found = find_anchors(kept(np.maximum(X + 0.3 * X.mean() * rng.standard_normal(X.shape), 0)), 5)
        assert found is not None
        assert found.refined is not None
        assert found.refined.kept
        angles.append(angle(found.profiles, H))
    assert np.mean(angles) < 0.02


# --- number of anchors and stability ----------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [lambda s: mixed(s)[:2], lambda s: counted(s), lambda s: blurred(s, 1.0)])
def test_how_many(make: object) -> None:
    for seed in range(3):
        X, H = make(seed)  # type: ignore[operator]
        assert how_many(kept(X, 64)).k == len(H)


def test_the_number_of_anchors_is_not_always_determined() -> None:
    rng = np.random.default_rng(11)
    falling = np.abs(rng.standard_normal((500, 100)) * np.geomspace(1, 1e-4, 100) @ rng.standard_normal((100, 100)))
    assert how_many(kept(falling, 64)).k is None
    assert how_many(kept(rng.random((30, 5)), 64)).k is None
    assert how_many(kept(np.ones((30, 5)), 64)).k == 1


@pytest.mark.parametrize(("k", "words"), [(1, "no direction stands"), (2, "one direction stands")])
def test_the_reason_counts_in_words(k: int, words: str) -> None:
    rng = np.random.default_rng(k)
    X = rng.poisson(rng.dirichlet(np.full(k, 0.3), 600) @ rng.uniform(20, 80, (k, 60))) + 0.0
    found = how_many(kept(X, 64))
    assert (found.k, found.reason) == (k, f"{words} out of the noise")
    assert f"{words} out of the noise: {k} anchor" in fa.rank_curve(X, 8, rng=0).reason


def test_anchors_beyond_the_true_number_are_called_noise() -> None:
    X, _ = counted(12)
    at = kept(X)
    working = working_rows(at)
    for k in (5, 7):
        found = find_anchors(at, k, working=working)
        assert found is not None
        told = stability(at, found, working)
        assert (told.verdicts == ("firm",) * k) == (k == 5)
        assert told.verdicts.count("firm") <= 5
        assert bool(told.warnings) == (k > 5)
        assert told.shown == told.as_dict()["shown"] == 5
        assert any(f"{k} anchors are more than the data shows" in warning for warning in told.warnings) == (k > 5)
        np.testing.assert_array_equal(told.angles, stability(at, found, working).angles)


@pytest.mark.parametrize("rule", RULES)
def test_one_anchor_by_every_rule(rule):
    A = fa.datasets.separable(300, 20, 4, noise=0.02, rng=0).A
    one, two = fa.FAS(selection=rule).seek(A, [1, 2], rng=0)
    assert len(one) == 1
    assert len(two) == 2


@pytest.mark.parametrize("rule", ["auto", "smoothed", "pseudo-points", "lifted", "whitened"])
@pytest.mark.parametrize("normalize", ["l1", None])
def test_a_small_matrix_that_changed_gives_the_answer_of_an_array(rule, normalize, tmp_path):
    A = fa.datasets.separable(200, 20, 3, rng=0).A
    row = np.random.default_rng(1).random(20) * 2 * A.max()
    changed = A.copy()
    changed[7] = row
    expected = fa.FAS(selection=rule).seek(fa.open_matrix(changed, normalize=normalize), 4)
    for S in (fa.SampleMatrix(A, normalize=normalize), fa.build(A, tmp_path / "rows.store", normalize=normalize)):
        fa.FAS(selection=rule).seek(S, 3)
        S.update(np.full(20, 7), np.arange(20), row)  # a fourth anchor, beyond the directions kept
        found = fa.FAS(selection=rule).seek(S, 4)
        np.testing.assert_array_equal(found.indices, expected.indices)
        assert found.certificate.kind == "exact"


def test_a_large_matrix_gets_directions_for_anchors_that_are_new():
    A = fa.datasets.separable(6_500, 20, 3, rng=0).A
    S = fa.SampleMatrix(A)
    fa.FAS(selection="lifted").seek(S, 3)
    rows = np.arange(400)  # of a kind that the rows kept do not have; a few at a time, together more than a twentieth
    for some in np.array_split(rows, 2):
        S.update(np.repeat(some, 20), np.tile(np.arange(20), len(some)), np.tile(np.eye(20)[3] + 0.01, len(some)))
        assert len(fa.FAS(selection="lifted").seek(S, 4)) == 4
    found = fa.FAS(selection="lifted").seek(S, 4)
    assert found.certificate.kind == "exact"


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("rows", [9, 9000])
def test_rows_that_are_all_alike_support_one_anchor(rule, rows):
    """Their differences are rounding, which is neither noise nor a direction."""
    A = np.tile(np.random.default_rng(0).random(6), (rows, 1))
    for B in (A, np.ones((rows, 5)), sp.csr_array(A)):
        with pytest.raises(RankError):
            fa.FAS(selection=rule).seek(B, 2)
        assert len(fa.FAS(selection=rule).seek(B, 1).indices) == 1


def test_directions_that_no_row_has_beyond_the_anchors():
    A = np.zeros((8, 20))
    A[np.arange(8), [5, 3, 0, 0, 6, 3, 3, 7]] = [3, 2, 2, 3, 3, 1, 3, 1]
    for form in (A, fa.SampleMatrix(A, normalize=None), fa.SampleMatrix(A)):
        for k in (2, 3, 4):
            assert len(fa.FAS().seek(form, k)) == k


@pytest.mark.parametrize("filled", [300, 8_000])
@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_rows_of_zero_do_not_hide_the_others(filled, form):
    rows = fa.datasets.separable(filled, 12, 4, noise=0.02, rng=0).A
    some = np.sort(np.random.default_rng(0).choice(60_000, filled, replace=False))
    A = np.zeros((60_000, 12))
    A[some] = rows
    summary = summarise(open_matrix(form(A)), pilot_entries=1)  # 2,048 rows, of which few are not zero
    assert summary.total == filled
    if filled > ALL:
        assert 5_500 < len(summary.sample) < 6_500  # 8,000 · 3/4 rows, with a standard deviation of 39
    found, alone = summary.find(4), summarise(open_matrix(form(rows))).find(4)
    angles = fa.metrics.spectral_angles(A[found.indices], rows[alone.indices])
    assert angles.min(axis=0).max() < 0.1 < np.sort(angles, axis=0)[1].min()  # the same anchors


def test_few_rows_that_are_not_zero_are_found_among_many():
    A = np.zeros((50_000, 30))
    A[[7, 20_000, 41_003]] = np.random.default_rng(0).random((3, 30))
    assert sorted(fa.FAS().seek(A, 3).indices) == [7, 20_000, 41_003]
    with pytest.raises(RankError, match="every row of A is zero"):
        fa.FAS().seek(0 * A, 2)


def _mixtures_with_odd_entries(seed, rows=60, columns=12, anchors=5):
    rng = np.random.default_rng(seed)
    A = rng.dirichlet(np.full(anchors, 0.3), rows) @ rng.random((anchors, columns))
    A[rng.choice(rows, 6, replace=False), rng.integers(0, columns, 6)] += rng.random(6)
    return A


@pytest.mark.parametrize("rule", ["smoothed", "lifted", "whitened"])
@pytest.mark.parametrize("rows", [60, 7_000])
def test_directions_that_few_rows_have_do_not_depend_on_rounding(rule, rows):
    for seed in range(4):
        A = _mixtures_with_odd_entries(seed, rows)
        forms = [A, sp.csr_array(A), fa.SampleMatrix(A), 3 * A]
        found = [fa.FAS(selection=rule).seek(form, 6) for form in forms]
        for other in found[1:]:
            np.testing.assert_array_equal(other.indices, found[0].indices)
            one, two = other.points, found[0].points
            one, two = (x / x.sum(axis=1, keepdims=True) for x in (one, two))
            np.testing.assert_allclose(one, two, atol=1e-6)


@pytest.mark.parametrize("spread", [1e-3, 1e-4, 1e-5])
def test_no_noise_is_seen_in_the_rounding_of_rows_that_are_nearly_alike(spread):
    for seed in range(4):
        rng = np.random.default_rng(seed)
        A = rng.random(20) * (1 + spread * rng.random((60, 4)) @ rng.random((4, 20)))
        for form in (A, sp.csr_array(A), 3 * A):
            frame = coordinates(open_matrix(form)).frame
            assert (frame.rank, frame.exponent) == (4, 0.0)


@pytest.mark.parametrize("k", [2, 3])
def test_few_rows_beside_many_copies_of_one(k):
    table = np.tril(np.ones((60, 4)))  # (1, 0, 0, 0), (1, 1, 0, 0), (1, 1, 1, 0), and 57 times (1, 1, 1, 1)
    for form in (
        table,
        fa.SampleMatrix(table),
        open_matrix(table, normalize="l1"),
        np.repeat(table, [40] + [1] * 59, 0),
    ):
        found = fa.FAS().seek(form, k)
        assert len(set(found.indices.tolist())) == k
        if found.points is not None:
            assert np.isfinite(found.points).all()
            assert (found.points.sum(axis=1) > 0).all()
    assert fa.SeparableNMF(k).fit(table).components_.any(axis=1).all()


def test_candidates_are_all_rows_if_those_without_noise_are_copies_of_one():
    rng = np.random.default_rng(0)
    few, many = rng.random((4, 8)), np.tile(rng.random(8), (60, 1))
    for rule in ("lifted", "pseudo-points", "smoothed", "whitened"):
        found = fa.FAS(selection=rule).seek(np.vstack([few, many * rng.integers(1, 9, (60, 1))]), 3)
        assert len(set(found.indices.tolist())) == 3
        assert np.isfinite(found.points).all()


def test_equal_eigenvalues():
    for n in (17, 20, 22, 32, 35):
        for A in (np.eye(n), np.repeat(np.eye(n), 3, axis=0), np.ones((n, n)) - np.eye(n)):
            for form in (A, sp.csr_array(A)):
                assert len(set(fa.FAS().seek(form, 3).indices.tolist())) == 3


def _neighbours_on_a_ring(n: int) -> NDArray[np.float64]:
    ring = np.roll(np.eye(n), 1, axis=1)
    return np.eye(n) + ring + ring.T


@pytest.mark.parametrize(
    ("A", "k"),
    [
        (_neighbours_on_a_ring(8), 3),
        (np.ones((6, 6)) - np.eye(6), 4),
        (np.vstack([np.eye(6), np.full((12, 6), 1 / 6)]), 3),
        (np.vstack([np.eye(16) + 0.01, np.eye(16)]), 5),
    ],
)
@pytest.mark.parametrize("rule", ["auto", "lifted"])
def test_symmetric_rows_do_not_depend_on_rounding(A, k, rule):
    found = [fa.FAS(selection=rule).seek(form, k).indices.tolist() for form in (A, sp.csr_array(A), 3 * A)]
    assert found[1:] == found[:1] * 2


def test_the_basis_of_equal_eigenvalues_does_not_depend_on_the_given_one():
    rng = np.random.default_rng(0)
    V = np.linalg.qr(rng.standard_normal((9, 6)))[0]
    values = np.array([3.0, 2.0, 2.0 - 1e-14, 2.0 - 2e-14, 1.0, 0.5])
    turned = V.copy()
    turned[:, 1:4] = V[:, 1:4] @ np.linalg.qr(rng.standard_normal((3, 3)))[0]
    one, other = settled(values, V), settled(values, turned)
    np.testing.assert_allclose(one, other, atol=1e-13)
    np.testing.assert_allclose(one.T @ one, np.eye(6), atol=1e-13)
    np.testing.assert_array_equal(one[:, [0, 4, 5]], V[:, [0, 4, 5]])
    np.testing.assert_allclose(one[:, 1:4] @ one[:, 1:4].T, V[:, 1:4] @ V[:, 1:4].T, atol=1e-13)


@pytest.mark.parametrize("k", [1, 4])
def test_an_answer_does_not_depend_on_what_was_asked_before(tmp_path, k):
    """Directions and candidates were those of the largest k so far, so that one matrix had several answers."""
    rng = np.random.default_rng(1)
    A = rng.poisson(fa.datasets.separable(6500, 45, 20, rng=rng).A * 300).astype(float)
    S, solver = fa.SampleMatrix(A, normalize=None), fa.FAS()
    expected, large = solver.seek(A, k), solver.seek(A, 36)
    assert solver.seek(A, [36, k]) == [large, expected]
    assert solver.seek(S, 36) == large
    assert solver.seek(S, k) == expected
    with fa.build(A, tmp_path / "s", normalize=None) as store:
        if store.sidecar_arrays("coordinates") is None:
            assert solver.seek(store, 36) == large
        assert solver.seek(store, k) == expected


def test_few_rows_are_drawn_of_a_matrix_of_nearly_empty_rows() -> None:
    """The sample of a matrix with one row that is not zero had the numbers of all rows: 87 bytes for each."""
    every = np.sort(_drawn(1000, 5000, 10**9))
    np.testing.assert_array_equal(every, np.arange(1000))
    assert len(set(_drawn(10**9, 6000, 8000).tolist())) == 6000  # no permutation of all rows
    some = _drawn(10**8, 10**8, 5000)
    assert 4990 < len(some) <= 5000
    assert abs(some.mean() / 10**8 - 0.5) < 0.03  # seven standard deviations
