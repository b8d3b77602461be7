"""Check names of rows and columns."""

from __future__ import annotations

import numbers
from collections.abc import Iterable, Mapping, Set, Sized
from typing import Any

from ..errors import InvalidInputError, InvalidTypeError, one_line

__all__ = ["check_list", "name_list"]


def check_list(values: Any, *, name: str) -> None:
    """Raise unless ``values`` is a list of things, such as names or ids; a single text would be taken for letters."""
    listed = isinstance(values, Sized) and isinstance(values, Iterable) and getattr(values, "ndim", 1) == 1
    if not listed or isinstance(values, str | bytes):
        raise InvalidTypeError(f"{name} must be a list, got {one_line(repr(values), 60)}")


def name_list(names: Any, what: str) -> list[str]:
    """Names in the order of what they name, as a list of text; ``what`` is their role in error messages.

    A mapping gives the number of each name, as ``vocabulary_`` of scikit-learn's vectorisers does, or the name of each
    number. A set has no order, and a single text would be taken for its letters: both are refused.
    """
    if isinstance(names, Mapping):
        return _names_by_number(names, what)
    if isinstance(names, Set):
        raise InvalidTypeError(f"{what} are a {type(names).__name__}, which has no order; pass a list in order")
    if isinstance(names, str | bytes) or not isinstance(names, Iterable) or getattr(names, "ndim", 1) != 1:
        raise InvalidTypeError(f"{what} must be a sequence of names, got {one_line(repr(names), 60)}")
    return [name.decode("utf-8", "replace") if isinstance(name, bytes) else str(name) for name in names]


def _names_by_number(names: Mapping[Any, Any], what: str) -> list[str]:
    """The names of a mapping from names to numbers, or from numbers to names, in the order of the numbers."""
    numbered = all(isinstance(number, numbers.Integral) for number in names.values())
    pairs = names.items() if numbered else [(name, number) for number, name in names.items()]
    found = {int(number): str(name) for name, number in pairs if isinstance(number, numbers.Integral)}
    if found.keys() != set(range(len(names))):
        raise InvalidInputError(
            f"{what} are a mapping of {len(names)} names, but not from each name to its number 0 … {len(names) - 1}; "
            "pass a list in order"
        )
    return [found[number] for number in range(len(found))]
