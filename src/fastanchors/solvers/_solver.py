"""``Solver``, the base class of all solvers."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from typing import Any, ClassVar, Literal

import numpy as np

from .._params import Parameters
from .._rng import RngLike, as_generator
from .._validate import check_rank, check_size
from ..anchors import Anchors, Selection
from ..errors import InvalidInputError
from ..matrix import MeteredMatrix, RowMatrix, open_matrix
from ..matrix.fetched_names import names_of

__all__ = ["Selection", "Solver"]

_UNUSED = np.random.default_rng(0)  # for algorithms that draw nothing: making one takes as long as a step of SPA


class Solver(Parameters, ABC):
    """Base class of solvers: an object with options and the method :meth:`seek`.

    A subclass sets ``name``, takes its options as keywords of ``__init__``, checks them there and stores them under the
    same names, and implements :meth:`_select`.

    Examples
    --------
    >>> import fastanchors as fa
    >>> import numpy as np
    >>> class Tallest(fa.solvers.Solver):
    ...     name = "tallest"
    ...     def _select(self, data, k, rng):
    ...         order = np.argsort(-data.squared_norms(), kind="stable")
    ...         return fa.anchors.Selection(order[:k], fa.Certificate("none", "the k largest rows"))
    >>> Tallest().seek([[1.0, 0.0], [3.0, 0.0], [2.0, 2.0]], 2).indices.tolist()
    [1, 2]
    """

    #: the name used by ``SeparableNMF(solver=…)`` and on the command line
    name: ClassVar[str]

    #: limit of k: ``"rank"`` for solvers whose anchors are linearly independent (k ≤ min(m, n)), ``"rows"`` for those
    #: that find vertices of a hull or a cone, of which there can be more than columns (k ≤ m)
    _limit: ClassVar[Literal["rank", "rows"]] = "rank"

    #: whether the algorithm draws random numbers
    _draws: ClassVar[bool] = True

    def seek(self, A: Any, k: int, *, rng: RngLike = None, layer: str | None = None) -> Anchors:
        """Find ``k`` anchor rows of ``A``.

        Parameters
        ----------
        A : array, sparse matrix, frame, AnnData, SampleMatrix, store, path or Dask collection
            Anything that :func:`fastanchors.open_matrix` opens. An array is used as it is; a sample matrix or a store
            has the normalisation it was built with.
        k : int
            Number of anchors.
        rng : numpy.random.Generator, int or None
            Random generator or seed; the same seed gives the same result.
        layer : str or None
            Layer of AnnData (object or file) to read; None for its ``X``.

        Returns
        -------
        Anchors
            The anchors, their cost and their certificate.
        """
        started = time.perf_counter()
        data = MeteredMatrix(open_matrix(A, checked=not self._checks(), layer=layer))
        with data.reading():
            k = check_rank(k, data.shape, limit=self._limit)
            found = self._select(data, k, _UNUSED if rng is None and not self._draws else as_generator(rng))
        return self._result(data, found, started)

    def _checks(self) -> bool:
        """Whether the algorithm checks the entries of a matrix in memory in its first pass."""
        return False

    def most(self, shape: tuple[int, int]) -> int:
        """The largest k for a matrix of that shape."""
        try:
            m, n = shape
        except (TypeError, ValueError):
            raise InvalidInputError(f"shape must be the numbers of rows and of columns, got {shape!r:.60}") from None
        m, n = check_size(m, name="rows", minimum=0), check_size(n, name="columns", minimum=0)
        return m if self._limit == "rows" else min(m, n)

    def _result(self, data: RowMatrix, selection: Selection, started: float) -> Anchors:
        """The result: the selection with names, cost and time."""
        indices = np.asarray(selection.indices, dtype=np.intp)
        names, columns = data.row_names, data.column_names
        return Anchors(
            indices=indices,
            solver=self.name,
            cost=data.cost.copy(),
            seconds=time.perf_counter() - started,
            certificate=selection.certificate.with_provenance(data.provenance),
            residuals=None if selection.residuals is None else np.asarray(selection.residuals, dtype=np.float64),
            points=None if selection.points is None else np.asarray(selection.points, dtype=np.float64),
            support=None if selection.support is None else np.asarray(selection.support, dtype=np.intp),
            names=None if names is None else names_of(names, indices),
            column_names=None if selection.points is None or columns is None else tuple(map(str, columns)),
        )

    @abstractmethod
    def _select(self, data: RowMatrix, k: int, rng: np.random.Generator) -> Selection:
        """The algorithm, on validated input."""
