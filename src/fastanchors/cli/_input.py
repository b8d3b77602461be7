"""The input of a command: a store, or any file that :mod:`fastanchors.io` reads, in memory or streamed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal

import click
import numpy as np
from numpy.typing import NDArray

from .._types import Rows
from .._validate import check_finite, check_index
from ..io import open_source
from ..io.addresses import RemotePath
from ..io.scene import SceneInfo
from ..matrix import ArrayMatrix, RowMatrix, dense, open_matrix
from ..matrix.scaled import scale_rows
from ..store import SidecarHost, Store
from ._options import FORMAT, reader_arguments, table_options
from ._streams import ADDRESS, is_copy

__all__ = ["Input", "input_options"]


def input_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Options of the reader of a file; a store has none."""
    for option in (
        click.option(
            "--normalize",
            type=click.Choice(["l1", "none"]),
            help="Scale the rows of a file to unit sum (l1, the default) or not; a store keeps its normalisation.",
        ),
        click.option("--format", type=FORMAT, help="File format; by default from the suffix or the content."),
        click.option("--variable", help="Array of an .npz, .mat or .zarr file."),
        click.option("--layer", help="Layer of AnnData (.h5ad, .zarr)."),
        click.option("--transpose", is_flag=True, default=None, help="Transpose the matrix of a .mat file."),
        click.option("--row-names", type=ADDRESS, help="A file with one row name per line."),
        click.option("--column-names", type=ADDRESS, help="A file with one column name per line."),
    ):
        command = option(command)
    return table_options(command)


class Input:
    """The rows of a store or a file, normalised. A context manager that closes the store and removes temporary files.

    Attributes
    ----------
    normalize : ``"l1"`` or None.
    row_names, column_names : sequences of names or None; for a streamed file those of the rows read so far.
    """

    def __init__(self, path: Path, *, normalize: str | None = None, **options: Any) -> None:
        self.path = path
        self._options = reader_arguments(options)
        self._matrix: RowMatrix | None = None
        self.row_names: Any = None
        self.column_names: Any = None
        self.normalize: Literal["l1"] | None = None if normalize == "none" else "l1"
        self.shape: tuple[int | None, int] = (None, 0)
        if (path / "manifest.json").exists():
            if normalize is not None or self._options:
                given = "normalize" if normalize is not None else next(iter(self._options)).replace("_", "-")
                raise click.UsageError(f"--{given} is for files; the store {path} has its own normalisation and names")
            self._source: Any = None
            self._hold(open_matrix(path if isinstance(path, Path) else str(path)))
        else:
            self._source = open_source(path, **self._options)
            self.shape, self.column_names = self._source.shape, self._source.column_names

    @property
    def scene(self) -> SceneInfo | None:
        """Metadata of the image whose pixels are the rows; None for a store or a file that is not an image."""
        return None if self._source is None else self._source.scene

    def _hold(self, matrix: RowMatrix) -> RowMatrix:
        self._matrix, self.normalize, self.shape = matrix, matrix.normalize, matrix.shape
        self.row_names, self.column_names = matrix.row_names, matrix.column_names
        return matrix

    def __enter__(self) -> Input:
        return self

    def __exit__(self, *_: Any) -> None:
        if isinstance(self._matrix, SidecarHost):
            self._matrix.close()
        self._matrix = None

    @property
    def store(self) -> Store | None:
        """The store, or None."""
        return self._matrix if isinstance(self._matrix, Store) else None

    @property
    def matrix(self) -> RowMatrix:
        """All rows: a store, or a file in memory (a temporary store if it is too large)."""
        if self._matrix is None:
            # A new reader, because a stream can be read only once.
            self._hold(
                open_matrix(open_source(self.path, **self._options), self.normalize, signed=self.normalize is None)
            )
        assert self._matrix is not None
        return self._matrix

    @property
    def rows(self) -> Any:
        """Like :attr:`matrix`, but a matrix in memory as a plain array or sparse matrix."""
        return self.matrix.data if isinstance(self.matrix, ArrayMatrix) else self.matrix

    def blocks(self) -> Iterator[tuple[int, Rows]]:
        """(first row, block of normalised rows) in one pass, in bounded memory."""
        if self._matrix is not None:
            yield from self._matrix.blocks()
            return
        self._source = open_source(self.path, **self._options)
        start = 0
        for block in self._source.blocks():
            self.row_names, self.column_names = self._source.row_names, self._source.column_names  # those so far
            check_finite(block, signed=self.normalize is None, name=self._source.name, first_row=start)
            yield start, scale_rows(block, first_row=start) if self.normalize == "l1" else block
            start += block.shape[0]
        self.shape = (start, self.shape[1])

    def pick(self, indices: NDArray[Any]) -> NDArray[np.float64]:
        """The normalised rows at ``indices`` as a dense array; takes one pass for a file that is not in memory."""
        if self._matrix is not None:
            return self._matrix.dense_rows(check_index(indices, self._matrix.shape[0], name="anchor"))
        found = np.empty((len(indices), self.shape[1]))
        rows = 0
        for start, block in self.blocks():
            rows = start + block.shape[0]
            here = np.flatnonzero((indices >= start) & (indices < rows))
            if here.size:
                found[here] = dense(block[indices[here] - start])
        check_index(indices, rows, name="anchor")
        return found

    @property
    def address(self) -> str:
        """The source: an absolute path, an address, or ``-`` for standard input or a pipe."""
        return _shown(self.path)

    @property
    def reader(self) -> dict[str, Any]:
        """The options of the reader as JSON values, to read the file again; a file may be ``-``, as :attr:`address`."""
        paths = (Path, RemotePath)
        options = self._options.items()
        return {name: _shown(value) if isinstance(value, paths) else value for name, value in options}

    def row_name(self, index: int) -> str | None:
        """The name of a row, or None."""
        return None if self.row_names is None else str(self.row_names[index])


def _shown(path: Path | RemotePath) -> str:
    return "-" if is_copy(path) else str(path.absolute())
