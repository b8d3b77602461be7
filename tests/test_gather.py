"""Rows from several blocks, in the requested order."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from fastanchors.sampling.gather import in_order


@pytest.mark.parametrize("sparse", [True, False])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_in_order(sparse, dtype):
    rng = np.random.default_rng(0)
    A = (rng.integers(0, 5, (23, 7)) * (rng.random((23, 7)) < 0.4)).astype(dtype)
    split = np.array_split(rng.permutation(23), [4, 4, 15])
    parts = [sp.csr_array(A[at]) if sparse else A[at] for at in split]
    got = in_order(parts, split, 23)
    assert got.dtype == dtype
    if sparse:
        assert got.has_canonical_format
        assert got.nnz == np.count_nonzero(A)
    np.testing.assert_array_equal(got.toarray() if sparse else got, A)
