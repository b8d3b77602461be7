"""The state machine of ``SampleMatrix`` applied to a store, with commit, reopen, crash and compaction."""

from __future__ import annotations

import copy
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import rule

import fastanchors as fa
import fastanchors.store.store as store_module
from machines import SampleMachine, random_matrix


class StoreMachine(SampleMachine):
    dtypes = (np.float64, np.int32)

    def make(self, A: Any, normalize: str | None) -> fa.Store:
        self.folder = tempfile.TemporaryDirectory(prefix="fastanchors-test-")  # removed with it in any case
        self.path = Path(self.folder.name, "s")
        blocks = [A[start : start + 20] for start in range(0, A.shape[0], 20)]
        fa.build(iter(blocks), self.path, normalize=normalize).close()
        self.committed = copy.deepcopy(self.model)
        return fa.open(self.path, mode="r+")

    @rule(seed=st.integers(0, 99), rows=st.integers(1, 40), aside=st.booleans())
    def append(self, seed: int, rows: int, aside: bool) -> None:
        if self.model.shape[0] > 700:
            return
        A = random_matrix(seed, (rows, self.model.shape[1]), self.dtype, self.signed)
        inline, store_module._INLINE_ROWS = store_module._INLINE_ROWS, 0 if aside else 1 << 20
        try:
            self.S.append(sp.csr_array(A) if seed % 2 else A)
        finally:
            store_module._INLINE_ROWS = inline
        self.model.stored = np.vstack([self.model.stored, A.astype(np.float64)])

    @rule()
    def commit(self) -> None:
        self.S.commit()
        self.committed = copy.deepcopy(self.model)

    @rule()
    def compact(self) -> None:
        self.S.compact()
        self.committed = copy.deepcopy(self.model)

    @rule()
    def reopen(self) -> None:
        self.S.close()
        self.committed = copy.deepcopy(self.model)
        self.S = fa.open(self.path, mode="r+")

    @rule(torn=st.binary(max_size=30))
    def crash(self, torn: bytes) -> None:
        """The process dies: uncommitted changes are lost, and the journal may end in a partial record."""
        self.S.close(commit=False)
        with open(self.path / self.S.manifest.journal, "ab") as journal:
            journal.write(torn)
        self.model = copy.deepcopy(self.committed)
        self.S = fa.open(self.path, mode="r+")

    @rule()
    def reader(self) -> None:
        with fa.open(self.path) as S:
            i, j = np.indices(S.shape)
            np.testing.assert_array_equal(S.raw(i, j), self.committed.stored)

    def teardown(self) -> None:
        if hasattr(self, "S"):
            self.S.close()
            fa.verify(self.path)
            self.folder.cleanup()


TestStore = StoreMachine.TestCase
TestStore.settings = settings(max_examples=20, stateful_step_count=25)
