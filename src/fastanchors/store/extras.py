"""Extras: further arrays kept beside each shard, made in the same pass from the same rows in memory.

An index or a sketch of the rows lives here. It has arrays *shared* by the whole store (written once, with the first
shard) and arrays per shard. Each file has its own checksums; a reader that does not know an extra ignores it. Those of
a shard describe its rows as they were when it was written: rows changed since are in ``Store.changed_rows``.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from numpy.typing import NDArray

from ..sampling.block import Block
from .arrays_file import write_arrays
from .manifest import Manifest

__all__ = [
    "Extra",
    "default_extras",
    "load_extra",
    "register_extra",
    "shared_only",
    "whole_extras",
    "whole_name",
    "whole_of",
    "write_whole",
]

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

    # An extra may also have ``finish(store) -> Arrays | None``: arrays about the whole store as it is now, asked for at
    # the end of a build and by compaction. They are kept with that generation; rows changed since are in
    # ``Store.changed_rows``, rows appended since are beyond what the arrays know. And ``worth_keeping(store) -> bool``:
    # where it says no at the end of a build, the arrays beside the shards have served their purpose and are removed.
    # An extra that knows from ``prepare`` on that it will say no sets ``fleeting``, and they are not made durable.


_LOADERS: dict[str, Callable[[Arrays], Extra]] = {}
# Extras that this library makes by default: name -> the module that makes (``FasExtra``) and loads them. By name, so
# that the store does not depend on what is kept in it.
_OWN = {"fas": ("fastanchors.fas.sidecar", "FasExtra")}


_WHOLE = ".whole"
_WHOLE_FILE = re.compile(r"whole-(\d{6,})\.")
_SMALL = 1 << 16  # entries of a matrix that is read whole faster than an index of it


def default_extras(shape: tuple[int | None, int]) -> list[Extra]:
    """Fresh extras for a build of that size (None: not known yet)."""
    if shape[0] is not None and shape[0] * shape[1] <= _SMALL:
        return []
    return [getattr(importlib.import_module(module), kind)() for module, kind in _OWN.values()]


def write_whole(store: Any, extras: Sequence[Extra], generation: int) -> dict[str, dict[str, Any]]:
    """Write what each extra has to say of the whole store; the descriptions of the files, for the manifest."""
    described = {}
    for extra in extras:
        finish = getattr(extra, "finish", None)
        arrays = finish(store) if finish is not None else None
        if arrays is not None:
            file = store.path / f"whole-{generation:06d}.{extra.name}.bin"
            described[whole_name(extra.name)] = write_arrays(file, arrays) | {"generation": generation}
    return described


def whole_of(manifest: Manifest, name: str) -> dict[str, Any] | None:
    """The description of what an extra keeps about the whole store; None unless it was made for this generation.

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


def whole_extras(store: Any) -> list[Extra]:
    """The extras that have something to say of the whole store, those without arrays beside the shards too."""
    known = {extra.name: extra for extra in store.extras()}
    for name in _OWN:
        if name not in known and whole_name(name) in store.manifest.extras:
            extra = load_extra(name, {})
            if extra is not None:
                known[name] = extra
    return list(known.values())


def whole_name(name: str) -> str:
    """The key in the manifest of what an extra keeps about the whole store."""
    return name + _WHOLE


def shared_only(extras: Mapping[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Of the extras of a manifest those that hold for every generation: what shards share."""
    return {name: description for name, description in extras.items() if not name.endswith(_WHOLE)}


def register_extra(name: str, load: Callable[[Arrays], Extra]) -> None:
    """Say how an extra is made again from its shared arrays, so that append and compaction keep it up."""
    _LOADERS[name] = load


def load_extra(name: str, shared: Arrays) -> Extra | None:
    """The extra of that name, or None if this release does not know it."""
    load = importlib.import_module(_OWN[name][0]).load if name in _OWN else _LOADERS.get(name)
    return load(shared) if load else None
