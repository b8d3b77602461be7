"""Every error this library raises on purpose.

All derive from :class:`FastAnchorsError`, and also from the built-in class a user would expect to catch
(``ValueError`` for a bad value, ``TypeError`` for a wrong kind of object, ``OSError`` for files).
A message names the offending place and the cure. As text it is one line of at most 500 characters without control
characters, whatever the names in it are: they come from files.
"""

from __future__ import annotations

__all__ = [
    "ConcurrentAccessError",
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
    "one_line",
]

_LONGEST = 480  # characters of a message; the command line puts its own name before it
_TAIL = 140  # of these at the end, where the cure is


def one_line(text: str, longest: int = _LONGEST) -> str:
    """``text`` on one line, control characters and half characters escaped, cut in the middle where it is too long."""
    line = " ".join(text.split())
    if not line.isprintable():
        line = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in line)
    tail = min(_TAIL, longest // 3)
    return line if len(line) <= longest else f"{line[: longest - tail - 3]} … {line[-tail:]}"


class FastAnchorsError(Exception):
    """Base of all errors of fastanchors.

    Examples
    --------
    >>> import fastanchors as fa
    >>> try:
    ...     fa.SPA().seek([[1.0, -1.0]], 1)
    ... except fa.FastAnchorsError as error:
    ...     print(type(error).__name__)
    InvalidInputError
    """

    def __str__(self) -> str:
        return one_line(super().__str__())


class GuessWarning(UserWarning):
    """A file was read by a guess that could be wrong; the message says what was taken and which option settles it."""


class InvalidInputError(FastAnchorsError, ValueError):
    """A value is outside what the function accepts: NaN, negative, wrong shape, k too large."""


class InvalidTypeError(FastAnchorsError, TypeError):
    """An object of the wrong kind was passed."""


class RankError(InvalidInputError):
    """The matrix has fewer independent anchors than were asked for; ``rank`` says where it stopped.

    ``set_aside`` is the number of rows that were excluded because they have too few near neighbours.
    """

    def __init__(self, message: str, rank: int, set_aside: int = 0) -> None:
        super().__init__(message)
        self.rank, self.set_aside = rank, set_aside


class TooLargeError(FastAnchorsError, MemoryError):
    """The request would take more memory or more samples than can be held; the message says how much."""


class SamplingError(FastAnchorsError, RuntimeError):
    """A random procedure did not finish within its bound on trials; the message reports the rate seen."""


class ConcurrentAccessError(FastAnchorsError, RuntimeError):
    """One thread changes a matrix while another uses it."""


class StoreError(FastAnchorsError, OSError):
    """A store, or a file it is built from, cannot be read or written."""


class CorruptStoreError(StoreError):
    """A file of a store does not hold what its manifest says."""


class StoreLockedError(StoreError):
    """Another live process holds the store's writer lock."""


class MissingExtraError(FastAnchorsError, ImportError):
    """An optional dependency is not installed; the message names the extra to install."""
