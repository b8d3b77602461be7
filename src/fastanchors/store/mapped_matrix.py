"""A sample matrix whose blocks are mapped from files: pages that writes have changed are kept below a limit.

A write to a mapped block copies the pages it touches, and one entry touches some ten of them. Where the copies would
take more than half the memory limit, the changed blocks are moved to scratch files and mapped from there: their pages
are the system's again, to be dropped and read back. The files of the store are not touched, and the scratch files lose
their names at once, so that nothing is left of them when the process ends.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..io.scratch import scratch_folder, scratch_in
from ..sampling.matrix import SampleMatrix
from ..sampling.row_block import Block
from ..sampling.segment_trees import Array
from .arrays_file import map_arrays, write_arrays
from .files import disk_errors

__all__ = ["DIRTY_BYTES", "MappedMatrix"]

DIRTY_BYTES = 10 * 4096  # pages that one changed entry touches: two sides, their trees, the sums of its row and column


class MappedMatrix(SampleMatrix):
    """The matrix of a store that may be written to.

    Parameters
    ----------
    blocks, normalize
        As in :meth:`SampleMatrix.from_blocks`.
    folder
        Where scratch files are made; None for a reader, whose changes (of the journal) all stay in memory.
    memory_limit
        Bytes, of which half may be changed pages.
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
        self._dirty: dict[int, tuple[Block, int]] = {  # changed bytes of blocks that are still there
            b: (block, known[id(block)]) for b, block in enumerate(blocks) if id(block) in known
        }

    def _write(self, i: Array, j: Array, x: Array) -> None:
        """Set checked entries, those of one block after those of another, each a bounded number at a time."""
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
        # New entries take memory of their own, and where there are many of them the block has been rebuilt there.
        changed = size if block.entries is not entries else min(expected, size)
        self._dirty[b] = block, changed + max(0, block.nbytes - size)
        if self._dirty[b][1] > self._limit:
            self._spill()

    def _changed(self, b: int) -> int:
        return self._dirty[b][1] if b in self._dirty else 0

    def _spill(self, keep: int | None = None) -> None:
        """Move changed blocks to scratch files."""
        for b in [b for b in self._dirty if b != keep]:
            self._held[b] = self._moved(self._held[b])
            del self._dirty[b]

    def _moved(self, block: Block) -> Block:
        """The same block, pristine and mapped from a file that has no name any more."""
        assert self._folder is not None
        fresh = block if block.pristine else block.rebuilt()
        with disk_errors(self._folder, "write to"), scratch_in(self._folder), scratch_folder() as name:
            arrays = map_arrays(Path(name), write_arrays(Path(name, "block.bin"), fresh.arrays(), durable=False))
        return type(fresh).from_arrays(arrays, fresh.shape, l1=fresh.l1)
