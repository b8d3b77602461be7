"""Follow the changes of a matrix in its kept coordinates: only rows that have changed are read.

A seek follows up to a twentieth of the rows (:func:`too_many`), and needs a pass for more. So that readers of a store
never come to that, its writer follows each commit, however large, and writes the coordinates again when many rows have
changed since they were written (:class:`Watched`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._distinct import left_out
from ..greedy.coordinates import block_coordinates, check_not_negative
from ..greedy.summary import Summary
from ..store.sidecars import Arrays

__all__ = ["Watched", "too_many", "with_changes"]

_OFF, _KIND = 9.0, 3  # _KIND rows with _OFF times the median residual may need directions of their own
_MANY, _FEW = 0.05, 64  # fraction of the rows, and number of rows of a small matrix, that a seek follows without a pass
_UNWRITTEN = 2048  # changed rows, or half of those that a seek follows, after which a writer writes coordinates again
_ENTRIES = 1 << 22  # entries of rows read at a time
_PIECE = 1 << 16  # rows whose coordinates are held at a time

_Rows = NDArray[np.intp]


def with_changes(source: Any, summary: Summary, changed: _Rows) -> Summary:
    """The summary with the current values of those rows (sorted), and with directions for those of a new kind.

    Raises if an entry of theirs is negative.
    """
    for start in range(0, len(changed), _PIECE):  # appended rows, the last of them, are in order
        piece = changed[start : start + _PIECE]
        last = start + _PIECE >= len(changed)
        height = source.shape[0] if last else max(summary.height, int(piece[-1]) + 1)
        summary = _with_some(source, summary, piece, height)
    return summary


def _with_some(source: Any, summary: Summary, changed: _Rows, height: int) -> Summary:

    def read(rows: _Rows) -> Any:
        found = source.rows(rows)
        check_not_negative(found)
        return found

    current = summary.with_rows(changed, read, height)
    off = _off(current.coordinates.left[np.searchsorted(current.rows, changed)], summary)
    if len(off) >= _KIND:
        new = current.missed_directions(changed[off], source.rows)
        current = current.with_directions(new, changed[off], source.rows) if new.size else current
    return current.thinned(len(changed))


def too_many(changed: int, rows: int, most: float | None = None) -> bool:
    """Whether more than a fraction of the rows have changed: by default, so many that a seek makes a pass instead."""
    return changed > (_followed(rows) if most is None else most * rows)


def _followed(rows: int) -> float:
    return max(min(_FEW, rows // 2), _MANY * rows)


def _off(left: NDArray[np.float64], summary: Summary) -> _Rows:
    """Positions of rows whose residual beyond the directions is much larger than usual."""
    return np.flatnonzero(left > _OFF * np.median(summary.coordinates.left))


@dataclass
class Watched:
    """The coordinates in a store that its writer watches.

    Attributes
    ----------
    arrays, summary
        The coordinates as they are stored.
    written, seen
        The change up to which they include the rows, and the change up to which rows were examined.
    off
        Rows far from the directions.
    refused
        How many rows had changed when new coordinates could not be kept; 0 if that has not happened.
    """

    arrays: Arrays
    summary: Summary
    written: int
    seen: int
    off: _Rows = field(default_factory=lambda: np.zeros(0, np.intp))
    refused: int = 0

    def stale(self, store: Any) -> bool:
        """Whether many rows have changed, or some of a new kind; if few have, reads those changed since then."""
        changed = len(store.changes_since(self.written))
        if changed < 2 * self.refused:
            return False
        return changed > min(_UNWRITTEN, _followed(store.shape[0]) / 2) or self._new_kind(store)

    def current(self, store: Any) -> Summary:
        """The coordinates with all changes since they were written."""
        return with_changes(store, self.summary, np.asarray(store.changes_since(self.written), dtype=np.intp))

    def _new_kind(self, store: Any) -> bool:
        changed = np.asarray(store.changes_since(self.seen), dtype=np.intp)
        self.seen, found = store.cursor, [left_out(self.off, changed)]
        step = max(256, _ENTRIES // store.shape[1])
        for start in range(0, len(changed), step):
            some = changed[start : start + step]
            _, left, _ = block_coordinates(0, store.rows(some), self.summary.coordinates.frame)
            found.append(some[_off(left, self.summary)])
        grown = any(len(rows) for rows in found[1:])
        self.off = np.sort(np.concatenate(found))
        if not grown or len(self.off) < _KIND:
            return False
        return self.summary.missed_directions(self.off, store.rows).size > 0
