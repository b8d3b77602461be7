"""Compaction: rewrite changed shards, merge small ones, and install a new manifest with an empty journal.

Files of the old manifest are not changed before the new manifest is renamed into place, so after a crash either the old
or the new state is complete. Files that neither refers to are removed by the next writer.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import os
import re
import shutil
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._maps import release_freed
from .._parallel import LargePieces, one_blas_thread
from .._signals import pass_on
from ..errors import StoreError
from ..io.row_source import block_bytes, rebatch
from ..io.scratch import SCRATCH
from ..matrix.contract import Rows
from ..sampling.row_block import Block
from .files import remove_file
from .journal import Journal
from .manifest import Manifest, Shard
from .mapped_matrix import DIRTY_BYTES
from .shard_rows import block_of, row_overhead, shard_bytes, shards_at_once, write_shard
from .sidecars import shared_only, write_whole

__all__ = ["compact", "moved_on", "remove_leftovers", "worth_compacting"]

_OURS = re.compile(r"(shard|whole)-\d{6,}[\w.-]*\.bin|journal-\d{6,}\.log|manifest\.json\.tmp")
_JOURNAL_LIMIT = 1 << 26  # largest journal in bytes; less for small stores: a sixteenth of the store, at least 4 MiB
_JOURNAL_SHARE = 16
_SHORT_JOURNAL = 1 << 22
_MANY_BLOCKS = 64
_SPARE = 8  # changed pages up to this part of the memory limit do not reduce how many shards are written at a time


def worth_compacting(store: Any) -> bool:
    """Whether the journal is long, changed pages exceed the memory limit, or many small blocks slow down draws."""
    dirty = min(store._log.written_since(store._written_at) * DIRTY_BYTES, store.memory)
    many = len(store._blocks) > _MANY_BLOCKS and int(_small(store).sum()) > _MANY_BLOCKS
    longest = min(_JOURNAL_LIMIT, max(_SHORT_JOURNAL, store.memory // _JOURNAL_SHARE))
    return store._writer.end > longest or dirty > store.memory_limit or many


def _small(store: Any) -> NDArray[np.bool_]:
    """Which blocks are much smaller than a shard."""
    limit = shard_bytes(store.memory_limit) // 4
    sides = 2 if store.manifest.column_side and store.is_sparse else 1
    return np.array([block.nbytes < sides * limit for block in store._blocks])


def compact(store: Any) -> Manifest:
    """Write the files of a new generation of ``store``, whose changes are all committed; returns its manifest.

    The generation begins when that manifest is written. If this fails, :func:`remove_leftovers` removes the files.
    """
    old = store.manifest
    journal = store.path / f"journal-{old.generation + 1:06d}.log"
    rewriting = _Rewriting(store)
    shards = rewriting.run()
    whole = {sidecar.name: sidecar.compact(store) for sidecar in store.sidecars(shards=False)}
    wholes = write_whole(store.path, whole, old.generation + 1)
    Journal.create(journal, old.generation + 1)  # syncs the directory: all names are durable before the rename
    return dataclasses.replace(
        old,
        generation=old.generation + 1,
        shards=shards,
        journal=journal.name,
        next_shard=rewriting.number,
        extras=shared_only(old.extras) | wholes,  # drops whole-store arrays that were not updated
    )


def moved_on(path: Path, manifest: Manifest) -> bool:
    """Whether the store at ``path`` may have another manifest; False only if it can be read and is this one."""
    try:
        return Manifest.read(path) != manifest
    except (StoreError, OSError) as error:
        pass_on(error)
        return True


class _Rewriting:
    """The shards of a new generation: keeps some and rewrites the others, as many at a time as memory allows."""

    def __init__(self, store: Any) -> None:
        self.store, self.number, self.sidecars = store, store._mapped.next_shard, store.sidecars()
        at_once = shards_at_once(store.memory_limit, store.shape[1] if store.is_sparse else 0)
        changed = max(0, store._matrix.changed_bytes - store.memory_limit // _SPARE)  # held until the end
        at_once = max(1, at_once - -(-changed * at_once // store.memory_limit))
        self._most = shard_bytes(store.memory_limit)  # bytes of rows
        if store.is_sparse:
            self._most += self._most // 4  # shards may grow a little
        self._per_row = row_overhead(store, self.sidecars, 0)
        if store.row_names is not None:
            self._per_row += 2 * (8 + store.row_names.nbytes // max(1, store.shape[0]))
        self._pieces = LargePieces[Shard](at_once, at_once * self._most)

    def run(self) -> list[Shard]:
        shards: list[Shard | Future[Shard]] = []
        release_freed()
        with one_blas_thread(), self._pieces:
            for first, last, rewrite in _runs(self.store):
                kept = [shard for shard in self.store._mapped.shards[first:last] if shard is not None]
                shards += self._rewrite(first, last) if rewrite else kept
        release_freed()
        return [shard.result() if isinstance(shard, Future) else shard for shard in shards]

    def _rewrite(self, first: int, last: int) -> Iterator[Future[Shard]]:
        """Rewrite these blocks, with small ones merged."""
        store, row = self.store, int(self.store._starts[first])
        parts = (rows for block in store._blocks[first:last] for rows in _even_parts(block, self._most, self._per_row))
        for rows in rebatch(parts, 2 * self._most, row_bytes=self._per_row):
            stop, size = row + rows.shape[0], block_bytes(rows) + self._per_row * rows.shape[0]
            for finished in self._pieces.finished(size):
                finished.result()
            names = store.row_names.part(row, stop) if store.row_names is not None else None
            future = self._pieces.submit(size, self._write, self.number, row, rows, names)
            self.number, row = self.number + 1, stop
            del rows
            yield future

    def _write(self, number: int, first_row: int, rows: Rows, names: Sequence[str] | None) -> Shard:
        block = block_of(rows, self.store.manifest.normalize, self.store.manifest.column_side)
        del rows
        shard = write_shard(self.store.path, number, block, names, self.sidecars, first_row)
        del block
        release_freed()
        return shard


def _even_parts(block: Block, most: int, per_row: int) -> Iterator[Rows]:
    """The rows of a block as stored, in equal parts of about ``most`` bytes, so that none is left with a few rows.

    ``per_row`` is an overhead.
    """
    m, n = block.shape
    size = block.nnz * (block.dtype.itemsize + 4) + 8 * m if block.is_sparse else m * n * block.dtype.itemsize
    parts = min(m, -(-(size + per_row * m) // most))
    for part in range(parts):
        yield block.rows(np.arange(m * part // parts, m * (part + 1) // parts), view=False)


def _runs(store: Any) -> Iterator[tuple[int, int, bool]]:
    """(first block, last + 1, whether to rewrite them), over all blocks in order.

    Rewritten are blocks that have changed or have no file, and small blocks next to each other or to these.
    """
    rewrite = np.array([shard is None for shard in store._mapped.shards])
    rewrite[list(store._changed_blocks())] = True
    candidate = rewrite | _small(store)
    bounds = [0, *(np.flatnonzero(np.diff(candidate)) + 1).tolist(), len(candidate)]
    for first, last in itertools.pairwise(bounds):
        worthwhile = bool(candidate[first]) and (last - first > 1 or bool(rewrite[first]))
        yield first, last, worthwhile


def remove_leftovers(store: Any) -> None:
    """Remove store files that nothing refers to, left by a crash or by the previous generation."""
    known = store._mapped.files()
    with contextlib.suppress(OSError):  # leftovers are harmless
        for name in os.listdir(store.path):
            if name.startswith(SCRATCH):
                if (store.path / name).is_dir():  # rmtree waits without end at a pipe
                    shutil.rmtree(store.path / name, ignore_errors=True)
            elif _OURS.fullmatch(name) and name not in known:
                remove_file(store.path / name)
