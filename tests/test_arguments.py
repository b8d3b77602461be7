"""Every array that public functions take, in every form: the right result or one clear error, never other numbers.

The table has one entry for each argument. Forms of numbers that are valid must give the result of the same numbers as
float64 (or be refused); the others must be refused.
"""

from __future__ import annotations

import datetime
import decimal
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import fastanchors as fa
from fastanchors._validate import as_numbers, as_reals
from fastanchors.errors import FastAnchorsError, InvalidInputError, InvalidTypeError
from fastanchors.lowrank.rejection import expected_trials
from fastanchors.report.display import _plane

A = fa.datasets.separable(12, 4, 3, noise=0.01, rng=0).A
COUNTS = np.arange(1.0, 21.0).reshape(5, 4) % 7 + 1
MODEL = fa.SeparableNMF(3, random_state=0).fit(A)
CUBE = fa.datasets.hyperspectral(6, 5, 12, 2, rng=0)
SQUARE = np.array([[2.0, 1.0], [1.0, 3.0]])


def vectors() -> Any:
    return fa.FactoredVectors(A, "right", [0, 1, 2], np.eye(3)[:, :2])


def changed(change: Callable[[fa.SampleMatrix], None]) -> Any:
    S = fa.SampleMatrix(A, normalize=None)
    change(S)
    return S.raw_rows(np.arange(S.shape[0]))


def set_entries(values: Any) -> Any:
    v = fa.VectorSampler(np.ones(5))
    v.update([0, 1, 2], values)
    return v.values.copy()


def assigned(values: Any) -> Any:
    v = fa.VectorSampler(np.ones(5))
    v[1:4] = values
    return v.values.copy()


def built(rows: Any) -> Any:
    with tempfile.TemporaryDirectory() as folder, fa.build(rows, Path(folder) / "s", normalize=None) as store:
        return store.raw_rows(np.arange(store.shape[0]))


def written(change: Callable[[fa.Store], None]) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "s"
        fa.build(A, path, normalize=None).close()
        with fa.open(path, mode="r+") as store:
            change(store)
            return store.raw_rows(np.arange(store.shape[0]))


def table_of(values: Any) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "t.csv"
        fa.apps.save_table(values, path, rows=["a", "b"], columns=["x", "y"])
        return pd.read_csv(path).iloc[:, 1:].to_numpy(dtype=float)


def rated(ratings: Any) -> Any:
    made = fa.apps.Recommender(fa.SampleMatrix(COUNTS, normalize=None), 2, rng=0)
    made.rate([0, 1], [1, 2], ratings)
    return made.S.raw_rows(np.arange(5))


def from_frame(ratings: Any) -> Any:
    frame = pd.DataFrame({"user": ["a", "b", "a"], "item": ["x", "x", "y"]})
    frame["rating"] = pd.Series(ratings)
    return fa.apps.RatingsTable.from_frame(frame).A.toarray()


def state_of(beta: Any) -> Any:
    pytest.importorskip("pennylane")
    return fa.QDCA().circuit(A, beta).operations[0].parameters[0]


def unmixed(mask: Any) -> Any:
    return fa.apps.unmix(CUBE.A.reshape(6, 5, 12), 2, mask=mask).abundances


