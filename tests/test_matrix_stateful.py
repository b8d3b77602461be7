"""Long random sequences of updates, queries and draws on ``SampleMatrix``, against the naive twin."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import rule

import fastanchors as fa
from machines import SampleMachine, random_matrix


class MatrixMachine(SampleMachine):
    def make(self, A: Any, normalize: str | None) -> fa.SampleMatrix:
        return fa.SampleMatrix(A, normalize=normalize)

    @rule()
    def consolidate(self) -> None:
        self.S.consolidate()

    @rule(seed=st.integers(0, 99), rows=st.integers(1, 40))
    def append(self, seed: int, rows: int) -> None:
        if self.model.shape[0] > 700:
            return
        A = random_matrix(seed, (rows, self.model.shape[1]), self.dtype, self.signed)
        self.S.append(sp.csr_array(A) if seed % 2 else A)
        self.model.stored = np.vstack([self.model.stored, A.astype(np.float64)])

    def teardown(self) -> None:
        """Every sum equals that of its entries bit for bit, and a rebuilt block equals a new one."""
        if not hasattr(self, "S"):
            return
        self.S.check()
        for start, block in zip(self.S._starts, self.S._blocks):
            stored = self.model.stored[start : start + block.shape[0]].astype(self.dtype)
            fresh = self.make(sp.csr_array(stored) if self.S.is_sparse else stored, self.normalize)._blocks[0]
            ours, theirs = block.rebuilt().arrays(), fresh.arrays()
            assert ours.keys() == theirs.keys()
            for name in ours:
                np.testing.assert_array_equal(ours[name], theirs[name], err_msg=name)


TestMatrix = MatrixMachine.TestCase
TestMatrix.settings = settings(max_examples=40, stateful_step_count=30)
