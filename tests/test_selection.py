"""selection=…: the same noise-aware anchors through every entry point, kept with a store, with their stability."""

from __future__ import annotations

import pickle
from typing import get_args

import numpy as np
import pytest
import scipy.sparse as sp

import fastanchors as fa
from fastanchors._parallel import use_threads
from fastanchors.cli._options import SELECTION
from fastanchors.errors import InvalidInputError, InvalidTypeError, RankError
from fastanchors.greedy.selection import RULES, Selection
from fastanchors.report import live
from fastanchors.report.repeated import stability_record
from fastanchors.solvers.fas import SelectionRule


def counts(seed=0, rows=900, columns=60, k=4):
    rng = np.random.default_rng(seed)
    H = rng.gamma(0.3, size=(k, columns)) + 1e-6
    H /= H.sum(axis=1, keepdims=True)
    W = rng.dirichlet(np.full(k, 0.3), rows)
    W[:k] = np.eye(k)
    return rng.poisson(W @ H * 800) + 0.0, W @ H


@pytest.mark.parametrize("noisy", [True, False])
def test_every_entry_point_gives_the_same_anchors(tmp_path, noisy):
    X = counts()[0 if noisy else 1]
    expected = fa.FAS().seek(X, 4)
    assert (expected.points is not None) == noisy
    assert expected.support.min() >= 1
    l1 = X / X.sum(axis=1, keepdims=True)
    for source in (l1, sp.csr_array(X), fa.SampleMatrix(X), fa.build(X, tmp_path / "s")):
        np.testing.assert_array_equal(fa.FAS().seek(source, 4).indices, expected.indices)
    np.testing.assert_array_equal(fa.SeparableNMF(4).fit(X).anchors_, expected.indices)
    if not noisy:
        np.testing.assert_array_equal(fa.SPA().seek(l1, 4).indices, expected.indices)


def test_a_store_answers_without_reading_and_follows_changes(tmp_path):
    X, _ = counts(rows=6500, columns=300)  # a pass over fewer rows is cheap, and is made
    fa.build(X, tmp_path / "s").close()
    with fa.open(tmp_path / "s", mode="r+") as S:
        assert fa.FAS().seek(S, 4).cost.rows_read == 0
        S.append(X[:20])
        assert fa.FAS().seek(S, 4).cost.rows_read == 20
        S.append(np.tile(np.eye(1, 300, 7) * 500, (200, 1)))  # a fifth kind of row: other directions are needed
        assert fa.FAS().seek(S, 5).points[:, 7].max() > 0.8
        S.append(X[:5])
        assert fa.FAS().seek(S, 5).certificate.kind == "sampled"
        S.compact()
        compacted = fa.FAS().seek(S, 5)
        assert compacted.certificate.kind == "exact"
    with fa.open(tmp_path / "s") as S:
        assert fa.FAS().seek(S, 5).cost.rows_read == 0
        assert fa.FAS().seek(S, 5) == compacted
    fa.verify(tmp_path / "s")


def test_k_above_the_directions_of_a_store_says_what_to_rebuild(tmp_path):
    S = fa.build(counts()[0], tmp_path / "s", directions=8)
    with pytest.raises(InvalidInputError, match=r"directions=11\), or use selection='spa'"):
        fa.FAS().seek(S, 12)


def test_a_store_built_for_more_anchors(tmp_path):
    with fa.build(counts()[0], tmp_path / "s", directions=40) as S:
        assert fa.FAS().seek(S, 41).cost.rows_read == 0
    for directions in (0, -1):
        with pytest.raises(InvalidInputError, match="directions must be at least 1"):
            fa.build(counts()[0], tmp_path / "t", directions=directions)
    with pytest.raises(InvalidTypeError, match="directions must be an integer"):
        fa.build(counts()[0], tmp_path / "t", directions=2.5)
    assert not (tmp_path / "t").exists()


