"""Build, open and verify stores that contain the index of ``FAS()``: ``fa.build``, ``fa.open``, ``fa.verify``."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any, Literal

from .._openers import opener
from .._validate import check_callable, check_flag, check_size
from ..store import build as _build
from ..store import open as _open
from ..store.build import DEFAULT_MEMORY, Progress
from ..store.object_files import verify_objects
from ..store.sidecars import Sidecar
from ..store.storage import is_object_address
from ..store.store import Store
from ..store.verify import verify as _verify
from .noise_aware import CoordinatesSidecar
from .sidecar import FasSidecar

__all__ = ["build", "open", "verify"]


def build(
    source: Any,
    path: str | os.PathLike[str],
    *,
    normalize: str | None = "auto",
    columns: bool | None = None,
    memory_limit: int = DEFAULT_MEMORY,
    overwrite: bool = False,
    progress: Callable[[Progress], None] | None = None,
    directions: int | None = None,
    sidecars: Sequence[Sidecar] | None = None,
    metadata: dict[str, Any] | None = None,
    n_jobs: int | None = None,
    **options: Any,
) -> Store:
    """Build a store: the sample model of the paper (Proposition 1) on disk, larger than memory.

    Reads the source once, in blocks of rows. Each block becomes a shard with both orientations and its sum trees. The
    store is written to a temporary directory beside ``path``, which is renamed when everything is written and synced.
    So a build appears whole or not at all, and an interrupted one leaves nothing behind.

    Parameters
    ----------
    source : array, sparse matrix, path, iterator of row blocks, Dask array or data frame
        Anything that :func:`fastanchors.io.open_source` reads. The workers of a Dask source write the shards.
    path : str or path
        The directory to create; for a Dask source one that all workers share. Or an address in object storage,
        such as ``s3://bucket/x.store``.
    normalize : "auto", "l1" or None
        ``"l1"`` for the view with rows of unit l1 norm; ``None`` also accepts signed entries. ``"auto"`` is ``"l1"``,
        but a source that is a store or a :class:`~fastanchors.SampleMatrix` keeps its own normalisation.
    columns : bool or None
        False omits the column side: less space, but no draws from columns. None is True, or as in a source that is a
        store.
    memory_limit : int
        Bytes the build may hold at a time (besides the interpreter itself).
    overwrite : bool
        Replace an existing store, in one step at the end; no other writer may have it open.
    progress : callable or None
        Called with a :class:`~fastanchors.store.Progress` after each shard, from the calling thread.
    directions : int or None
        Number of directions whose coordinates are kept, for noise-aware seeks of up to ``directions`` + 1 anchors. None
        is 32, or as many as a source that is a store has.
    sidecars : sequence of Sidecar or None
        Further files to make from the same blocks. By default the index of ``FAS()``, which makes seeks fast; ``()``
        for none.
    metadata : dict or None
        Stored in the manifest (JSON). None for that of a source that is a store; ``{}`` for none.
    n_jobs : int or None
        Number of threads; None for all cores that this process may use. The store does not depend on it.
    **options
        Passed on to the reader, such as ``row_names`` or ``variable``.

    Returns
    -------
    Store
        Open for reading; the first change takes the writer's lock.

    Examples
    --------
    >>> import tempfile, numpy as np, fastanchors as fa
    >>> with tempfile.TemporaryDirectory() as folder, fa.build(np.eye(4), folder + "/eye.store") as S:
    ...     S.shape
    (4, 4)
    """
    kept = None if directions is None else check_size(directions, name="directions")
    check_callable(progress, name="progress")
    check_flag(overwrite, name="overwrite")
    make = opener("object build") if is_object_address(path) else _build
    store: Store = make(
        source,
        path,
        normalize=normalize,
        columns=columns,
        memory_limit=memory_limit,
        overwrite=overwrite,
        progress=progress,
        sidecars=[FasSidecar(), CoordinatesSidecar(kept)] if sidecars is None else sidecars,
        metadata=metadata,
        n_jobs=n_jobs,
        **options,
    )
    return store


def open(
    path: str | os.PathLike[str],
    mode: Literal["r", "r+"] = "r",
    *,
    memory_limit: int = DEFAULT_MEMORY,
    sidecars: Sequence[type[Sidecar]] | None = None,
) -> Store:
    """Open a store; costs milliseconds for any size, plus the replay of its journal.

    Parameters
    ----------
    path : str or path
        The directory that :func:`fastanchors.build` made, or an address such as ``s3://bucket/x.store``, whose files
        are fetched into a local cache when they are needed.
    mode : "r" or "r+"
        ``"r"`` to read the last committed state; ``"r+"`` to change it, one writer at a time.
    memory_limit : int
        Bytes of changed pages and unfinished shards that a writer may hold before it compacts.
    sidecars : sequence of Sidecar classes or None
        The kinds of sidecars that a writer keeps up to date, by default the index of ``FAS()``; it does not write
        others.

    Examples
    --------
    >>> import tempfile, numpy as np, fastanchors as fa
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     fa.build(np.eye(4), folder + "/eye.store").close()
    ...     with fa.open(folder + "/eye.store") as S:
    ...         S[2, 2]
    1.0
    """
    kinds: Sequence[type[Sidecar]] = [FasSidecar, CoordinatesSidecar] if sidecars is None else sidecars
    load = opener("object store") if is_object_address(path) else _open
    store: Store = load(path, mode, memory_limit=memory_limit, sidecars=kinds)
    return store


def verify(path: str | os.PathLike[str], *, progress: Callable[[int, int], None] | None = None) -> dict[str, Any]:
    """Check a whole store: manifest, checksums of every file, the journal, names, every sum of every tree, the index.

    Reads every byte once and holds one shard in memory at a time. Run it while no writer compacts the store.

    Parameters
    ----------
    path : str or path
        The directory of the store, or its address.
    progress : callable or None
        Called after each shard with the number of rows checked and the total number of rows.

    Returns
    -------
    dict
        A summary: path, generation, rows, columns, shards, bytes, commits, uncommitted_bytes.

    Raises
    ------
    CorruptStoreError
        If something is wrong; the message names the file.

    Examples
    --------
    >>> import tempfile, numpy as np, fastanchors as fa
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     fa.build(np.eye(4), folder + "/eye.store").close()
    ...     fa.verify(folder + "/eye.store")["rows"]
    4
    """
    check_callable(progress, name="progress")
    check: Callable[..., dict[str, Any]] = verify_objects if is_object_address(path) else _verify
    return check(path, progress=progress, sidecars=[FasSidecar, CoordinatesSidecar])
