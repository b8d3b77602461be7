"""``Source``, the result of every reader: the rows of a matrix, in order, in blocks of bounded size."""

from __future__ import annotations

import codecs
import contextlib
import itertools
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from .._replacing import DISK_REASONS
from .._signals import pass_on
from .._validate import (
    as_dtype,
    check_dtype,
    check_finite,
    check_flag,
    check_number,
    in_type,
    is_dask,
    name_list,
    numeric,
)
from ..errors import (
    FastAnchorsError,
    GuessWarning,
    InvalidInputError,
    InvalidTypeError,
    StoreError,
    TooLargeError,
    one_line,
)
from ..matrix.contract import Rows
from ..matrix.door import BlockSource
from .addresses import RemotePath, path_of
from .name_spool import NameSpool

__all__ = [
    "ANY_SIZE",
    "Source",
    "block_bytes",
    "check_claim",
    "numeric_dtype",
    "read_names",
    "reading",
    "rebatch",
    "requested_dtype",
    "row_slices",
    "split",
]

ANY_SIZE = 1 << 26  # bytes that an array may always claim
_SPOOLED = 1 << 20  # bytes of a file of names that is not held in memory
_BEST_RATIO = 1 << 17  # additional claimed bytes per stored byte: constant data compress well

BlockReader = Callable[[int], Iterable[Rows]]


