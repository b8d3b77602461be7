"""``fa.build`` of a Dask array: one task per block of rows writes its shards to the shared path.

A task writes into its own directory beside the shards, syncs, and renames each complete file into place. File names
depend only on the blocks, so a retried task writes the same names and the same bytes. At the end the client numbers the
shards in order, writes the manifest and publishes the store with one rename. The result does not depend on which worker
wrote what, and no partial shard is ever visible.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import sys
import time
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from .._parallel import map_ordered, one_blas_thread
from ..errors import StoreError
from ..io.arrays import add_names
from ..io.name_spool import NameSpool
from ..io.row_source import Source, numeric_dtype, rebatch
from ..io.scratch import TemporaryFolder
from ..matrix.contract import Rows
from ..store.arrays_file import write_arrays
from ..store.build import Progress, _Build
from ..store.files import disk_errors, sync_directory
from ..store.manifest import Manifest, Shard
from ..store.shard_rows import block_of, bytes_of_names, check_rows, row_overhead, shard_bytes, write_shard
from ..store.sidecars import Sidecar
from ..store.storage import Directory, ObjectStorage
from .collection import Collection, as_block
from .remote_store import RemoteStore
from .tasks import Pool

__all__ = ["DaskBuild", "DaskSource", "dask_source"]

_MANY = 4096  # from this many blocks on, each becomes one shard if memory allows: the manifest stays small
_RENAMING = 16  # concurrent renames: on shared storage each is a round trip


def dask_source(lazy: Any, *, row_names: Any = None, column_names: Any = None) -> DaskSource:
    """The rows of a Dask array (dense or sparse), or of a data frame, whose index names them unless it only counts."""
    return DaskSource(lazy, row_names, column_names)


class DaskSource(Source):
    """The rows of a Dask array or data frame, as a source of blocks.

    Attributes
    ----------
    collection
        Collection
    starts : list of int
        The first row of each block, then the total number of rows.
    named_from : int or None
        The first partition whose index names its rows, as those after it do.
    """

    def __init__(self, lazy: Any, row_names: Any, column_names: Any) -> None:
        self.collection = made = Collection(lazy, Pool(), row_names, column_names)
        made.count_rows()
        self.starts = made.starts
        self.named_from = made.named_from
        known, shape = made.layout, (made.starts[-1], made.layout.columns)
        names: Any = {"row_names": made.row_names, "column_names": made.column_names}
        super().__init__(known.name, shape, known.dtype, made.is_sparse, self._stream, **names)

    def _stream(self, max_bytes: int) -> Iterator[Rows]:
        """The blocks in order, in this process: for a consumer that is not on the workers."""
        if self.named_from is not None:
            self.row_names = NameSpool()
        seen = False
        for number, (start, stop) in enumerate(self.bounds()):
            known = (number, stop - start, self.shape[1], self.name)
            ((rows, labels),) = self.collection.each("block", _labelled, [number], [known])
            if self.named_from is not None:
                add_names(self, labels if number >= self.named_from else None, start, stop - start)
            if rows.shape[0]:  # empty blocks may have any kind and type
                if not seen:
                    self.is_sparse, seen = sp.issparse(rows), True  # Dask often declares sparse blocks dense
                yield rows
            del rows, labels

    def bounds(self) -> list[tuple[int, int]]:
        """(first row, last row + 1) of each block."""
        return list(pairwise(self.starts))

    @property
    def builder(self) -> type[DaskBuild]:
        """The class that builds a store from this source."""
        return DaskBuild


def _labelled(block: Any, *known: Any) -> tuple[Rows, Any]:
    """The rows of a block, and the index of a data frame."""
    return as_block(block, *known), getattr(block, "index", None)


class _Plan(NamedTuple):
    """The settings every task of a build receives."""

    folder: str
    normalize: str | None
    columns: bool
    shard_bytes: int
    name: str
    width: int
    named_from: int | None
    name_bytes: int
    storage: ObjectStorage | None = None  # used instead of the folder
    prefix: str = ""  # of the file names there
    mark: str = ""  # the object that is there as long as the build runs


class _Head(NamedTuple):
    """What the first block determines for all: kind and dtype of the entries, shared sidecar data."""

    sparse: bool
    dtype: str
    sidecars: Sequence[Sidecar]
    shared: dict[str, Any]


class DaskBuild(_Build):
    """One build on workers, in its temporary directory on the shared path."""

    source: DaskSource
    storage: ObjectStorage | None = None
    prefix = mark = ""

    def run(self) -> None:
        source, collection = self.source, self.source.collection
        folder = os.path.abspath(self.folder)
        inside = source.named_from
        named = bytes_of_names([] if inside is not None and source.row_names is None else source.row_names)
        size = shard_bytes(self.memory_limit, sys.maxsize) if collection.count >= _MANY else self.shard_bytes
        view = (self.normalize, self.columns, size)
        plan = _Plan(folder, *view, source.name, source.shape[1], inside, named, self.storage, self.prefix, self.mark)
        rows = list(source.bounds())
        names = source.row_names
        own = [(i, low, high - low, None if names is None else names[low:high]) for i, (low, high) in enumerate(rows)]
        at = next(i for i, (start, stop) in enumerate(rows) if stop > start)
        # The task that examines the first block also writes it, so that the block is computed once.
        ((head, first),) = collection.each("prepare", _begin, [at], own[at : at + 1], (plan, list(self.sidecars)))
        source.is_sparse, source.dtype = head.sparse, np.dtype(head.dtype)
        self.sidecars = head.sidecars
        for name, arrays in head.shared.items():
            self.shared[name] = self._shared_file(write_arrays(self.folder / f"{name}.bin", arrays))
        head = head._replace(shared={})
        rest = range(at + 1, collection.count)
        written = collection.each("shard", _write_block, rest, own[at + 1 :], (plan, head)) if rest else []
        self._number([shard for shards in [first, *written] for shard in shards])
        if self.progress is not None:  # Dask reports every task itself; this reports once
            size = sum(shard.data["bytes"] for shard in self.shards.values())
            seconds = time.perf_counter() - self.started
            self.progress(Progress(source.starts[-1], source.starts[-1], size, seconds))

    def _shared_file(self, description: dict[str, Any]) -> dict[str, Any]:
        """Make a file that was written here visible to the workers."""
        return description

    def _number(self, shards: list[Shard]) -> None:
        """Number the shards in order, and remove the files of killed attempts."""

        def rename(number: int, shard: Shard) -> None:
            for description in shard.files():
                _, _, rest = description["file"].partition("-shard-")
                name = f"shard-{number:06d}{rest[rest.index('.') :]}"
                with disk_errors(self.folder / name, "write"):
                    os.replace(self.folder / description["file"], self.folder / name)
                description["file"] = name

        map_ordered(rename, enumerate(shards), n_jobs=_RENAMING)
        self.shards = dict(enumerate(shards))
        self.rows = sum(shard.rows for shard in shards)
        for left in [*self.folder.glob("aside-*"), *self.folder.glob("block-*")]:
            shutil.rmtree(left, ignore_errors=True) if left.is_dir() else left.unlink(missing_ok=True)

    @property
    def bytes_moved(self) -> int:  # type: ignore[override]
        return self.source.collection.cost.bytes_moved

    def open(self, manifest: Manifest) -> Any:
        """The unfinished store, for the sidecars: read by the workers, or by threads of this process."""
        folder = Directory(self.folder, unfinished=True)
        return RemoteStore(folder, self.source.collection.pool, self.memory_limit, manifest)


def _begin(
    block: Any, number: int, first_row: int, length: int, names: list[str] | None, plan: _Plan, sidecars: list[Sidecar]
) -> tuple[_Head, list[Shard]]:
    """The head that the first block determines, and its shards."""
    head = _prepare(as_block(block, number, length, plan.width, plan.name), plan, sidecars)
    return head, _write_block(block, number, first_row, length, names, plan, head)


def _prepare(rows: Rows, plan: _Plan, sidecars: list[Sidecar]) -> _Head:
    sparse, dtype = sp.issparse(rows), numeric_dtype(rows.dtype, plan.name)
    shared = {}
    if sidecars:
        with one_blas_thread():  # as in the whole build: the same bytes on all machines of one type
            piece = next(_pieces(rows, sparse, dtype, plan, sidecars, 0))
            made = block_of(piece, plan.normalize, plan.columns)
            shared = {sidecar.name: dict(sidecar.begin(made)) for sidecar in sidecars}
    return _Head(sparse, dtype.str, sidecars, shared)


def _pieces(rows: Rows, sparse: bool, dtype: Any, plan: _Plan, sidecars: Sequence[Sidecar], first_row: int) -> Any:
    """The block, checked and cast to the common dtype, in pieces of about one shard each."""
    where = f"{plan.name}, rows from {first_row}" if first_row else plan.name
    source = Source(where, (None, plan.width), dtype, sparse, lambda _: [rows])
    row_bytes = row_overhead(source, sidecars, plan.name_bytes)  # as on one machine, for the same shards
    for piece in rebatch(source.blocks(signed=plan.normalize is None), 2 * plan.shard_bytes, row_bytes=row_bytes):
        check_rows(piece, plan.normalize, first_row)
        yield piece
        first_row += piece.shape[0]


def _write_block(
    block: Any, number: int, first_row: int, length: int, names: list[str] | None, plan: _Plan, head: _Head
) -> list[Shard]:
    """Write the shards of one block; each file is complete before it gets its name."""
    rows = as_block(block, number, length, plan.width, plan.name)
    if length == 0:
        return []
    if plan.named_from is not None and number >= plan.named_from:
        names = [str(name) for name in block.index]
    shards, begin, uploaded = [], 0, list[str]()
    try:
        with _attempt(plan) as aside, disk_errors(aside, "write"), one_blas_thread():
            pieces = _pieces(rows, head.sparse, np.dtype(head.dtype), plan, head.sidecars, first_row)
            for at, piece in enumerate(pieces):
                end = begin + piece.shape[0]
                made = block_of(piece, plan.normalize, plan.columns)
                known = names[begin:end] if names is not None else None
                shard = write_shard(aside, at, made, known, head.sidecars, first_row + begin)
                for description in shard.files():
                    name = f"{plan.prefix}block-{number:06d}-{description['file']}"
                    if plan.storage is None:
                        os.replace(aside / description["file"], aside.parent / name)
                    else:
                        uploaded.append(name)
                        plan.storage.put(aside / description["file"], name)
                        (aside / description["file"]).unlink()
                    description["file"] = name
                shards.append(shard)
                begin = end
            if plan.storage is None:
                sync_directory(aside.parent)
    finally:
        if plan.storage is not None:
            _check_running(plan.storage, plan.mark, uploaded)
    return shards


def _check_running(storage: ObjectStorage, mark: str, uploaded: list[str]) -> None:
    """Remove the files of this task, and raise, if its build has failed meanwhile; the client removes all before.

    Both look after they have written, so that one of them finds every file. A task can also run again after its store
    was committed, if Dask took its worker for lost. Such files are part of the store.
    """
    if storage.has(mark):
        return
    committed = storage.manifest().files() if storage.generation() else set[str]()
    storage.remove([name for name in uploaded if name not in committed])
    raise StoreError(
        f"a worker does not find {storage}/{mark}, which the client created: the build has ended meanwhile, or they do "
        "not share this storage (memory:// is a different one in each process); pass an address that all workers reach"
    )


@contextlib.contextmanager
def _attempt(plan: _Plan) -> Iterator[Path]:
    """A directory for the files of one attempt at a block: beside the shards, or on the worker's own disk."""
    if plan.storage is not None:
        with TemporaryFolder("block") as own:
            yield Path(own)
        return
    folder = Path(plan.folder)
    if not folder.exists():
        raise StoreError(f"{folder} does not exist on a worker; pass a path that all workers share")
    aside = folder / f"aside-{secrets.token_hex(8)}"
    with disk_errors(aside, "write"):
        aside.mkdir()
    try:
        yield aside
    finally:
        shutil.rmtree(aside, ignore_errors=True)
