"""Sidecars: additional files of a store, such as an index, computed from the same blocks of rows in the same pass.

The store does not know the purpose of a sidecar. A build takes the sidecars to make (:class:`Sidecar` objects), a
writer takes the kinds that it keeps up to date (:class:`Sidecar` classes). A sidecar that is not kept up to date is
missing in new shards, and its whole-store arrays are removed by the next compaction.

A sidecar has three kinds of arrays: those shared by all shards, those of each shard, and those of the whole store. The
last describe the rows of one generation after a number of its commits (0 unless a writer has renewed them):
:meth:`SidecarHost.sidecar_arrays` returns them together with the cursor of that state, and
``store.changes_since(cursor)`` returns the rows that have changed since.
"""

from __future__ import annotations

import dataclasses
import re
import sys
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from typing import Any, TypeAlias

from numpy.typing import NDArray

from ..errors import InvalidTypeError, one_line
from ..sampling.row_block import Block
from .arrays_file import write_arrays
from .manifest import Manifest

__all__ = [
    "Arrays",
    "Sidecar",
    "SidecarHost",
    "check_sidecars",
    "check_types",
    "commit_of",
    "loaded",
    "shared_only",
    "whole_name",
    "whole_of",
    "without_later",
    "write_whole",
]

Arrays: TypeAlias = Mapping[str, NDArray[Any]]

_WHOLE = ".whole"
_WHOLE_FILE = re.compile(r"whole-(\d{6,})\.")


def check_types(arrays: Arrays, integers: Collection[str], entries: Collection[str] = ()) -> None:
    """Raise ``ValueError`` unless those arrays hold integers, ``entries`` real numbers, and all others floats."""
    for name, array in arrays.items():
        kinds = "iuf" if name in entries else "i" if name in integers else "f"
        if array.dtype.kind not in kinds:
            raise ValueError(f"its array {name!r} holds {array.dtype}")


class Sidecar(ABC):
    """One sidecar of a store that is being built or is open for writing.

    Attributes
    ----------
    name : str
        Short and stable, used in file names; the same for all sidecars of a class.
    temporary : bool
        Whether the arrays of the shards are only used by the build; they are then not synced.
    rows_at_hand : bool
        Whether :meth:`finish` can read the rows again cheaply; a build sets it before :meth:`begin`.
    remote : bool
        Whether the store is in object storage, where a reader without the arrays fetches every shard.
    memory_limit : int
        Bytes of memory that a build or a writer may use; it sets this before any other use.
    """

    name: str
    temporary: bool = False
    rows_at_hand: bool = False
    remote: bool = False
    memory_limit: int = 1 << 30

    @classmethod
    @abstractmethod
    def load(cls, shared: Arrays) -> Sidecar:
        """The sidecar of an existing store, from the result of :meth:`begin` (empty if that was not stored)."""

    def row_bytes(self, columns: int) -> int:
        """Bytes per row of the arrays of a shard with so many columns; they count in the size of shards."""
        return 0

    def wanted(self, shape: tuple[int | None, int]) -> bool:
        """Whether to make this sidecar for a matrix of that shape (None: unknown number of rows)."""
        return True

    def take_over(self, source: SidecarHost) -> None:
        """Take over settings that were not given. Called before :meth:`begin` by a build whose source is a store."""
        return

    @abstractmethod
    def begin(self, block: Block) -> Arrays:
        """The arrays shared by all shards. Called once, with the first block of a build."""

    @abstractmethod
    def add_block(self, block: Block, first_row: int) -> Arrays:
        """The arrays of one shard, if any. Called from several threads, after :meth:`begin`."""

    def finish(self, store: Any) -> Arrays | None:
        """Arrays of the whole store, or None. Called at the end of a build, when all blocks are written."""
        return None

    def keep_shards(self, store: Any) -> bool:
        """Whether the arrays of the shards are kept after the build."""
        return not self.temporary

    @classmethod
    def check(cls, store: Any) -> None:
        """Raise ``ValueError`` if the sidecar does not match the store. Called by ``fa.verify``.

        ``store`` has the rows that the sidecar describes, without later changes.
        """
        return

    def compact(self, store: Any) -> Arrays | None:
        """Like :meth:`finish`, for a compaction of a store with changes."""
        return self.finish(store)

    def extend(self, store: Any) -> Arrays | None:
        """Arrays of the whole store before rows that were appended in object storage are committed, or None.

        ``store`` has these rows too, and the arrays of the state without them, from cursor 0 on.
        """
        return None

    def renew(self, store: Any) -> Arrays | None:
        """New arrays of the whole store if the committed changes made the present ones stale, else None.

        Called by the writer after each commit, so the usual None must be cheap.
        """
        return None