class Source(BlockSource):
    """The rows of a matrix in a file, a stream or memory.

    Attributes
    ----------
    name
        Name in error messages, usually the file.
    shape
        (rows, columns); rows is None for a stream until ``blocks`` has run to its end.
    dtype
        The type of the entries of every block.
    is_sparse
        Blocks are canonical CSR (sorted, no duplicates) if True, else C-ordered arrays.
    row_names, column_names
        Sequences of strings or None; for a stream ``row_names`` grow while it is read.
    column_names_from
        The file in which column names were found automatically, or None.
    scene
        A :class:`~fastanchors.io.scene.SceneInfo` if rows are the pixels of an image, or the spectra of a library (it
        has no shape then), or None.
    is_library
        Whether the rows are the spectra of a library, which is no image.
    axes
        The two axes of a table, as :class:`~fastanchors.io.scene.MapAxis`, if its file can name them, or None.
    is_turned
        Whether the rows of a table are those of an image along its x axis: the image is the table transposed.
    pick
        A function that returns the stored rows of given row numbers without a pass, or None.
    mapped
        A mapped array of all rows with the columns as last axis (lines × samples × bands of an image), or None.
    is_file
        Whether the rows come from a file; any exception while reading them becomes a StoreError.
    matrix
        The store or sample matrix that the rows come from, whose settings a build keeps; None for any other source.

    Examples
    --------
    >>> import numpy as np
    >>> import fastanchors as fa
    >>> source = fa.io.open_source(np.arange(12.0).reshape(4, 3))
    >>> source.shape, source.is_sparse
    ((4, 3), False)
    >>> [block.shape for block in source.blocks(48)]
    [(2, 3), (2, 3)]
    """

    def __init__(
        self,
        name: str,
        shape: tuple[int | None, int],
        dtype: Any,
        is_sparse: bool,
        reader: BlockReader,
        *,
        row_names: Sequence[str] | None = None,
        column_names: Sequence[str] | None = None,
    ) -> None:
        if not (isinstance(shape, tuple) and len(shape) == 2 and all(map(_is_size, shape))):
            raise InvalidTypeError(f"shape must be (rows, columns), got {one_line(repr(shape), 60)}")
        if not callable(reader):
            raise InvalidTypeError(f"reader must be a function, got {one_line(repr(reader), 60)}")
        check_flag(is_sparse, name="is_sparse")
        self.name = name
        self.shape = shape
        self.dtype = numeric_dtype(dtype, name)
        self.is_sparse = is_sparse
        self.row_names = row_names
        self.column_names = column_names
        self.column_names_from: str | None = None
        self.scene: Any = None
        self.is_library = False
        self.axes: Any = None
        self.is_turned = False
        self.pick: Callable[[Any], Any] | None = None
        self.mapped: Any = None
        self.is_file = False
        self.matrix: Any = None
        self._reader = reader
        if shape[1] < 1 or shape[0] == 0:
            raise InvalidInputError(f"{name} is empty: shape {shape}; at least one row and one column are needed")

    def __repr__(self) -> str:
        kind = "sparse" if self.is_sparse else "dense"
        return f"<Source {self.name}: {self.shape[0] or '?'} × {self.shape[1]} {kind} {self.dtype}>"

    @property
    def matrix_name(self) -> str:
        """Name of the matrix in errors about an entry: ``A``, after the name of the file."""
        return "A" if self.name.startswith("the ") else f"{self.name}: A"

    def blocks(self, max_bytes: int = 1 << 26, *, signed: bool = True, warn_gaps: bool = False) -> Iterator[Rows]:
        """Consecutive blocks of rows of at most about ``max_bytes`` (but at least one row), with checked shapes.

        Duplicate entries are added up; a sum that does not fit the type is an error. The caller checks signs and
        finiteness of the entries. ``signed=False`` refuses negative entries among duplicates, which the caller could
        not see in the sum. ``warn_gaps=True`` warns if pixels of a scene have no data.
        """
        check_flag(warn_gaps, name="warn_gaps")
        max_bytes = int(check_number(max_bytes, name="max_bytes"))
        rows, told = 0, not warn_gaps or self.scene is None
        blocks = iter(self._reader(max(1, max_bytes)))
        while True:
            with reading(self.name) if self.is_file else contextlib.nullcontext():
                block = next(blocks, None)
                if block is None:
                    break
                block = self._normal(block, rows, signed)
            if block.shape[0] == 0:
                continue
            if not told and (gone := self.scene.no_data(block, rows)).any():
                told = True
                what, hint = ("spectrum", "") if self.is_library else ("pixel", "; unmix leaves such pixels out")
                warnings.warn(
                    f"{self.name}: {what} {rows + int(np.argmax(gone))} has no data by the header or mask of the file, "
                    f"and is used as a row like all others{hint}",
                    GuessWarning,
                    stacklevel=2,
                )
            rows += block.shape[0]
            yield block
            del block  # before the next one is made
        if self.shape[0] is not None and rows != self.shape[0]:
            raise StoreError(f"{self.name} ends after {rows} of {self.shape[0]} rows: the file is truncated")
        if rows == 0:
            raise InvalidInputError(f"{self.name} is empty: no rows; at least one is needed")
        self.shape = (rows, self.shape[1])
        for what, names, count in (
            ("row", self.row_names, rows),
            ("column", self.column_names, self.shape[1]),
        ):
            if names is not None and len(names) != count:
                raise InvalidInputError(f"{self.name} has {count} {what}s but {len(names)} {what} names were given")

    def fitted(self, block: Any, where: str, like: str = "the first block's") -> Rows:
        """The block converted to the type of this source; raises if its kind, width or type does not fit."""
        if sp.issparse(block) != self.is_sparse:
            kinds = ("sparse", "dense") if self.is_sparse else ("dense", "sparse")
            raise InvalidTypeError(f"{where}: expected a {kinds[0]} block like the first, got a {kinds[1]} one")
        if block.ndim != 2 or block.shape[1] != self.shape[1]:
            raise InvalidInputError(f"{where}: expected {self.shape[1]} columns, got shape {block.shape}")
        return in_type(block, self.dtype, where, like)

    def _normal(self, block: Any, first_row: int, signed: bool) -> Rows:
        block = self.fitted(block, f"{self.name}, block at row {first_row}")
        if not self.is_sparse:
            return np.ascontiguousarray(block)
        csr = sp.csr_array((block.data, block.indices, block.indptr), shape=block.shape)
        if csr.has_canonical_format:
            return csr
        if not csr.has_sorted_indices:
            csr = csr.copy()
            csr.sort_indices()
            csr = sp.csr_array((csr.data, csr.indices, csr.indptr), shape=csr.shape)  # resets the flags of SciPy
            if csr.has_canonical_format:
                return csr
        if not signed:
            check_finite(csr, first_row=first_row, name=self.matrix_name)
        return self._added_up(csr, first_row)

    def _added_up(self, csr: sp.csr_array, first_row: int) -> sp.csr_array:
        """Add up duplicates of sorted rows; integer sums are exact, and an error if they do not fit the type."""
        new = np.empty(csr.nnz, dtype=bool)
        np.not_equal(csr.indices[1:], csr.indices[:-1], out=new[1:])
        new[csr.indptr[:-1][np.diff(csr.indptr) > 0]] = True
        starts = np.flatnonzero(new)
        indptr, indices = np.searchsorted(starts, csr.indptr), csr.indices[starts]
        about = np.add.reduceat(csr.data.astype(np.float64), starts)
        if self.dtype.kind == "f":
            with np.errstate(over="ignore"):  # the caller reports an infinite sum like any infinite entry
                return sp.csr_array((about.astype(self.dtype), indices, indptr), shape=csr.shape)
        limits = np.iinfo(self.dtype)
        # Below 64 bits ``about`` is exact; at 64 it is rounded, so values at the end of the range are refused too.
        slack = 1.0 - 2.0**-40 if self.dtype.itemsize == 8 else 1.0
        outside = (about > float(limits.max) * slack) | (about < float(limits.min) * slack)
        if outside.any():
            at = int(np.argmax(outside))
            row = int(np.searchsorted(indptr, at, side="right")) - 1 + first_row
            raise InvalidInputError(
                f"{self.matrix_name}[{row}, {indices[at]}] occurs several times and adds up to {about[at]:.17g}, which "
                f"does not fit {self.dtype}; use a wider type (dtype=… if the reader has this option)"
            )
        sums = np.add.reduceat(csr.data, starts, dtype=self.dtype)
        return sp.csr_array((sums, indices, indptr), shape=csr.shape)