@pytest.mark.parametrize("seed", range(3))
def test_planted_cells_are_found_in_counts(seed):
    """One pure cell of each of six kinds, log-normal depth: plain SPA finds the shallowest cells instead."""
    rng = np.random.default_rng(seed)
    H = rng.gamma(0.3, size=(6, 1000)) + 1e-6
    H /= H.sum(axis=1, keepdims=True)
    W = rng.dirichlet(np.full(6, 0.3), 1500)
    W[:6] = np.eye(6)
    X = sp.csr_array(rng.poisson(W @ H * 1000 * rng.lognormal(0.0, 1.0, (1500, 1))))
    X = X[np.flatnonzero(X.sum(axis=1))]
    half_way = (fa.metrics.spectral_angles(H, H) + np.diag(np.full(6, 9.0))).min() / 2

    def found(rule):
        match = fa.metrics.matched_spectral_angle(H, fa.SeparableNMF(6, selection=rule).fit(X).components_)
        return int(np.sum(match.values < half_way))

    assert found("auto") == 6
    assert found("spa") < 3


def test_several_values_of_k():
    X, _ = counts()
    several = fa.FAS().seek(X, [2, 4])
    assert [len(each) for each in several] == [2, 4]
    assert several[1] == fa.FAS().seek(X, 4)


def test_stability_survives_pickling():
    found = fa.FAS().seek(counts()[0], 4)
    again = pickle.loads(pickle.dumps(found))
    assert again == found
    assert again.certificate.stability.verdicts == ("firm",) * 4
    assert fa.FAS(selection="spa").seek(counts()[0], 4).certificate.stability is None


def test_every_list_of_rules_is_the_same():
    for rules in (SELECTION.choices, get_args(SelectionRule), get_args(Selection), live.RULES):
        assert tuple(rules) == RULES


def test_more_anchors_than_a_rule_finds_in_seconds():
    X = np.random.default_rng(0).random((400, 300))
    for rule in RULES[2:]:
        with pytest.raises(InvalidInputError, match=r"at most 256 anchors.*k ≤ 256, or selection='spa'"):
            fa.FAS(selection=rule).seek(X, 257)
    several = fa.FAS().seek(X, [1, 257, 300], rng=0)
    np.testing.assert_array_equal(several[1].indices, fa.SPA().seek(X, 257).indices)
    assert "plain" not in several[0].certificate.details
    reasons = [found.certificate.details["plain"] for found in several[1:]]
    assert "k is above 256" in reasons[0]
    assert "k < 300 only" in reasons[1]
    assert "plain" not in fa.FAS().seek(X[:, :20], 3).certificate.details


@pytest.mark.parametrize("rule", RULES[2:])
def test_fewer_anchors_than_requested(rule):
    with pytest.raises(RankError, match=r"^the rows support at most \d anchors, not 5; use k ≤ \d$"):
        fa.FAS(selection=rule).seek(np.ones((50, 20)), 5)
    rng = np.random.default_rng(0)
    flat = rng.dirichlet(np.ones(3), 50) @ rng.random((3, 20))
    with pytest.raises(RankError, match=r"^the rows support at most 3 anchors, not 5; use k ≤ 3$"):
        fa.FAS(selection=rule).seek(flat, 5)


def test_a_noise_that_cannot_be_estimated_is_not_called_absent():
    found = fa.FAS(selection="lifted").seek(counts(columns=10)[0], 10)
    assert "too few columns to estimate the noise" in found.certificate.statement
    assert found.certificate.stability.noise is None
    assert found.certificate.stability.statement.startswith("firm when computed again")
    assert "no noise is seen" in fa.FAS(selection="lifted").seek(counts()[1], 4).certificate.statement


def test_bad_selections():
    with pytest.raises(InvalidInputError, match="selection must be one of"):
        fa.FAS(selection="best")
    with pytest.raises(InvalidInputError, match="selection must be one of"):
        fa.FAS(selection=None)
    with pytest.raises(InvalidTypeError, match="budget is an option of plain SPA"):
        fa.FAS(selection="lifted", budget=10)
    with pytest.raises(InvalidInputError, match="goes with solver='fas'"):
        fa.SeparableNMF(3, solver="spa", selection="lifted").fit(counts()[0])


def test_the_rule_for_many_rows_is_stated_and_its_answer_is_exact():
    X, _ = counts(rows=9000, columns=40)
    with use_threads(1):
        found = fa.FAS().seek(X, 4)
    assert found.certificate.kind == "exact"
    assert "drawn by a fixed seed" in found.certificate.statement
    with use_threads(2):
        again = fa.FAS().seek(X, 4)
    np.testing.assert_array_equal(again.indices, found.indices)
    np.testing.assert_array_equal(again.points, found.points)
    assert fa.FAS().seek(X[:900], 4).certificate.statement.startswith("the rule 'auto' was applied to all rows (")


