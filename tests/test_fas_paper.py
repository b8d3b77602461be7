"""Algorithm 1: its schedule, votes, anchors and certificate."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

import fastanchors as fa
from fastanchors.errors import (
    FastAnchorsError,
    InvalidInputError,
    InvalidTypeError,
    RankError,
    SamplingError,
    TooLargeError,
)
from fastanchors.fas import paper
from fastanchors.fas.paper import PaperFAS, _reduce, _Tally
from fastanchors.lowrank.rejection import Draws
from matrices import metered
from naive import lowrank as naive
from naive.sampling import NaiveSampleMatrix

QUICK = {"directions": 25, "draws": 1000, "zeta": 0.1}


def separable(m: int = 40, n: int = 12, k: int = 3, seed: int = 0) -> tuple[np.ndarray, set[int]]:
    """Row sums one; k anchors once each at random rows, every other row a Dirichlet(1) mixture."""
    rng = np.random.default_rng(seed)
    anchors = rng.dirichlet(np.full(n, 0.3), size=k)
    A = rng.dirichlet(np.ones(k), size=m) @ anchors
    places = rng.choice(m, size=k, replace=False)
    A[places] = anchors
    return A, set(places.tolist())


def wrap(kind: str, A: np.ndarray, folder: Path):
    if kind == "store":
        return fa.build(A, folder / "store")
    if kind == "naive":
        return NaiveSampleMatrix(A)
    if kind == "array":
        return A
    if kind == "sparse array":
        return sp.csr_array(A)
    return fa.SampleMatrix(sp.csr_array(A) if kind == "sparse" else A)


@pytest.mark.parametrize("kind", ["naive", "dense", "sparse", "array", "sparse array", "store"])
@pytest.mark.parametrize("rule", ["most-frequent", "largest"])
def test_finds_the_anchors_of_a_small_matrix(kind, rule, tmp_path):
    A, anchors = separable()
    result = fa.FAS(variant="paper", rule=rule, **QUICK).seek(wrap(kind, A, tmp_path), 3, rng=0)
    assert set(result.indices.tolist()) == anchors
    assert result.solver == "fas"
    assert result.cost.samples > 0
    assert result.seconds > 0
    assert len(result.residuals) == 3


def test_two_layers_and_raw_vectors_are_supported():
    A, anchors = separable()
    S = fa.SampleMatrix(A)
    for options in ({"layers": "two"}, {"orthonormalize": False}):
        result = fa.FAS(variant="paper", **QUICK, **options).seek(S, 3, rng=0)
        assert len(set(result.indices.tolist()) & anchors) >= 2, options


def test_same_seed_same_answer():
    S = fa.SampleMatrix(separable()[0])
    first, again = (fa.FAS(variant="paper", **QUICK).seek(S, 3, rng=4).as_dict() for _ in range(2))
    first.pop("seconds")
    again.pop("seconds")
    assert first == again


def test_the_schedule_is_that_of_the_paper_with_its_errors_corrected():
    m, k, kappa, delta = 10**6, 5, 2.0, 0.1
    plan = PaperFAS(delta=delta).schedule(m, k, kappa)
    assert plan.draws == math.ceil(math.log(m) ** 2) == 191
    assert plan.eps == pytest.approx(math.sqrt(2 * math.log(4 * 191 / delta) / 191))
    assert plan.eps_V == pytest.approx(min(2 * math.sqrt(2) * plan.eps / (5**1.5 * 2), 0.99 / 20))
    assert plan.eps_U == pytest.approx(min(2 * plan.eps / 5, 0.99 / 20))
    assert plan.directions == math.ceil(3 * k * math.log(k / delta))
    assert k * math.exp(-plan.directions / (3 * k)) <= delta  # the paper's s leaves 1 here
    assert (1 - plan.delta_V) * (1 - plan.delta_U) * (1 - plan.eta) * (1 - plan.gamma) ** plan.directions == (
        pytest.approx(1 - delta)
    )
    assert plan.zeta == pytest.approx(plan.eps / k)
    assert PaperFAS(sizes="theorem").schedule(m, k, kappa).zeta == pytest.approx(plan.eps / (12 * k**2 * kappa))


def test_every_part_of_the_schedule_can_be_given():
    given = {
        "eps": 0.3,
        "eps_V": 0.2,
        "eps_U": 0.1,
        "zeta": 0.4,
        "eta": 0.01,
        "gamma": 0.02,
        "directions": 7,
        "draws": 9,
    }
    plan = PaperFAS(**given).schedule(1000, 4, 3.0)
    assert {name: getattr(plan, name) for name in given} == given


def test_the_certificate_has_the_figures():
    A, _ = separable()
    result = fa.FAS(variant="paper", **QUICK).seek(fa.SampleMatrix(A), 3, rng=0)
    details = result.certificate.details
    assert result.certificate.kind == "none"
    assert "no guarantee" in result.certificate.statement
    assert details["draws"] == 25 * 1000
    assert details["trials_per_draw"] >= 1
    assert sum(details["votes"].values()) == 25
    assert set(result.indices.tolist()) <= set(details["votes"])
    assert list(details["votes"].values()) == sorted(details["votes"].values(), reverse=True)
    assert f"{len(details['votes'])} voted rows" in details["reduction"]
    estimates, intervals = details["gap"]["estimates"], details["gap"]["intervals"]
    assert estimates.shape == (25,)
    assert ((intervals[:, 0] <= estimates) & (estimates <= intervals[:, 1])).all()
    assert intervals.min() >= 0
    assert intervals.max() <= 1
    assert not details["condition"]["held"]
    assert details["kappa_estimated"]
    # κ estimated from 60 rows and columns: within a factor of two of the truth here
    singular = np.linalg.svd(A, compute_uv=False)
    assert 0.5 < details["schedule"]["kappa"] / (singular[0] / singular[2]) < 2
    result.as_dict()


@pytest.mark.parametrize("m", [10**3, 10**5, 10**7])
def test_the_condition_of_the_theorem_is_out_of_reach_at_practical_sizes(m):
    plan = PaperFAS(delta=0.05).schedule(m, 5, 2.0)
    assert 4 * math.sqrt(2 * math.log(4 * plan.draws / 0.05) / plan.draws) > 1


def test_a_total_variation_distance_shrinks_a_gap_twofold():
    """Why the condition needs 2ε instead of the paper's ε: here a gap of 1.5ε is reversed."""
    eps = 0.1
    D, near = np.array([0.5 + 0.75 * eps, 0.5 - 0.75 * eps]), np.array([0.5 - 0.25 * eps, 0.5 + 0.25 * eps])
    assert naive.total_variation(D, near) == pytest.approx(eps)
    assert np.argmax(D) != np.argmax(near)


