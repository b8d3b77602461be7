"""A result is a sequence of row indices that prints, compares, converts and draws."""

from __future__ import annotations

import copy
import dataclasses
import operator
import pickle

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

import fastanchors as fa
from fastanchors.errors import InvalidInputError, InvalidTypeError, StoreError


@pytest.fixture(scope="module")
def X():
    return fa.datasets.separable(60, 8, 3, rng=0).A


@pytest.fixture(scope="module")
def anchors(X):
    return fa.SPA().seek(X, 3)


def test_it_is_a_sequence_of_ints(anchors):
    assert len(anchors) == 3
    assert list(anchors) == anchors.indices.tolist()
    assert anchors[0] == anchors.indices[0]
    assert type(anchors[0]) is int
    assert anchors[1:] == anchors.indices[1:].tolist()
    assert anchors[-1] in anchors


def test_arrays_accept_it_as_an_index(X, anchors):
    np.testing.assert_array_equal(X[anchors], X[anchors.indices])
    np.testing.assert_array_equal(sp.csr_array(X)[anchors].toarray(), X[anchors.indices])
    np.testing.assert_array_equal(pd.DataFrame(X).iloc[anchors], X[anchors.indices])


def test_encode_accepts_anchors_as_components(X, anchors):
    np.testing.assert_array_equal(fa.encode(X, anchors), fa.encode(X, X[anchors.indices]))
    moved = dataclasses.replace(anchors, points=X[anchors.indices] * 2.0)
    np.testing.assert_array_equal(fa.encode(X, moved), fa.encode(X, moved.points))


def test_equal_answers_are_equal_whatever_they_cost(X, anchors):
    again = fa.SPA().seek(X, 3)
    assert again == anchors
    assert hash(again) == hash(anchors)
    assert again.seconds != anchors.seconds
    assert anchors != fa.SPA().seek(X, 2)
    assert anchors != dataclasses.replace(anchors, points=X[anchors.indices])
    assert anchors != anchors.indices.tolist()
    assert len({anchors, again}) == 1


def made(indices, **rest):
    return fa.Anchors(indices, "hand", fa.Cost(), 0.0, fa.Certificate("none", "made by hand"), **rest)


def test_made_by_hand(X):
    given = [4, 2]
    own = made(
        given, residuals=(2, 1), names=["a", "b"], points=[[1, 2], [3, 4]], support=[1, 1], column_names=["x", "y"]
    )
    assert own == made(np.array(given, np.int32), residuals=[2.0, 1.0], names=("a", "b"), points=[[1.0, 2], [3, 4]])
    assert hash(made(given)) == hash(made(np.array(given, np.int32))) == hash(made(np.array(given, ">i8")))
    assert own.names == ("a", "b")
    assert own.as_dict()["residuals"] == [2.0, 1.0]
    np.testing.assert_array_equal(made(given).points_in(X), X[given])


@pytest.mark.parametrize(
    "bad",
    [
        {"indices": [0.5, 1.5]},
        {"indices": [[0], [1]]},
        {"indices": [-1, 0]},
        {"indices": 3},
        {"residuals": [1.0]},
        {"residuals": ["a", "b"]},
        {"points": [1.0, 2.0]},
        {"points": np.ones((3, 4))},
        {"names": "ab"},
        {"names": ["a"]},
        {"support": [1, 2, 3]},
        {"cost": 3},
        {"certificate": "exact"},
        {"solver": None},
    ],
)
def test_parts_that_do_not_fit_are_refused(bad):
    with pytest.raises((InvalidInputError, InvalidTypeError)):
        dataclasses.replace(made([0, 1]), **bad)


def test_costs_are_added_to_costs_only():
    assert fa.Cost(3, 1) - fa.Cost(1) + fa.Cost(0, 2) == fa.Cost(2, 3)
    for operation in (operator.add, operator.sub):
        for pair in ((fa.Cost(), 3), (3, fa.Cost()), (fa.Cost(), None)):
            with pytest.raises(TypeError, match="unsupported operand"):
                operation(*pair)


def test_it_prints_as_a_small_table(anchors):
    lines = str(anchors).splitlines()
    assert lines[0].startswith("3 anchors by spa")
    assert lines[1].split() == ["row", "residual"]
    assert [int(line.split()[0]) for line in lines[2:5]] == list(anchors)
    assert lines[-1].startswith("exact:")


def test_html_escapes_names(X):
    frame = pd.DataFrame(X, index=[f"<b>{i}</b>" for i in range(len(X))])
    found = fa.SPA().seek(frame, 3)
    assert found.names == tuple(f"<b>{i}</b>" for i in found)
    html = found._repr_html_()
    assert "<b>" not in html
    assert f"&lt;b&gt;{found[0]}&lt;/b&gt;" in html


def test_to_frame(X):
    named = pd.DataFrame(X, index=[f"r{i}" for i in range(len(X))])
    frame = fa.SPA().seek(named, 3).to_frame()
    assert list(frame.columns) == ["row", "name", "residual"]
    assert list(frame["name"]) == [f"r{i}" for i in frame["row"]]


def test_plot(X, anchors):
    import matplotlib

    matplotlib.use("Agg")
    ax = anchors.plot(X)
    assert len(ax.lines) == 3
    np.testing.assert_array_equal(ax.lines[0].get_ydata(), X[anchors[0]])
    assert len(anchors.plot().patches) == 3  # the residuals
    for source in (pd.DataFrame(X), sp.csr_array(X), fa.SampleMatrix(X, normalize=None)):
        np.testing.assert_allclose(anchors.plot(source).lines[1].get_ydata(), X[anchors[1]])
    with pytest.raises(InvalidInputError, match="pass the matrix"):
        dataclasses.replace(anchors, residuals=None).plot()


def test_anchors_of_another_matrix_are_refused():
    X = fa.datasets.separable(100, 8, 3, rng=0).A
    anchors = fa.SPA().seek(X, 3)
    few = X[: anchors.indices.max()]
    for use in (lambda: fa.encode(few, anchors), lambda: anchors.plot(few), lambda: anchors.report("r.html", few)):
        with pytest.raises(InvalidInputError, match=r"anchor .* is out of range"):
            use()


def test_a_report_that_cannot_be_written_names_its_place(tmp_path):
    X = fa.datasets.separable(30, 8, 3, rng=0).A
    anchors = fa.SPA().seek(X, 3)
    with pytest.raises(StoreError, match=r"cannot write .*none/r.html: the folder .*none does not exist"):
        anchors.report(tmp_path / "none" / "r.html", X)
    with pytest.raises(StoreError, match=r"cannot write .*: Is a directory"):
        anchors.report(tmp_path, X)
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match=r"cannot write .*r\.html"):
        anchors.report(tmp_path / "file" / "r.html", X)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_the_arrays_are_read_only_also_in_copies(anchors):
    for form in (anchors, copy.deepcopy(anchors), pickle.loads(pickle.dumps(anchors)), dataclasses.replace(anchors)):
        assert form == anchors
        assert hash(form) == hash(anchors)
        for array in (form.indices, form.residuals):
            with pytest.raises(ValueError, match="read-only"):
                array[0] = 1
    assert np.array(anchors).flags.writeable
