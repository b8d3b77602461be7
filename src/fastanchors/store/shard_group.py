"""A group of consecutive shards of a store, mapped by the process that reads them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from ..errors import CorruptStoreError
from ..matrix.contract import Rows
from ..sampling.block_stack import by_block
from ..sampling.dense_block import DenseBlock
from ..sampling.gather import in_order
from ..sampling.matrix import SampleMatrix
from ..sampling.row_block import Block
from ..sampling.segment_trees import Array
from ..sampling.sparse_block import SparseBlock
from .manifest import Manifest
from .names import Names
from .shards import block_from
from .sidecars import Arrays
from .storage import Directory, ObjectStorage, Storage

__all__ = ["ShardGroup", "ShardMatrix"]

_FEW = 64  # read rows of a shard in object storage one by one if at most one in this many is wanted


class ShardGroup(NamedTuple):
    """The description of some shards that is sent to a worker instead of their data."""

    storage: Storage
    manifest: Manifest  # of these shards alone

    @classmethod
    def of(cls, storage: Storage, manifest: Manifest, low: int, high: int) -> ShardGroup:
        """Shards ``low`` to ``high`` − 1."""
        return cls(storage, replace(manifest, shards=manifest.shards[low:high], names=None, extras={}, metadata={}))

    def open(self) -> ShardMatrix:
        return ShardMatrix(self)


class ShardMatrix(SampleMatrix):
    """The rows of a group of shards; a shard is mapped on first use."""

    def __init__(self, group: ShardGroup) -> None:
        self.storage, self.manifest = group
        self._set_normalize(self.manifest.normalize)  # type: ignore[arg-type]
        self.row_names = self.column_names = None
        self._held: Any = _Mapped(group)
        self._starts = np.cumsum([0, *(shard.rows for shard in self.manifest.shards)])

    @property
    def shape(self) -> tuple[int, int]:
        return int(self._starts[-1]), self.manifest.columns

    @property
    def dtype(self) -> np.dtype[Any]:
        return np.dtype(self.manifest.dtype)

    @property
    def is_sparse(self) -> bool:
        return self.manifest.sparse

    def _gather(self, rows: Array, *, view: bool) -> Rows:
        if isinstance(self.storage, Directory) or len(rows) == 0:
            return super()._gather(rows, view=view)
        found, places = [], []
        for b, at in by_block(self._holding(rows), len(self._held)):
            local = rows[at].astype(np.int64) - self._starts[b]
            few = self._few(b, local)
            block, which = (self._held[b], local) if few is None else (few, np.arange(len(local)))
            found.append(block.rows(which, view=view))
            places.append(at)
        return in_order(found, places, len(rows))

    def _few(self, b: int, rows: Array) -> Block | None:
        """A block of only these rows of a shard in object storage; None if the whole shard should be read."""
        storage, shard = self.storage, self.manifest.shards[b]
        assert isinstance(storage, ObjectStorage)
        if len(rows) * _FEW > shard.rows or storage.holds(shard.data):
            return None
        arrays = shard.data["arrays"]

        def read(name: str, low: Array, high: Array) -> list[Any]:
            """Entries low … high − 1 of an array, for each pair (low, high)."""
            dtype, begin = np.dtype(arrays[name]["dtype"]), arrays[name]["offset"]
            bounds = zip((begin + low * dtype.itemsize).tolist(), (begin + high * dtype.itemsize).tolist())
            return [np.frombuffer(content, dtype) for content in storage.ranges(shard.data, list(bounds))]

        n = self.manifest.columns
        if not self.is_sparse:
            matrix: Any = np.stack(read("data", rows * n, (rows + 1) * n))
            return DenseBlock.build(matrix, l1=self.normalize == "l1", columns=False)
        ends = np.stack(read("indptr", rows, rows + 2)).astype(np.int64)
        count = arrays["indices"]["shape"][0] if "indices" in arrays else 0
        if np.any(ends[:, 0] < 0) or np.any(ends[:, 0] > ends[:, 1]) or np.any(ends[:, 1] > count):
            raise CorruptStoreError(
                f"{storage}/{shard.data['file']}: row pointers are outside the matrix; run fa.verify, and restore the "
                "store from a copy"
            )
        entries = [np.concatenate(read(name, ends[:, 0], ends[:, 1])) for name in ("data", "indices")]
        indptr = np.cumsum([0, *np.diff(ends, axis=1)[:, 0]])
        matrix = sp.csr_array((*entries, indptr), shape=(len(rows), n))
        return SparseBlock.build(matrix, l1=self.normalize == "l1", columns=False)

    def shard_arrays(self, name: str) -> Iterator[tuple[int, int, Arrays]]:
        """Yield (first row, last row + 1, arrays) of a sidecar for each shard; all shards must have it."""
        for (start, stop), shard in zip(pairwise(self._starts.tolist()), self.manifest.shards):
            yield start, stop, self.storage.map(shard.extras[name])

    def names_of(self, rows: Array) -> list[str | None]:
        """The names of rows; None for those of shards without names."""
        names: list[str | None] = [None] * len(rows)
        for b, at in by_block(self._holding(rows), len(self._held)):
            known = self._held.names(b)
            for i in at.tolist() if known is not None else ():
                names[i] = known[int(rows[i] - self._starts[b])]
        return names


class _Mapped(Sequence[Block]):
    """The blocks of the shards and the names of their rows, mapped on first use and kept: files may be replaced."""

    def __init__(self, group: ShardGroup) -> None:
        self._group = group
        self._open: list[Block | None] = [None] * len(group.manifest.shards)
        self._names: dict[int, Names] = {}

    def __len__(self) -> int:
        return len(self._open)

    def __iter__(self) -> Iterator[Block]:
        return (self[b] for b in range(len(self)))

    def __getitem__(self, b: Any) -> Any:
        block = self._open[b]
        if block is None:
            manifest = self._group.manifest
            block = self._open[b] = block_from(self._map(b), manifest.shards[b], manifest)
        return block

    def names(self, b: int) -> Names | None:
        """The names of the rows of a shard, if it has any."""
        if "names.ends" not in self._group.manifest.shards[b].data["arrays"]:
            return None
        if b not in self._names:
            self._map(b)
        return self._names[b]

    def _map(self, b: int) -> Arrays:
        shard = self._group.manifest.shards[b]
        arrays = self._group.storage.map(shard.data)
        self._names[b] = Names([(shard.rows, arrays)])
        return arrays