def test_a_store_keeps_the_directions_of_an_array(tmp_path):
    """Of more entries than half a pilot: a store has the same pilot, and so the same anchors and stability."""
    X = counts(rows=6500, columns=700)[0].astype(np.float32)
    expected = fa.FAS().seek(X, 4)
    with fa.build(X, tmp_path / "s") as S:
        found = fa.FAS().seek(S, 4)
        assert found.cost.rows_read == 0
        np.testing.assert_array_equal(found.indices, expected.indices)
        np.testing.assert_allclose(found.certificate.stability.angles, expected.certificate.stability.angles, rtol=1e-3)


def test_the_certificate_says_that_rows_have_changed():
    X, _ = counts(rows=7000)
    S = fa.SampleMatrix(X)
    assert fa.FAS().seek(S, 4).certificate.kind == "exact"
    S[5, 7] = 3.0
    after = fa.FAS().seek(S, 4)
    assert after.cost.rows_read == 1
    assert after.certificate.kind == "sampled"
    assert "before 1 rows changed" in after.certificate.statement


def test_a_small_matrix_is_read_again_after_a_change(tmp_path):
    X, _ = counts()
    changed = X.copy()
    changed[5, 7] = 30.0
    expected = fa.FAS().seek(changed, 4)
    for S in (fa.SampleMatrix(X), fa.build(X, tmp_path / "s")):
        fa.FAS().seek(S, 4)
        S[5, 7] = 30.0
        after = fa.FAS().seek(S, 4)
        assert after.certificate.kind == "exact"
        np.testing.assert_array_equal(after.indices, expected.indices)
        assert fa.FAS().seek(S, 4).cost.rows_read == 0  # kept again


def test_weights_of_rows(tmp_path):
    X, truth = counts(3)
    sums = X.sum(axis=1)
    with fa.build(X, tmp_path / "s") as S:
        for weights in ("none", sums):
            found = fa.FAS(weights=weights).seek(X, 4)
            assert found != fa.FAS().seek(X, 4)
            np.testing.assert_allclose(
                found.points / found.points.sum(axis=1)[:, None], truth[found.indices], atol=0.05
            )
            np.testing.assert_array_equal(fa.FAS(weights=weights).seek(S, 4).indices, found.indices)
        with pytest.raises(InvalidInputError, match="divided by their sums"):
            fa.FAS(weights="poisson").seek(S, 4)
    assert fa.FAS(weights="poisson").seek(X, 4) == fa.FAS(weights=sums).seek(X, 4)
    light = np.where(np.arange(len(X)) < 450, 1.0, 1e-9)  # only the first half counts for the directions
    assert fa.FAS(weights=light).seek(X, 4) != fa.FAS(weights="none").seek(X, 4)
    assert len(fa.SeparableNMF(4, solver=fa.FAS(weights=sums)).fit(X).anchors_) == 4


@pytest.mark.parametrize("weights", [np.ones(3), np.zeros(900), -np.ones(900), np.ones((900, 1))])
def test_bad_weights(weights):
    with pytest.raises(InvalidInputError, match="weights must be 900 positive numbers"):
        fa.FAS(weights=weights).seek(counts()[0], 4)


def test_weights_that_are_no_option():
    with pytest.raises(InvalidInputError, match="weights must be"):
        fa.FAS(weights="rows")
    with pytest.raises(InvalidTypeError, match="noise-aware rules"):
        fa.FAS(selection="spa", weights="poisson")
    with pytest.raises(InvalidTypeError, match="noise-aware rules"):
        fa.FAS(budget=100, weights="poisson")
    with pytest.raises(InvalidTypeError, match="not an option"):
        fa.FAS("paper", weights="poisson")
    with pytest.raises(InvalidTypeError, match="or numbers"):
        fa.FAS(weights=None).seek(counts()[0], 4)
    with pytest.raises(InvalidTypeError, match="weights must hold real numbers"):
        fa.FAS(weights=object()).seek(counts()[0], 4)
    with pytest.raises(InvalidInputError, match="weights must be finite"):
        fa.FAS(weights=np.full(900, np.nan)).seek(counts()[0], 4)


