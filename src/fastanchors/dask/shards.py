"""Some consecutive shards of a store, mapped by the process that answers for them."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from ..fas.bounds import Part, Sketch
from ..sampling.dense_block import DenseBlock
from ..sampling.matrix import SampleMatrix
from ..sampling.row_block import Block
from ..sampling.sparse_block import SparseBlock
from ..store.manifest import Manifest
from ..store.names import Names
from ..store.storage import Storage
from .tasks import Kept

__all__ = ["Shards"]


class Shards(Kept):
    """Shards ``low`` to ``high`` − 1 of a store. Moving it to another process moves the names of files."""

    def __init__(self, storage: Storage, manifest: Manifest, low: int, high: int) -> None:
        self.storage = storage
        self.shards = manifest.shards[low:high]
        self.columns, self.sparse, self.normalize = manifest.columns, manifest.sparse, manifest.normalize
        self.fas = manifest.extras.get("fas")

    def __getstate__(self) -> dict[str, Any]:
        return {key: value for key, value in self.__dict__.items() if key not in ("arrays", "blocks", "matrix")}

    @cached_property
    def arrays(self) -> list[Any]:
        """The arrays of each shard."""
        return [self.storage.map(shard.data) for shard in self.shards]

    @cached_property
    def blocks(self) -> list[Block]:
        """Each shard as a block of the sample model."""
        kind = SparseBlock if self.sparse else DenseBlock
        l1 = self.normalize == "l1"
        pairs = zip(self.arrays, self.shards, strict=True)
        return [kind.from_arrays(arrays, (shard.rows, self.columns), l1=l1) for arrays, shard in pairs]

    @cached_property
    def matrix(self) -> SampleMatrix:
        """All these shards as one matrix."""
        return SampleMatrix.from_blocks(self.blocks, self.normalize)  # type: ignore[arg-type]

    def kept_sketch(self) -> Sketch:
        """The sketch beside the shards."""
        assert self.fas is not None
        parts, start = [], 0
        for shard in self.shards:
            arrays = self.storage.map(shard.extras["fas"])
            parts.append(Part(start, *(np.asarray(arrays[name]) for name in ("coordinates", "left", "norms"))))
            start += shard.rows
        return Sketch(np.asarray(self.storage.map(self.fas)["V"]), parts)

    def name_of(self, b: int, row: int) -> str | None:
        """The name of a row of a shard."""
        arrays = self.arrays[b]
        return Names([(self.shards[b].rows, arrays)])[row] if "names.ends" in arrays else None
