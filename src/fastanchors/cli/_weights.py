"""Write weights block by block to ``.npy``, ``.npz`` or ``.csv`` files, atomically."""

from __future__ import annotations

import os
import shutil
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._replacing import full_disk_errors, partial_path, writing
from ._files import TableWriter

__all__ = ["SUFFIXES", "WeightsFile"]

SUFFIXES = (".npy", ".npz", ".csv")
_HEADER = 128  # bytes of the .npy header, with room for any number of rows, which is known only at the end


class WeightsFile:
    """A file of m × k weights, written block by block under a temporary name; renamed when it is complete.

    A context manager; an exception removes the temporary file.
    """

    def __init__(self, path: Path, dtype: Any, anchors: Sequence[str], *, escape: bool = False) -> None:
        self.path, self.dtype, self.k = path, np.dtype(dtype), len(anchors)
        self.rows = 0
        self._partial = partial_path(path)
        self._text = path.suffix.lower() == ".csv"
        self._file: Any
        with writing(path, self._partial):
            if self._text:
                self._file = text = self._partial.open("w", encoding="utf-8", errors="backslashreplace", newline="")
                self._table = TableWriter(text, escape=escape)
                self._table.write([["row", *anchors]])
            else:
                self._file = self._partial.open("wb")
                self._write_header()

    def write(self, weights: NDArray[Any], names: Sequence[str] | None = None) -> None:
        """Write the next rows; a ``.csv`` file has their ``names``, or else their numbers."""
        with full_disk_errors(self.path):
            if self._text:
                labels = range(self.rows, self.rows + len(weights)) if names is None else names
                self._table.write([name, *row] for name, row in zip(labels, weights.tolist(), strict=True))
            else:
                self._file.write(np.ascontiguousarray(weights, dtype=self.dtype).tobytes())
        self.rows += len(weights)

    def _write_header(self) -> None:
        """Write the header of the .npy format 1.0, padded to a fixed length; written again at the end."""
        about = f"{{'descr': '{self.dtype.str}', 'fortran_order': False, 'shape': ({self.rows}, {self.k}), }}"
        body = about.ljust(_HEADER - 11) + "\n"
        self._file.seek(0)
        self._file.write(b"\x93NUMPY\x01\x00" + (_HEADER - 10).to_bytes(2, "little") + body.encode("latin1"))

    def __enter__(self) -> WeightsFile:
        return self

    def __exit__(self, kind: Any, *_: Any) -> None:
        try:
            with full_disk_errors(self.path):
                try:
                    if kind is None:
                        self._finish()
                finally:
                    self._file.close()  # flushes its buffer
        finally:
            self._partial.unlink(missing_ok=True)

    def _finish(self) -> None:
        if not self._text:
            self._write_header()
        self._file.close()
        if self.path.suffix.lower() != ".npz":
            os.replace(self._partial, self.path)
            return
        whole = self._partial.with_name(self._partial.name + ".npz")
        try:
            with (
                zipfile.ZipFile(whole, "w", zipfile.ZIP_DEFLATED, allowZip64=True) as archive,
                archive.open("weights.npy", "w", force_zip64=True) as target,
                self._partial.open("rb") as source,
            ):
                shutil.copyfileobj(source, target, 1 << 20)
            os.replace(whole, self.path)
        finally:
            whole.unlink(missing_ok=True)
