"""The temporary directory of a build, beside the target, and the rename that makes it the store.

A build works in ``.NAME.building-XXXXXXXX`` and holds the lock of that directory, so that a later build can distinguish
running builds from killed ones. To replace a store, it also holds the store's lock from the beginning, so that no
writer can commit to it meanwhile.
"""

from __future__ import annotations

import errno
import glob
import os
import re
import secrets
import shutil
import time
import weakref
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from .._signals import deferred_signals, pass_on
from ..errors import CorruptStoreError, StoreError
from ..io.scratch import SCRATCH
from .files import WriterLock, disk_errors, exchange, sync_directory
from .manifest import Manifest

__all__ = ["Building", "hold", "is_store", "publish", "remove_dead_builds", "restore"]

_ATTEMPTS = 100
_WAITS = 10 * (0.05,)  # seconds between attempts to remove a directory that others may be writing to
_OURS = re.compile(
    rf"(shard|whole)-\d{{6,}}[\w.-]*\.bin|journal-\d{{6,}}\.log|manifest\.json(\.tmp)?|lock|{re.escape(SCRATCH)}.*"
)
_PERHAPS_OURS = re.compile(rf"{_OURS.pattern}|[a-z][\w-]*\.bin")  # if the manifest cannot be read


def hold(target: Path, overwrite: bool) -> WriterLock | None:
    """The writer's lock of the store that is to be replaced; None if there is nothing to replace."""
    for folder in Path(os.path.realpath(target)).parents:  # of links in a circle ``Path.resolve`` raises a RuntimeError
        if is_store(folder):
            raise StoreError(f"{target} is inside the store {folder}, which would be damaged; choose another path")
    if not os.path.lexists(target):
        return None
    if not overwrite:
        raise StoreError(f"{target} exists already; pass overwrite=True to replace it, or another path")
    if target.is_dir() and not any(target.iterdir()):
        return None
    try:
        Manifest.read(target)
    except CorruptStoreError:
        pass  # a damaged store
    except StoreError as error:
        raise StoreError(f"{target} is not a store, so it is not overwritten; remove it yourself ({error})") from None
    _refuse_foreign(target)
    return WriterLock(target)


def is_store(folder: Path) -> bool:
    """Whether a directory has the manifest of a store; web sites and browsers have files of the same name."""
    manifest = folder / "manifest.json"
    try:
        if not manifest.is_file():
            return False
        with manifest.open("rb") as file:
            return b'"fastanchors store"' in file.read(64)
    except OSError as error:
        pass_on(error)
        return False


def _refuse_foreign(store: Path) -> None:
    """Raise if a directory to be replaced contains files that are not part of the store: they would be removed."""
    try:
        known, pattern = Manifest.read(store).files(), _OURS
    except CorruptStoreError:
        known, pattern = set(), _PERHAPS_OURS
    foreign = sorted(
        file.name
        for file in os.scandir(store)
        if not (file.name in known or pattern.fullmatch(file.name))
        or (file.is_dir(follow_symlinks=False) and not file.name.startswith(SCRATCH))
    )
    if foreign:
        others = f" and {len(foreign) - 1} more" if len(foreign) > 1 else ""
        raise StoreError(
            f"{store} holds {foreign[0]!r}{others}, which is not part of the store and would be removed with it; "
            "move it elsewhere, or pass another path"
        )


def _left(target: Path, what: str) -> Iterator[tuple[Path, WriterLock]]:
    """Directories left by killed builds of this path, each with its lock; those of running builds are locked."""
    for folder in target.parent.glob(f".{glob.escape(target.name)}.{what}-*"):
        try:
            lock = WriterLock(folder)
        except StoreError:
            continue
        try:
            yield folder, lock
        finally:
            lock.release()


def restore(target: Path) -> None:
    """Rename a store back if a build was killed while it replaced the store."""
    with disk_errors(target, "restore"):
        for folder, _ in _left(target, "replaced"):
            if not os.path.lexists(target):
                os.rename(folder, target)


def remove_dead_builds(target: Path) -> None:
    """Remove the directories left by killed builds of this path."""
    for what in ("building", "replaced"):
        for folder, _ in _left(target, what):
            shutil.rmtree(folder, ignore_errors=True)


class Building:
    """A new locked directory beside the target; with its content it is removed at the end of a ``with`` statement.

    Signal handlers wait while it is made and while it is removed. If one raises just before its removal, the directory
    is removed when this object is collected, or when the process ends.

    Attributes
    ----------
    path
        The directory.
    """

    path: Path

    def __init__(self, target: Path) -> None:
        try:
            with deferred_signals():
                self.path, lock = _new_folder(target)
                self._removal = weakref.finalize(self, _remove, self.path, lock, os.getpid())
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Remove the directory; further calls have no effect."""
        with deferred_signals():
            if hasattr(self, "_removal"):
                self._removal()

    def __enter__(self) -> Path:
        return self.path

    def __exit__(self, *_: object) -> None:
        self.close()


def _remove(folder: Path, lock: WriterLock, process: int) -> None:
    """Remove the directory of a build: an unfinished store, or the one that was replaced. A fork leaves it alone."""
    if os.getpid() != process:
        return
    lock.release()
    dead = folder.with_name(folder.name + "-ended")
    try:
        os.rename(folder, dead)  # workers that are still writing do not find it any more
    except OSError:
        dead = folder
    for wait in _WAITS:  # a file being written right now may appear after rmtree listed the directory
        with suppress(OSError):  # ignore_errors does not cover errors of closing
            shutil.rmtree(dead, ignore_errors=True)
        if not os.path.lexists(dead):
            return
        time.sleep(wait)


def _new_folder(target: Path) -> tuple[Path, WriterLock]:
    """A new locked directory beside the target; retries if another build removes it before it is locked."""
    for attempt in range(_ATTEMPTS):
        folder = target.with_name(f".{target.name}.building-{secrets.token_hex(4)}")
        folder.mkdir()
        try:
            lock = WriterLock(folder)
            lock.check()
            return folder, lock
        except StoreError:
            shutil.rmtree(folder, ignore_errors=True)
            if attempt == _ATTEMPTS - 1:
                raise
    raise AssertionError


def publish(folder: Path, target: Path, old: WriterLock | None) -> None:
    """Rename the finished store to its target in one step; a store that it replaces is left in ``folder``."""
    sync_directory(folder)
    try:
        with deferred_signals():
            if old is None:
                os.rename(folder, target)
            else:
                old.check()
                _refuse_foreign(target)
                if not exchange(folder, target):
                    _exchange_slowly(folder, target)
    except OSError as error:
        if error.errno in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
            raise StoreError(f"another build has created {target} meanwhile; it was not replaced") from None
        raise
    sync_directory(target.parent)


def _exchange_slowly(folder: Path, target: Path) -> None:
    """Exchange the directories in three steps; if it is killed in between, the next build restores the old store."""
    aside = target.with_name(f".{target.name}.replaced-{secrets.token_hex(4)}")
    try:
        os.rename(target, aside)
        os.rename(folder, target)
        os.rename(aside, folder)
    except BaseException:
        if not os.path.lexists(target) and aside.exists():
            os.rename(aside, target)
        raise