W3 = np.array([1.0, 2.0, 0.5])
NUMBERS: dict[str, tuple[Callable[[Any], Any], Any]] = {
    "solve S": (lambda x: fa.lowrank.solve(x, np.ones(12), 2, exact=True, rng=0).toarray(), A),
    "solve b": (lambda x: fa.lowrank.solve(A, x, 2, exact=True, rng=0).toarray(), A.sum(axis=1)),
    "sample_combination U": (lambda x: fa.sample_combination(x, W3[:2], 9, rng=0), A[:, :2].copy()),
    "sample_combination y": (lambda x: fa.sample_combination(A[:, :3], x, 9, rng=0), W3),
    "expected_trials gram": (lambda x: expected_trials(vectors(), W3[:2], gram=x), SQUARE),
    "FactoredVectors S": (lambda x: fa.FactoredVectors(x, "right", [0], [[1.0]]).query([0, 1]), A),
    "FactoredVectors coefficients": (lambda x: fa.FactoredVectors(A, "right", [0, 1], x).query([0, 1]), SQUARE),
    "FactoredVectors singular_values": (
        lambda x: fa.FactoredVectors(A, "right", [0, 1], SQUARE, x).singular_values,
        W3[:2],
    ),
    "FactoredVectors.transform T": (lambda x: vectors().transform(x).query([0, 1]), SQUARE),
    "estimate_product L": (lambda x: fa.estimate_product(x, A, np.eye(4), draws=50, rng=0), A.T[:2].copy()),
    "estimate_product R": (lambda x: fa.estimate_product(A.T[:2], A, x, draws=50, rng=0), A[:4, :2].copy()),
    "estimate_product callable R": (
        lambda x: fa.estimate_product(A.T[:2], A, lambda j: np.asanyarray(x)[j], draws=50, rng=0),
        A[:4, :2].copy(),
    ),
    "cur S": (lambda x: fa.lowrank.cur(x, 2, rng=0).query([0, 1], [2, 3]), A),
    "fkv S": (lambda x: fa.fkv(x, 2, rng=0).query([0, 1]), A),
    "VectorSampler": (lambda x: fa.VectorSampler(x).values, W3),
    "VectorSampler.update": (set_entries, W3),
    "VectorSampler[…]": (assigned, W3),
    "SampleMatrix": (lambda x: fa.SampleMatrix(x).rows([0, 1]), A),
    "SampleMatrix.update": (lambda x: changed(lambda S: S.update([0, 1, 2], [0, 1, 2], x)), W3),
    "SampleMatrix.add": (lambda x: changed(lambda S: S.add([0, 1, 2], [0, 1, 2], x)), W3),
    "SampleMatrix.append": (lambda x: changed(lambda S: S.append(x)), A[:2].copy()),
    "build": (built, A),
    "Store.update": (lambda x: written(lambda S: S.update([0, 1, 2], [0, 1, 2], x)), W3),
    "Store.append": (lambda x: written(lambda S: S.append(x)), A[:2].copy()),
    "open_matrix": (lambda x: fa.open_matrix(x).dense_rows([0, 1]), A),
    "RowMatrix.dot": (lambda x: fa.open_matrix(A).dot(x), A[:4, :2].copy()),
    "RowMatrix.transposed_dot": (lambda x: fa.open_matrix(A).transposed_dot(x), A[:, :2].copy()),
    "SampleMatrix.dot": (lambda x: fa.SampleMatrix(A).dot(x), A[:4, :2].copy()),
    "FAS A": (lambda x: fa.FAS().seek(x, 3, rng=0).indices, A),
    "FAS weights": (lambda x: fa.FAS(weights=x).seek(A, 3, rng=0).indices, np.arange(1.0, 13.0)),
    "QDCA beta": (lambda x: state_of(x), W3.repeat([1, 1, 2])),
    "SPA A": (lambda x: fa.SPA().seek(x, 3).residuals, A),
    "encode X": (lambda x: fa.encode(x, A[:3]), A),
    "encode components": (lambda x: fa.encode(A, x), A[:3].copy()),
    "rank_curve": (lambda x: fa.rank_curve(x, 2, rng=0).errors, A),
    "nmf": (lambda x: fa.nmf(x, 2, rng=0).W, A),
    "SeparableNMF.fit": (lambda x: fa.SeparableNMF(3, random_state=0).fit(x).components_, A),
    "SeparableNMF.transform": (lambda x: MODEL.transform(x), A),
    "SeparableNMF.inverse_transform": (lambda x: MODEL.inverse_transform(x), A[:, :3].copy()),
    "SeparableNMF.score": (lambda x: MODEL.score(x), A),
    "abundance_rmse true": (lambda x: fa.metrics.abundance_rmse(x, A), A),
    "abundance_rmse found": (lambda x: fa.metrics.abundance_rmse(A, x), A),
    "anchor_labels A": (lambda x: fa.metrics.anchor_labels(x, [0, 1]), A),
    "matched_spectral_angle true": (lambda x: fa.metrics.matched_spectral_angle(x, A[:3]).values, A[:3].copy()),
    "matched_spectral_angle found": (lambda x: fa.metrics.matched_spectral_angle(A[:3], x).values, A[:3].copy()),
    "spectral_angles X": (lambda x: fa.metrics.spectral_angles(x, A[:3]), A),
    "spectral_angles Y": (lambda x: fa.metrics.spectral_angles(A, x), A[:3].copy()),
    "reconstruction_error A": (lambda x: fa.metrics.reconstruction_error(x, A[:3]).absolute, A),
    "reconstruction_error components": (lambda x: fa.metrics.reconstruction_error(A, x).absolute, A[:3].copy()),
    "reconstruction_error weights": (
        lambda x: fa.metrics.reconstruction_error(A, A[:3], x).absolute,
        A[:, :3].copy(),
    ),
    "topic_coherence topics": (lambda x: fa.metrics.topic_coherence(x, COUNTS, top=2), COUNTS[:2] / 10),
    "topic_coherence counts": (lambda x: fa.metrics.topic_coherence(COUNTS[:2] / 10, x, top=2), COUNTS),
    "topic_uniqueness": (lambda x: fa.metrics.topic_uniqueness(x, top=2), COUNTS[:2] / 10),
    "Recommender": (lambda x: fa.apps.Recommender(x, 2, rng=0).scores([0, 1]), COUNTS),
    "Recommender.rate": (rated, W3[:2]),
    "RatingsTable": (lambda x: fa.apps.RatingsTable(x, list("abcde"), list("wxyz")).A.toarray(), COUNTS),
    "RatingsTable.from_frame": (from_frame, W3),
    "representatives": (lambda x: fa.apps.representatives(x, 2, rng=0).weights, A),
    "save_table": (table_of, SQUARE),
    "unmix scene": (lambda x: fa.apps.unmix(x, 2).abundances, CUBE.A),
    "unmix mask": (unmixed, np.ones((6, 5))),
    "report embedding": (lambda x: _plane(x, 3), np.arange(6.0).reshape(3, 2)),
}