@pytest.mark.parametrize("rule", ["auto", "smoothed", "pseudo-points", "lifted", "whitened"])
def test_of_copies_the_first_is_named_whatever_their_rounding(rule):
    rng = np.random.default_rng(55)
    X = np.tile(rng.random((4, 21)), (96, 1)) * rng.integers(1, 4, (384, 1))
    expected = fa.FAS(selection=rule).seek(X, 3)
    assert set(expected.indices) < {0, 1, 2, 3}
    l1 = X / X.sum(axis=1, keepdims=True)
    for source in (l1, X[:, ::-1], sp.csr_array(X), fa.SampleMatrix(X), fa.SampleMatrix(sp.csr_array(X)), X * 3):
        np.testing.assert_array_equal(fa.FAS(selection=rule).seek(source, 3).indices, expected.indices)


@pytest.mark.parametrize("make", [np.asarray, sp.csr_array])
def test_rounding_does_not_weigh_rows(make):
    X = np.tile(np.random.default_rng(19).random((3, 12)), (50, 1))
    X[7, 3] += 0.5  # all other rows have no noise at all
    expected = fa.FAS(selection="lifted").seek(X, 3)
    for source in (fa.SampleMatrix(make(X)), make(X), make(X * 7)):
        found = fa.FAS(selection="lifted").seek(source, 3)
        profiles = [points / points.sum(axis=1, keepdims=True) for points in (found.points, expected.points)]
        np.testing.assert_allclose(*profiles, atol=1e-6)


def test_the_scale_of_points_does_not_depend_on_the_order_of_copies():
    rng = np.random.default_rng(5)
    X = np.tile(rng.random((3, 12)), (60, 1)) * np.repeat([1.0, 3.0], 90)[:, None]
    expected = np.sort(fa.FAS(selection="lifted").seek(X, 3).points, axis=0)
    for order in (np.arange(180)[::-1], rng.permutation(180)):
        points = fa.FAS(selection="lifted").seek(X[order], 3).points
        np.testing.assert_allclose(np.sort(points, axis=0), expected, rtol=1e-5)


@pytest.mark.parametrize("rule", ["auto", "lifted"])
def test_rows_whose_sums_underflow_are_refused(rule):
    X, _ = counts(rows=60, columns=20)
    with pytest.raises(InvalidInputError, match="underflow"):
        fa.FAS(selection=rule).seek(X * 2.0**-1000 * 2.0**-70, 3)


def test_rows_as_many_as_anchors_show_no_noise():
    X = np.random.default_rng(0).poisson(20, (9, 80)).astype(float)
    found = fa.FAS().seek(X, 9)
    assert "every row is an anchor" in found.certificate.details["plain"]
    assert found.certificate.stability is None
    assert "too few rows to estimate the noise" in fa.FAS(selection="lifted").seek(X, 9).certificate.statement


@pytest.mark.parametrize(("columns", "k"), [(3, 2), (5, 3), (6, 5)])
def test_few_columns_are_enough_to_average_noise(columns, k):
    angles = {"auto": [], "spa": []}
    for seed in range(4):
        rng = np.random.default_rng(seed)
        C = rng.dirichlet(np.ones(columns), k)
        X = rng.poisson(rng.dirichlet(np.full(k, 0.3), 300) @ C * 500.0)
        for rule, found in angles.items():
            model = fa.SeparableNMF(k, selection=rule).fit(X)
            found.append(fa.metrics.matched_spectral_angle(C, model.components_).mean)
    assert np.mean(angles["auto"]) < 0.8 * np.mean(angles["spa"])


def test_outliers_of_a_large_matrix_do_not_hide_the_anchors():
    """With more than 6,000 rows, 3 % outliers are all of the farthest rows."""
    rng = np.random.default_rng(0)
    C = rng.dirichlet(np.ones(12), 3)
    X = rng.dirichlet(np.full(3, 0.5), 8000) @ C
    X = np.maximum(X + 0.1 * X.mean() * rng.standard_normal(X.shape), 0.0)
    X[::33] = rng.dirichlet(np.full(12, 0.1), len(X[::33]))
    for rule in ("auto", "pseudo-points"):
        found = fa.FAS(selection=rule).seek(X, 3)
        assert fa.metrics.matched_spectral_angle(C, found.points).mean < 0.05


@pytest.mark.parametrize("k", [3, 4, 6])
def test_anchors_that_the_rows_do_not_show_are_the_same_in_all_forms(k):
    """Rows that show one direction have no third corner: rounding must not choose one."""
    rng = np.random.default_rng(18)
    for _ in range(4):
        A = rng.random((900, 33)) * (rng.random((900, 33)) < 0.4)
        forms = [A, sp.csr_array(A), fa.SampleMatrix(A), fa.open_matrix(A, normalize="l1"), A * 2.0**100]
        answers = {tuple(fa.FAS().seek(form, k).indices.tolist()) for form in forms}
        assert len(answers) == 1


