"""A sample matrix whose blocks are mapped from files, with a limit on the memory of changed pages.

A write to a mapped block copies the pages it touches, about ten per entry. If the copies would exceed half of the
memory limit, the changed blocks are written to scratch files and mapped from there, so that the system can drop and
reload their pages. The files of the store do not change. Scratch files are unlinked at once, so they disappear with the
process.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from .._maps import release_freed, release_pages
from ..io.scratch import scratch_folder, scratch_in
from ..sampling.matrix import SampleMatrix
from ..sampling.row_block import Block
from ..sampling.segment_trees import Array
from .arrays_file import map_arrays, write_arrays
from .files import disk_errors

__all__ = ["DIRTY_BYTES", "MappedMatrix"]

DIRTY_BYTES = 10 * 4096  # bytes of pages that one changed entry touches: two sides, their trees, row and column sums


class MappedMatrix(SampleMatrix):
    """The matrix of a store that may be written to.

    Parameters
    ----------
    blocks, normalize
        As in :meth:`SampleMatrix.from_blocks`.
    folder
        Directory of scratch files; None for a reader, whose changes (from the journal) all stay in memory.
    memory_limit
        Bytes; half of it may be changed pages.
    """

    _folder: Path | None
    _limit: int

    @classmethod
    def of(cls, blocks: list[Block], normalize: Any, folder: Path | None, memory_limit: int) -> MappedMatrix:
        self = cls.__new__(cls)
        self._set_normalize(normalize)
        self._folder, self._limit = folder, memory_limit // 2
        self._set_blocks(blocks)
        self.row_names = self.column_names = None
        return self

    def _set_blocks(self, blocks: list[Block]) -> None:
        known = {id(block): size for block, size in getattr(self, "_dirty", {}).values()}
        super()._set_blocks(blocks)
        self._dirty: dict[int, tuple[Block, int]] = {  # changed bytes of the blocks that remain
            b: (block, known[id(block)]) for b, block in enumerate(blocks) if id(block) in known
        }

    def _write(self, i: Array, j: Array, x: Array) -> None:
        """Write validated entries block by block, a bounded number at a time."""
        if self._folder is None:
            super()._write(i, j, x)
            return
        for b, at, local in self._split_rows(i):
            step = max(1, self._limit // DIRTY_BYTES)
            columns, values = j[at], x[at]
            for start in range(0, len(local), step):
                some = slice(start, start + step)
                self._write_to(b, local[some], columns[some], values[some])

    def _write_to(self, b: int, i: Array, j: Array, x: Array) -> None:
        block = self._held[b]
        size, entries = block.nbytes, block.entries
        expected = self._changed(b) + min(len(i) * DIRTY_BYTES, size)
        if sum(size for other, (_, size) in self._dirty.items() if other != b) + expected > self._limit:
            self._spill(keep=b)
        block.write(i, j, x)
        # New entries are in memory, and with many of them the whole block was rebuilt in memory.
        changed = min(expected, size)
        if block.entries is not entries:
            changed = size
            release_pages(entries)
        self._dirty[b] = block, changed + max(0, block.nbytes - size)
        if self._dirty[b][1] > self._limit:
            self._spill()

    @property
    def changed_bytes(self) -> int:
        """Bytes of pages that writes have changed, as far as they are known."""
        return sum(size for _, size in self._dirty.values())

    def _changed(self, b: int) -> int:
        return self._dirty[b][1] if b in self._dirty else 0

    def _spill(self, keep: int | None = None) -> None:
        """Move changed blocks to scratch files."""
        for b in [b for b in self._dirty if b != keep]:
            self._held[b] = self._moved(self._held[b])
            del self._dirty[b]
        release_freed()

    def _moved(self, block: Block) -> Block:
        """The same block, rebuilt if necessary, mapped from an unlinked file."""
        assert self._folder is not None
        fresh = block if block.pristine else block.rebuilt()
        with disk_errors(self._folder, "write to"), scratch_in(self._folder), scratch_folder() as name:
            arrays = map_arrays(Path(name), write_arrays(Path(name, "block.bin"), fresh.arrays(), durable=False))
        release_pages(block.entries)  # the names of the rows keep its map, but not the pages that writes have changed
        return type(fresh).from_arrays(arrays, fresh.shape, l1=fresh.l1)
