"""The mapped shards of an open store: blocks of rows, names and sidecars."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import StoreError
from ..sampling.dense_block import DenseBlock
from ..sampling.row_block import Block
from ..sampling.sparse_block import SparseBlock
from .arrays_file import map_arrays
from .files import content_state, disk_errors
from .manifest import Manifest, Shard
from .names import Names, encode_names
from .sidecars import Arrays, whole_of

__all__ = ["MappedShards", "block_from", "map_block"]


def map_block(
    folder: Path, shard: Shard, manifest: Manifest, states: dict[str, tuple[int, ...]] | None = None
) -> tuple[Block, Arrays]:
    """The block of a shard, mapped copy-on-write, and the arrays of its file, whose state is put into ``states``."""
    arrays = map_arrays(folder, shard.data, states=states)
    return block_from(arrays, shard, manifest), arrays


def block_from(arrays: Arrays, shard: Shard, manifest: Manifest) -> Block:
    """The block of a shard, given the arrays of its file."""
    kind = SparseBlock if manifest.sparse else DenseBlock
    return kind.from_arrays(arrays, (shard.rows, manifest.columns), l1=manifest.normalize == "l1")


class MappedShards:
    """The shards of one generation and those appended since, mapped.

    Attributes
    ----------
    manifest
        The manifest of the generation.
    first_blocks
        The blocks of the manifest's shards.
    shards
        One per block of the matrix; None for a block of rows that are only in memory and in the journal.
    next_shard
        Number of the next shard file.
    row_names, column_names
        Names, where there are any.
    """

    def __init__(self, folder: Path, manifest: Manifest) -> None:
        self.folder, self.manifest = folder, manifest
        self._states: dict[str, tuple[int, ...]] = {}  # of the files of blocks, when they were mapped
        mapped = [map_block(folder, shard, manifest, self._states) for shard in manifest.shards]
        self.first_blocks = [block for block, _ in mapped]
        self.shards: list[Shard | None] = list(manifest.shards)
        self.next_shard = manifest.next_shard
        # Sidecars are mapped now, because a later compaction removes these files.
        self._maps: dict[str, Arrays] = {}
        self._map_sidecars(description for shard in manifest.shards for description in shard.extras.values())
        self._map_sidecars(manifest.extras.values())
        self._name_parts: list[tuple[int, Arrays]] = [(block.shape[0], arrays) for block, arrays in mapped]
        columns = None if manifest.names is None else Names([(manifest.columns, map_arrays(folder, manifest.names))])
        self.column_names: Sequence[str] | None = columns
        self._set_row_names()

    def _map_sidecars(self, descriptions: Iterable[Mapping[str, Any]]) -> None:
        self._maps |= {description["file"]: map_arrays(self.folder, description) for description in descriptions}

    def _set_row_names(self) -> None:
        named = any("names.ends" in arrays for _, arrays in self._name_parts)
        self.row_names: Sequence[str] | None = Names(self._name_parts) if named else None

    def load_shard(self, shard: Shard) -> tuple[Block, Arrays]:
        """Map a shard of appended rows and its sidecars; returns its block and the arrays of its file."""
        self._map_sidecars(shard.extras.values())
        return map_block(self.folder, shard, self.manifest, self._states)

    def add_shard(self, shard: Shard, loaded: tuple[Block, Arrays]) -> None:
        """Add a shard of appended rows, loaded by :meth:`load_shard`."""
        block, arrays = loaded
        self.shards.append(shard)
        self._name_parts.append((block.shape[0], arrays))
        self._set_row_names()
        self.next_shard += 1

    def add_names(self, rows: int, names: Sequence[str] | None) -> None:
        """Add the names of appended rows that are in memory."""
        self._name_parts.append((rows, encode_names(names) if names is not None else {}))
        self._set_row_names()

    def unwritten_rows(self, starts: NDArray[np.int64]) -> list[NDArray[np.int64]]:
        """The rows that have no file; block b begins at ``starts[b]``."""
        bounds = zip(self.shards, starts[:-1], starts[1:], strict=True)
        return [np.arange(start, stop) for shard, start, stop in bounds if shard is None]

    def files(self) -> set[str]:
        """Names of all files that the manifest or an appended shard refers to."""
        appended = {description["file"] for shard in self.shards if shard for description in shard.files()}
        return self.manifest.files() | appended

    def check(self, numbers: Iterable[int]) -> None:
        """Raise if the file of one of these blocks, which have changes, was written to or replaced since it was mapped.

        A program that shortens a file and writes it again, even with the same bytes, drops the changed pages of its
        map: the block has the values of the file again, also for entries whose change is committed.
        """
        for number in numbers:
            shard = self.shards[number]
            if shard is None:
                continue
            path = self.folder / shard.data["file"]
            with disk_errors(path, "check"):
                same = _state_of(path) == self._states[path.name]
            if not same:
                raise StoreError(
                    f"another program has changed {path} since it was opened, so changes in memory may be lost; open "
                    "the store again: what was committed is in its files"
                )

    # --- sidecars ---------------------------------------------------------------------------------------------------

    def shared(self, name: str) -> Arrays | None:
        """The arrays of a sidecar that all shards share."""
        description = self.manifest.extras.get(name)
        return None if description is None else self._maps[description["file"]]

    def follow(self, manifest: Manifest) -> None:
        """Continue with a manifest that differs in its sidecars of the whole store only."""
        new = [description for key, description in manifest.extras.items() if description != self.manifest.extras[key]]
        self._map_sidecars(new)
        self.manifest = manifest

    def whole(self, name: str, manifest: Manifest) -> Arrays | None:
        """The whole-store arrays of a sidecar, as a manifest of this generation describes them."""
        description = whole_of(manifest, name)
        return None if description is None else self._maps[description["file"]]

    def of_each(self, name: str) -> list[Arrays | None]:
        """The arrays of a sidecar for each block."""
        return [self._maps[s.extras[name]["file"]] if s is not None and name in s.extras else None for s in self.shards]


def _state_of(path: Path) -> tuple[int, ...] | None:
    """The state of a file now; None if it does not exist."""
    try:
        return content_state(os.stat(path, follow_symlinks=False))
    except FileNotFoundError:
        return None
