"""Names of rows and columns, stored as UTF-8 bytes and the end of each name, and decoded on access."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from ..errors import CorruptStoreError

__all__ = ["Names", "check_names", "encode_names"]

BYTES, ENDS = "names.bytes", "names.ends"


def encode_names(names: Sequence[str]) -> dict[str, NDArray[Any]]:
    """The two arrays that hold ``names``."""
    if isinstance(names, Names):
        return names.encoded()
    encoded = [name.encode("utf-8", "surrogatepass") for name in names]
    ends = np.cumsum([len(name) for name in encoded], dtype=np.int64)
    return {BYTES: np.frombuffer(b"".join(encoded), np.uint8), ENDS: ends}


def check_names(arrays: Mapping[str, NDArray[Any]]) -> None:
    """Raise ``ValueError`` if the arrays of names, if there are any, are not valid UTF-8 text."""
    if ENDS not in arrays:
        return
    content, ends = arrays[BYTES], arrays[ENDS]
    steps = np.diff(ends, prepend=0)
    if (steps < 0).any() or (ends[-1] if ends.size else 0) != content.size:
        raise ValueError("the ends of the names are not valid")
    begin = 0
    for index, end in enumerate(ends.tolist()):
        try:
            content[begin:end].tobytes().decode("utf-8", "surrogatepass")
        except UnicodeDecodeError:
            raise ValueError(f"name {index} is not UTF-8") from None
        begin = end


class Names(Sequence[str]):
    """The names of consecutive blocks of rows (or of the columns), decoded on access.

    Rows of a block without names have their index as name: row 17 is ``"17"``.
    """

    def __init__(self, blocks: Sequence[tuple[int, Mapping[str, NDArray[Any]]]]) -> None:
        self._blocks = [(arrays.get(BYTES), arrays.get(ENDS)) for _, arrays in blocks]
        self._starts = np.concatenate(([0], np.cumsum([count for count, _ in blocks], dtype=np.int64)))

    def __len__(self) -> int:
        return int(self._starts[-1])

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> list[str]: ...
    def __getitem__(self, index: int | slice) -> str | list[str]:
        if isinstance(index, slice):
            start, stop, step = index.indices(len(self))
            return list(self.part(start, stop)) if step == 1 else [self[i] for i in range(start, stop, step)]
        index = operator.index(index)  # not of a fraction or a text, as in a list
        if index < 0:
            index += len(self)
        if not 0 <= index < len(self):
            raise IndexError(f"name {index} is out of range 0 … {len(self) - 1}")
        block = int(np.searchsorted(self._starts, index, side="right")) - 1
        content, ends = self._blocks[block]
        if content is None or ends is None:
            return str(index)
        at = index - int(self._starts[block])
        begin = int(ends[at - 1]) if at else 0
        return _decoded(content[begin : int(ends[at])].tobytes(), index)

    def part(self, start: int, stop: int) -> Names:
        """The names from ``start`` to before ``stop``, not decoded; those of rows without names are their indices."""
        blocks = []
        bounds = zip(self._starts[:-1].tolist(), self._starts[1:].tolist(), self._blocks, strict=True)
        for first, last, (content, ends) in bounds:
            here, there = max(start, first), min(stop, last)
            if here >= there:
                continue
            if content is None or ends is None:
                arrays = encode_names([str(row) for row in range(here, there)])
            else:
                begin = int(ends[here - first - 1]) if here > first else 0
                inner = ends[here - first : there - first]
                if len(inner) < there - here or (np.diff(inner, prepend=begin) < 0).any() or inner[-1] > content.size:
                    raise CorruptStoreError(
                        f"the names of rows {here} to {there - 1} are damaged; run fa.verify, and restore from a copy"
                    )
                arrays = {BYTES: content[begin : int(inner[-1])], ENDS: inner - begin}
            blocks.append((there - here, arrays))
        return Names(blocks)

    def encoded(self) -> dict[str, NDArray[Any]]:
        """The two arrays that hold these names; all blocks must have names."""
        contents = [np.zeros(0, np.uint8), *(content for content, _ in self._blocks if content is not None)]
        ends, size = [np.zeros(0, np.int64)], 0
        for content, last in zip(contents[1:], (last for _, last in self._blocks if last is not None), strict=True):
            ends.append(last + size)
            size += content.size
        return {BYTES: np.concatenate(contents), ENDS: np.concatenate(ends)}

    @property
    def nbytes(self) -> int:
        """The size of the stored names and their ends."""
        return sum(array.nbytes for block in self._blocks for array in block if array is not None)

    def __iter__(self) -> Iterator[str]:
        """All names in order, many times faster than one at a time."""
        starts = self._starts.tolist()
        for first, last, (content, ends) in zip(starts, starts[1:], self._blocks, strict=False):
            if content is None or ends is None:
                yield from map(str, range(first, last))
                continue
            text, begin = content.tobytes(), 0
            for index, end in enumerate(ends.tolist(), start=first):
                yield _decoded(text[begin:end], index)
                begin = end

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence) or isinstance(other, str):
            return NotImplemented
        return len(self) == len(other) and all(a == b for a, b in zip(self, other, strict=True))

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        shown = ", ".join(repr(name) for name in self[:3])
        return f"<{len(self)} names: {shown}{', …' if len(self) > 3 else ''}>"


def _decoded(text: bytes, index: int) -> str:
    try:
        return text.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        raise CorruptStoreError(f"name {index} is not UTF-8; run fa.verify, and restore from a copy") from None