def test_sampled_certificate_where_the_theorem_reaches():
    """Rank one, one row with nearly all of the weight: the theorem's sizes fit in memory and the gap is near one."""
    rng = np.random.default_rng(0)
    A = np.outer(np.r_[rng.random(20) * 0.05, 3.0, rng.random(20) * 0.05], rng.random(15) + 0.1)
    options = {"sizes": "theorem", "kappa": 1.0, "eps": 0.2, "draws": 3000}
    result = fa.FAS(variant="paper", **options).seek(A, 1, rng=0)
    assert result.indices.tolist() == [20]
    assert result.certificate.kind == "sampled"
    assert "probability at least 0.8" in result.certificate.statement
    assert result.certificate.details["condition"]["held"]
    # nothing is proved with κ estimated, since the sizes rest on it, nor with a part of the schedule made too coarse
    for change in ({"kappa": None}, {"zeta": 0.2}, {"eta": 0.1}, {"sizes": "practical"}, {"rule": "largest"}):
        weaker = fa.FAS(variant="paper", **{**options, **change}).seek(A, 1, rng=0)
        assert weaker.indices.tolist() == [20]
        assert weaker.certificate.kind == "none", change


def test_sizes_of_the_theorem_that_cannot_be_held_say_how_much():
    A, _ = separable()
    with pytest.raises(TooLargeError, match=r"e\+0[78] draws, more than max_draws = 1e\+07"):
        fa.FAS(variant="paper", sizes="theorem").seek(A, 3, rng=0)
    with pytest.raises(TooLargeError, match="GB for the draws alone"):
        fa.FAS(variant="paper", sizes="theorem", eps_V=1e-4).seek(A, 3, rng=0)