def without_noise(copies, seed=1):
    """Dirichlet(3) mixtures, and copies of each anchor."""
    rng = np.random.default_rng(seed)
    W = rng.dirichlet(np.full(5, 3.0), 1000)
    W[: 5 * copies] = np.tile(np.eye(5), (copies, 1))
    return rng.permutation(W) @ rng.gamma(0.5, size=(5, 60))


@pytest.mark.parametrize("selection", ["auto", "spa"])
@pytest.mark.parametrize("scaled", [True, False])
def test_mixtures_without_noise_are_not_called_firm(selection, scaled):
    X = without_noise(0)
    X = X / X.sum(axis=1, keepdims=True) if scaled else X
    solver = fa.FAS(selection=selection)
    told = stability_record(X, solver.seek(X, 5), solver, np.random.default_rng(0))
    assert told["noise"] == 0
    assert max(told["angles"]) > 0.1  # 0.34 between the anchors of all rows and those of every second row
    assert min(told["angles"]) > 0.05
    assert "but halves of the rows differ" in told["statement"]
    assert told["verdicts"].count("firm") < 5
    assert "anchors 1, 2, 3, 4 and 5 are supported by fewer than 3 rows" in told["warnings"]


@pytest.mark.parametrize("selection", ["auto", "spa"])
@pytest.mark.parametrize("copies", [3, 10])
def test_copies_of_anchors_without_noise_are_firm(selection, copies):
    X = without_noise(copies)
    X /= X.sum(axis=1, keepdims=True)
    solver = fa.FAS(selection=selection)
    told = stability_record(X, solver.seek(X, 5), solver, np.random.default_rng(0))
    assert told["angles"] == told["moves"] == told["relative"] == [0.0] * 5
    assert told["verdicts"] == ["firm"] * 5
    assert told["support"] == [copies] * 5
    assert told["statement"] == "no noise is seen: other data from the same source would give the same anchors"
    assert told["warnings"] == []


def test_few_copies_among_many_rows_without_noise_are_counted():
    rng = np.random.default_rng(0)
    W = rng.dirichlet(np.full(4, 3.0), 20_000)
    W[:20] = np.tile(np.eye(4), (5, 1))  # the sample of 6,000 rows may miss them
    found = fa.FAS().seek(rng.permutation(W) @ rng.dirichlet(np.full(30, 0.3), 4), 4)
    assert found.support.min() >= 5
    assert found.certificate.stability.verdicts == ("firm",) * 4
    assert found.certificate.stability.warnings == []


@pytest.mark.parametrize("rows", [1000, 9000])
@pytest.mark.parametrize("selection", ["auto", "smoothed", "pseudo-points", "lifted"])
def test_one_anchor_of_noisy_rows_is_their_centre(rows, selection):
    rng = np.random.default_rng(0)
    h = rng.gamma(0.3, size=100)
    X = rng.poisson(h / h.sum() * 1000, (rows, 100)) + 0.0
    X[7] = np.eye(1, 100, 3) * 1000  # an outlier, and the farthest row
    assert fa.FAS(selection="spa").seek(X, 1).indices.tolist() == [7]
    found = fa.FAS(selection=selection).seek(X, 1)
    assert found.indices.tolist() != [7]
    assert found.support.tolist() == [rows - 1] if rows == 1000 else found.support[0] > 0.99 * rows
    cosine = found.points[0] @ h / np.linalg.norm(found.points[0]) / np.linalg.norm(h)
    assert np.arccos(cosine) < 0.02  # a row has 0.15
    assert 900 < found.points[0].sum() < 1100
    assert "centre of the rows" in found.certificate.statement
    assert found.certificate.stability.verdicts == ("firm",)
    assert found.certificate.stability.noise is None


@pytest.mark.parametrize("selection", ["auto", "smoothed"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_one_anchor_of_rows_without_noise_is_the_farthest(selection, dtype):
    X = counts()[1].astype(dtype)
    found = fa.FAS(selection=selection).seek(X, 1)
    np.testing.assert_array_equal(found.indices, fa.SPA().seek(X, 1).indices)
    assert found.points is None
    assert "no noise is seen" in found.certificate.details["plain"]
