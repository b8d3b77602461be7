"""What all solvers share: options that scikit-learn can reach, one method, one result."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from typing import Any, ClassVar, Literal

import numpy as np

from .._params import Parameters
from .._rng import RngLike, as_generator
from .._validate import check_rank
from ..anchors import Anchors, Selection
from ..matrix import MeteredMatrix, RowMatrix, open_matrix

__all__ = ["Selection", "Solver"]


class Solver(Parameters, ABC):
    """A way to find anchors: an object with its own options and one method, :meth:`seek`.

    A subclass sets ``name``, takes its options as keywords of ``__init__``, checks them there and keeps them under the
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

    #: the largest k that makes sense: ``"rank"`` for solvers whose anchors are linearly independent (k ≤ min(m, n)),
    #: ``"rows"`` for those that find vertices of a hull or a cone, of which there can be more than columns (k ≤ m)
    _limit: ClassVar[Literal["rank", "rows"]] = "rank"

    def seek(self, A: Any, k: int, *, rng: RngLike = None, layer: str | None = None) -> Anchors:
        """Find ``k`` anchor rows of ``A``.

        Parameters
        ----------
        A : array, sparse matrix, frame, AnnData, SampleMatrix, store, path or Dask collection
            Whatever :func:`fastanchors.open_matrix` opens. An array is taken as it stands, a sample matrix or a store
            as its view shows it.
        k : int
            Number of anchors.
        rng : numpy.random.Generator, int or None
            Same seed, same answer.
        layer : str or None
            Which layer of AnnData, an object or a file; None for its ``X``.

        Returns
        -------
        Anchors
            The anchors, what they cost, and how sure they are.
        """
        started = time.perf_counter()
        data = MeteredMatrix(open_matrix(A, checked=not self._checks(), layer=layer))
        with data.reading():
            k = check_rank(k, data.shape, limit=self._limit)
            found = self._select(data, k, as_generator(rng))
        return self._result(data, found, started)

    def _checks(self) -> bool:
        """Whether the first look of the algorithm checks the entries of a matrix in memory."""
        return False

    def most(self, shape: tuple[int, int]) -> int:
        """The largest number of anchors that can be asked for in a matrix of that shape."""
        return shape[0] if self._limit == "rows" else min(shape)

    def _result(self, data: RowMatrix, selection: Selection, started: float) -> Anchors:
        """The result, from what the algorithm selected and what it has read."""
        indices = np.asarray(selection.indices, dtype=np.intp)
        names = data.row_names
        return Anchors(
            indices=indices,
            solver=self.name,
            cost=data.cost.copy(),
            seconds=time.perf_counter() - started,
            certificate=selection.certificate.told(data.provenance),
            residuals=None if selection.residuals is None else np.asarray(selection.residuals, dtype=np.float64),
            points=None if selection.points is None else np.asarray(selection.points, dtype=np.float64),
            support=None if selection.support is None else np.asarray(selection.support, dtype=np.intp),
            names=None if names is None else tuple(str(names[i]) for i in indices),
        )

    @abstractmethod
    def _select(self, data: RowMatrix, k: int, rng: np.random.Generator) -> Selection:
        """The algorithm itself, on checked input."""
