"""Group (row, column, value) triplets in any order into row blocks, in bounded memory.

Triplets are buffered until they fill a quarter of the budget, then distributed to temporary files by ranges of rows.
Each file later becomes one CSR block; a file that is too large is distributed again. This costs one write and one read
of the data, or nothing if it fits into the buffer.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from .._replacing import DISK_REASONS
from .._signals import pass_on
from ..errors import StoreError
from .scratch import scratch_folder

__all__ = ["RowGrouper", "unsummed_csr"]

_MAX_FILES = 128


class RowGrouper:
    """Collects triplets of an m × n matrix (``add``) and yields CSR blocks in row order (``blocks``).

    Duplicates are kept: :class:`~fastanchors.io.row_source.Source` adds them up.
    """

    def __init__(
        self, m: int, n: int, dtype: Any, max_bytes: int, *, name: str, entries: int | None = None, first_row: int = 0
    ) -> None:
        self.m, self.n, self.name = m, n, name
        self.first_row = first_row
        column = np.int32 if n <= np.iinfo(np.int32).max else np.int64
        value = np.dtype(dtype).newbyteorder("=")  # NumPy concatenates records in the byte order of the machine
        self.record = np.dtype([("row", np.int64), ("column", column), ("value", value)])
        self.budget = max(max_bytes // 4, 1 << 12)
        expected = self.record.itemsize * (entries if entries is not None else _MAX_FILES * self.budget // 16)
        files = -(-(2 * expected + 8 * m) // self.budget)
        files = int(min(max(files, 2), _MAX_FILES, m))
        self.rows_per_file = -(-m // files)
        self._held: list[NDArray[Any]] = []
        self._size = 0
        self._folder: tempfile.TemporaryDirectory[str] | None = None

    def add(self, rows: NDArray[Any], columns: NDArray[Any], values: NDArray[Any]) -> None:
        """Add triplets; rows and columns are 0-based and validated."""
        records = np.empty(rows.size, dtype=self.record)
        records["row"], records["column"], records["value"] = rows, columns, values
        self._add(records)

    def _add(self, records: NDArray[Any]) -> None:
        self._held.append(records)
        self._size += records.nbytes
        if self._size > self.budget:
            self._deal()

    def _deal(self) -> None:
        if self._folder is None:
            self._folder = scratch_folder()
        records = np.concatenate(self._held)
        self._held, self._size = [], 0
        bucket = (records["row"] - self.first_row) // self.rows_per_file
        records = records[np.argsort(bucket, kind="stable")]
        ends = np.cumsum(np.bincount(bucket))
        start = 0
        try:
            for index, end in enumerate(ends.tolist()):
                if end > start:
                    with open(self._path(index), "ab") as file:
                        file.write(records[start:end].view(np.uint8).data)
                start = end
        except OSError as error:
            pass_on(error)
            why = DISK_REASONS.get(error.errno or 0, error.strerror or error)
            raise StoreError(f"cannot write temporary files for {self.name}: {why}") from error

    def _path(self, index: int) -> Path:
        assert self._folder is not None
        return Path(self._folder.name, f"{index:03d}")

    def blocks(self) -> Iterator[sp.csr_array]:
        """CSR blocks of consecutive rows; all m rows, including empty ones. Removes the temporary files."""
        if self._folder is None:
            records = np.concatenate(self._held) if self._held else np.empty(0, self.record)
            self._held = []
            yield from self._csr_blocks(records, self.first_row, self.m)
            return
        try:
            self._deal_rest()
            for index, start in enumerate(range(0, self.m, self.rows_per_file)):
                rows = min(self.rows_per_file, self.m - start)
                yield from self._file_blocks(self._path(index), self.first_row + start, rows)
        finally:
            self.close()

    def close(self) -> None:
        """Remove the temporary files."""
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None

    def _deal_rest(self) -> None:
        if self._held:
            self._deal()

    def _file_blocks(self, path: Path, first_row: int, rows: int) -> Iterator[sp.csr_array]:
        size = path.stat().st_size if path.exists() else 0
        if size <= self.budget or rows == 1:
            records = np.fromfile(path, dtype=self.record) if size else np.empty(0, self.record)
            path.unlink(missing_ok=True)
            yield from self._csr_blocks(records, first_row, rows)
            return
        again = RowGrouper(
            rows,
            self.n,
            self.record["value"],
            4 * self.budget,
            name=self.name,
            entries=size // self.record.itemsize,
            first_row=first_row,
        )
        try:
            with open(path, "rb") as file:
                while (records := np.fromfile(file, dtype=self.record, count=1 << 16)).size:
                    again._add(records)
            path.unlink()
            yield from again.blocks()
        finally:
            again.close()

    def _csr_blocks(self, records: NDArray[Any], first_row: int, rows: int) -> Iterator[sp.csr_array]:
        """The records of ``rows`` rows, in blocks whose row pointers fit the budget."""
        step = max(1, self.budget // 32)
        if rows > step:
            records = records[np.argsort(records["row"], kind="stable")]
        start = 0
        for first in range(first_row, first_row + rows, step):
            count = min(step, first_row + rows - first)
            stop = records.size if rows <= step else int(np.searchsorted(records["row"], first + count))
            part = records[start:stop]
            yield unsummed_csr(part["row"] - first, part["column"], part["value"], (count, self.n))
            start = stop


def unsummed_csr(
    rows: NDArray[Any], columns: NDArray[Any], values: NDArray[Any], shape: tuple[int, int]
) -> sp.csr_array:
    """CSR with sorted rows that keeps duplicates, so that the caller can add them up without overflow.

    (SciPy's own conversion adds them up in the type of the entries.) Linear time: the transpose of the matrix with one
    entry per row is a counting sort.
    """
    ones = sp.csr_array((np.arange(rows.size), rows, np.arange(rows.size + 1)), shape=(rows.size, shape[0])).tocsc()
    order = ones.data
    csr = sp.csr_array((values[order], columns[order], ones.indptr), shape=shape)
    csr.sort_indices()
    return csr
