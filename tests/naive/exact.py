"""SPA in exact arithmetic: fractions, no square root, no rounding."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

TIE = Fraction(1, 10**6)


def fractions(A: np.ndarray) -> list[list[Fraction]]:
    return [[Fraction(float(x)) if A.dtype.kind == "f" else Fraction(int(x)) for x in row] for row in A]


def dot(a: list[Fraction], b: list[Fraction]) -> Fraction:
    return sum((x * y for x, y in zip(a, b)), Fraction(0))


def project_out(rest: list[list[Fraction]], i: int) -> list[list[Fraction]]:
    """Every row less its part along row i."""
    q = rest[i]
    size = dot(q, q)
    return [[x - share * y for x, y in zip(row, q)] for row in rest for share in [dot(row, q) / size]]


def choose(values: list[Fraction], norms: list[Fraction]) -> int:
    tied = [i for i, v in enumerate(values) if v >= (1 - TIE) * max(values)]
    longest = max(norms[i] for i in tied)
    return min(i for i in tied if norms[i] >= (1 - TIE) * longest)


def spa(A: np.ndarray, k: int) -> list[int]:
    """The first k anchors; fewer if every residual is zero."""
    return spa_of(fractions(A), k)


def spa_of(rest: list[list[Fraction]], k: int) -> list[int]:
    """The same, for rows given as fractions."""
    norms = [dot(row, row) for row in rest]
    chosen: list[int] = []
    while len(chosen) < k:
        values = [dot(row, row) for row in rest]
        if max(values) == 0:
            break
        chosen.append(choose(values, norms))
        rest = project_out(rest, chosen[-1])
    return chosen


def shortfalls(A: np.ndarray, chosen: list[int]) -> list[float]:
    """For each choice, by what fraction its squared residual is below the largest, given those before it."""
    return shortfalls_of(fractions(A), chosen)


def shortfalls_of(rest: list[list[Fraction]], chosen: list[int]) -> list[float]:
    """The same, for rows given as fractions."""
    result = []
    for i in chosen:
        values = [dot(row, row) for row in rest]
        if values[i] == 0:
            return [*result, 1.0]
        result.append(float(1 - values[i] / max(values)))
        rest = project_out(rest, i)
    return result