#: what differs from the rules by intention: documented where the argument is
MASKS_HAVE_A_MEANING = {"unmix scene"}  # masked pixels are left out
NAN_HAS_A_MEANING = {
    "unmix scene",
    "unmix mask",
    "RowMatrix.dot",
    "RowMatrix.transposed_dot",
    "SampleMatrix.dot",
    "save_table",
}
ANY_LENGTH = {"VectorSampler", "FactoredVectors singular_values", "RatingsTable.from_frame", "Recommender.rate"}
NOT_POSSIBLE = {  # forms that pandas, or a function of the table, does not make
    ("RatingsTable.from_frame", "records"),
    ("estimate_product callable R", "a dict"),
    ("estimate_product callable R", "list with a masked array"),
}


def objects(values: Any, first: Any) -> Any:
    array = np.array(values, dtype=object)
    array[(0,) * array.ndim] = first
    return array


def with_first(values: Any, first: float) -> Any:
    array = np.array(values)
    array[(0,) * array.ndim] = first
    return array


def masked(values: Any) -> Any:
    return np.ma.array(values, mask=with_first(np.zeros(np.shape(values)), 1.0))


REFUSED: dict[str, Callable[[Any], Any]] = {
    "masked": masked,
    "list with a masked array": lambda x: [masked(x[0]), *x[1:]] if np.ndim(x) == 2 else [x[0], np.ma.masked, *x[2:]],
    "complex": lambda x: x + 1j,
    "text": lambda x: x.astype(str),
    "bytes": lambda x: x.astype("S"),
    "list of text": lambda x: x.astype(str).tolist(),
    "objects of text": lambda x: x.astype(str).astype(object),
    "one object of text": lambda x: objects(x, "1.5"),
    "one object of bytes": lambda x: objects(x, b"1.5"),
    "object with None": lambda x: objects(x, None),
    "object with NA": lambda x: objects(x, pd.NA),
    "object with a complex number": lambda x: objects(x, np.complex128(1 + 2j)),
    "object with a date": lambda x: objects(x, np.datetime64("2020-01-01")),
    "object with a duration": lambda x: objects(x, np.timedelta64(3, "s")),
    "object with a Python date": lambda x: objects(x, datetime.datetime(2020, 1, 1)),
    "object beyond 2**53": lambda x: objects(x, 2**53 + 1),
    "NaN": lambda x: with_first(x, np.nan),
    "infinite": lambda x: with_first(x, np.inf),
    "dates": lambda x: (100 * x).astype("M8[s]"),
    "durations": lambda x: (100 * x).astype("m8[s]"),
    "records": lambda x: x.astype([("a", float)]),
    "a dict": lambda x: {0: 1.0},
    "a long double beyond float64": lambda x: with_first(x.astype(np.longdouble), np.longdouble("1e4000")),
}

