"""``fa.verify``: check all checksums, and all trees against their entries."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ..errors import CorruptStoreError, StoreError
from ..io.addresses import local_path
from ..sampling.row_block import Block
from .arrays_file import check_arrays, map_arrays
from .files import disk_errors
from .journal import Record, read_journal
from .manifest import Manifest, Shard
from .names import check_names
from .shards import map_block
from .sidecars import Sidecar, commit_of
from .store import Store

__all__ = ["verify"]


def verify(
    path: str | os.PathLike[str],
    *,
    progress: Callable[[int, int], None] | None = None,
    sidecars: Sequence[type[Sidecar]] = (),
) -> dict[str, Any]:
    """Check a whole store: manifest, checksums of all files, journal, names, and every sum of every tree.

    Raises :class:`~fastanchors.errors.CorruptStoreError`, which names the file; returns a summary. Reads every byte
    once, with one shard in memory at a time. Do not run it while a writer compacts the store. ``sidecars`` are the
    kinds of sidecars to check too.
    """
    folder = local_path(path)
    manifest = Manifest.read(folder)
    journal = folder / manifest.journal
    with _reading(folder):
        with _present(journal):
            state = read_journal(journal, manifest.generation, strict=True)
        _check_descriptions(folder, manifest.descriptions())
    done, total = 0, manifest.rows

    def check(shard: Shard) -> None:
        nonlocal done
        with _reading(folder):
            block, arrays = map_block(folder, shard, manifest)
        place = folder / shard.data["file"]
        _check_block(block, place)
        _check_names(arrays, place)
        done += shard.rows
        if progress is not None:
            progress(done, total)

    for shard in manifest.shards:  # before the journal is replayed
        check(shard)
    with _reading(folder):
        if manifest.names is not None:
            _check_names(map_arrays(folder, manifest.names), folder / manifest.names["file"])
        _check_sidecars(folder, manifest, state.records, sidecars)
    with Store(folder) as store:
        appended = [shard for shard in store._mapped.shards[len(manifest.shards) :] if shard is not None]
        total += sum(shard.rows for shard in appended)
        for shard in appended:
            with _reading(folder):
                _check_descriptions(folder, shard.files())
            check(shard)
        _check_current(store, journal)
        return {
            "path": str(folder),
            "generation": manifest.generation,
            "rows": store.shape[0],
            "columns": store.shape[1],
            "shards": len(manifest.shards) + len(appended),
            "bytes": sum(item["bytes"] for item in manifest.descriptions()),
            "commits": len(state.records),
            "uncommitted_bytes": state.torn,
        }


@contextmanager
def _reading(folder: Path) -> Iterator[None]:
    """As :func:`disk_errors`; a file that is missing now was removed meanwhile."""
    with disk_errors(folder, "read"):
        try:
            yield
        except FileNotFoundError as error:
            what = f"{error.filename} was removed meanwhile, by a writer of {folder}"
            raise StoreError(f"{what}; verify it again") from None


@contextmanager
def _present(path: Path) -> Iterator[None]:
    """Inside, a missing file is damage; that it cannot be looked at is not."""
    try:
        yield
    except FileNotFoundError:
        raise CorruptStoreError(f"{path} is missing; restore it from a copy") from None


def _check_sidecars(
    folder: Path, manifest: Manifest, records: Sequence[Record], kinds: Sequence[type[Sidecar]]
) -> None:
    """Check each sidecar against the rows that it describes."""
    for kind in kinds:
        commit = commit_of(manifest, kind.name)
        if commit > len(records):
            raise CorruptStoreError(
                f"{folder}: its sidecar {kind.name!r} is of commit {commit}, but its journal has {len(records)}; "
                "restore both from one copy"
            )
        with Store.unwritten(folder, manifest, 1 << 30, records[:commit]) as store:
            try:
                kind.check(store)
            except CorruptStoreError as error:  # of an appended shard, which is checked later
                raise CorruptStoreError(str(error) if str(folder) in str(error) else f"{folder}: {error}") from None
            except (ValueError, KeyError, TypeError, IndexError, OverflowError) as error:
                raise CorruptStoreError(f"{folder}: its sidecar {kind.name!r} is wrong: {error}") from None


def _check_names(arrays: Mapping[str, Any], place: Path) -> None:
    try:
        check_names(arrays)
    except ValueError as error:
        raise CorruptStoreError(f"{place}: {error}; restore it from a copy") from None


def _check_descriptions(folder: Path, descriptions: list[dict[str, Any]]) -> None:
    for description in descriptions:
        with _present(folder / description["file"]):
            check_arrays(folder, description)


def _check_block(block: Block, place: Path) -> None:
    """Check the trees of a block as it is on disk."""
    try:
        block.check()
    except CorruptStoreError as error:
        raise CorruptStoreError(f"{place}: {error}") from None


def _check_current(store: Store, journal: Path) -> None:
    """Check the trees of blocks that the journal has changed or added."""
    try:
        for b in sorted(store._changed_blocks()):
            store._blocks[b].check()
    except CorruptStoreError as error:
        raise CorruptStoreError(f"{journal}, replayed: {error}") from None
