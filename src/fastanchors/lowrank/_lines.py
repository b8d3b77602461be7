"""Rows or columns of a matrix with sample access: the "lines" that factored vectors are combinations of.

``side="right"`` means rows, vectors of length n; ``side="left"`` means columns, of length m. The other modules are
written for lines and places (positions) on them, and so serve both sides.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, cast

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from .._parallel import one_blas_thread
from .._validate import as_matrix, is_anndata
from ..errors import InvalidInputError
from ..matrix.array import ArrayMatrix
from ..matrix.contract import SampleAccess
from ..matrix.frames import labelled

__all__ = ["BATCH_ENTRIES", "Lines", "Side", "as_access", "check_side"]

Side: TypeAlias = Literal["right", "left"]

#: entries of the matrix queried at a time: 16 MB of float64
BATCH_ENTRIES = 1 << 21


def as_access(S: Any) -> SampleAccess:
    """``S`` itself if it has sample access; a matrix in memory (signs allowed) becomes a ``SampleMatrix``."""
    if isinstance(S, SampleAccess):
        return S
    if isinstance(S, ArrayMatrix):
        S = S.data
    elif is_anndata(S):
        S = labelled(S, name="S").values
    from ..sampling.matrix import SampleMatrix  # start-up: its kernels

    return SampleMatrix(as_matrix(S, signed=True, name="S"), normalize=None)


def check_side(side: Any) -> Side:
    if not isinstance(side, str) or side not in ("right", "left"):
        raise InvalidInputError(f'side must be "right" (vectors of length n) or "left" (length m), got {side!r}')
    return cast(Side, side)


@dataclass(frozen=True)
class Lines:
    """The rows (``side="right"``) or columns (``side="left"``) ``indices`` of ``S``, read entry by entry."""

    S: SampleAccess
    side: Side
    indices: NDArray[np.intp]

    def __len__(self) -> int:
        return len(self.indices)

    @property
    def length(self) -> int:
        """Length of each line: n for rows, m for columns."""
        return self.S.shape[1] if self.side == "right" else self.S.shape[0]

    @property
    def batch(self) -> int:
        """Number of places to query at a time."""
        return max(1, BATCH_ENTRIES // len(self))

    def entries(self, places: NDArray[np.intp]) -> NDArray[np.float64]:
        """len(places) × p: the entry of each line at each place. Costs one query each."""
        lines = self.indices[None, :]
        index = (lines, places[:, None]) if self.side == "right" else (places[:, None], lines)
        return np.asarray(self.S[index], dtype=np.float64)

    def norms(self) -> NDArray[np.float64]:
        """The norm of each line; p queries."""
        norm = self.S.row_norm if self.side == "right" else self.S.column_norm
        return np.asarray(norm(self.indices), dtype=np.float64)

    def draw(self, which: NDArray[np.intp], rng: np.random.Generator) -> NDArray[np.intp]:
        """One place on each of the lines ``indices[which]``, by squared entry."""
        sample = self.S.sample_in_row if self.side == "right" else self.S.sample_in_column
        return np.asarray(sample(self.indices[which], rng=rng), dtype=np.intp)

    @one_blas_thread()  # the order of summation must not depend on the number of threads
    def combine(self, coefficients: NDArray[np.float64]) -> NDArray[np.float64]:
        """length × k: the vectors Σ_t coefficients[t] · line t.

        The only operation that forms vectors of length n or m, for exact Gram matrices. It reads p whole rows, or the
        columns entry by entry (m·p queries), because sample access has no method to read whole columns.
        """
        result = np.zeros((self.length, coefficients.shape[1]))
        if self.side == "right":
            step = max(1, BATCH_ENTRIES // self.length)
            for start in range(0, len(self), step):
                rows = self.S.rows(self.indices[start : start + step])
                if not sp.issparse(rows):
                    rows = np.asarray(rows, dtype=np.float64)
                result += rows.T @ coefficients[start : start + step]
        else:
            for start in range(0, self.length, self.batch):
                places = np.arange(start, min(start + self.batch, self.length))
                result[places] = self.entries(places) @ coefficients
        return result
