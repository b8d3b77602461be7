"""A sample matrix whose blocks are mapped from files, with a limit on the memory of changed pages.

A write to a mapped block copies the pages it touches, about ten per entry, and rows appended to the journal are blocks
in memory. If these and the log of written rows would exceed half of the memory limit, the blocks with most of them are
written to scratch files. From then on writes to these blocks go to the file, and the system can drop and reload their
pages: a block moves once. Where room is short, a sparse block that is rebuilt, because it has many new entries, puts
them in such a file too. The files of the store do not change. Scratch files are unlinked at once, so they disappear
with the process.
"""

from __future__ import annotations

import mmap
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from .._maps import release_freed, release_pages
from .._signals import pass_on
from ..errors import StoreError
from ..io.positions import write_all
from ..io.scratch import scratch_file, scratch_folder, scratch_in
from ..sampling.matrix import SampleMatrix
from ..sampling.merging import in_memory
from ..sampling.row_block import Block
from ..sampling.segment_trees import Array
from ..sampling.sparse_block import SparseBlock
from .arrays_file import map_arrays, write_arrays
from .files import disk_errors

__all__ = ["CHANGED_ELSEWHERE", "DIRTY_BYTES", "MappedMatrix"]

DIRTY_BYTES = 10 * 4096  # bytes of pages that one changed entry touches: two sides, their trees, row and column sums
_REBUILT = 3  # times the bytes of a block: itself, the new one, and temporary arrays, while it is rebuilt in memory
_PIECE = 1 << 20
_MANY = 1 << 16  # entries written together whose temporary arrays are worth giving back
CHANGED_ELSEWHERE = "this store is being changed in the parent process; open it again in the new process"


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
        moved = {id(block) for block in getattr(self, "_moved_blocks", ())}
        super()._set_blocks(blocks)
        self._dirty: dict[int, tuple[Block, int]] = {  # changed bytes of the blocks that remain
            b: (block, known[id(block)]) for b, block in enumerate(blocks) if id(block) in known
        }
        self._moved_blocks = [block for block in blocks if id(block) in moved]

    def append_in_memory(self, blocks: list[Block]) -> None:
        """Set the blocks, of which the last is new and in memory; if the disk is full, all that are in memory stay."""
        self._set_blocks(blocks)
        if self._folder is not None:
            self._dirty[len(blocks) - 1] = blocks[-1], blocks[-1].nbytes
            with suppress(StoreError):
                self._make_room(self._room)

    def _write(self, i: Array, j: Array, x: Array) -> None:
        """Write validated entries block by block; all of them, or none if the disk has no room for scratch files."""
        if self._folder is None:
            super()._write(i, j, x)
        elif not self._moved_blocks and self.changed_bytes + len(i) * DIRTY_BYTES <= self._room:
            for b, at, local in self._split_rows(i):
                self._write_to(b, local, j[at], x[at], self._changed(b) + len(local) * DIRTY_BYTES)
        else:
            before = self._raw(i, j)
            try:
                self._write_in_steps(i, j, x)
            except BaseException:
                super()._write(i, j, before)
                raise
            if len(i) >= _MANY:
                del before
                release_freed()

    def _write_in_steps(self, i: Array, j: Array, x: Array) -> None:
        """Write a bounded number of entries at a time, because room is short."""
        step = max(1, self._room // DIRTY_BYTES)
        # Entries that share pages were counted one by one.
        self._dirty = {b: (block, min(size, block.nbytes)) for b, (block, size) in self._dirty.items()}
        for b, at, local in self._split_rows(i):
            columns, values = j[at], x[at]
            for start in range(0, len(local), step):
                some = slice(start, start + step)
                self._write_within(b, local[some], columns[some], values[some])

    def _write_to(self, b: int, i: Array, j: Array, x: Array, changed: int) -> None:
        """Write entries of one block, after which ``changed`` bytes of it are changed, or all if it was rebuilt."""
        block, before = self._held[b], self._held[b].sides
        self._prepare(block, self.changed_bytes - self._changed(b) + _REBUILT * block.nbytes > self._room)
        block.write(i, j, x)
        if block.sides is not before:  # many new entries: the block was rebuilt
            changed = block.nbytes
            release_pages(before.rows.sums)
            self._moved_blocks = [other for other in self._moved_blocks if other is not block]
        if changed:
            self._dirty[b] = block, changed

    def _write_within(self, b: int, i: Array, j: Array, x: Array) -> None:
        """Write entries of one block after making room for the pages that they change."""
        block = self._held[b]
        size, moved = block.nbytes, any(other is block for other in self._moved_blocks)
        changed = min(self._changed(b) + (0 if moved else len(i) * DIRTY_BYTES), size)
        self._make_room(self._room - changed, keep=b)
        self._write_to(b, i, j, x, changed)
        grown = block.nbytes  # new entries are in memory
        self._dirty[b] = block, min(self._changed(b) + max(0, grown - size), grown)
        self._make_room(self._room)

    @property
    def _room(self) -> int:
        """Bytes that may be changed pages: half of the memory limit, less the log of written rows."""
        return max(self._limit // 4, self._limit - self._log.nbytes)

    @property
    def changed_bytes(self) -> int:
        """Bytes of pages that writes have changed, as far as they are known."""
        return sum(size for _, size in self._dirty.values())

    @property
    def changed_numbers(self) -> list[int]:
        """Numbers of the blocks that writes have changed in memory."""
        return list(self._dirty)

    def _changed(self, b: int) -> int:
        return self._dirty[b][1] if b in self._dirty else 0

    def _make_room(self, most: int, keep: int | None = None) -> None:
        """Move changed blocks to scratch files, the most changed first, until ``most`` changed bytes are left."""
        others = sorted((b for b in self._dirty if b != keep), key=self._changed, reverse=True)
        left = sum(self._changed(b) for b in others)
        if left <= most:
            return
        for b in others:
            if left <= most:
                break
            left -= self._changed(b)
            before, self._held[b] = self._held[b], self._moved(self._held[b])
            # One that was moved already, and has had new entries since, is not held any longer.
            self._moved_blocks = [*(other for other in self._moved_blocks if other is not before), self._held[b]]
            del before
            del self._dirty[b]
        release_freed()

    def _moved(self, block: Block) -> Block:
        """The same block, mapped from an unlinked file that takes its changes."""
        self._prepare(block, True)
        moved = block.moved(self._in_scratch)
        self._guard.shared = StoreError(CHANGED_ELSEWHERE)
        # The names of the rows keep its map, but not the pages that writes have changed. Every block has sums.
        release_pages(block.sides.rows.sums)
        return moved

    def _prepare(self, block: Block, short: bool) -> None:
        """Determine where a sparse block puts its entries if it is rebuilt: if room is ``short``, in a file."""
        if isinstance(block, SparseBlock):
            block.make_arrays = self._arrays_in_file if short else None

    def _arrays_in_file(self, wanted: Sequence[tuple[int, Any]]) -> list[Array]:
        """New arrays, mapped from an unlinked file; in memory if the disk has no room."""
        assert self._folder is not None
        try:
            with scratch_in(self._folder), scratch_file() as file:
                size = sum(-(-length * dtype.itemsize // 8) * 8 for length, dtype in wanted)
                for start in range(0, size, _PIECE):  # a file with holes would end the process when the disk is full
                    write_all(file.fileno(), bytes(min(_PIECE, size - start)), start)
                content = mmap.mmap(file.fileno(), size)
        except (OSError, ValueError) as error:  # ValueError: of an empty map
            pass_on(error)
            return in_memory(wanted)
        self._guard.shared = StoreError(CHANGED_ELSEWHERE)
        arrays, at = [], 0
        for length, dtype in wanted:
            arrays.append(np.frombuffer(content, dtype, length, at) if length else np.empty(0, dtype))
            at += -(-length * dtype.itemsize // 8) * 8
        return arrays

    def _in_scratch(self, arrays: dict[str, Array]) -> dict[str, Array]:
        """The same arrays, mapped from an unlinked file."""
        assert self._folder is not None
        with disk_errors(self._folder, "write to"), scratch_in(self._folder), scratch_folder() as name:
            description = write_arrays(Path(name, "block.bin"), arrays, durable=False)
            return map_arrays(Path(name), description, shared=True)
