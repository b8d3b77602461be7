"""The writer of a store: its lock and its journal, held from the first change until the store is closed."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from .._signals import pass_on
from ..errors import StoreError
from .files import WriterLock, disk_errors, state_of
from .journal import START, Journal, State, read_journal
from .manifest import MANIFEST, Manifest

__all__ = ["Writer"]


class Writer:
    """Lock and journal of a store. Created when the store is opened; takes the lock and the journal on first use.

    Parameters
    ----------
    path
        Directory of the store.
    mode
        ``"r"`` (must not write), ``"r+"``, or ``"lazy"`` (the result of a build).
    """

    def __init__(self, path: Path, mode: str) -> None:
        self.path, self.mode = path, mode
        self.end, self.commits, self._frames = START, 0, 0  # of the part of the journal that was read
        self._lock: WriterLock | None = None
        self._journal: Journal | None = None
        self._manifest_state: tuple[int, ...] | None = None  # of the file, when its content was last compared

    @property
    def active(self) -> bool:
        """Whether the lock and the journal are held."""
        return self._journal is not None

    @property
    def locked(self) -> bool:
        """Whether the lock is held."""
        return self._lock is not None

    def lock(self) -> None:
        """Take the lock."""
        self._lock = WriterLock(self.path)

    def check_mode(self) -> None:
        """Raise if the store is open for reading."""
        if self.mode == "r":
            raise StoreError(f"{self.path} is open for reading; open it with mode='r+' to change it")

    def stands_at(self, state: State) -> None:
        """Take note of the part of the journal that is in memory."""
        self.end, self.commits, self._frames = state.end, len(state.records), state.frames

    def start(self, manifest: Manifest) -> bool:
        """Take the lock and open the journal at the state that is in memory; False if they are held already."""
        if self._journal is not None:
            return False
        self.check_mode()
        if self._lock is None:
            self.lock()
        assert self._lock is not None
        try:
            self._lock.check()
            with disk_errors(self.path, "write to"):
                self._journal = self._current(manifest)
        except BaseException:
            self.release()
            raise
        return True

    def _current(self, manifest: Manifest) -> Journal:
        """The journal of this generation at the state that is in memory; raises if the store has changed since."""
        # The manifest has a checksum of every array, so comparing it detects a store that replaced this one.
        if Manifest.read(self.path) != manifest:
            raise StoreError(f"{self.path} has been changed since it was opened; open it again")
        return self._journal_of(manifest)

    def _journal_of(self, manifest: Manifest) -> Journal:
        journal = self.path / manifest.journal
        state = read_journal(journal, manifest.generation)
        if (state.end, state.frames) != (self.end, self._frames):
            raise StoreError(f"{self.path} has been changed since it was opened; open it again")
        return Journal(journal, state)

    def check(self, manifest: Manifest) -> None:
        """Raise if the directory is no longer the store with this manifest, or if this is another process."""
        assert self._lock is not None
        assert self._journal is not None
        self._lock.check()
        with disk_errors(self.path, "write to"):
            self._journal.check()
        state = _state_of(self.path / MANIFEST)
        if state is None or state != self._manifest_state:  # written by this writer, or by another program
            if Manifest.read(self.path).encode() != manifest.encode():
                raise StoreError(f"another program has changed {self.path} since it was opened; open it again")
            self._manifest_state = state

    def commit(self, parts: list[Any]) -> None:
        """Append one record to the journal and make it durable."""
        assert self._journal is not None
        self._journal.commit(parts)
        self.end, self.commits, self._frames = self._journal.end, self._journal.commits, self._journal.frames

    def follow(self, manifest: Manifest) -> None:
        """Continue with the empty journal of a new generation."""
        assert self._journal is not None
        self._journal.close()
        self.end, self.commits, self._frames = START, 0, 0
        self._journal = self._journal_of(manifest)

    def release(self) -> None:
        """Release the journal and the lock; further calls have no effect."""
        if self._journal is not None:
            self._journal.close()
            self._journal = None
        if self._lock is not None:
            self._lock.release()
            self._lock = None


def _state_of(path: Path) -> tuple[int, ...] | None:
    """What changes if a file is replaced or overwritten; None if it does not exist."""
    try:
        return state_of(os.stat(path, follow_symlinks=False))
    except OSError as error:
        pass_on(error)
        return None
