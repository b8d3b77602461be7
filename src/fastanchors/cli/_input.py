"""What a command reads: a store, or any file that :mod:`fastanchors.io` knows, whole or streamed."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click
import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from .._validate import check_finite, check_index
from ..errors import InvalidInputError
from ..io import open_source
from ..io.addresses import RemotePath, is_address, path_of
from ..io.row_source import block_bytes
from ..matrix.contract import Rows
from ._options import FORMAT, reader_arguments, table_options

__all__ = ["ADDRESS", "PATH", "Input", "input_options"]


class _Address(click.Path):
    """A path, an address such as ``s3://bucket/x.npy``, or ``-`` for standard input; of something that is read."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if value == "-" and ctx is not None:
            return self._standard_input(param, ctx)
        return path_of(value) if is_address(value) else super().convert(value, param, ctx)

    def _standard_input(self, param: click.Parameter | None, ctx: click.Context) -> Path:
        """A temporary file with all of standard input, which the command may read more than once."""
        if sys.stdin.isatty():
            self.fail("'-' reads standard input, which is a terminal; pipe a file into the command", param, ctx)
        if ctx.meta.setdefault(_STANDARD_INPUT, param) is not param:
            self.fail("'-' can be given once: standard input is read to its end", param, ctx)
        folder = tempfile.mkdtemp(prefix=_STANDARD_INPUT)
        ctx.call_on_close(lambda: shutil.rmtree(folder, ignore_errors=True))
        path = Path(folder) / "standard-input"
        with path.open("wb") as file:
            shutil.copyfileobj(sys.stdin.buffer, file)
        with path.open("rb") as file:
            is_text = not file.read(8).startswith(_MAGIC)
        return path.rename(path.with_suffix(".csv")) if is_text else path


PATH = click.Path(path_type=Path)
ADDRESS = _Address(path_type=Path)
_STANDARD_INPUT = "fastanchors-standard-input-"
_MAGIC = (b"\x93NUMPY", b"PK\x03\x04", b"%%Matrix", b"PAR1", b"MATLAB", b"\x89HDF", b"\x1f\x8b")
_IN_MEMORY = 1 << 30  # bytes of a file that is held in memory; a larger one becomes a store in a temporary place


