"""Make matrices in the form in which solvers receive them."""

from __future__ import annotations

from typing import Any

from fastanchors.matrix import MeteredMatrix, open_matrix


def metered(A: Any, budget: int | None = None) -> MeteredMatrix:
    """``A`` as :meth:`fastanchors.solvers.Solver.seek` passes it to a solver."""
    return MeteredMatrix(open_matrix(A), budget)