SAME: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {  # what is given, and the same as float64
    "list": (lambda x: x.tolist(), lambda x: x),
    "unmasked": (np.ma.array, lambda x: x),
    "bool": (lambda x: x > np.median(x), lambda x: (x > np.median(x)).astype(float)),
    "int8": (lambda x: (10 * x).astype(np.int8), lambda x: (10 * x).astype(np.int8).astype(float)),
    "float16": (lambda x: x.astype(np.float16), lambda x: x.astype(np.float16).astype(float)),
    "long double": (lambda x: x.astype(np.longdouble), lambda x: x),
    "big-endian": (lambda x: x.astype(">f8"), lambda x: x),
    "Fortran order": (np.asfortranarray, lambda x: x),
    "Decimal": (
        lambda x: objects(x, decimal.Decimal("1.5")),
        lambda x: with_first(x, 1.5),
    ),
    "integers beyond 2**53": (
        lambda x: (x * 4).astype(np.int64) + 2**53 + 1,
        lambda x: ((x * 4).astype(np.int64) + 2**53 + 1).astype(float),
    ),
}


def outcome(call: Callable[[Any], Any], given: Any) -> Any:
    """The result as an array, or the error of this library; any other exception fails the test."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of scikit-learn about convergence
        warnings.simplefilter("error", np.exceptions.ComplexWarning)
        try:
            return np.asarray(call(given), dtype=float)
        except FastAnchorsError as error:
            return error


@pytest.mark.parametrize("form", REFUSED)
@pytest.mark.parametrize("argument", NUMBERS)
def test_what_is_not_an_array_of_real_numbers_is_refused(argument, form):
    call, good = NUMBERS[argument]
    if "masked" in form and argument in MASKS_HAVE_A_MEANING:
        return
    if form in ("NaN", "infinite", "a long double beyond float64") and argument in NAN_HAS_A_MEANING:
        return
    if (argument, form) in NOT_POSSIBLE:
        return
    found = outcome(call, REFUSED[form](good))
    assert isinstance(found, InvalidInputError | InvalidTypeError), found
    assert len(str(found)) < 500


@pytest.mark.parametrize("form", SAME)
@pytest.mark.parametrize("argument", NUMBERS)
def test_another_form_of_the_same_numbers_gives_the_same_result(argument, form):
    call, good = NUMBERS[argument]
    made, plain = SAME[form]
    found, expected = outcome(call, made(good)), outcome(call, plain(good))
    if isinstance(found, FastAnchorsError):
        assert form not in ("list", "unmasked", "big-endian", "Fortran order"), found
    else:
        assert not isinstance(expected, FastAnchorsError), expected
        np.testing.assert_allclose(found, expected, rtol=2e-3 if form == "float16" else 1e-6, atol=1e-6)


@pytest.mark.parametrize("argument", NUMBERS)
def test_the_values_of_the_table_are_accepted(argument):
    call, good = NUMBERS[argument]
    assert not isinstance(outcome(call, good), FastAnchorsError)


@pytest.mark.parametrize("argument", [name for name, (_, good) in NUMBERS.items() if good.ndim == 1])
def test_vectors_of_another_length_or_shape_are_refused(argument):
    call, good = NUMBERS[argument]
    shapes = [] if argument in ANY_LENGTH else [good[:-1], np.append(good, 1.0), good[:0]]
    tables = [] if argument == "RatingsTable.from_frame" else [np.tile(good, (2, 1)), np.tile(good[:, None], 2)]
    for given in (*shapes, *tables):
        assert isinstance(outcome(call, given), InvalidInputError | InvalidTypeError)


def test_numbers_beside_the_data_are_not_rounded():
    for given in ([2**53 + 1], np.array([2**63 + 1], np.uint64), np.array([2**53 + 1, 1.0], dtype=object)):
        with pytest.raises(InvalidInputError, match="would be rounded"):
            as_numbers(given, "b")
    assert as_reals([2**53, 2**60], "b").tolist() == [2.0**53, 2.0**60]
    with pytest.raises(InvalidInputError, match=r"b\[1, 0\] is nan; b must be finite"):
        as_reals([[1.0], [np.nan]], "b")


def test_masked_row_blocks_are_refused(tmp_path):
    blocks = [A[:6], np.ma.array(A[6:], mask=A[6:] > 0.5)]
    with pytest.raises(InvalidInputError, match="entries of row block 1 are masked"):
        fa.build(iter(blocks), tmp_path / "s")


def test_text_as_ids():
    assert RATINGS.rows_of(["b", "a"]).tolist() == [1, 0]
    assert RATINGS.popular(["b"], 1).tolist() == [[None]]


SAMPLED = fa.SampleMatrix(A)
PLAIN = fa.open_matrix(A)
SOLVED = fa.lowrank.solve(A, np.ones(12), 2, exact=True, rng=0)
CURRED = fa.lowrank.cur(A, 2, rng=0)
RECOMMENDED = fa.apps.Recommender(fa.SampleMatrix(COUNTS, normalize=None), 2, rng=0)
RATINGS = fa.apps.RatingsTable(COUNTS, list("abcde"), list("wxyz"))

INDICES: dict[str, Callable[[Any], Any]] = {
    "SampleMatrix.rows": SAMPLED.rows,
    "SampleMatrix.raw_rows": SAMPLED.raw_rows,
    "SampleMatrix.dense_rows": SAMPLED.dense_rows,
    "SampleMatrix.row_entries": SAMPLED.row_entries,
    "SampleMatrix.row_norm": SAMPLED.row_norm,
    "SampleMatrix.column_norm": SAMPLED.column_norm,
    "SampleMatrix.l1_norm": SAMPLED.l1_norm,
    "SampleMatrix.sample_in_row": lambda i: SAMPLED.sample_in_row(i, 5, rng=0),
    "SampleMatrix.sample_in_column": lambda j: SAMPLED.sample_in_column(j, 5, rng=0),
    "SampleMatrix.raw rows": lambda i: SAMPLED.raw(i, 0),
    "SampleMatrix.raw columns": lambda j: SAMPLED.raw(0, j),
    "SampleMatrix.update rows": lambda i: changed(lambda S: S.update(i, 1, 3.0)),
    "SampleMatrix.update columns": lambda j: changed(lambda S: S.update(1, j, 3.0)),
    "SampleMatrix.add rows": lambda i: changed(lambda S: S.add(i, 1, 3.0)),
    "RowMatrix.rows": PLAIN.rows,
    "RowMatrix.dense_rows": PLAIN.dense_rows,
    "RowMatrix.rows_once": PLAIN.rows_once,
    "Store.rows_once": lambda i: from_a_store(i),
    "RowMatrix.row_entries": PLAIN.row_entries,
    "RowMatrix.project": lambda i: PLAIN.project(i, np.eye(4)[:2]),
    "VectorSampler[…]": lambda i: fa.VectorSampler(np.arange(1.0, 6.0))[i],
    "FactoredVectors indices": lambda i: fa.FactoredVectors(A, "right", i, np.ones((2, 1))).query([0]),
    "FactoredVectors.query": lambda i: vectors().query(i),
    "LinearSolution.query": SOLVED.query,
    "CUR.query rows": lambda i: CURRED.query(i, [0, 1]),
    "CUR.query columns": lambda j: CURRED.query([0, 1], j),
    "anchor_recovery found": lambda i: fa.metrics.anchor_recovery(i, [-1, 0, 1, 2, 0]),
    "anchor_labels anchors": lambda i: fa.metrics.anchor_labels(A, i),
    "topic_coherence topics": lambda i: fa.metrics.topic_coherence(np.atleast_2d(i), COUNTS, top=2),
    "Recommender.coordinates": RECOMMENDED.coordinates,
    "Recommender.scores": RECOMMENDED.scores,
    "Recommender.top_n": lambda i: RECOMMENDED.top_n(i, 2),
    "Recommender.rate users": lambda i: rated_at(i, 1),
    "Recommender.rate items": lambda j: rated_at(1, j),
    "recommend users": lambda i: fa.apps.recommend(COUNTS, i, 2, k=2, exclude_seen=False, rng=0),
    "RatingsTable.named": lambda j: [ord(item) for item in RATINGS.named(j)],
    "unmix drop_bands": lambda j: fa.apps.unmix(CUBE.A, 2, drop_bands=j).endmembers,
    "FAS k": lambda k: [found.indices[0] for found in fa.FAS().seek(A, k, rng=0)],
}


def from_a_store(rows: Any) -> Any:
    with tempfile.TemporaryDirectory() as folder, fa.build(A, folder + "/s", normalize=None, sidecars=()) as S:
        return S.rows_once(rows)


def rated_at(users: Any, items: Any) -> Any:
    made = fa.apps.Recommender(fa.SampleMatrix(COUNTS, normalize=None), 2, rng=0)
    made.rate(users, items, 2.5)
    return made.S.raw_rows(np.arange(5))


GOOD = np.array([1, 2])
NO_INDICES: dict[str, Any] = {
    "masked": np.ma.array(GOOD, mask=[True, False]),
    "fractions": np.array([1.5, 2.0]),
    "complex": GOOD + 1j,
    "text": np.array(["1", "2"]),
    "objects of text": np.array(["1", "2"], dtype=object),
    "object with None": np.array([1, None]),
    "NaN": np.array([1.0, np.nan]),
    "bool": np.array([True, False]),
    "beyond all rows": np.array([1, 2**53 + 1]),
    "beyond int64": np.array([1, 2**64 - 1], dtype=np.uint64),
    "dates": GOOD.astype("M8[D]"),
    "durations": GOOD.astype("m8[D]"),
    "negative": np.array([1, -2]),
}


@pytest.mark.parametrize("form", NO_INDICES)
@pytest.mark.parametrize("argument", INDICES)
def test_what_is_not_an_array_of_indices_is_refused(argument, form):
    if "topics" in argument and form in ("bool", "fractions"):
        return  # weights
    found = outcome(INDICES[argument], NO_INDICES[form])
    assert isinstance(found, InvalidInputError | InvalidTypeError), found


@pytest.mark.parametrize("argument", INDICES)
def test_indices_of_any_integer_type_are_accepted(argument):
    expected = outcome(INDICES[argument], GOOD)
    assert not isinstance(expected, FastAnchorsError), expected
    for given in (GOOD.tolist(), GOOD.astype(np.uint8), GOOD.astype(">i4"), np.ma.array(GOOD), GOOD.astype(np.uint64)):
        np.testing.assert_array_equal(outcome(INDICES[argument], given), expected)


def test_masked_ids_of_users_are_refused():
    with pytest.raises(InvalidInputError, match="masked"):
        fa.apps.recommend(RATINGS, np.ma.array(["a", "b"], mask=[1, 0]), 2, k=2)


# --- options ------------------------------------------------------------------------------------------------------

TWO = np.array([1, 2])
LARGE = np.full((3, 3), 1e308)
OPTIONS = {
    "sums of entries of A overflow": lambda: fa.FGNSR().seek(LARGE, 2),
    "sums of entries of A overflow; divide A": lambda: fa.SPA(precondition="svd").seek(LARGE, 2),
    "the projections of A overflow; divide A": lambda: fa.DCA().seek(LARGE, 2),
    "inhomogeneous": lambda: fa.apps.unmix([[1, 2], [3]], 1),
    "smoothness": lambda: fa.datasets.hyperspectral(smoothness=10**29),
    "family": lambda: fa.datasets.family([]),
    "keep_weights": lambda: fa.datasets.separable(20, 5, 2, keep_weights=TWO),
    "relative": lambda: fa.datasets.dirichlet(10, 5, 2, relative=TWO),
    "row_names": lambda: fa.SampleMatrix(np.eye(3), row_names=np.array(3)),
    "selection": lambda: fa.FAS("paper", selection=TWO),
    "dimension": lambda: fa.DCA(dimension=TWO),
    "max_work": lambda: fa.AroraLP(max_work=TWO),
    "max_work must": lambda: fa.Hottopixx(max_work=-1.0),
    "side": lambda: fa.fkv(np.eye(3), 2, side=TWO),
    "exact": lambda: fa.lowrank.solve(np.eye(3), np.ones(3), 2, exact=TWO),
    "signed": lambda: fa.open_matrix(np.eye(3), signed=TWO),
    "checked": lambda: fa.open_matrix(np.eye(3), checked=TWO),
}


@pytest.mark.parametrize("name", OPTIONS)
def test_a_bad_option_is_one_clear_error(name):
    with pytest.raises(FastAnchorsError, match=name.replace("_", ".")):
        OPTIONS[name]()


def test_the_smallest_probabilities_are_no_overflow():
    A = fa.datasets.separable(60, 6, 3, noise=0.01, rng=0).A
    assert np.isfinite(fa.estimate_product(np.ones((1, 60)), A, np.ones((6, 1)), eta=1e-320, rng=0)).all()
    for option in ("eta", "gamma"):
        assert len(fa.FAS("paper", **{option: 1e-320}).seek(A, 2, rng=0)) == 2
