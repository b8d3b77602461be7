"""Every error this library raises on purpose.

All derive from :class:`FastAnchorsError`, and also from the built-in class a user would expect to catch
(``ValueError`` for a bad value, ``TypeError`` for a wrong kind of object, ``OSError`` for files).
A message names the offending place and the cure.
"""

from __future__ import annotations

__all__ = [
    "CorruptStoreError",
    "FastAnchorsError",
    "GuessWarning",
    "InvalidInputError",
    "InvalidTypeError",
    "MissingExtraError",
    "RankError",
    "SamplingError",
    "StoreError",
    "StoreLockedError",
    "TooLargeError",
]


class FastAnchorsError(Exception):
    """Base of all errors of fastanchors."""


class GuessWarning(UserWarning):
    """A file was read by a guess that could be wrong; the message says what was taken and which option settles it."""


class InvalidInputError(FastAnchorsError, ValueError):
    """A value is outside what the function accepts: NaN, negative, wrong shape, k too large."""


class InvalidTypeError(FastAnchorsError, TypeError):
    """An object of the wrong kind was passed."""


class RankError(InvalidInputError):
    """The matrix has fewer independent anchors than were asked for; ``rank`` says where it stopped."""

    def __init__(self, message: str, rank: int) -> None:
        super().__init__(message)
        self.rank = rank


class TooLargeError(FastAnchorsError, MemoryError):
    """The request would take more memory or more samples than can be held; the message says how much."""


class SamplingError(FastAnchorsError, RuntimeError):
    """A random procedure did not finish within its bound on trials; the message reports the rate seen."""


class StoreError(FastAnchorsError, OSError):
    """A store, or a file it is built from, cannot be read or written."""


class CorruptStoreError(StoreError):
    """A file of a store does not hold what its manifest says."""


class StoreLockedError(StoreError):
    """Another live process holds the store's writer lock."""


class MissingExtraError(FastAnchorsError, ImportError):
    """An optional dependency is not installed; the message names the extra to install."""