def _is_size(size: Any) -> bool:
    """Whether it can be a number of rows or columns; None is an unknown number of rows."""
    return size is None or isinstance(size, int | np.integer)


@contextlib.contextmanager
def reading(name: Any) -> Iterator[None]:
    """Turn any exception of another library about a file into a :class:`StoreError` that names the file.

    What a signal handler raises, such as a timeout of the caller, is left as it is.
    """
    try:
        yield
    except (FastAnchorsError, GuessWarning):
        raise
    except Exception as error:
        pass_on(error)
        raise _unreadable(name, error) from error


def _unreadable(name: Any, error: Exception) -> FastAnchorsError:
    if isinstance(error, MemoryError):
        return TooLargeError(f"{name} does not fit into memory: {one_line(str(error), 120) or 'it is full'}")
    if isinstance(error, OSError) and error.errno in DISK_REASONS:  # reading raises none of these
        return StoreError(f"cannot write temporary files for {name}: {DISK_REASONS[error.errno]}")
    why = one_line(getattr(error, "strerror", None) or str(error), 240) or type(error).__name__
    return StoreError(f"cannot read {name}: {why}")


def check_claim(name: str, claimed: int, stored: int) -> None:
    """Raise if an array claims far more bytes than the stored bytes can decompress to."""
    if claimed > ANY_SIZE + _BEST_RATIO * stored:
        raise TooLargeError(
            f"{name} claims {claimed:,} bytes of data but stores {stored:,}; if that is correct, write it without its "
            "empty part"
        )


def numeric_dtype(dtype: Any, name: str) -> np.dtype[Any]:
    """The supported type for entries of ``dtype``: a native integer type, float32 or float64."""
    known = as_dtype(dtype)
    if known is None:
        raise InvalidTypeError(f"{name}: {one_line(repr(dtype), 60)} is not a type of entries")
    return numeric(np.empty(0, dtype=known), name).dtype


def requested_dtype(dtype: Any) -> np.dtype[Any]:
    """The supported type for the argument ``dtype`` of a reader: numbers are converted to it, also from Boolean."""
    return numeric_dtype(check_dtype(dtype), "dtype")


def block_bytes(block: Rows) -> int:
    """Memory of a block of rows."""
    if sp.issparse(block):
        return int(block.data.nbytes + block.indices.nbytes + block.indptr.nbytes)
    return int(block.nbytes)


