"""What all solvers share: one interface, one result."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike

from .._rng import RngLike, as_generator
from .._validate import check_rank
from ..anchors import Anchors, Certificate
from ._rows import MatrixRows, as_rows

__all__ = ["Selection", "Solver"]


@dataclass(frozen=True)
class Selection:
    """What a solver's own code returns; :meth:`Solver.seek` makes the result of it.

    ``of_the_first`` is given where the first k of the anchors are the answer for k: its certificate.
    """

    indices: ArrayLike
    certificate: Certificate
    residuals: ArrayLike | None = None
    points: ArrayLike | None = None
    of_the_first: Callable[[int], Certificate] | None = None


class Solver(ABC):
    """A way to find anchors: an object with its own options and one method, :meth:`seek`."""

    #: the name used by ``SeparableNMF(solver=…)`` and on the command line
    name: ClassVar[str]

    #: the largest k that makes sense: ``"rank"`` for solvers whose anchors are linearly independent (k ≤ min(m, n)),
    #: ``"rows"`` for those that find vertices of a hull or a cone, of which there can be more than columns (k ≤ m)
    _limit: ClassVar[Literal["rank", "rows"]] = "rank"

    def seek(self, A: Any, k: int, *, rng: RngLike = None) -> Anchors:
        """Find ``k`` anchor rows of ``A`` (an array, a sparse matrix, a ``SampleMatrix`` or a store).

        ``rng`` is a ``numpy.random.Generator``, an int seed or None; same seed, same answer.
        """
        started = time.perf_counter()
        data = as_rows(A)
        k = check_rank(k, data.shape, limit=self._limit)
        return self._anchors(data, self._select(data, k, as_generator(rng)), started)

    def _anchors(self, data: MatrixRows, selection: Selection, started: float) -> Anchors:
        """The result, from what the algorithm selected."""
        indices = np.asarray(selection.indices, dtype=np.intp)
        names = data.names
        return Anchors(
            indices=indices,
            solver=self.name,
            cost=data.cost,
            seconds=time.perf_counter() - started,
            certificate=selection.certificate,
            residuals=None if selection.residuals is None else np.asarray(selection.residuals, dtype=np.float64),
            points=None if selection.points is None else np.asarray(selection.points, dtype=np.float64),
            names=None if names is None else tuple(str(names[i]) for i in indices),
        )

    @abstractmethod
    def _select(self, data: MatrixRows, k: int, rng: np.random.Generator) -> Selection:
        """The algorithm itself, on checked input."""

    def __repr__(self) -> str:
        options = ", ".join(f"{key}={value!r}" for key, value in vars(self).items() if not key.startswith("_"))
        return f"{type(self).__name__}({options})"
