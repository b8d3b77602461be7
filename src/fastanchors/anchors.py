"""The result of a solver: the anchors, their cost, and the certificate of the answer."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, TypeAlias, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ._equality import ComparedByValue
from ._openers import opener
from ._validate import as_numbers, check_index, name_list
from .errors import InvalidInputError, InvalidTypeError, MissingExtraError, one_line
from .matrix.columns import column_order
from .matrix.contract import RowMatrix
from .matrix.cost import Cost
from .matrix.door import open_matrix

__all__ = ["Anchors", "Certificate", "CertificateKind", "Selection"]

CertificateKind: TypeAlias = Literal["exact", "near", "sampled", "none"]

_ANY_ROW = 2**63 - 1  # the matrix of the anchors is not at hand


@dataclass(frozen=True, eq=False)
class Certificate(ComparedByValue):
    """What is known about the correctness of an answer.

    ``kind`` is ``"exact"`` (equal to what the stated rule selects from all rows; proved for plain SPA), ``"near"``
    (every chosen residual is proved to be at least 1 − η of the largest), ``"sampled"`` (from a part of the rows; with
    probability 1 − δ where one is stated) or ``"none"``. ``statement`` explains it in one sentence; ``details`` holds
    the numbers behind it. ``evidence`` is the data that :attr:`stability` is computed from.

    Examples
    --------
    >>> import fastanchors as fa
    >>> X = fa.datasets.separable(200, 10, 4, rng=0).A
    >>> certificate = fa.SPA().seek(X, 4).certificate
    >>> certificate.kind
    'exact'
    """

    kind: CertificateKind
    statement: str
    details: Mapping[str, Any] = field(default_factory=dict)
    evidence: Any = field(default=None, repr=False, compare=False)

    @property
    def stability(self) -> Any:
        """How far each anchor would move in other data from the same source; None where the solver has no estimate.

        A :class:`~fastanchors.greedy.stability.Stability`, computed on first access (a few hundred milliseconds): the
        anchors are computed again from two halves of the rows and with new noise.
        """
        return None if self.evidence is None else self.evidence.stability

    def __str__(self) -> str:
        return f"{self.kind}: {self.statement}"

    def with_provenance(self, provenance: str | None) -> Certificate:
        """The same certificate with a note on how the rows were obtained; None adds no note."""
        if provenance is None:
            return self
        statement = f"{self.statement}; its rows were {provenance}"
        return replace(self, statement=statement, details={**self.details, "source": provenance})


@dataclass(frozen=True, eq=False)
class Selection(ComparedByValue):
    """What a solver's ``_select`` returns; :meth:`fastanchors.solvers.Solver.seek` turns it into :class:`Anchors`.

    ``prefix_certificate(k)`` returns the certificate of the first k anchors; None where these are not the answer for k.
    """

    indices: ArrayLike
    certificate: Certificate
    residuals: ArrayLike | None = None
    points: ArrayLike | None = None
    support: ArrayLike | None = None
    prefix_certificate: Callable[[int], Certificate] | None = None


@dataclass(frozen=True, eq=False)
class Anchors(ComparedByValue, Sequence[int]):
    """The anchors that a solver found: a sequence of row indices, with cost and certificate.

    ``X[anchors]`` are the anchor rows of an array, ``fa.encode(X, anchors)`` writes every row as a mixture of them.
    Two results are equal if solver, indices, names, residuals and points are equal; cost and time are not compared.
    The arrays are read-only.

    Attributes
    ----------
    indices : ndarray of int
        Row indices, in the order of extraction.
    solver : str
        Name of the solver.
    cost : Cost
        Counts of rows read, entries queried and samples drawn.
    seconds : float
        Wall-clock time of the seek.
    certificate : Certificate
        What is known about the correctness of the answer.
    residuals : ndarray or None
        For solvers that extract one anchor at a time, the size of the residual when each was chosen.
    names : tuple of str or None
        Names of the anchor rows, where the source has any.
    points : ndarray or None
        Denoised or averaged anchors in the units of the data (k × n); None where the anchors are the rows themselves.
    support : ndarray of int or None
        How many rows are copies of each anchor within the noise, where that was determined.
    column_names : tuple of str or None
        Names of the columns of ``points``, where there are points and the source has names. Data that the points are
        used with have their columns matched by name.

    Examples
    --------
    >>> import fastanchors as fa
    >>> X = fa.datasets.separable(100, 8, 3, rng=0).A
    >>> anchors = fa.SPA().seek(X, 3)
    >>> X[anchors].shape
    (3, 8)
    >>> len(anchors), anchors.certificate.kind
    (3, 'exact')
    """

    indices: NDArray[np.intp]
    solver: str
    cost: Cost = field(compare=False)
    seconds: float = field(compare=False)
    certificate: Certificate = field(compare=False)
    residuals: NDArray[np.float64] | None = None
    names: tuple[str, ...] | None = None
    points: NDArray[np.float64] | None = None
    support: NDArray[np.intp] | None = field(default=None, compare=False)
    column_names: tuple[str, ...] | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        self.__setstate__(self.__dict__ | self._checked())

    def _checked(self) -> dict[str, Any]:
        """The arrays and names, in the types that are declared; raises if they do not fit each other."""
        for name, kind in (("solver", str), ("cost", Cost), ("certificate", Certificate)):
            if not isinstance(getattr(self, name), kind):
                what = one_line(repr(getattr(self, name)), 60)
                raise InvalidTypeError(f"{name} of Anchors must be of type {kind.__name__}, got {what}")
        found: dict[str, Any] = {"indices": check_index(self.indices, _ANY_ROW, name="indices")}
        if self.residuals is not None:
            found["residuals"] = as_numbers(self.residuals, "residuals").astype(np.float64, copy=False)
        if self.points is not None:
            found["points"] = as_numbers(self.points, "points").astype(np.float64, copy=False)
        if self.support is not None:
            found["support"] = check_index(self.support, _ANY_ROW, name="support")
        if self.names is not None:
            found["names"] = tuple(name_list(self.names, "names"))
        for name, values in found.items():
            shape, wanted = np.shape(values), 2 if name == "points" else 1
            if len(shape) != wanted or shape[0] != found["indices"].shape[0]:
                entries = "a row" if name == "points" else "one"
                raise InvalidInputError(f"{name} of Anchors must have {entries} for each index, got the shape {shape}")
        if self.column_names is not None:
            found["column_names"] = tuple(name_list(self.column_names, "column_names"))
        return found

    def __setstate__(self, state: dict[str, Any]) -> None:  # NumPy's copies and pickles can be written to
        self.__dict__.update((name, _read_only(value)) for name, value in list(state.items()))

    # --- a sequence of row indices ----------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self.indices)

    def __iter__(self) -> Iterator[int]:
        return iter(self.indices.tolist())

    @overload
    def __getitem__(self, at: int) -> int: ...

    @overload
    def __getitem__(self, at: slice) -> Sequence[int]: ...

    def __getitem__(self, at: int | slice) -> int | Sequence[int]:
        found = self.indices[at]
        return found.tolist() if isinstance(at, slice) else int(found)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        return np.array(self.indices, dtype=dtype, copy=True if copy is None else copy)

    def __hash__(self) -> int:  # type: ignore[override]
        return hash((self.solver, self.indices.tobytes()))

    # --- with data ---------------------------------------------------------------------------------------------------

    def points_in(self, matrix: Any) -> NDArray[Any]:
        """The ``points`` with their columns in the order of ``matrix``, or else the anchor rows of ``matrix``.

        Raises if names show that these are other data: columns for points, anchor rows for rows. ``matrix`` is anything
        that :func:`fastanchors.open_matrix` opens.
        """
        matrix = matrix if isinstance(matrix, RowMatrix) else open_matrix(matrix, signed=True)
        if self.points is not None:
            if self.points.shape[1] != matrix.shape[1]:
                raise InvalidInputError(
                    f"the anchors have {self.points.shape[1]} columns, the data {matrix.shape[1]}; they must agree"
                )
            order = column_order(self.column_names, matrix.column_names, "the data of the anchors", "these data")
            return self.points if order is None else self.points[:, order]
        return self._rows_in(matrix, "pass the anchor rows")

    def _rows_in(self, matrix: RowMatrix, cure: str) -> NDArray[Any]:
        """The anchor rows of ``matrix``; raises if their names show that these are other data."""
        return matrix.dense_rows(self.check_rows(matrix, cure))

    def check_rows(self, matrix: Any, cure: str) -> NDArray[np.intp]:
        """The indices; raises if names of the rows show that ``matrix`` has other data, with the ``cure``."""
        matrix = matrix if isinstance(matrix, RowMatrix) else open_matrix(matrix, signed=True)
        indices = check_index(self.indices, matrix.shape[0], name="anchor")
        for index, name in zip(self, self.names or (), strict=False):
            if matrix.row_names is not None and matrix.row_names[index] != name:
                raise InvalidInputError(
                    f"row {index} is named {one_line(str(matrix.row_names[index]), 60)!r} in these data and "
                    f"{one_line(name, 60)!r} in those of the anchors: these are other data; {cure}"
                )
        return indices

    # --- display ----------------------------------------------------------------------------------------------------

    def _columns(self) -> dict[str, list[Any]]:
        """The columns of a table of the anchors."""
        columns: dict[str, list[Any]] = {"row": self.indices.tolist()}
        if self.names is not None:
            columns["name"] = list(self.names)
        if self.residuals is not None:
            columns["residual"] = self.residuals.tolist()
        if self.support is not None:
            columns["support"] = self.support.tolist()
        return columns

    def __str__(self) -> str:
        columns = self._columns()
        cells = [list(columns), *(list(map(_cell, line)) for line in zip(*columns.values()))]
        widths = [max(len(line[at]) for line in cells) for at in range(len(columns))]
        lines = ["  ".join(text.rjust(width) for text, width in zip(line, widths)) for line in cells]
        head = f"{len(self)} anchors by {self.solver} in {self.seconds:.3g} s, {self.cost.rows_read:,} rows read"
        return "\n".join([head, *lines, str(self.certificate)])

    def _repr_html_(self) -> str:
        return str(opener("notebook form")(self))

    def to_frame(self) -> Any:
        """The anchors as a pandas data frame, one row each."""
        try:
            import pandas as pd
        except ImportError as error:
            raise MissingExtraError("to_frame needs pandas: pip install 'fastanchors[pandas]'") from error
        return pd.DataFrame(self._columns())

    def plot(self, X: Any = None, *, ax: Any = None) -> Any:
        """Plot the anchors as lines over the columns, or the residuals where ``X`` and ``points`` are both None.

        Parameters
        ----------
        X : array, sparse matrix, frame, AnnData, SampleMatrix, store, path or None
            The matrix they were found in; where ``points`` is None it is needed to plot the anchors themselves.
        ax : matplotlib axes or None
            Where to plot; by default new axes.

        Returns
        -------
        matplotlib axes
        """
        try:
            import matplotlib.pyplot as plt
            from matplotlib.axes import Axes
        except ImportError as error:
            raise MissingExtraError("plot needs matplotlib: pip install 'fastanchors[report]'") from error
        if not (ax is None or isinstance(ax, Axes)):
            raise InvalidTypeError(f"ax must be axes of matplotlib or None, got {one_line(repr(ax), 60)}")
        labels = [f"row {i}" for i in self] if self.names is None else list(self.names)
        points = self.points
        if X is not None:
            matrix = open_matrix(X, signed=True)
            points = self._rows_in(matrix, "pass the matrix in which they were found")
        if points is None and self.residuals is None:
            raise InvalidInputError("nothing to plot: pass the matrix, anchors.plot(X)")
        ax = plt.figure(figsize=(7, 4)).add_subplot() if ax is None else ax
        if points is not None:
            for label, point in zip(labels, points):
                ax.plot(point, label=label)
            ax.set(xlabel="column", ylabel="value")
            ax.legend()
        else:
            ax.bar(np.arange(1, len(self) + 1), self.residuals)
            ax.set(xlabel="anchor, in order of extraction", ylabel="residual when it was chosen")
        return ax

    def report(self, path: str | os.PathLike[str], X: Any, **options: Any) -> Path:
        """Write a report on these anchors: one self-contained HTML file.

        Parameters
        ----------
        path : str or path
            The file to write; it is replaced atomically.
        X : array, sparse matrix, frame, AnnData, SampleMatrix, store or path
            The matrix they were found in.
        **options
            Options of :func:`fastanchors.report.write`, such as ``title``, ``kind`` or ``row_names``.

        Returns
        -------
        Path
            The file.
        """
        written: Path = opener("report")(path, X, self, **options)
        return written

    def as_dict(self) -> dict[str, Any]:
        """Plain Python values, ready for JSON."""
        result: dict[str, Any] = {
            "anchors": [int(i) for i in self.indices],
            "solver": self.solver,
            "seconds": float(self.seconds),
            "cost": self.cost.as_dict(),
            "certificate": {
                "kind": self.certificate.kind,
                "statement": self.certificate.statement,
                "details": _plain(self.certificate.details),
            },
        }
        if self.residuals is not None:
            result["residuals"] = [float(r) for r in self.residuals]
        if self.names is not None:
            result["anchor_names"] = list(self.names)
        if self.support is not None:
            result["support"] = [int(count) for count in self.support]
        return result


def _read_only(value: Any) -> Any:
    if not isinstance(value, np.ndarray):
        return value
    view = value.view()
    view.flags.writeable = False
    return view


def _cell(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _plain(value: Any) -> Any:
    """NumPy scalars, arrays and tuples as Python numbers and lists."""
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, np.ndarray):
        return [_plain(item) for item in value.tolist()]
    if isinstance(value, (list, tuple, set, frozenset)):
        return [_plain(item) for item in value]
    if isinstance(value, np.generic):
        return value.item()
    return value