def test_ties_go_to_the_lowest_index():
    draws = Draws(np.array([7, 3, 7, 3, 9]), np.array([1.0, 2.0, 1.0, 2.0, -5.0]), 5)
    tally = _Tally.count([draws], "most-frequent")
    assert (tally.winners.tolist(), tally.gaps.tolist()) == ([3], [0.0])
    assert _Tally.count([draws], "largest").winners.tolist() == [9]
    votes = _Tally.count([Draws(np.array([i]), np.ones(1), 1) for i in (5, 2, 5, 2, 8)], "most-frequent").votes
    assert list(votes.items()) == [(2, 2), (5, 2), (8, 1)]


def test_reduction_is_spa_among_the_voted_rows():
    A, _ = separable(m=60)
    voted = np.random.default_rng(1).choice(60, size=12, replace=False)
    tally = _Tally.count([Draws(np.array([i]), np.ones(1), 1) for i in voted], "most-frequent")
    indices, residuals, _ = _reduce(metered(A), tally, 3)
    assert indices.tolist() == np.sort(voted)[naive.successive_projections(A[np.sort(voted)], 3)].tolist()
    assert (np.diff(residuals) < 0).all()


def test_most_drawn_rows_join_when_the_voted_are_too_few():
    A, _ = separable()
    draws = Draws(np.array([4, 4, 4, 9, 9, 1, 30]), np.ones(7), 7)
    indices, _, reduction = _reduce(metered(A), _Tally.count([draws], "most-frequent"), 3)
    assert set(indices.tolist()) <= {1, 4, 9, 30}
    assert reduction == "SPA among the 1 voted rows and the 3 drawn most often besides"
    with pytest.raises(RankError, match="rank 1, below k = 3") as caught:
        _reduce(metered(A), _Tally.count([Draws(np.array([4]), np.ones(1), 1)], "most-frequent"), 3)
    assert caught.value.rank == 1


