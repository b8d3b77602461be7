"""Sidecars: further files of a store, such as an index, made from the same blocks of rows in the same pass.

The store knows nothing of what a sidecar is for. A build is given the sidecars to make (:class:`Sidecar` objects), a
writer the kinds that it can keep up to date (:class:`Sidecar` classes); a sidecar that is not kept up to date is left
out of new shards, and what it said about the whole store is removed by the next compaction.

A sidecar has three kinds of arrays: those shared by all shards, those of each shard, and those about the whole store.
The latter describe the rows of one generation: :meth:`SidecarHost.sidecar_arrays` returns them together with the cursor
of that state, and ``store.changes_since(cursor)`` says which rows have changed since.
"""

from __future__ import annotations

import re
import sys
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from numpy.typing import NDArray

from ..sampling.row_block import Block
from .arrays_file import write_arrays
from .manifest import Manifest

__all__ = ["Arrays", "Sidecar", "SidecarHost", "shared_only", "whole_name", "whole_of", "write_whole"]

Arrays: TypeAlias = Mapping[str, NDArray[Any]]

_WHOLE = ".whole"
_WHOLE_FILE = re.compile(r"whole-(\d{6,})\.")


class Sidecar(ABC):
    """One sidecar of a store in the making, or of one that is open for writing.

    Attributes
    ----------
    name : str
        Short, stable, fit for a file name; the same for all sidecars of a kind.
    temporary : bool
        Whether the arrays of the shards serve the build alone: they are then not made durable.
    rows_at_hand : bool
        Whether :meth:`finish` may read the rows again at little cost; a build says so before :meth:`begin`.
    """

    name: str
    temporary: bool = False
    rows_at_hand: bool = False

    @classmethod
    @abstractmethod
    def load(cls, shared: Arrays) -> Sidecar:
        """The sidecar of an existing store, from what :meth:`begin` returned (empty where that was not kept)."""

    def wanted(self, shape: tuple[int | None, int]) -> bool:
        """Whether a matrix of that shape (rows not known: None) gets this sidecar at all."""
        return True

    @abstractmethod
    def begin(self, block: Block) -> Arrays:
        """Called once, with the first block of a build: the arrays shared by all shards."""

    @abstractmethod
    def add_block(self, block: Block, first_row: int) -> Arrays:
        """The arrays of one shard. Called from several threads, after :meth:`begin`."""

    def finish(self, store: Any) -> Arrays | None:
        """Arrays about the whole store, whose blocks are all written; None for none. The end of a build."""
        return None

    def keep_shards(self, store: Any) -> bool:
        """Whether the arrays of the shards stay after the build."""
        return not self.temporary

    @classmethod
    def check(cls, store: Any) -> None:
        """Raise ``ValueError`` where what the sidecar says of the store cannot be so. Called by ``fa.verify``.

        ``store`` shows the rows that the sidecar describes, without changes made since.
        """
        return

    def compact(self, store: Any) -> Arrays | None:
        """The same as :meth:`finish` for a store that is written anew, changes included."""
        return self.finish(store)


class SidecarHost(ABC):
    """What has sidecars to read: a store.

    Attributes
    ----------
    memory_limit : int
        Bytes that making a sidecar may hold.
    rows_marked : int
        Rows that are marked in this process at a time, at most; fewer than all where other processes hold them.
    """

    memory_limit: int = 1 << 30
    rows_marked: int = sys.maxsize

    @property
    @abstractmethod
    def shape(self) -> tuple[int, int]:
        """Numbers of rows and columns."""

    @abstractmethod
    def shared_arrays(self, name: str) -> Arrays | None:
        """The arrays that the shards share; None where the store has no such sidecar."""

    @abstractmethod
    def sidecar_arrays(self, name: str) -> tuple[Arrays, int] | None:
        """The arrays about the whole store, and the cursor of the rows they describe; None where there are none."""


def write_whole(folder: Any, wholes: Mapping[str, Arrays | None], generation: int) -> dict[str, dict[str, Any]]:
    """Write what sidecars say about the whole store; the descriptions of the files, for the manifest."""
    described = {}
    for name, arrays in wholes.items():
        if arrays is not None:
            file = folder / f"whole-{generation:06d}.{name}.bin"
            described[whole_name(name)] = write_arrays(file, arrays) | {"generation": generation}
    return described


def whole_of(manifest: Manifest, name: str) -> dict[str, Any] | None:
    """The description of what a sidecar says about the whole store; None unless it was made for this generation.

    Each generation has its own list of changes, so that arrays made for an earlier one would never hear of theirs.
    """
    description = manifest.extras.get(whole_name(name))
    if description is None:
        return None
    made_for = description.get("generation")
    if made_for is None:  # files of earlier releases say it in their name
        number = _WHOLE_FILE.match(description["file"])
        made_for = int(number[1]) if number else None
    return description if made_for == manifest.generation else None


def whole_name(name: str) -> str:
    """The key in the manifest of what a sidecar says about the whole store."""
    return name + _WHOLE


def shared_only(extras: Mapping[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Of the files in a manifest those that hold for every generation: what shards share."""
    return {name: description for name, description in extras.items() if not name.endswith(_WHOLE)}


def loaded(kinds: Sequence[type[Sidecar]], host: SidecarHost, manifest: Manifest, *, shards: bool) -> list[Sidecar]:
    """The sidecars of those kinds that a store has; with ``shards`` only those with arrays beside the shards."""
    sidecars = []
    for kind in kinds:
        shared = host.shared_arrays(kind.name)
        if shared is not None or (not shards and whole_name(kind.name) in manifest.extras):
            sidecars.append(kind.load({} if shared is None else shared))
    return sidecars
