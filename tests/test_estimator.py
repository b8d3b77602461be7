"""SeparableNMF by scikit-learn's checks for every solver, and further properties."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import fastanchors as fa
from fastanchors.errors import InvalidInputError, InvalidTypeError, RankError
from fastanchors.estimator import _separable_nmf
from naive.encode import encode as naive_encode

SOLVERS = [name for name in fa.solvers.SOLVERS if name != "qdca"]  # which needs the quantum extra


@parametrize_with_checks(
    [fa.SeparableNMF(n_components=2, solver=name) for name in SOLVERS]
    + [
        fa.SeparableNMF(n_components=2, solver="spa", normalize=None, sum_to_one=True),
        fa.SeparableNMF(n_components="auto", solver="spa"),
    ]
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.mark.filterwarnings("ignore:n_components = 10, but the data have only")
@parametrize_with_checks([fa.SeparableNMF(solver="spa")])
def test_scikit_learn_checks_with_more_components_than_features(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def data():
    made = fa.datasets.separable(200, 12, 4, rng=0)
    lengths = np.random.default_rng(1).uniform(0.5, 2.0, (200, 1))
    return made.A * lengths, made


@pytest.mark.parametrize("solver", SOLVERS)
def test_every_solver_finds_the_anchors(data, solver):
    X, made = data
    X, labels = X[:60], made.labels[:60]
    X, labels = np.vstack([X, made.components]), np.append(labels, range(4))
    model = fa.SeparableNMF(n_components=4, solver=solver, random_state=0).fit(X)
    assert fa.metrics.anchor_recovery(model.anchors_, labels) == 1.0
    assert model.reconstruction_err_ < 1e-10
    np.testing.assert_array_equal(model.components_, X[model.anchors_])
    assert model.certificate_.kind in ("exact", "near", "sampled", "none")
    assert model.result_.solver == solver
    assert model.n_components_ == 4


@pytest.mark.parametrize("make", [np.asarray, sp.csr_matrix, sp.csc_array])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64])
def test_transform_is_least_squares_in_the_rows_as_given(data, make, dtype):
    X = (1000 * data[0]).astype(dtype)
    model = fa.SeparableNMF(4, solver="spa")
    F = model.fit_transform(make(X))
    expected = np.float32 if dtype == np.float32 else np.float64
    assert F.dtype == expected
    assert model.components_.dtype == expected
    np.testing.assert_array_equal(model.components_, X[model.anchors_])
    assert not sp.issparse(model.components_)
    tight = 1e-5 if dtype == np.float32 else 1e-9
    np.testing.assert_allclose(F, naive_encode(X.astype(float), model.components_), rtol=0, atol=tight)
    np.testing.assert_array_equal(F, model.transform(make(X)))
    assert model.inverse_transform(F).dtype == expected
    error = np.linalg.norm(X - model.inverse_transform(F).astype(float))
    assert model.reconstruction_err_ == pytest.approx(error, rel=1e-3, abs=1e-6 * float(np.linalg.norm(X)))


def test_normalize_finds_anchors_among_scaled_rows(data):
    X, made = data
    long = np.vstack([X, 100 * X.mean(axis=0)])  # a mixture, but the longest row
    assert 200 in fa.SeparableNMF(4, solver="spa", normalize=None).fit(long).anchors_
    scaled = fa.SeparableNMF(4, solver="spa").fit(long)
    assert fa.metrics.anchor_recovery(scaled.anchors_, np.append(made.labels, -1)) == 1.0


@pytest.mark.parametrize("make", [np.asarray, sp.csr_array])
def test_zero_rows_stay_zero(data, make):
    X = np.vstack([np.zeros((2, 12)), data[0]])
    model = fa.SeparableNMF(4, solver="spa")
    F = model.fit_transform(make(X))
    assert not F[:2].any()
    assert min(model.anchors_) >= 2


def test_sum_to_one(data):
    F = fa.SeparableNMF(4, solver="spa", sum_to_one=True).fit_transform(data[0])
    np.testing.assert_allclose(F.sum(axis=1), 1.0, rtol=1e-14)


def test_solver_object_and_its_points(data):
    X = np.repeat(data[0], 3, axis=0)
    X *= 1 + 0.01 * np.random.default_rng(2).random(X.shape)
    model = fa.SeparableNMF(4, solver=fa.SPA(robust="average")).fit(X)
    assert model.result_.points is not None
    np.testing.assert_allclose(model.components_, X[model.anchors_], rtol=0, atol=0.1)
    np.testing.assert_allclose(model.components_.sum(axis=1), X[model.anchors_].sum(axis=1))
    assert not np.allclose(model.components_, X[model.anchors_])
    assert clone(model).get_params()["solver"].robust == model.solver.robust


@pytest.mark.parametrize("normalize", ["l1", None])
def test_sample_access(data, normalize, monkeypatch):
    X = data[0]
    S = fa.SampleMatrix(X, normalize=normalize)
    view = S.rows(np.arange(200))
    model = fa.SeparableNMF(4, solver="spa", random_state=3).fit(S)
    np.testing.assert_allclose(model.components_, view[model.anchors_])
    np.testing.assert_allclose(model.transform(S), naive_encode(view, model.components_), rtol=0, atol=1e-9)
    noisy = fa.SampleMatrix(X + 0.05 * np.random.default_rng(4).random(X.shape), normalize=normalize)
    exact = model.fit(noisy).reconstruction_err_
    monkeypatch.setattr(_separable_nmf, "_SAMPLED_ROWS", 150)
    sampled = model.fit(noisy).reconstruction_err_
    assert sampled != exact
    assert sampled == pytest.approx(exact, rel=0.25)  # 150 draws; the seed is fixed
    model.fit_transform(noisy)
    assert model.reconstruction_err_ == pytest.approx(exact)
    with pytest.raises(InvalidInputError, match="11 features"):
        model.transform(fa.SampleMatrix(X[:, :11]))


def test_store_and_its_path(data, tmp_path):
    with fa.build(data[0], tmp_path / "rows") as store:
        opened = fa.SeparableNMF(4, solver="spa", random_state=0).fit(store)
    expected = fa.SeparableNMF(4, solver="spa", random_state=0).fit(fa.SampleMatrix(data[0]))
    for path in (tmp_path / "rows", str(tmp_path / "rows")):
        model = fa.SeparableNMF(4, solver="spa", random_state=0).fit(path)
        np.testing.assert_array_equal(model.anchors_, opened.anchors_)
        np.testing.assert_array_equal(model.anchors_, expected.anchors_)
        np.testing.assert_allclose(model.transform(path), expected.transform(fa.SampleMatrix(data[0])), atol=1e-12)
        assert -1e-7 < model.score(path) <= 0


def test_data_frame_in_and_out(data):
    frame = pd.DataFrame(data[0], columns=[f"band {j}" for j in range(12)], index=np.arange(200) + 7)
    model = fa.SeparableNMF(3, solver="spa").set_output(transform="pandas")
    out = model.fit_transform(frame)
    assert list(out.columns) == list(model.get_feature_names_out()) == [f"separablenmf{j}" for j in range(3)]
    assert list(out.index) == list(frame.index)
    assert list(model.feature_names_in_) == list(frame.columns)
    model.fit(fa.SampleMatrix(data[0]))
    assert not hasattr(model, "feature_names_in_")


def test_pipeline_and_grid_search(data):
    X = data[0] + 0.001 * np.random.default_rng(5).random(data[0].shape)
    search = GridSearchCV(
        make_pipeline(MinMaxScaler(), fa.SeparableNMF(solver="spa", normalize=None)),
        {"separablenmf__n_components": [1, 2, 4], "separablenmf__solver": ["spa", "snpa"]},
        cv=KFold(2),
    )
    search.fit(X)
    assert search.best_params_["separablenmf__n_components"] == 4
    assert (search.cv_results_["mean_test_score"] <= search.best_score_).all()
    assert -1 < search.best_score_ < 0


def test_score_is_minus_the_relative_error(data):
    X = data[0]
    model = fa.SeparableNMF(2, solver="spa").fit(X)
    expected = -np.linalg.norm(X - model.transform(X) @ model.components_) / np.linalg.norm(X)
    for rows in (X, sp.csr_array(X), fa.SampleMatrix(X, normalize=None)):
        assert model.score(rows) == pytest.approx(expected)
    assert model.score(np.zeros((3, 12))) == 0.0


def test_pickle_clone_and_seed(data):
    X = data[0]
    for random_state in (7, np.random.RandomState(7)):
        model = fa.SeparableNMF(4, solver="dca", random_state=random_state)
        again = pickle.loads(pickle.dumps(clone(model).fit(X)))
        np.testing.assert_array_equal(again.anchors_, clone(model).fit(X).anchors_)
        np.testing.assert_array_equal(again.transform(X), clone(model).fit(X).transform(X))


def test_auto(data):
    model = fa.SeparableNMF("auto", solver="spa", random_state=0).fit(data[0])
    assert model.n_components_ == model.rank_curve_.k == len(model.anchors_) == 4
    model.set_params(n_components=2).fit(data[0])
    assert not hasattr(model, "rank_curve_")


def test_fewer_anchors_than_requested_warns(data):
    X = data[0]
    with pytest.warns(UserWarning, match=r"n_components = 7, but the data have only 4"):
        model = fa.SeparableNMF(7, solver="spa").fit(X)
    assert model.n_components_ == model._n_features_out == 4
    with pytest.warns(UserWarning, match="only 3"):
        fa.SeparableNMF(9, solver="spa").fit(np.eye(3).repeat(4, axis=0))


def test_more_anchors_than_rank_if_the_solver_supports_it():
    made = fa.datasets.family("rank_deficient_middle_points", rng=0)
    model = fa.SeparableNMF(20, solver="snpa", normalize=None).fit(made.A)
    assert fa.metrics.anchor_recovery(model.anchors_, made.labels) == 1.0


def test_bad_input(data):
    X = data[0]
    with pytest.raises(InvalidInputError, match="n_components = 201 anchors cannot be found among n_samples = 200"):
        fa.SeparableNMF(201, solver="spa").fit(X)
    with pytest.raises(InvalidInputError, match="n_components must be at least 1"):
        fa.SeparableNMF(0, solver="spa").fit(X)
    with pytest.raises(InvalidTypeError, match="n_components must be an integer"):
        fa.SeparableNMF(2.5, solver="spa").fit(X)
    with pytest.raises(InvalidInputError, match="'auto'"):
        fa.SeparableNMF("automatic", solver="spa").fit(X)
    with pytest.raises(InvalidInputError, match="normalize must be 'l1' or None"):
        fa.SeparableNMF(2, solver="spa", normalize="l2").fit(X)
    with pytest.raises(InvalidInputError, match="unknown solver"):
        fa.SeparableNMF(2, solver="svd").fit(X)
    with pytest.raises(RankError, match="every row of A is zero"):
        fa.SeparableNMF(2, solver="spa").fit(np.zeros((5, 3)))
    with pytest.raises(NotFittedError):
        fa.SeparableNMF(2, solver="spa").score(X)
    with pytest.raises(InvalidInputError, match="3 columns"):
        fa.SeparableNMF(3, solver="spa").fit(X).inverse_transform(X)
    bad = X.copy()
    bad[4, 2] = -1
    with pytest.raises(InvalidInputError, match=r"Negative values in data passed to SeparableNMF: X\[4, 2\]"):
        fa.SeparableNMF(2, solver="spa").fit(sp.csr_array(bad))
    bad[4, 2] = np.nan
    with pytest.raises(InvalidInputError, match=r"X\[4, 2\] is NaN"):
        fa.SeparableNMF(2, solver="spa").fit(bad)


def test_a_grid_search_reaches_the_options_of_a_solver():
    X = fa.datasets.separable(120, 8, 3, noise=0.01, rng=0).A
    search = GridSearchCV(fa.SeparableNMF(3, solver=fa.SPA()), {"solver__robust": [None, "average"]}, cv=2).fit(X)
    assert set(search.cv_results_["param_solver__robust"]) == {None, "average"}
    assert search.best_estimator_.solver.get_params()["precondition"] is None
    with pytest.raises(InvalidInputError, match="SPA has no option 'speed'"):
        fa.SeparableNMF(3, solver=fa.SPA()).set_params(solver__speed=1)


@pytest.mark.parametrize("solver", [fa.SPA(robust="average"), fa.FAS("paper", rule="largest"), fa.DCA(7), fa.QDCA(3)])
def test_solvers_are_cloned_with_their_options(solver):
    copy = clone(solver)
    assert copy is not solver
    assert copy == solver


@pytest.mark.parametrize("normalize", ["l1", None])
@pytest.mark.parametrize("selection", ["auto", "spa", "smoothed", "pseudo-points", "lifted", "whitened"])
@pytest.mark.parametrize("noise", [0.0, 0.02])
@pytest.mark.parametrize("make", [np.asarray, sp.csr_array])
def test_partial_fit_equals_a_fit_of_all_rows(normalize, selection, noise, make):
    X = fa.datasets.separable(300, 20, 4, noise=noise, rng=1).A * np.linspace(0.5, 2, 300)[:, None]
    whole = fa.SeparableNMF(4, normalize=normalize, selection=selection, random_state=0).fit(make(X))
    model = fa.SeparableNMF(4, normalize=normalize, selection=selection, random_state=0)
    for low, high in ((0, 50), (50, 51), (51, 250), (250, 300)):
        model.partial_fit(make(X[low:high]))
        assert model.n_samples_seen_ == high
    np.testing.assert_equal(np.sort(model.anchors_), np.sort(whole.anchors_))
    exact = whole.result_.points is None  # coordinates of points are in single precision
    np.testing.assert_allclose(
        np.sort(model.components_, axis=0),
        np.sort(whole.components_, axis=0),
        rtol=1e-9 if exact else 1e-5,
        atol=1e-12 if exact else 1e-6,
    )
    np.testing.assert_allclose(model.reconstruction_err_, whole.reconstruction_err_, atol=1e-9 if exact else 1e-5)
    assert model.transform(X[:5]).shape == (5, 4)
    assert model.certificate_.kind == "exact"


def test_partial_fit_finds_a_new_anchor():
    X = fa.datasets.separable(200, 10, 3, rng=2).A
    model = fa.SeparableNMF(4, selection="spa").partial_fit(np.vstack([X, np.eye(10)[:1]]))
    model.partial_fit(np.eye(10)[3:4])
    assert 201 in model.anchors_


def test_partial_fit_validates_its_rows_and_is_separate_from_fit():
    X = fa.datasets.separable(50, 8, 3, rng=0).A
    model = fa.SeparableNMF(3).partial_fit(X)
    for wrong in (-X, X * np.nan, X[:, :5]):
        with pytest.raises(ValueError):
            model.partial_fit(wrong)
    assert model.n_samples_seen_ == 50
    assert fa.SeparableNMF(3).fit(X).partial_fit(X[:20]).n_samples_seen_ == 20
    assert fa.SeparableNMF(3).partial_fit(X).fit(X).partial_fit(X[:20]).n_samples_seen_ == 20
    with pytest.raises(InvalidInputError, match="among n_samples = 2 rows"):
        fa.SeparableNMF(3).partial_fit(X[:2])
    with pytest.raises(TypeError, match="append rows to a store"):
        fa.SeparableNMF(3).partial_fit(fa.SampleMatrix(X))
    with pytest.raises(InvalidInputError, match="normalize was 'l1'"):
        model.set_params(normalize=None).partial_fit(X)


def test_every_fit_starts_again_and_a_refused_call_adds_no_rows():
    X = fa.datasets.separable(50, 8, 3, rng=0).A
    model = fa.SeparableNMF(3, random_state=0).partial_fit(X)
    for begin in (model.fit, model.fit_transform):
        begin(X)
        assert not hasattr(model, "n_samples_seen_")
        assert model.partial_fit(X[:20]).n_samples_seen_ == 20
    for wrong in (
        {"solver": "none"},
        {"n_components": 2.5},
        {"n_components": 71},
        {"sum_to_one": "yes"},
        {"random_state": "x"},
        {"n_jobs": "x"},
    ):
        right = {name: model.get_params()[name] for name in wrong}
        with pytest.raises((ValueError, TypeError)):
            model.set_params(**wrong).partial_fit(X)
        model.set_params(**right)
    named = pd.DataFrame(X, index=[f"r{i}" for i in range(50)])
    with pytest.raises(InvalidInputError, match="have no names, these have names"):
        model.partial_fit(named.set_axis(range(8), axis=1))
    assert model.partial_fit(X[:1]).n_samples_seen_ == 21
    small = fa.SeparableNMF(3, normalize=None).partial_fit(X.astype(np.float32))
    with pytest.raises(InvalidInputError, match=r"X\[0, 0\] is infinite in float32, the type of the rows so far"):
        small.partial_fit(X[:2] + 1e300)


def test_partial_fit_keeps_row_names():
    X = pd.DataFrame(fa.datasets.separable(30, 8, 3, rng=0).A, index=[f"r{i}" for i in range(30)])
    model = fa.SeparableNMF(3).partial_fit(X[:20]).partial_fit(X[20:])
    assert list(model.result_.names) == [f"r{i}" for i in model.anchors_]


def test_partial_fit_takes_parts_of_a_frame():
    """Their indices are ranges: the first counts from 0 and gives no names, the others give their labels."""
    X = pd.DataFrame(fa.datasets.separable(60, 8, 3, rng=0).A)
    model = fa.SeparableNMF(3).partial_fit(X[:20])
    for part in (X[20:35], X[35:60]):
        model.partial_fit(part)
    assert model.result_.names is None
    model = fa.SeparableNMF(3).partial_fit(X[:20]).partial_fit(X[40:]).partial_fit(X[20:40])
    rows = [*range(20), *range(40, 60), *range(20, 40)]
    assert list(model.result_.names) == [str(rows[i]) for i in model.anchors_]
    model = fa.SeparableNMF(3).partial_fit(X[40:]).partial_fit(X[:20].reset_index(drop=True))
    rows = [*range(40, 60), *range(20, 40)]
    assert list(model.result_.names) == [str(rows[i]) for i in model.anchors_]
    with pytest.raises(InvalidInputError, match="so far have names, these have none"):
        fa.SeparableNMF(3).partial_fit(X.rename("r{}".format)).partial_fit(X[:20])


@pytest.mark.parametrize("solver", ["fas", fa.SPA(robust="average")])
def test_averages_of_integer_rows_are_not_truncated(solver, tmp_path):
    rng = np.random.default_rng(3)
    A = rng.poisson(3, (150, 9)).astype(np.int32)
    expected = fa.SeparableNMF(3, solver=solver, normalize=None, random_state=0).fit(A.astype(float))
    assert np.any(expected.components_ % 1)
    sources = [
        A,
        sp.csr_array(A),
        fa.SampleMatrix(A, normalize=None),
        fa.SampleMatrix(sp.csr_array(A), normalize=None),
        fa.build(A, tmp_path / "rows.store", normalize=None),
    ]
    for source in sources:
        model = fa.SeparableNMF(3, solver=solver, normalize=None, random_state=0).fit(source)
        np.testing.assert_allclose(model.components_, expected.components_, rtol=1e-9, atol=1e-9)
        assert model.components_.dtype == np.float64


def damaged(kind):
    """A sparse matrix with index arrays that refer to memory outside it."""
    A = sp.csr_array(np.random.default_rng(0).random((12, 5))).asformat(kind)
    if kind == "coo":
        A.coords = (A.coords[0] + 10**8, A.coords[1])
    elif kind == "lil":
        A.rows[0] = [99] * 5
    elif kind == "dia":
        A.offsets = A.offsets[:-1]
    else:
        A.indices = A.indices + 10**8
    return A


@pytest.mark.parametrize("weights", [[["a", "b", "c"]], np.ones((2, 3)) * 1j])
def test_weights_that_are_no_real_numbers_are_refused(weights):
    model = fa.SeparableNMF(3).fit(fa.datasets.separable(60, 10, 3, rng=0).A)
    with pytest.raises(InvalidTypeError, match="weights"):
        model.inverse_transform(weights)


@pytest.mark.parametrize("make", [np.asarray, sp.csr_array])
def test_weights_that_are_not_finite_are_refused(make):
    model = fa.SeparableNMF(3).fit(fa.datasets.separable(60, 10, 3, rng=0).A)
    with pytest.raises(InvalidInputError, match=r"weights\[0, 1\] is NaN"):
        model.inverse_transform(make([[1.0, np.nan, 0.0]]))


@pytest.mark.parametrize("kind", ["csr", "csc", "coo", "bsr", "lil", "dia"])
@pytest.mark.parametrize("method", ["fit", "fit_transform", "partial_fit", "transform", "score", "inverse_transform"])
def test_damaged_sparse_matrices_are_refused(kind, method):
    model = fa.SeparableNMF(5, normalize=None).fit(np.random.default_rng(0).random((12, 5)))
    with pytest.raises(InvalidInputError, match="is damaged"):
        getattr(model, method)(damaged(kind))


def test_masked_entries_are_refused():
    X = np.random.default_rng(0).random((12, 5))
    masked = np.ma.masked_array(X, mask=X > 0.9)
    model = fa.SeparableNMF(2).fit(X)
    for method in ("fit", "fit_transform", "partial_fit", "transform", "score"):
        with pytest.raises(InvalidInputError, match="entries of X are masked"):
            getattr(model, method)(masked)
    assert fa.SeparableNMF(2).fit(np.ma.masked_array(X)).anchors_.size == 2


def test_what_scikit_learn_refuses_is_an_error_of_this_library_on_one_line():
    X = np.random.default_rng(0).random((12, 5))
    wrong = [X[0], X[None], X[:0], X + 1j, [[1.0], [1.0, 2.0]], {"a": 1}, pd.Series(X[0]), pd.DataFrame()]
    for source in wrong:
        with pytest.raises(fa.FastAnchorsError) as caught:
            fa.SeparableNMF(2).fit(source)
        assert isinstance(caught.value, ValueError | TypeError)
        assert "\n" not in str(caught.value)


def test_names_of_columns_of_files_and_stores_are_checked(data, tmp_path):
    """scikit-learn checks those of frames; a file or a store was taken by position."""
    frame = pd.DataFrame(data[0], columns=[f"band {j}" for j in range(12)])
    other = frame.iloc[:, ::-1]
    frame.to_csv(tmp_path / "a.csv", index=False)
    other.to_csv(tmp_path / "b.csv", index=False)
    with fa.build(frame, tmp_path / "a") as a, fa.build(other, tmp_path / "b") as b:
        for good, bad in ((a, b), (tmp_path / "a.csv", tmp_path / "b.csv"), (fa.SampleMatrix(frame), other)):
            model = fa.SeparableNMF(3, solver="spa").fit(good)
            assert list(model.feature_names_in_) == list(frame.columns)
            assert model.transform(good).shape == model.transform(frame).shape
            for method in (model.transform, model.score):
                with pytest.raises(InvalidInputError, match=r"band|feature names"):
                    method(bad)
        model = fa.SeparableNMF(3, solver="spa").fit(frame)
        found = fa.SeparableNMF(3).fit(frame + 0.01 * np.random.default_rng(0).random(frame.shape)).result_
        assert found.column_names == tuple(frame.columns)  # of its points
        np.testing.assert_allclose(fa.encode(other, found), fa.encode(frame, found), atol=1e-12)
        with pytest.raises(InvalidInputError, match="column 0 is named 'band 11' in X and 'band 0' in the data of fit"):
            model.transform(b)
    model.fit(data[0])
    assert not hasattr(model, "feature_names_in_")


def test_dates_are_not_numbers():
    dates = np.array([["2020-01-01", "2021-01-01"], ["2022-01-01", "2021-05-01"]], dtype="datetime64[s]")
    spans = dates - dates[0, 0]
    for X in (
        dates,
        spans,
        [list(row) for row in dates],
        pd.DataFrame(dates),
        pd.DataFrame({"a": [1.0, 2.0], "b": spans[0]}),
    ):
        with pytest.raises(InvalidTypeError, match="must hold real numbers"):
            fa.SeparableNMF(1).fit(X)


def test_rows_that_vanish_in_the_type_of_earlier_ones_are_refused():
    X = fa.datasets.separable(80, 8, 3, noise=0.02, rng=0).A
    for first in (X[:40].astype(np.float32), sp.csr_array(X[:40].astype(np.float32))):
        model = fa.SeparableNMF(3).partial_fit(first)
        with pytest.raises(InvalidInputError, match="row 0 of X is zero in float32"):
            model.partial_fit(X[40:] * 1e-50)
        assert model.n_samples_seen_ == 40
        assert model.partial_fit(X[40:]).n_samples_seen_ == 80


@pytest.mark.parametrize("noise", [0.0, 1e-12, 1e-10, 1e-6])
@pytest.mark.parametrize("scale", [1.0, 1e-140, 1e120])
@pytest.mark.parametrize("how", ["fit", "fit_transform", "partial_fit", "score"])
def test_small_errors_of_sparse_rows_keep_their_digits(how, scale, noise):
    """A difference of squares would lose errors below 1e-8 of the rows."""
    rng = np.random.default_rng(0)
    X = fa.datasets.separable(100, 8, 3, rng=0).A
    X = np.hstack([scale * (X + noise * rng.random(X.shape)), np.zeros((100, 30))])
    found = []
    for rows in (X, sp.csr_array(X)):
        model = fa.SeparableNMF(3, selection="spa")
        getattr(model, "fit" if how == "score" else how)(rows)
        found.append(
            -model.score(rows) if how == "score" else model.reconstruction_err_ / np.linalg.norm(X / scale) / scale
        )
    np.testing.assert_allclose(found[1], found[0], rtol=1e-3 if noise < 1e-11 else 1e-6, atol=1e-15)


@pytest.mark.parametrize("container", ["pandas", "polars", "arrow", "xarray", "dask"])
def test_weights_in_another_order_are_matched_by_name(container):
    X = pd.DataFrame(fa.datasets.separable(60, 10, 3, rng=0).A, columns=list("abcdefghij"))
    model = fa.SeparableNMF(3).set_output(transform="pandas").fit(X)
    weights = model.transform(X)
    expected = weights.to_numpy() @ model.components_
    turned, renamed = weights[weights.columns[::-1]], weights.set_axis(["x", "y", "z"], axis=1)
    if container == "polars":
        turned, renamed = (pytest.importorskip("polars").from_pandas(frame) for frame in (turned, renamed))
    elif container == "arrow":
        turned, renamed = (pytest.importorskip("pyarrow").Table.from_pandas(frame) for frame in (turned, renamed))
    elif container == "xarray":
        turned, renamed = (pytest.importorskip("xarray").DataArray(frame) for frame in (turned, renamed))
    elif container == "dask":
        turned, renamed = (
            pytest.importorskip("dask.dataframe").from_pandas(f, npartitions=2) for f in (turned, renamed)
        )
    for frame in (turned, renamed):
        found = model.inverse_transform(frame)
        np.testing.assert_allclose(np.asarray(found), expected, atol=1e-12)
    assert container == "dask" or type(found) is np.ndarray
