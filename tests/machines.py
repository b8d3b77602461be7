"""Test random sequences of calls against the naive reference, for any class with the ``SampleMatrix`` interface.

A test derives from :class:`SampleMachine` and creates the object under test in :meth:`make`. It may add further rules
(reopen, crash). ``self.S`` is the object under test, ``self.model`` the reference.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from naive.sampling import NaiveSampleMatrix

# Narrow, tall and wide: without inner nodes, with one level and with two levels of them, for rows and columns.
SHAPES = [(1, 1), (3, 40), (45, 4), (6, 560), (560, 5)]


def random_matrix(seed: int, shape: tuple[int, int], dtype: Any, signed: bool) -> np.ndarray:
    """Multiples of 1/8 (integers for integer types), so that every sum of the reference is exact; 2/3 zeros."""
    rng = np.random.default_rng(seed)
    A = rng.integers(-8 if signed else 0, 9, shape) * (rng.random(shape) < 1 / 3)
    return (A if np.issubdtype(dtype, np.integer) else A / 8).astype(dtype)


class SampleMachine(RuleBasedStateMachine):
    """Set, add, update, query, norms and draws in any order; every answer is compared with the reference."""

    dtypes: tuple[Any, ...] = (np.float64, np.float32, np.int32)
    normalizations: tuple[str | None, ...] = ("l1", None)

    def make(self, A: Any, normalize: str | None) -> Any:
        raise NotImplementedError

    @initialize(data=st.data())
    def start(self, data: st.DataObject) -> None:
        self.dtype = np.dtype(data.draw(st.sampled_from(self.dtypes), label="dtype"))
        self.normalize = data.draw(st.sampled_from(self.normalizations), label="normalize")
        shape = data.draw(st.sampled_from(SHAPES), label="shape")
        sparse = data.draw(st.booleans(), label="sparse")
        A = random_matrix(data.draw(st.integers(0, 99), label="seed"), shape, self.dtype, self.signed)
        self.model = NaiveSampleMatrix(A, self.normalize)
        self.S = self.make(sp.csr_array(A) if sparse else A, self.normalize)

    @property
    def signed(self) -> bool:
        return self.normalize is None

    def places(self, data: st.DataObject, most: int = 12) -> tuple[np.ndarray, np.ndarray]:
        m, n = self.model.shape
        pair = st.tuples(st.integers(0, m - 1), st.integers(0, n - 1))
        pairs = np.array(data.draw(st.lists(pair, min_size=1, max_size=most), label="places"))
        return pairs[:, 0], pairs[:, 1]

    def values(self, data: st.DataObject, count: int) -> np.ndarray:
        # Large values change the l1 norm of a row by a large factor; zeros delete entries.
        eighths = st.one_of(st.integers(0, 16), st.sampled_from([0, 8, 2**12, 2**17]))
        x = np.array(data.draw(st.lists(eighths, min_size=count, max_size=count), label="values"))
        if self.signed:
            x = x * np.array(data.draw(st.lists(st.sampled_from([-1, 1]), min_size=count, max_size=count)))
        return x.astype(self.dtype) if self.dtype.kind == "i" else x / 8

    @rule(data=st.data())
    def set_one(self, data: st.DataObject) -> None:
        i, j = self.places(data, most=1)
        x = self.values(data, 1)[0]
        self.S[int(i[0]), int(j[0])] = x
        self.model[i[0], j[0]] = x

    @rule(data=st.data())
    def update(self, data: st.DataObject) -> None:
        i, j = self.places(data)
        x = self.values(data, len(i))
        self.S.update(i, j, x)
        self.model.update(i, j, x)

    @rule(data=st.data())
    def add(self, data: st.DataObject) -> None:
        i, j = self.places(data)
        x = self.values(data, len(i))
        self.S.add(i, j, x)
        self.model.add(i, j, x)

    @rule(data=st.data(), x=st.integers(0, 3))
    def set_row(self, data: st.DataObject, x: int) -> None:
        """Set a whole row at once: many new non-zeros in one row, or an empty row."""
        i = data.draw(st.integers(0, self.model.shape[0] - 1), label="row")
        j = np.arange(self.model.shape[1])
        self.S.update(i, j, np.where(j % 7 == 3, 0, x))
        self.model.update(i, j, np.where(j % 7 == 3, 0, x))

    @rule(data=st.data())
    def query(self, data: st.DataObject) -> None:
        i, j = self.places(data)
        np.testing.assert_array_equal(self.S.raw(i, j), self.model.raw(i, j))
        np.testing.assert_allclose(self.S[i, j], self.model[i, j], rtol=1e-12)
        np.testing.assert_allclose(self.S[int(i[0]), int(j[0])], self.model[i[0], j[0]], rtol=1e-12)

    @rule()
    def norms(self) -> None:
        m, n = self.model.shape
        np.testing.assert_allclose(self.S.row_norm(np.arange(m)), self.model.row_norm(np.arange(m)), rtol=1e-12)
        np.testing.assert_allclose(self.S.column_norm(np.arange(n)), self.model.column_norm(np.arange(n)), rtol=1e-12)

    @rule(data=st.data())
    def rows(self, data: st.DataObject) -> None:
        i, _ = self.places(data)
        rows = self.S.rows(i)
        dense = rows.toarray() if sp.issparse(rows) else rows
        rtol = 1e-6 if dense.dtype == np.float32 else 1e-12
        np.testing.assert_allclose(dense, self.model.rows(i), rtol=rtol)

    @rule(seed=st.integers(0, 2**32 - 1))
    def draw(self, seed: int) -> None:
        """Entries of weight zero are never drawn, and equal seeds give equal draws."""
        view = self.model.view
        if not view.any():
            return
        i = self.S.sample_rows(20, rng=seed)
        assert view[i, self.S.sample_in_row(i, rng=seed)].all()
        j = self.S.sample_columns(20, rng=seed)
        assert view[self.S.sample_in_column(j, rng=seed), j].all()
        np.testing.assert_array_equal(j, self.S.sample_columns(20, rng=seed))

    @invariant()
    def agrees(self) -> None:
        if hasattr(self, "S"):
            assert self.S.nnz == self.model.nnz
            np.testing.assert_allclose(self.S.frobenius_norm, self.model.frobenius_norm, rtol=1e-12)
