"""The same matrix in every type and container gives the same anchors, for every solver."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

import fastanchors as fa
from fastanchors import solvers
from fastanchors._parallel import use_threads
from fastanchors.errors import InvalidInputError, InvalidTypeError
from fastanchors.greedy import reader
from naive.sampling import NaiveSampleMatrix

SOLVERS = {
    "spa": lambda: fa.SPA(),
    "spa, preconditioned by spa": lambda: fa.SPA(precondition="spa"),
    "spa, preconditioned by svd": lambda: fa.SPA(precondition="svd"),
    "spa, preconditioned by mve": lambda: fa.SPA(precondition="mve"),
    "spa, robust": lambda: fa.SPA(robust="neighbours"),
    "spa, averaged": lambda: fa.SPA(robust="average"),
    "snpa": lambda: fa.SNPA(),
    "xray": lambda: fa.XRAY(),
    "xray, rand": lambda: fa.XRAY(selection="rand"),
    "xray, dist": lambda: fa.XRAY(selection="dist"),
    "xray, greedy": lambda: fa.XRAY(selection="greedy"),
    "dca": lambda: fa.DCA(),
    "arora-lp": lambda: fa.AroraLP(),
    "hottopixx": lambda: fa.Hottopixx(),
    "fas": lambda: fa.FAS(),
    "fgnsr": lambda: fa.FGNSR(),
}

KINDS = {
    "float64": lambda A: A.astype(np.float64),
    "float32": lambda A: A.astype(np.float32),
    "int32": lambda A: A.astype(np.int32),
    "uint8": lambda A: A.astype(np.uint8),
    "columns first": lambda A: np.asfortranarray(A.astype(np.float64)),
    "every second row": lambda A: np.repeat(A.astype(np.float64), 2, axis=0)[::2],
    "list": lambda A: A.tolist(),
    "csr": lambda A: sp.csr_array(A.astype(np.float64)),
    "csr float32": lambda A: sp.csr_array(A.astype(np.float32)),
    "csr int64": lambda A: sp.csr_array(A.astype(np.int64)),
    "csr matrix": lambda A: sp.csr_matrix(A.astype(np.float64)),
    "csc": lambda A: sp.csc_array(A.astype(np.float64)),
    "coo with duplicates": lambda A: _split_entries(A),
    "SampleMatrix": lambda A: fa.SampleMatrix(A.astype(np.float64), normalize=None),
    "SampleMatrix of csr": lambda A: fa.SampleMatrix(sp.csr_array(A.astype(np.float64)), normalize=None),
    "NaiveSampleMatrix": lambda A: NaiveSampleMatrix(A, normalize=None),
}


def _split_entries(A):
    """Every entry as the sum of two stored ones."""
    coo = sp.coo_array(A.astype(np.float64))
    half = np.floor(coo.data / 2)
    rows, columns = coo.coords
    data = np.concatenate([half, coo.data - half])
    return sp.coo_array((data, (np.tile(rows, 2), np.tile(columns, 2))), shape=A.shape)


@pytest.fixture(scope="module")
def counts():
    """Small counts, so that every type holds them exactly; near-separable, with duplicates and a zero row."""
    rng = np.random.default_rng(0)
    topics = rng.dirichlet(np.full(24, 0.3), 4)
    H = np.vstack([np.repeat(np.eye(4), 3, axis=0), rng.dirichlet(np.ones(4), 40)])
    A = np.round(200 * (H @ topics) + rng.random((52, 24)))
    return np.vstack([A, A[:2], np.zeros((1, 24))])


@pytest.fixture(scope="module")
def expected(counts):
    return {name: make().seek(counts, 4, rng=0).indices.tolist() for name, make in SOLVERS.items()}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("solver", SOLVERS)
def test_same_anchors_for_every_kind_of_matrix(counts, expected, solver, kind):
    found = SOLVERS[solver]().seek(KINDS[kind](counts), 4, rng=0)
    assert found.indices.tolist() == expected[solver]
    assert found.indices.dtype == np.intp
    assert len(set(found.indices)) == 4
    assert len(counts) - 1 not in found.indices  # the zero row
    assert found.certificate.kind in ("exact", "near", "sampled", "none")
    assert found.cost.rows_read > 0
    assert found.solver == solver.split(",")[0]


@pytest.mark.parametrize("solver", SOLVERS)
def test_a_normalised_view_is_used_as_it_is(counts, solver):
    counts = counts[:-1]
    view = counts / counts.sum(axis=1, keepdims=True)
    make = SOLVERS[solver]
    expected = make().seek(view, 4, rng=0).indices.tolist()
    assert make().seek(fa.SampleMatrix(counts, normalize="l1"), 4, rng=0).indices.tolist() == expected
    assert make().seek(NaiveSampleMatrix(counts, normalize="l1"), 4, rng=0).indices.tolist() == expected


@pytest.mark.parametrize("solver", SOLVERS)
def test_input_is_never_changed(counts, solver):
    dense, sparse = counts.copy(), sp.csr_array(counts)
    before = sparse.copy()
    SOLVERS[solver]().seek(dense, 3, rng=0)
    SOLVERS[solver]().seek(sparse, 3, rng=0)
    assert (dense == counts).all()
    assert (sparse.data == before.data).all()
    assert (sparse.indices == before.indices).all()


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize(
    ("A", "k", "error", "message"),
    [
        (np.ones((0, 3)), 1, InvalidInputError, "A is empty"),
        (np.array([[1.0, np.nan], [1, 1]]), 1, InvalidInputError, r"A\[0, 1\] is NaN"),
        (sp.csr_array(np.array([[1.0, 0], [0, -1]])), 1, InvalidInputError, r"A\[1, 1\] is negative"),
        (np.array([["a", "b"]]), 1, InvalidTypeError, "A must hold real numbers"),
        (np.ones((3, 4)), 5, InvalidInputError, "k = 5 is more than"),
        (np.ones((3, 4)), True, InvalidTypeError, "k must be an integer"),
    ],
)
def test_bad_input_is_one_clear_error(solver, A, k, error, message):
    with pytest.raises(error, match=message):
        SOLVERS[solver]().seek(A, k)


def test_every_solver_is_tested_here():
    assert {name.split(",")[0] for name in SOLVERS} == set(solvers.SOLVERS) - {"qdca"}


@pytest.mark.parametrize("kind", ["float64", "float32", "uint8", "csr", "csr int64", "SampleMatrix of csr"])
@pytest.mark.parametrize("solver", ["spa", "snpa", "xray"])
def test_same_anchors_and_residuals_on_any_number_of_threads(counts, solver, kind, monkeypatch):
    A = KINDS[kind](counts)
    alone = SOLVERS[solver]().seek(A, 4)
    monkeypatch.setattr(reader, "_WORTH_THREADS", 0)
    for threads in (1, 2, 5):
        with use_threads(threads):
            found = SOLVERS[solver]().seek(A, 4)
        assert found.indices.tolist() == alone.indices.tolist()
        assert found.residuals.tolist() == alone.residuals.tolist()


OF_INDEXED = (
    "variant",
    "selection",
    "budget",
    "precondition",
    "robust",
    "tol",
    "allow_fewer",
)  # the others: the paper's


@pytest.mark.parametrize("name", solvers.SOLVERS)
@pytest.mark.parametrize("wrong", [object(), "nonsense", -1, float("nan")], ids=["object", "word", "negative", "nan"])
def test_every_option_is_checked_when_the_solver_is_made(name, wrong):
    kind = solvers.SOLVERS[name]
    for option in kind().get_params():
        variant = {"variant": "paper"} if name == "fas" and option not in OF_INDEXED else {}
        with pytest.raises((InvalidInputError, InvalidTypeError)):
            kind(**{option: wrong, **variant})
