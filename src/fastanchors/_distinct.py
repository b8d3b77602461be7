"""Sets of numbers as sorted arrays, without hash tables."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["distinct", "left_out", "places"]


def distinct(numbers: NDArray[Any]) -> NDArray[Any]:
    """Sorted distinct values of a 1-D array of integers.

    ``np.unique`` does the same, but since NumPy 2.3 by a hash table, which takes many times the memory of the array
    and, for numbers that are mostly different, many times as long.
    """
    result = np.sort(numbers)
    first = np.ones(result.size, np.bool_)
    np.not_equal(result[1:], result[:-1], out=first[1:])
    return result if first.all() else result[first]


def left_out(numbers: NDArray[Any], others: NDArray[Any]) -> NDArray[Any]:
    """Those of ``numbers`` that are not among ``others``; both are sorted and distinct.

    ``np.setdiff1d`` does the same, but makes both distinct by ``np.unique`` first.
    """
    return numbers[~places(numbers, others)[1]]


def places(numbers: NDArray[Any], others: NDArray[Any]) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
    """Where each of ``numbers`` is, or is to be inserted, in the sorted ``others``; and whether it is there."""
    at = np.searchsorted(others, numbers)
    among = at < others.size
    among[among] = others[at[among]] == numbers[among]
    return at, among