def row_slices(rows: int, row_bytes: int, max_bytes: int) -> Iterator[tuple[int, int]]:
    """(start, stop) of equal slices of at most ``max_bytes``, with ``row_bytes`` per row."""
    step = max(1, max_bytes // max(1, row_bytes))
    for start in range(0, rows, step):
        yield start, min(rows, start + step)


def rebatch(blocks: Iterable[Rows], max_bytes: int, *, row_bytes: int | Callable[[], int] = 0) -> Iterator[Rows]:
    """The same rows with small blocks joined and large ones split, with about ``max_bytes`` in memory at a time.

    ``row_bytes`` is an overhead per row; a function is called once, after the first block is read.
    """
    target = max(1, max_bytes // 2)
    held: list[Rows] = []
    size = 0
    for block in blocks:
        row_bytes = row_bytes() if callable(row_bytes) else row_bytes
        for part in split(block, target, row_bytes):
            weight = block_bytes(part) + row_bytes * part.shape[0]
            if held and size + weight > target:
                joined, held, size = _join(held), [], 0
                yield joined
                del joined
            held.append(part)
            size += weight
            del part
        del block  # before the next one is made: what is held are copies, or parts of it that are still needed
    if held:
        yield _join(held)


def split(block: Rows, max_bytes: int, row_bytes: int = 0) -> Iterator[Rows]:
    """The rows of a block in parts of at most ``max_bytes`` (but at least one row); views if possible.

    Parts of a sparse block, or with an overhead per row, are about equal, so that none is left with a few rows.
    """
    if block_bytes(block) + row_bytes * block.shape[0] <= max_bytes:
        yield block
        return
    if not sp.issparse(block):
        m, each = block.shape[0], block.nbytes // block.shape[0] + row_bytes
        if row_bytes:
            step = max(1, max_bytes // each)
            max_bytes = each * -(-m // -(-m // step))
        for start, stop in row_slices(m, each, max_bytes):
            yield block[start:stop]
        return
    weight = block.indptr.astype(np.int64) * (block.data.itemsize + block.indices.itemsize)
    weight = weight + (8 + row_bytes) * np.arange(block.indptr.size)
    parts = -(-weight[-1] // max_bytes)
    largest = min(max_bytes, weight[-1] // parts + np.diff(weight).max())
    start = 0
    while start < block.shape[0]:
        stop = int(np.searchsorted(weight, weight[start] + largest, side="right")) - 1
        stop = min(max(stop, start + 1), block.shape[0])
        yield block[start:stop]
        start = stop


def _join(blocks: list[Rows]) -> Rows:
    if len(blocks) == 1:
        return blocks[0]
    return sp.vstack(blocks, format="csr") if sp.issparse(blocks[0]) else np.concatenate(blocks)


def _not_utf8(path: Any, what: str, data: bytes, at: int) -> StoreError:
    """The error for a file of names in another encoding: its line, and how to convert it."""
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return StoreError(f"{path}, with {what} names, is in UTF-16; convert it to UTF-8: iconv -f utf-16 -t utf-8")
    line = len(data[:at].replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n"))
    found = f"the byte {data[at]:#04x} is not UTF-8 text"
    return StoreError(
        f"{path}, line {line}: {found}; convert the file of {what} names, from Latin-1 with iconv -f latin1 -t utf-8"
    )


def read_names(names: Any, what: str) -> Sequence[str] | None:
    """Names as a sequence of strings: None (or False), a sequence, or the path of a text file with one name per line.

    The row names of a large file are kept in a temporary file.

    Those of a Dask collection are computed; a mapping gives their numbers (:func:`~fastanchors._validate.name_list`).
    """
    if names is None or names is False:
        return None
    if is_dask(names):
        names = names.compute()
    if isinstance(names, str | Path | RemotePath):
        path = names if isinstance(names, RemotePath) else path_of(names)
        try:
            if what == "row" and isinstance(path, Path) and path.stat().st_size > _SPOOLED:
                with contextlib.suppress(UnicodeDecodeError):  # the error is raised below
                    return _spooled_names(path)
            with path.open("rb") as file:
                most = max(ANY_SIZE, path.stat().st_size)  # a device has no end
                data = file.read(most + 1)
            text = data[:most].decode("utf-8-sig").replace("\r\n", "\n").replace("\r", "\n")
        except OSError as error:
            pass_on(error)
            raise StoreError(f"cannot read {what} names from {path}: {error.strerror or error}") from error
        except UnicodeDecodeError as error:
            raise _not_utf8(path, what, data, error.start) from None
        if len(data) > most:
            raise TooLargeError(f"{path} has more than {most:,} bytes of {what} names; pass a file with one per line")
        return text.removesuffix("\n").split("\n") if text else []
    if not isinstance(names, Iterable):
        raise InvalidTypeError(f"{what} names must be a sequence of strings or a file, got {type(names).__name__}")
    return name_list(names, f"{what} names")


def _spooled_names(path: Path) -> Sequence[str]:
    """The lines of a text file, in a temporary file."""
    names = NameSpool()
    with path.open(encoding="utf-8-sig") as file:
        while lines := [line.removesuffix("\n") for line in itertools.islice(file, 1 << 14)]:
            names.extend(lines)
    return names
