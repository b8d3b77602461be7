"""Renew sidecars after a commit: write their arrays to new files, and replace the manifest by one that names these.

Rows, journal and generation stay the same. The new arrays name the generation and the commit whose rows they describe.
After a crash the manifest names either the old files or the new ones; the next writer removes the others.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from .files import sync_directory
from .manifest import Manifest
from .sidecars import write_whole

__all__ = ["renew"]


def renew(store: Any, commit: int) -> Manifest | None:
    """Write the stale sidecars of ``store``, whose rows are those of a commit; None if there are none.

    Returns the manifest that refers to them, which is not in place yet. The caller holds the writer's lock.
    """
    made = {sidecar.name: sidecar.renew(store) for sidecar in store.sidecars(shards=False)}
    if all(arrays is None for arrays in made.values()):
        return None
    store._write_here()
    wholes = write_whole(store.path, made, store.manifest.generation, commit)
    sync_directory(store.path)  # the names are durable before the manifest refers to them
    return dataclasses.replace(store.manifest, extras=store.manifest.extras | wholes)
