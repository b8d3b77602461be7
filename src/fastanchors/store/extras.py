"""Extras: further arrays kept beside each shard, made in the same pass from the same rows in memory.

An index or a sketch of the rows lives here. It has arrays *shared* by the whole store (written once, with the first
shard) and arrays per shard. Each file has its own checksums; a reader that does not know an extra ignores it. Those of a
shard describe its rows as they were when it was written: rows changed since are in ``Store.changed_rows``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from numpy.typing import NDArray

from ..sampling.block import Block

__all__ = ["Extra", "load_extra", "register_extra"]

Arrays = Mapping[str, NDArray[Any]]


class Extra(Protocol):
    """Something kept beside each shard."""

    @property
    def name(self) -> str:
        """Short, stable, fit for a file name."""
        ...

    def prepare(self, block: Block) -> Arrays:
        """Called once, with the first block of a build: the arrays shared by all shards."""
        ...

    def shard(self, block: Block, first_row: int) -> Arrays:
        """The arrays of one shard. Called from several threads, after ``prepare``."""
        ...


_LOADERS: dict[str, Callable[[Arrays], Extra]] = {}


def register_extra(name: str, load: Callable[[Arrays], Extra]) -> None:
    """Say how an extra is made again from its shared arrays, so that append and compaction keep it up."""
    _LOADERS[name] = load


def load_extra(name: str, shared: Arrays) -> Extra | None:
    """The extra of that name, or None if this release does not know it."""
    load = _LOADERS.get(name)
    return load(shared) if load else None