def input_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Options that say how a file is read; a store knows all this itself."""
    for option in (
        click.option(
            "--normalize",
            type=click.Choice(["l1", "none"]),
            help="Scale the rows of a file to sum one (l1, the default) or not; a store has its own view.",
        ),
        click.option("--format", type=FORMAT, help="The format, where the name of the file does not tell."),
        click.option("--variable", help="Which array of an .npz, .mat or .zarr file."),
        click.option("--layer", help="Which layer of an .h5ad file."),
        click.option("--transpose", is_flag=True, default=None, help="Turn the matrix of a .mat file."),
        click.option("--row-names", type=ADDRESS, help="A file with one row name per line."),
        click.option("--column-names", type=ADDRESS, help="A file with one column name per line."),
    ):
        command = option(command)
    return table_options(command)


class Input:
    """The rows of the view of a store or a file. A context: leaving it closes the store and removes what was temporary.

    Attributes
    ----------
    normalize : ``"l1"`` or None.
    row_names, column_names : sequences of names or None; of a streamed file those of the rows read so far.
    """

    def __init__(self, path: Path, *, normalize: str | None = None, **options: Any) -> None:
        self.path = path
        self._options = reader_arguments(options)
        self._whole: Rows | None = None
        self._temporary: str | None = None
        self.store: Any = None
        self.row_names: Any = None
        self.column_names: Any = None
        self.normalize: str | None = None if normalize == "none" else "l1"
        self.shape: tuple[int | None, int] = (None, 0)
        if (path / "manifest.json").exists():
            if normalize is not None or self._options:
                given = "normalize" if normalize is not None else next(iter(self._options)).replace("_", "-")
                raise click.UsageError(f"--{given} is for files: the store {path} has its own view and names")
            self._open_store(path)
        else:
            self._source = open_source(path, **self._options)
            self.shape = self._source.shape

    def _open_store(self, path: Path) -> None:
        from ..fas.stores import open as open_store

        self.store = open_store(path)
        self.normalize = self.store.normalize
        self.shape = self.store.shape
        self.row_names, self.column_names = self.store.row_names, self.store.column_names

    def __enter__(self) -> Input:
        return self

    def __exit__(self, *_: Any) -> None:
        if self.store is not None:
            self.store.close()
        if self._temporary is not None:
            shutil.rmtree(self._temporary, ignore_errors=True)

    @property
    def rows(self) -> Any:
        """All rows: a store, or the view of a file as an array or sparse matrix in memory."""
        if self.store is not None:
            return self.store
        if self._whole is None:
            blocks: list[Rows] = []
            held = 0
            for _, block in self.blocks():
                blocks.append(block)
                held += block_bytes(block)
                if held > _IN_MEMORY:
                    blocks.clear()
                    return self._built()
            self._whole = sp.vstack(blocks, format="csr") if self._source.is_sparse else np.concatenate(blocks)
        return self._whole

    def _built(self) -> Any:
        """A file too large to hold becomes a store for the time of the command."""
        from ..fas.stores import build

        self._temporary = tempfile.mkdtemp(prefix="fastanchors-")
        place = Path(self._temporary) / "store"
        build(self.path, place, normalize=self.normalize, columns=False, **self._options).close()
        self._open_store(place)
        return self.store

    def blocks(self) -> Iterator[tuple[int, Rows]]:
        """(first row, block of rows of the view), one pass in bounded memory."""
        if self.store is not None:
            yield from self.store.blocks()
            return
        if self._whole is not None:
            yield 0, self._whole
            return
        self._source = open_source(self.path, **self._options)  # a fresh one: a stream is read once
        start = 0
        for block in self._source.blocks():
            self.row_names, self.column_names = self._source.row_names, self._source.column_names  # those so far
            check_finite(block, signed=self.normalize is None, name=self._source.name, first_row=start)
            yield start, _scaled(block) if self.normalize == "l1" else block
            start += block.shape[0]
        self.shape = (start, self.shape[1])

    def pick(self, indices: NDArray[Any]) -> NDArray[np.float64]:
        """Those rows of the view, dense; for a file that is not in memory this takes one pass."""
        if self.store is not None or self._whole is not None:
            source = self.rows
            at = check_index(indices, source.shape[0], name="anchor")
            return _dense(source.rows(at) if self.store is not None else source[at])
        found = np.empty((len(indices), self.shape[1]))
        rows = 0
        for start, block in self.blocks():
            rows = start + block.shape[0]
            here = np.flatnonzero((indices >= start) & (indices < rows))
            if here.size:
                found[here] = _dense(block[indices[here] - start])
        check_index(indices, rows, name="anchor")
        return found

    @property
    def address(self) -> str:
        """Where the rows come from: a whole path, an address, or ``-`` for standard input."""
        return "-" if self.path.parent.name.startswith(_STANDARD_INPUT) else str(self.path.absolute())

    @property
    def reader(self) -> dict[str, Any]:
        """The options of the reader that were given, as JSON has them: enough to read the file again."""
        paths = (Path, RemotePath)
        options = self._options.items()
        return {name: str(value.absolute()) if isinstance(value, paths) else value for name, value in options}

    def row_name(self, index: int) -> str | None:
        """The name of a row, where there are names."""
        return None if self.row_names is None else str(self.row_names[index])


def _dense(block: Rows) -> NDArray[np.float64]:
    return np.asarray(block.toarray() if sp.issparse(block) else block, dtype=np.float64)


def _scaled(block: Rows) -> Rows:
    """Rows scaled to sum one, zero rows as they are; in single precision for single-precision rows."""
    kind = np.float32 if block.dtype == np.float32 else np.float64
    sums = np.asarray(block.sum(axis=1, dtype=np.float64)).ravel()
    if not np.isfinite(sums).all():
        raise InvalidInputError("rows have entries so large that their sum overflows; rescale them")
    inverse = np.divide(1.0, sums, out=np.zeros_like(sums), where=sums > 0)
    if sp.issparse(block):
        data = block.data * np.repeat(inverse, np.diff(block.indptr))
        return sp.csr_array((data.astype(kind, copy=False), block.indices, block.indptr), shape=block.shape)
    return (block * inverse[:, None]).astype(kind, copy=False)
