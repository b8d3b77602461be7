"""Matrices as solvers are given them."""

from __future__ import annotations

from typing import Any

from fastanchors.matrix import MeteredMatrix, open_matrix


def metered(A: Any, budget: int | None = None) -> MeteredMatrix:
    """What :meth:`fastanchors.solvers.Solver.seek` makes of ``A``."""
    return MeteredMatrix(open_matrix(A), budget)
