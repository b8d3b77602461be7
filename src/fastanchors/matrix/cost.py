"""Counters of sample access and of rows read (``S.cost``, ``Anchors.cost``)."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields

__all__ = ["Cost"]


@dataclass
class Cost:
    """Counters of sample access and of rows read.

    Attributes
    ----------
    samples
        Draws made, of rows, of columns, and inside rows and columns.
    queries
        Single entries and norms read.
    rows_read
        Whole rows of the view read (a pass over the matrix counts every row).
    bytes_moved
        Bytes sent between processes; zero on one machine.

    Examples
    --------
    >>> import fastanchors as fa
    >>> S = fa.SampleMatrix([[1.0, 2.0], [3.0, 4.0]])
    >>> before = S.cost.copy()
    >>> _ = S.sample_rows(5, rng=0)
    >>> (S.cost - before).samples
    5
    """

    samples: int = 0
    queries: int = 0
    rows_read: int = 0
    bytes_moved: int = 0

    def copy(self) -> Cost:
        return Cost(self.samples, self.queries, self.rows_read, self.bytes_moved)

    def __sub__(self, other: Cost) -> Cost:
        if not isinstance(other, Cost):
            return NotImplemented
        return Cost(*(getattr(self, f.name) - getattr(other, f.name) for f in fields(self)))

    def __add__(self, other: Cost) -> Cost:
        if not isinstance(other, Cost):
            return NotImplemented
        return Cost(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(self)))

    def as_dict(self) -> dict[str, int]:
        return asdict(self)
