"""A NumPy array or SciPy sparse matrix in memory, as a :class:`~fastanchors.matrix.RowMatrix`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from .._validate import check_finite, check_index
from ..errors import TooLargeError
from .contract import RowMatrix, Rows
from .cost import Cost
from .scaled import scale_rows

__all__ = ["ArrayMatrix", "LoadedMatrix", "all_rows"]

_IN_MEMORY = 1 << 30  # bytes of a matrix on disk or on workers that may be loaded into memory


class ArrayMatrix(RowMatrix):
    """Rows of an array or a canonical CSR matrix, in its own type and without a copy.

    Parameters
    ----------
    data : ndarray or csr_array
        C-ordered or canonical, as :func:`fastanchors._validate.as_matrix` returns it. The caller has checked the
        entries, or passes ``checked=False`` to have them checked in the first pass, or by :meth:`check_entries`.
    normalize : "l1" or None
        ``"l1"`` if the rows of ``data`` were already divided by their sums.
    on_disk : bool
        Whether ``data`` is mapped from a file, so that every pass may read from disk.
    """

    def __init__(
        self,
        data: Rows,
        *,
        row_names: Sequence[str] | None = None,
        column_names: Sequence[str] | None = None,
        provenance: str | None = None,
        checked: bool = True,
        normalize: Literal["l1"] | None = None,
        on_disk: bool = False,
    ) -> None:
        self.data, self.on_disk = data, on_disk
        self.row_names, self.column_names = row_names, column_names
        self.provenance = provenance
        self.checked = self._finite = checked
        self._normalize, self._cost = normalize, Cost()

    @property
    def shape(self) -> tuple[int, int]:
        m, n = self.data.shape
        return m, n

    @property
    def dtype(self) -> np.dtype[Any]:
        return np.dtype(self.data.dtype)

    @property
    def is_sparse(self) -> bool:
        return bool(sp.issparse(self.data))

    @property
    def normalize(self) -> Literal["l1"] | None:
        return self._normalize

    @property
    def nnz(self) -> int:
        return int(self.data.nnz) if self.is_sparse else int(self.data.size)

    @property
    def terms(self) -> int:
        return int(np.diff(self.data.indptr).max(initial=0)) if self.is_sparse else self.shape[1]

    @property
    def cost(self) -> Cost:
        return self._cost

    def check_entries(self, *, signed: bool = False, name: str = "A") -> None:
        """Check the entries, in one pass, if that was deferred; of ``signed`` ones only that they are finite."""
        if self.checked or (signed and self._finite):
            return
        for start, block in self.blocks():
            check_finite(block, signed=signed, name=name, first_row=start)
        self._finite, self.checked = True, not signed

    def l1_scaled(self) -> ArrayMatrix:
        """A scaled copy, with the same names."""
        return ArrayMatrix(
            scale_rows(self.data),
            row_names=self.row_names,
            column_names=self.column_names,
            provenance=self.provenance,
            checked=self.checked,
            normalize="l1",
        )

    def rows(self, indices: ArrayLike) -> Rows:
        indices = check_index(indices, self.shape[0], name="row")
        self._cost.rows_read += indices.size
        return self.data[indices]

    def blocks(self, block_rows: int | None = None) -> Iterator[tuple[int, Rows]]:
        step = self._block_rows(block_rows)
        for start in range(0, self.shape[0], step):
            block = self.data[start : start + step]
            self._cost.rows_read += block.shape[0]
            yield start, block


def all_rows(matrix: RowMatrix, purpose: str) -> Rows:
    """All rows in memory, finite; raises if a matrix on disk or on workers takes more than 1 GiB."""
    if isinstance(matrix, ArrayMatrix):
        matrix.check_entries(signed=True)
        return matrix.data
    m, n = matrix.shape
    known = matrix.in_process or not matrix.is_sparse or matrix.nnz < m * n  # sparse blocks of Dask: only a bound
    if known:
        _check_size(matrix, 16 * matrix.nnz if matrix.is_sparse else matrix.dtype.itemsize * m * n, purpose)
    blocks: list[Rows] = []
    entries = 0
    for _, block in matrix.blocks(None if known else m):
        blocks.append(block)
        if not known:
            entries += block.nnz
            _check_size(matrix, 16 * entries, purpose)
    return sp.csr_array(sp.vstack(blocks, format="csr")) if matrix.is_sparse else np.concatenate(blocks)


def _check_size(matrix: RowMatrix, size: int, purpose: str) -> None:
    if size > _IN_MEMORY:
        m, n = matrix.shape
        raise TooLargeError(
            f"{purpose} needs all rows in memory: {size:,} bytes for {m:,} × {n:,}, more than the limit of 1 GiB; take "
            "fewer rows, or load the matrix into memory first"
        )


class LoadedMatrix(ArrayMatrix):
    """Rows of a file that were read into memory. Reading them again costs nothing.

    Parameters
    ----------
    data, row_names, column_names, normalize
        As in :class:`ArrayMatrix`.
    rows_in_file : int or None
        Number of rows of the file if a budget stopped the reading early; None if all rows were read.
    """

    def __init__(
        self,
        data: Rows,
        *,
        row_names: Sequence[str] | None = None,
        column_names: Sequence[str] | None = None,
        normalize: Literal["l1"] | None = None,
        rows_in_file: int | None = None,
    ) -> None:
        super().__init__(
            data,
            row_names=row_names,
            column_names=column_names,
            provenance="read into memory",
            normalize=normalize,
        )
        self.rows_in_file = rows_in_file
        self.rows_read_on_opening = self.shape[0]

    @property
    def cost(self) -> Cost:
        """Always zero: the rows were counted on opening."""
        return Cost()
