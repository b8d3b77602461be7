"""Which rows have changed: what an index over the rows asks before it answers."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["Changes"]

_MANY = 1 << 16  # noted rows, repeats included, after which repeats are removed


class Changes:
    """Rows changed since the last look; made by :meth:`SampleMatrix.watch`. O(1) per update, batches as one.

    Rows appended do not count: the shape tells them.
    """

    def __init__(self) -> None:
        self._noted: list[NDArray[np.int64]] = []
        self._count = 0
        self._limit = _MANY

    def note(self, rows: NDArray[np.int64] | list[int]) -> None:
        """Those rows are about to change."""
        self._noted.append(np.array(rows, dtype=np.int64))
        self._count += len(rows)
        if self._count > self._limit:
            self._limit = max(_MANY, 2 * len(self.rows()))

    def rows(self) -> NDArray[np.int64]:
        """Those rows, sorted, each once."""
        rows = np.unique(np.concatenate([np.empty(0, np.int64), *self._noted]))
        self._noted, self._count = [rows], len(rows)
        return rows

    def clear(self) -> None:
        """Begin anew."""
        self._noted, self._count = [], 0

    def __bool__(self) -> bool:
        return self._count > 0
