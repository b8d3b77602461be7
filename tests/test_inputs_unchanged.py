"""No call changes the arrays it is given: all of them may be read-only, and have the same bytes afterwards."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

import fastanchors as fa

K = 3
NAMES = [f"c{j}" for j in range(12)]
SOLVERS = ["fas", "spa", "snpa", "xray", "dca", "arora-lp", "hottopixx", "fgnsr"]


def rows(m: int = 40) -> np.ndarray:
    rng = np.random.default_rng(m)
    weights = np.vstack([np.eye(K), rng.dirichlet(np.full(K, 0.5), m - K)])
    A = np.floor(100 * weights @ (rng.random((K, 12)) ** 2 * (rng.random((K, 12)) < 0.7))) + 0.0
    A[:, 0] += 1  # no zero rows
    return A


def unsorted(A: np.ndarray) -> sp.csr_array:
    """CSR with the columns of each row in reverse, and the first entry of each in two halves."""
    csr = sp.csr_array(A)
    indices, data, indptr = [], [], [0]
    for start, stop in zip(csr.indptr[:-1], csr.indptr[1:], strict=True):
        indices += [*csr.indices[start:stop][::-1], csr.indices[start]]
        data += [*csr.data[start + 1 : stop][::-1], csr.data[start] / 2, csr.data[start] / 2]
        indptr.append(len(data))
    return sp.csr_array((np.array(data), np.array(indices), np.array(indptr)), shape=A.shape)


FORMS = {
    "dense": np.array,
    "by columns": np.asfortranarray,
    "strided": lambda A: np.repeat(A, 2, axis=1)[:, ::2],
    "csr": sp.csr_array,
    "unsorted csr": unsorted,
    "csr matrix": sp.csr_matrix,
    "csc": sp.csc_array,
    "coo": sp.coo_array,
}

CALLS = {
    "SampleMatrix": lambda X, folder: fa.SampleMatrix(X).update([0, 1], [2, 3], [5.0, 6.0]),
    "SampleMatrix raw": lambda X, folder: fa.SampleMatrix(X, normalize=None).add([0, 1], [2, 3], [5.0, 6.0]),
    "append to memory": lambda X, folder: fa.SampleMatrix(rows(20)).append(X),
    "build": lambda X, folder: fa.build(X, folder / "s").close(),
    "append to a store": lambda X, folder: append(X, folder, NAMES),
    "append by name": lambda X, folder: append(X, folder, NAMES[::-1]),
    "encode": lambda X, folder: fa.encode(X, rows()[:K]),
    "encode by": lambda X, folder: fa.encode(rows(), X[:K] if not isinstance(X, sp.coo_array) else X),
    "encode with a sum": lambda X, folder: fa.encode(X, rows()[:K], sum_to_one=True),
    "rank_curve": lambda X, folder: fa.rank_curve(X, 5),
    "nmf": lambda X, folder: fa.nmf(X, K, rng=0),
    "cur": lambda X, folder: fa.cur(fa.SampleMatrix(X, normalize=None), K, rng=0),
    "topics": lambda X, folder: fa.apps.topics(X, K),
    "representatives": lambda X, folder: fa.apps.representatives(X, K),
    "recommend": lambda X, folder: fa.apps.recommend(X, 0, K, rng=0),
    "errors": lambda X, folder: fa.metrics.reconstruction_error(X, rows()[:K]),
    "partial_fit": lambda X, folder: fa.SeparableNMF(K).partial_fit(rows(20)).partial_fit(X).transform(X),
    "inverse_transform": lambda X, folder: fa.SeparableNMF(K).fit(X).inverse_transform(np.eye(K)),
}
CALLS |= {name: lambda X, folder, name=name: fit(X, name, "l1") for name in SOLVERS}
CALLS |= {f"{name} raw": lambda X, folder, name=name: fit(X, name, None) for name in SOLVERS}


def append(X, folder, names):
    with fa.build(rows(20), folder / "s", column_names=NAMES) as S:
        S.append(X, column_names=names)
        S.commit()


def fit(X, name, normalize):
    fa.SeparableNMF(K, solver=name, normalize=normalize).fit_transform(X)


def arrays_of(X):
    if not sp.issparse(X):
        return [X]
    return [X.data, *X.coords] if X.format == "coo" else [X.data, X.indices, X.indptr]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("call", CALLS)
def test_arrays_of_the_caller_stay_as_they_are(call, form, tmp_path):
    X = FORMS[form](rows())
    before = [array.copy() for array in arrays_of(X)]
    for array in arrays_of(X):
        array.flags.writeable = False
    CALLS[call](X, tmp_path)
    for array, copy in zip(arrays_of(X), before, strict=True):
        np.testing.assert_array_equal(array, copy)
