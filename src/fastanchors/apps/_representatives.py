"""Select representative rows of a table, of which the others are mixtures, and the share that each represents."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from .. import solvers
from .._equality import ComparedByValue
from .._rng import RngLike, as_generator
from .._tables import as_frame, is_named_array
from .._validate import as_matrix, check_choice, check_frame, check_rank, kind_of, package
from ..anchors import Certificate
from ..encoder import encode
from ..errors import InvalidInputError, InvalidTypeError, one_line
from ..matrix import open_matrix
from ..matrix.array import all_rows
from ..matrix.frames import is_labelled

__all__ = ["Representatives", "representatives"]

_Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Representatives(ComparedByValue):
    """k rows that represent a table.

    Attributes
    ----------
    names
        Their labels (the index of a data frame, else row numbers), in the order of extraction.
    indices
        Their row numbers.
    share
        The share of the table that each represents: its mean weight in the rows; sums to one.
    weights
        Rows × k, each row as a mixture of the representatives; rows sum to one.
    relative_error
        The residual of the mixtures, ‖X − weights·X_R‖_F relative to ‖X − mean‖_F, on the scaled columns.
    columns
        The columns that were used, or None for arrays.
    certificate
        How certain the solver is that these are the anchors.

    Examples
    --------
    >>> import fastanchors as fa
    >>> table = [[0, 10], [10, 0], [5, 5], [2, 8]]
    >>> found = fa.apps.representatives(table, 2)
    >>> found.nearest().shape, round(float(found.share.sum()), 6)
    ((4,), 1.0)
    """

    names: list[Hashable]
    indices: NDArray[np.intp]
    share: NDArray[np.float64]
    weights: NDArray[np.float64]
    relative_error: float
    columns: list[Hashable] | None
    certificate: Certificate

    def __len__(self) -> int:
        return len(self.names)

    def nearest(self) -> NDArray[np.intp]:
        """For every row the number (0 … k − 1) of the representative with the largest weight in it."""
        return np.argmax(self.weights, axis=1)

    def __str__(self) -> str:
        width = max(len(str(name)) for name in self.names)
        return "\n".join(f"{name!s:<{width}}  {share:6.1%}" for name, share in zip(self.names, self.share))


def representatives(
    table: Any,
    k: int,
    *,
    scale: Literal["range", "none"] = "range",
    non_numeric: Literal["raise", "drop"] = "raise",
    columns: Sequence[Hashable] | None = None,
    solver: Any = "snpa",
    rng: RngLike = None,
) -> Representatives:
    """Pick ``k`` representative rows of a table.

    They are extreme rows, and the others are (nearly) mixtures of them: archetypes that are rows of the table. This
    differs from cluster centres, which are typical and lie in the middle.

    Parameters
    ----------
    table
        The rows to choose from: anything that :func:`fastanchors.open_matrix` opens. The index of a pandas frame gives
        the names.
    k
        Number of representatives.
    scale
        ``"range"`` maps every column to 0 … 1, so that units do not matter and negative values are allowed; ``"none"``
        uses non-negative columns unchanged (counts, shares: quantities of one unit). A sparse matrix must be
        non-negative, so that its zeros stay zero.
    non_numeric
        Reject columns that are not numbers (``"raise"``), or drop them.
    columns
        Which columns to use, by name.
    solver
        Name or solver object; by default SNPA, which can find more anchors than there are columns.
    rng
        For randomised solvers.

    Notes
    -----
    Rows are not scaled to sum to one: a large and a small row with the same proportions differ. The solver gets one
    more column, equal in all rows, so that a row that is lowest in every column can be chosen too. Cost: that of the
    solver and of encoding. Memory: two scaled copies of the table, which is limited to 1 GiB if it is not already in
    memory.

    Examples
    --------
    >>> import fastanchors as fa
    >>> table = [[0, 10], [10, 0], [5, 5], [2, 8]]
    >>> sorted(fa.apps.representatives(table, 2).indices.tolist())
    [0, 1]
    """
    check_choice(scale, ("range", "none"), name="scale")
    check_choice(non_numeric, ("raise", "drop"), name="non_numeric")
    names, used, matrix = _numbers(table, non_numeric, None if columns is None else _labels(columns))
    X = _scaled(matrix, scale)
    k = check_rank(k, X.shape, limit="rows")
    anchors = solvers.get(solver).seek(_lifted(X), k, rng=as_generator(rng))
    block = X[anchors.indices]
    weights = encode(X, block, sum_to_one=True).astype(np.float64)
    return Representatives(
        names=[int(i) if names is None else names[i] for i in anchors.indices],
        indices=anchors.indices,
        share=weights.mean(axis=0),
        weights=weights,
        relative_error=_relative_error(X, weights, block),
        columns=used,
        certificate=anchors.certificate,
    )


def _numbers(
    table: Any, non_numeric: str, columns: Sequence[Hashable] | None
) -> tuple[list[Hashable] | None, list[Hashable] | None, Any]:
    """Names of rows, names of columns, and the numbers; names are None if the table has none."""
    table = table if is_named_array(table) else as_frame(table, "the table")
    if package(table) != "pandas" or getattr(table, "ndim", 0) != 2:
        return _opened(table, non_numeric, columns)
    if columns is not None:
        _check_known(columns, list(table.columns))
        table = table[list(columns)]
    wrong = [name for name, kind in zip(table.columns, table.dtypes) if kind_of(kind) not in "iufb"]
    _check_numeric(wrong, non_numeric)
    table = table.drop(columns=wrong)
    if table.shape[1] == 0:
        raise InvalidInputError("no column of the table holds numbers")
    check_frame(table, "the table")
    values = table.to_numpy(dtype=np.float64, na_value=np.nan)
    bad = np.argwhere(~np.isfinite(values))
    if len(bad):
        row, column = bad[0]
        raise InvalidInputError(
            f"row {table.index[row]!r}, column {table.columns[column]!r} is {values[row, column]}; "
            "drop or fill it first (dropna, fillna)"
        )
    return list(table.index), list(table.columns), as_matrix(values, signed=True, name="the table")


def _opened(
    table: Any, non_numeric: str, columns: Sequence[Hashable] | None
) -> tuple[list[Hashable] | None, list[Hashable] | None, Any]:
    """The same for all tables except pandas frames; columns can be chosen only if they have names."""
    if package(table) == "polars" and is_labelled(table):  # its columns have individual types
        if columns is not None:
            _check_known(columns, list(table.columns))
            table, columns = table.select(list(columns)), None
        wrong = [name for name, kind in table.schema.items() if not kind.is_numeric() and str(kind) != "Boolean"]
        _check_numeric(wrong, non_numeric)
        table = table.drop(wrong)
    matrix = open_matrix(table, signed=True, name="the table")
    rows, names, known = all_rows(matrix, "representatives"), matrix.row_names, matrix.column_names
    used: list[Hashable] | None = None if known is None else list(known)
    if columns is not None:
        if used is None:
            raise InvalidInputError("columns can be chosen by name where they have names; slice the array instead")
        _check_known(columns, used)
        rows, used = rows[:, [used.index(column) for column in columns]], list(columns)
    return None if names is None else list(names), used, rows


def _labels(columns: Any) -> list[Hashable]:
    """The labels of columns in a list."""
    if isinstance(columns, str) or not isinstance(columns, Iterable) or getattr(columns, "ndim", 1) != 1:
        raise InvalidTypeError(f"columns must be a list of names of columns, got {one_line(repr(columns), 60)}")
    return list(columns)


def _check_known(columns: Sequence[Hashable], known: list[Hashable]) -> None:
    missing = [column for column in columns if column not in known]
    if missing:
        raise InvalidInputError(f"the table has no column {missing[0]!r}; it has {_listed(known)}")


def _check_numeric(wrong: list[Hashable], non_numeric: str) -> None:
    if wrong and non_numeric == "raise":
        raise InvalidTypeError(
            f"columns {_listed(wrong)} do not hold numbers; choose others with columns=…, encode them, "
            "or pass non_numeric='drop'"
        )


def _listed(names: list[Any]) -> str:
    return ", ".join(map(repr, names[:5])) + (", …" if len(names) > 5 else "")


def _scaled(matrix: Any, scale: str) -> Any:
    """float64 rows ready for a solver; with ``"range"`` a constant column becomes zero."""
    if sp.issparse(matrix):
        matrix = matrix.astype(np.float64)
        as_matrix(matrix, name="the table")  # rejects negative values: zeros must stay the smallest values
        if scale == "range":  # the smallest value of a column is zero, unless all of its entries are stored
            low, top = (extreme.toarray().ravel() for extreme in (matrix.min(axis=0), matrix.max(axis=0)))
            matrix.data = _share(matrix.data, low[matrix.indices], top[matrix.indices])
        return matrix
    matrix = np.asarray(matrix, dtype=np.float64)
    if scale == "none":
        return as_matrix(matrix, name="the table")
    return _share(matrix, matrix.min(axis=0), matrix.max(axis=0))


def _share(values: _Array, low: _Array, top: _Array) -> _Array:
    """How far values are from ``low`` to ``top``, 0 … 1; 0 if these are equal."""
    with np.errstate(over="ignore"):
        spread = top - low
    if not np.isfinite(spread).all():
        values, low, top = values / 2, low / 2, top / 2
        spread = top - low
    return np.divide(values - low, spread, out=np.zeros_like(values), where=spread > 0)


def _lifted(X: Any) -> Any:
    """The rows with one more column, the largest norm of a row, in all of them.

    Mixtures sum to one, so they have this column too. Solvers compare rows with the origin as well; without the column
    a row that is lowest in every column would be the origin, and never chosen.
    """
    square = X.multiply(X) if sp.issparse(X) else X * X
    height = float(np.sqrt(np.asarray(square.sum(axis=1)).max())) or 1.0
    column = np.full((X.shape[0], 1), height)
    return sp.hstack([X, column], format="csr") if sp.issparse(X) else np.hstack([X, column])


def _relative_error(X: Any, weights: NDArray[np.float64], block: Any) -> float:
    """The relative error, computed by blocks of rows; sparse blocks are made dense one at a time."""
    centre = np.asarray(X.mean(axis=0)).ravel()
    points = block.toarray() if sp.issparse(block) else block
    step = max(1, (1 << 22) // X.shape[1])
    lost = total = 0.0
    for start in range(0, X.shape[0], step):
        rows = X[start : start + step]
        rows = rows.toarray() if sp.issparse(rows) else rows
        lost += float(np.sum((rows - weights[start : start + step] @ points) ** 2))
        total += float(np.sum((rows - centre) ** 2))
    return float(np.sqrt(lost / total)) if total else 0.0
