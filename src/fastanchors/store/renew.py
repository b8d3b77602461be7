"""Renew sidecars after a commit: write their arrays to new files, and replace the manifest by one that names these.

Rows, journal and generation stay the same. The new arrays name the generation and the commit whose rows they describe.
After a crash the manifest names either the old files or the new ones; the next writer removes the others.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from ..errors import StoreError
from .files import disk_errors, remove_file, sync_directory
from .manifest import Manifest
from .sidecars import write_whole

__all__ = ["renew"]


def renew(store: Any, commit: int) -> Manifest | None:
    """Write the stale sidecars of ``store``, whose rows are those of a commit; None if there are none.

    Returns the new manifest, which is in place. The caller holds the writer's lock.
    """
    made = {sidecar.name: sidecar.renew(store) for sidecar in store.sidecars(shards=False)}
    if all(arrays is None for arrays in made.values()):
        return None
    store._write_here()
    old = store.manifest
    files = []
    with disk_errors(store.path, "renew the sidecars of"):
        try:
            wholes = write_whole(store.path, made, old.generation, commit)
            files = [store.path / description["file"] for description in wholes.values()]
            sync_directory(store.path)  # the names are durable before the manifest refers to them
            manifest = dataclasses.replace(old, extras=old.extras | wholes)
            manifest.write(store.path)
        except BaseException:
            if _in_place(store, old):
                for file in files:
                    remove_file(file)
            raise
    return manifest


def _in_place(store: Any, manifest: Manifest) -> bool:
    """Whether the manifest on disk is certainly this one."""
    try:
        return Manifest.read(store.path) == manifest
    except (StoreError, OSError):
        return False