def test_zero_rows_and_columns_are_never_anchors():
    A, anchors = separable()
    padded = np.zeros((80, 14))
    padded[::2, :12] = A
    result = fa.FAS(variant="paper", **QUICK).seek(fa.SampleMatrix(padded), 3, rng=0)
    assert {i // 2 for i in result.indices.tolist()} == anchors
    assert (result.indices % 2 == 0).all()


def test_k_above_the_rank_is_an_error_that_says_the_rank():
    A, _ = separable(k=2)
    with pytest.raises(RankError) as caught:
        fa.FAS(variant="paper", **QUICK).seek(A, 3, rng=0)
    assert caught.value.rank == 2


def test_k_above_the_shape_is_refused():
    with pytest.raises(InvalidInputError, match=r"k = 13 is more than min\(rows, columns\) = 12"):
        fa.FAS(variant="paper").seek(separable()[0], 13)


def test_all_zero_matrix_is_refused():
    with pytest.raises(InvalidInputError, match="every entry of the matrix is zero"):
        fa.FAS(variant="paper").seek(np.zeros((6, 5)), 2)


def test_negative_entries_are_refused():
    A, _ = separable()
    A[5, 3] = -0.1
    with pytest.raises(InvalidInputError, match=r"A\[5, 3\] is negative"):
        fa.FAS(variant="paper").seek(A, 3)
    with pytest.raises(InvalidInputError, match="has a negative entry"):
        fa.FAS(variant="paper", **QUICK).seek(NaiveSampleMatrix(-separable()[0], normalize=None), 3, rng=0)


def test_sample_access_is_checked_for_negative_entries_where_it_is_read():
    """A negative entry in a row that is never drawn is not found."""
    A, _ = separable()
    A = np.vstack([A, np.zeros(A.shape[1])])
    A[-1, 0] = -1e-100
    found = fa.FAS(variant="paper", **QUICK).seek(fa.SampleMatrix(A, normalize=None), 3, rng=0)
    assert len(A) - 1 not in found.indices
    with pytest.raises(InvalidInputError, match="is negative"):
        fa.FAS(variant="paper", **QUICK).seek(A, 3, rng=0)


def test_a_file_is_read_into_memory(tmp_path):
    A, _ = separable()
    np.save(tmp_path / "A.npy", A)
    table = "row,a,b\nx,1,0\ny,0,1\nz,0.5,0.5\n"
    (tmp_path / "named.csv").write_text(table)
    solver = fa.FAS(variant="paper", **QUICK)
    assert solver.seek(tmp_path / "A.npy", 3, rng=0).indices.tolist() == solver.seek(A, 3, rng=0).indices.tolist()
    assert solver.seek(str(tmp_path / "named.csv"), 2, rng=0).names is not None


def test_vectors_that_cancel_are_refused_before_drawing():
    rng = np.random.default_rng(0)
    A = (rng.random((5, 2)) @ rng.random((2, 5))).astype(np.float32)  # rank 2 but for rounding
    with pytest.raises(SamplingError, match="nearly cancel; use a smaller k"):
        fa.FAS(variant="paper", rows=30, columns=20, directions=20, draws=100).seek(A, 3, rng=0)


def test_draws_that_take_far_more_trials_than_expected_are_ended(monkeypatch):
    monkeypatch.setattr(paper, "expected_trials", lambda *_, **__: 1.0)
    monkeypatch.setattr(paper, "_MOST_TRIALS", 100)
    A, _ = separable()
    with pytest.raises(SamplingError, match=r"3 of 4 directions took .* far more than expected"):
        fa.FAS(variant="paper", rows=30, columns=20, directions=4, draws=25).seek(A, 3, rng=0)


def test_extreme_options_overflow_nothing():
    tiny = PaperFAS(delta=1e-30).schedule(1000, 3, 2.0)
    assert 0 < tiny.gamma < tiny.eta < 1e-30
    with pytest.raises(TooLargeError, match="directions cannot be tried"):
        PaperFAS(alpha=1e-320).schedule(1000, 3, 2.0)
    with pytest.raises(TooLargeError, match=r"eps = .* needs more than"):
        fa.FAS(variant="paper", sizes="theorem", kappa=1e100).seek(separable()[0], 3, rng=0)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_entries_that_are_not_finite_are_refused(value):
    A, _ = separable()
    A[2, 1] = value
    with pytest.raises(InvalidInputError, match=r"A\[2, 1\] is"):
        fa.FAS(variant="paper").seek(A, 3)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"kappa": 0.5}, InvalidInputError, "kappa must be a finite number between 1"),
        ({"kappa": math.inf}, InvalidInputError, "kappa must be a finite number"),
        ({"delta": 0.0}, InvalidInputError, "delta must be strictly between 0 and 1"),
        ({"delta": 1.5}, InvalidInputError, "delta must be a finite number between 0 and 1"),
        ({"eps": 1.0}, InvalidInputError, "eps must be strictly between 0 and 1"),
        ({"kappa": 1e200}, InvalidInputError, "kappa must be a finite number between 1 and 1e"),
        ({"alpha": 0.0}, InvalidInputError, "alpha must be positive"),
        ({"alpha": 2.0}, InvalidInputError, "alpha must be a finite number between 0 and 1"),
        ({"zeta": -1.0}, InvalidInputError, "zeta must be"),
        ({"draws": 0}, InvalidInputError, "draws must be at least 1"),
        ({"directions": 2.5}, InvalidTypeError, "directions must be an integer"),
        ({"sizes": "huge"}, InvalidInputError, "sizes must be '"),
        ({"rule": "loudest"}, InvalidInputError, "rule must be '"),
        ({"layers": 3}, InvalidInputError, "layers must be '"),
        ({"sizes": "theorem", "rows": 10}, InvalidInputError, "rows and columns cannot be given together"),
        ({"variant": "mine"}, InvalidInputError, "variant must be '"),
    ],
)
def test_bad_options_are_refused(options, error, message):
    with pytest.raises(error, match=message) as caught:
        fa.FAS(**{"variant": "paper", **options})
    assert isinstance(caught.value, FastAnchorsError)


def test_an_option_that_does_not_exist_is_a_wrong_call():
    with pytest.raises(TypeError, match="unexpected keyword argument 'speed'"):
        fa.FAS(variant="paper", speed=11)
