"""Entries set one by one, noted until somebody looks: many are then written together, at the price of a batch.

Writing one entry touches some ten places in memory, each a cache miss or, in a mapped file, a page to be copied; the
calls of kernels cost as much again. A note costs a fraction of that, and a batch shares the rest.
"""

from __future__ import annotations

import threading
from array import array

import numpy as np

from .forest import Array

__all__ = ["SETTLING", "Noted"]

_MOST = 1 << 12

SETTLING = threading.RLock()  # readers in several threads: one of them writes what is noted, the others wait


class Noted:
    """Checked entries of a matrix of doubles, in the order they were set."""

    def __init__(self) -> None:
        self._rows, self._columns, self._values = array("q"), array("q"), array("d")
        self.settling = False

    def __bool__(self) -> bool:
        return len(self._rows) > 0

    def add(self, i: int, j: int, x: float) -> bool:
        """Note an entry; returns whether it is time to write them all."""
        self._rows.append(i)
        self._columns.append(j)
        self._values.append(x)
        return len(self._rows) >= _MOST

    def entries(self) -> tuple[Array, Array, Array]:
        return np.array(self._rows, np.int64), np.array(self._columns, np.int64), np.array(self._values, np.float64)
