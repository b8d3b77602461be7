"""The solver of ``SeparableNMF`` by its options, and its seek for as many anchors as there are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from .. import solvers
from .._rng import RngLike
from ..anchors import Anchors
from ..errors import InvalidInputError, RankError
from ..matrix import RowMatrix

if TYPE_CHECKING:
    from ..solvers.fas import SelectionRule

__all__ = ["most", "rng_of", "seek", "solver_of"]


def solver_of(solver: Any, selection: SelectionRule) -> Any:
    """The solver; ``selection`` is an option of FAS."""
    if isinstance(solver, str) and solver == "fas":
        return solvers.FAS(selection=selection)
    if selection != "auto":
        raise InvalidInputError(f"selection={selection!r} goes with solver='fas', not with {solver!r}")
    return solvers.get(solver)


def most(solver: Any, shape: tuple[int, int]) -> int:
    """The largest number of anchors that the solver can find."""
    return solver.most(shape) if isinstance(solver, solvers.Solver) else min(shape)


def seek(solver: Any, matrix: RowMatrix, k: int, rng: np.random.Generator) -> Anchors:
    """k anchors, or all of them if there are fewer."""
    k = min(k, most(solver, matrix.shape))
    try:
        return solver.seek(matrix, k, rng=rng)
    except RankError as error:
        if not 0 < error.rank < k:
            raise
        return solver.seek(matrix, error.rank, rng=rng)


def rng_of(random_state: Any) -> RngLike:
    """scikit-learn's ``random_state`` as this library's ``rng``."""
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(2**31 - 1))
    return random_state
