"""The exceptions and warnings of this library.

All exceptions derive from :class:`FastAnchorsError`, and also from the built-in class a user would expect to catch
(``ValueError`` for a bad value, ``TypeError`` for a wrong type, ``OSError`` for files). A message says what is wrong,
where, and what to do. It is one line of at most 500 characters without control characters, even where it quotes names
from files.
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

_LONGEST = 480  # characters of a message; the command line adds its own name as a prefix
_TAIL = 140  # characters kept at the end, where the message says what to do


def one_line(text: str, longest: int = _LONGEST) -> str:
    """``text`` on one line: control characters and lone surrogates escaped, the middle cut out if it is too long."""
    line = " ".join(text.split())
    if not line.isprintable():
        line = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in line)
    tail = min(_TAIL, longest // 3)
    return line if len(line) <= longest else f"{line[: longest - tail - 3]} … {line[-tail:]}"


class FastAnchorsError(Exception):
    """Base class of all errors of fastanchors.

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
    """The layout of a file was guessed; the message says what was assumed and which option overrides it."""


class InvalidInputError(FastAnchorsError, ValueError):
    """A value is not accepted: NaN, negative, wrong shape, k too large."""


class InvalidTypeError(FastAnchorsError, TypeError):
    """An object of the wrong type was passed."""


class RankError(InvalidInputError):
    """The matrix has fewer independent anchors than requested; ``rank`` is the number found.

    ``set_aside`` is the number of rows that were excluded because they have too few near neighbours.
    """

    def __init__(self, message: str, rank: int, set_aside: int = 0) -> None:
        super().__init__(message)
        self.rank, self.set_aside = rank, set_aside


class TooLargeError(FastAnchorsError, MemoryError):
    """The request would need too much memory or too many samples; the message says how much."""


class SamplingError(FastAnchorsError, RuntimeError):
    """A random procedure did not finish within its limit of trials; the message reports the acceptance rate."""


class ConcurrentAccessError(FastAnchorsError, RuntimeError):
    """A thread changed a matrix while another thread was using it."""


class StoreError(FastAnchorsError, OSError):
    """A store, or a file it is built from, cannot be read or written."""


class CorruptStoreError(StoreError):
    """A file of a store does not match its manifest."""


class StoreLockedError(StoreError):
    """Another live process holds the store's writer lock."""


class MissingExtraError(FastAnchorsError, ImportError):
    """An optional dependency is not installed; the message names the extra to install."""
