"""Names that are not in this process: fetched when they are asked for, several at once."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["FetchedNames", "names_of"]

_TOGETHER = 1 << 16  # names fetched at a time


class FetchedNames(Sequence[str]):
    """Names of rows, fetched on demand."""

    @abstractmethod
    def some(self, rows: NDArray[np.int64]) -> list[str]:
        """The names of these rows."""

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return self.some(np.arange(*index.indices(len(self))))
        if not -len(self) <= index < len(self):
            raise IndexError(f"name {index} is out of range 0 … {len(self) - 1}")
        return self.some(np.array([index % len(self)]))[0]

    def __iter__(self) -> Iterator[str]:
        for start in range(0, len(self), _TOGETHER):
            yield from self[start : start + _TOGETHER]


def names_of(names: Sequence[str], rows: NDArray[Any]) -> tuple[str, ...]:
    """The names of some rows."""
    if isinstance(names, FetchedNames):
        return tuple(names.some(rows.astype(np.int64)))
    return tuple(str(names[row]) for row in rows)