class SidecarHost(ABC):
    """Interface of objects whose sidecars can be read, such as a store.

    Attributes
    ----------
    memory_limit : int
        Bytes of memory that making a sidecar may use.
    rows_marked : int
        Largest number of rows that this process marks at a time; limited if other processes hold the rows.
    manifest : Manifest
        That of the store.
    """

    manifest: Manifest
    memory_limit: int = 1 << 30
    rows_marked: int = sys.maxsize

    @property
    @abstractmethod
    def shape(self) -> tuple[int, int]:
        """Numbers of rows and columns."""

    @abstractmethod
    def shared_arrays(self, name: str) -> Arrays | None:
        """The arrays that all shards share; None if the store has no such sidecar."""

    @abstractmethod
    def sidecar_arrays(self, name: str) -> tuple[Arrays, int] | None:
        """The whole-store arrays, and the cursor of the state they describe; None if there are none."""


def write_whole(
    folder: Any, wholes: Mapping[str, Arrays | None], generation: int, commit: int = 0
) -> dict[str, dict[str, Any]]:
    """Write the whole-store arrays of sidecars; returns the descriptions of the files for the manifest.

    They describe the rows after that many commits of the generation.
    """
    described = {}
    state = {"generation": generation} | ({"commit": commit} if commit else {})
    for name, arrays in wholes.items():
        if arrays is not None:
            number = f"{generation:06d}-{commit:06d}" if commit else f"{generation:06d}"
            described[whole_name(name)] = write_arrays(folder / f"whole-{number}.{name}.bin", arrays) | state
    return described


def whole_of(manifest: Manifest, name: str) -> dict[str, Any] | None:
    """The description of the whole-store arrays of a sidecar; None unless they were made for this generation.

    Each generation has its own log of changes, so changes since an earlier generation are not known.
    """
    description = manifest.extras.get(whole_name(name))
    if description is None:
        return None
    made_for = description.get("generation")
    if made_for is None:  # earlier releases have the generation in the file name only
        number = _WHOLE_FILE.match(description["file"])
        made_for = int(number[1]) if number else None
    return description if made_for == manifest.generation else None


def commit_of(manifest: Manifest, name: str) -> int:
    """The number of commits of the generation that the whole-store arrays of a sidecar include."""
    return int(manifest.extras.get(whole_name(name), {}).get("commit", 0))


def without_later(manifest: Manifest, commits: int) -> Manifest:
    """The manifest without sidecars of more commits than that; the same object if there are none."""
    kept = {key: description for key, description in manifest.extras.items() if description.get("commit", 0) <= commits}
    return manifest if len(kept) == len(manifest.extras) else dataclasses.replace(manifest, extras=kept)


def whole_name(name: str) -> str:
    """The key of the whole-store arrays of a sidecar in the manifest."""
    return name + _WHOLE


def shared_only(extras: Mapping[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """The descriptions in a manifest that are valid for every generation: arrays that shards share."""
    return {name: description for name, description in extras.items() if not name.endswith(_WHOLE)}


def check_sidecars(sidecars: Any, *, kinds: bool = False) -> None:
    """Raise unless these are sidecars for a build, or with ``kinds`` classes of sidecars for a writer."""
    what = "classes of sidecars" if kinds else "sidecars"
    if isinstance(sidecars, str) or not isinstance(sidecars, Sequence):
        raise InvalidTypeError(f"sidecars must be a sequence of {what}, got {one_line(repr(sidecars), 60)}")
    for each in sidecars:
        if not (isinstance(each, type) and issubclass(each, Sidecar) if kinds else isinstance(each, Sidecar)):
            raise InvalidTypeError(f"sidecars must be a sequence of {what}, it has {one_line(repr(each), 60)}")


def loaded(kinds: Sequence[type[Sidecar]], host: SidecarHost, manifest: Manifest, *, shards: bool) -> list[Sidecar]:
    """The sidecars of these kinds that a store has; with ``shards`` only those with arrays per shard."""
    sidecars = []
    for kind in kinds:
        shared = host.shared_arrays(kind.name)
        if shared is not None or (not shards and whole_name(kind.name) in manifest.extras):
            sidecars.append(kind.load({} if shared is None else shared))
            sidecars[-1].memory_limit = host.memory_limit
    return sidecars
