"""What FAS() takes besides matrices in memory: files, read in one pass or through a store made for the purpose."""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from .._jit import jit
from .._validate import as_matrix, check_finite
from ..io import open_source
from ..io.remote import path_of
from ..sampling.access import Rows
from ._rows import MatrixRows, as_rows

__all__ = ["rows_of"]

_LARGEST = np.finfo(np.float64).max
_IN_MEMORY = 1 << 30  # bytes of a file that is read into memory; a larger one is streamed or built into a store


def rows_of(A: Any, *, one_pass: bool, small: int) -> MatrixRows:
    """The rows of an array, a sparse matrix, a sample matrix, a store, or a path to a store or a file.

    With ``one_pass`` a dense array of more than ``small`` entries is not looked at before: its entries are checked as
    they are read.
    """
    if isinstance(A, str | os.PathLike):
        return _rows_of_file(path_of(A), one_pass, small)
    if one_pass and isinstance(A, np.ndarray) and A.ndim == 2 and A.size > small:
        return _Unchecked(as_matrix(A, finite=False))
    return as_rows(A)


def _rows_of_file(path: Any, one_pass: bool, small: int) -> MatrixRows:
    if isinstance(path, Path) and (path / "manifest.json").exists():
        from ..store.store import open as open_store

        return as_rows(open_store(path))
    if isinstance(path, Path) and path.suffix == ".npy" and path.is_file():
        array = np.load(path, mmap_mode="r", allow_pickle=False)
        if array.ndim == 2 and array.flags.c_contiguous and array.dtype.kind in "iuf":
            data = rows_of(np.asarray(array), one_pass=one_pass, small=small)
            data.how = "streamed from the file"
            return data
    blocks: list[Rows] = []
    source = open_source(path if isinstance(path, Path) else str(path))
    held = 0
    for block in source.blocks():
        blocks.append(block)
        held += block.data.nbytes + block.indices.nbytes if sp.issparse(block) else block.nbytes
        if held > _IN_MEMORY:
            return _built(path)
    data = rows_of(
        sp.vstack(blocks, format="csr") if source.is_sparse else np.concatenate(blocks), one_pass=one_pass, small=small
    )
    data.how = "read into memory"
    data.row_names = source.row_names
    return data


def _built(path: Any) -> MatrixRows:
    """A file too large to hold, and not to be read at random: a store in a temporary place, gone with the result."""
    from ..store import build

    place = tempfile.mkdtemp(prefix="fastanchors-")
    try:
        source = path if isinstance(path, Path) else str(path)
        store = build(source, Path(place) / "store", normalize=None, columns=False)
    except BaseException:
        shutil.rmtree(place, ignore_errors=True)
        raise
    weakref.finalize(store, shutil.rmtree, place, ignore_errors=True)
    data = as_rows(store)
    data.how = "built into a temporary store"
    return data


class _Unchecked(MatrixRows):
    """A dense array whose entries are checked when they are read: rows at once, blocks of a pass by :meth:`check`."""

    def __init__(self, matrix: Rows) -> None:
        super().__init__(matrix, matrix.shape)

    def raw_rows(self, indices: Any) -> Rows:
        rows = super().raw_rows(indices)
        low, high = rows.min(initial=0), rows.max(initial=0)
        if not (low >= 0 and np.isfinite(high)):
            check_finite(self.source)  # says where
        return rows

    def check(self, start: int, block: Rows) -> None:
        if _suspicious(block):
            check_finite(block, first_row=start)


@jit
def _suspicious(A: Any) -> bool:
    """Whether an entry is negative, infinite or NaN; written so that it compiles to vector instructions."""
    bad = 0
    for i in range(A.shape[0]):
        for j in range(A.shape[1]):
            bad |= (not A[i, j] >= 0) | (not A[i, j] <= _LARGEST)
    return bad != 0
