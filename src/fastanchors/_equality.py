"""Equality of results that hold arrays, for which the comparison of ``dataclass`` would raise."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import numpy as np
import scipy.sparse as sp

__all__ = ["ComparedByValue", "same"]


class ComparedByValue:
    """Base of dataclasses that may hold arrays: two are equal if their types and all compared fields are equal.

    A subclass is declared with ``@dataclass(eq=False)``, which keeps this comparison; ``field(compare=False)`` excludes
    a field. Arrays are equal if shape and values are, whatever their types; NaN equals NaN, so that a result equals its
    copy. Instances have no hash, as arrays have none.
    """

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other):
            return NotImplemented
        return self is other or same(self._compared(), other._compared())

    __hash__ = None  # type: ignore[assignment]

    def _compared(self) -> dict[str, Any]:
        """The values that decide equality."""
        return {each.name: getattr(self, each.name) for each in fields(self) if each.compare}  # type: ignore[arg-type]


def same(one: Any, other: Any) -> bool:
    """Whether two values are equal; arrays and sparse matrices, also inside mappings, lists and tuples, by content."""
    if one is other:
        return True
    if sp.issparse(one) or sp.issparse(other):
        return sp.issparse(one) and sp.issparse(other) and one.shape == other.shape and (one != other).nnz == 0
    if isinstance(one, np.ndarray) or isinstance(other, np.ndarray):
        return isinstance(one, np.ndarray) and isinstance(other, np.ndarray) and _same_array(one, other)
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple) and type(one) is type(other):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, float | np.floating) and isinstance(other, float | np.floating) and np.isnan(one):
        return bool(np.isnan(other))
    return bool(one == other)


def _same_array(one: np.ndarray, other: np.ndarray) -> bool:
    if one.shape != other.shape or "O" in (one.dtype.kind, other.dtype.kind):
        return one.shape == other.shape and all(map(same, one.ravel().tolist(), other.ravel().tolist()))
    return np.array_equal(one, other, equal_nan=one.dtype.kind in "fc" and other.dtype.kind in "fc")
