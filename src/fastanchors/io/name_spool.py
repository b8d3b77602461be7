"""Row names of a stream, stored in a temporary file."""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import IO, overload

import numpy as np

from .positions import read_bytes, write_bytes
from .scratch import scratch_file

__all__ = ["NameSpool"]

_ENDS = np.dtype("<i8")


class NameSpool(Sequence[str]):
    """A growing sequence of strings on disk: UTF-8 text in one unnamed file, the ends of the strings in another.

    Its memory does not depend on its length; a slice costs two reads. Threads and forked processes may read it at once.
    """

    def __init__(self) -> None:
        self._files: tuple[IO[bytes], ...] = ()
        self._count = self._size = 0

    def clear(self) -> None:
        """Remove all names."""
        for file in self._files:
            file.close()
        self._files = ()
        self._count = self._size = 0

    def _open(self) -> None:
        """Create the files; called at the first name, when the scratch directory of a build is known."""
        self._files = (scratch_file(), scratch_file())
        for file in self._files:
            weakref.finalize(self, file.close)

    def extend(self, names: Iterable[str]) -> None:
        """Add names at the end."""
        encoded = [name.encode("utf-8", "surrogatepass") for name in names]
        ends = self._size + np.cumsum([len(name) for name in encoded], dtype=_ENDS)
        if not encoded:
            return
        if not self._files:
            self._open()
        for file, at, data in zip(
            self._files, (self._size, self._count * _ENDS.itemsize), (b"".join(encoded), ends.tobytes()), strict=True
        ):
            write_bytes(file, at, data)
        self._count += len(encoded)
        self._size = int(ends[-1])

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> list[str]: ...
    def __getitem__(self, index: int | slice) -> str | list[str]:
        if isinstance(index, slice):
            start, stop, step = index.indices(self._count)
            if step != 1:
                return [self[i] for i in range(start, stop, step)]
            return self._slice(start, stop)
        if not -self._count <= index < self._count:
            raise IndexError(f"name {index} is out of range 0 … {self._count - 1}")
        index %= self._count
        return self._slice(index, index + 1)[0]

    def _slice(self, start: int, stop: int) -> list[str]:
        if stop <= start:
            return []
        texts, all_ends = self._files
        skipped = max(0, start - 1)  # the first name begins at the end of the one before
        width = _ENDS.itemsize
        ends = np.frombuffer(read_bytes(all_ends, skipped * width, (stop - skipped) * width), _ENDS).tolist()
        if start == 0:
            ends.insert(0, 0)
        text = read_bytes(texts, ends[0], ends[-1] - ends[0])
        bounds = [end - ends[0] for end in ends]
        return [text[a:b].decode("utf-8", "surrogatepass") for a, b in pairwise(bounds)]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence) or isinstance(other, str):
            return NotImplemented
        return self[:] == list(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<{self._count} names: {', '.join(map(repr, self[:3]))}{', …' if self._count > 3 else ''}>"
