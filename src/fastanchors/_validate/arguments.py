"""Check single arguments: flags, choices, sizes and numbers."""

from __future__ import annotations

import numbers
from collections.abc import Collection
from typing import Any

import numpy as np

from .._signals import ignored_errors
from ..errors import InvalidInputError, InvalidTypeError, one_line

__all__ = [
    "as_dtype",
    "check_callable",
    "check_choice",
    "check_dtype",
    "check_flag",
    "check_number",
    "check_rank",
    "check_size",
    "check_text",
    "check_tolerance",
]

_LARGEST = 2**63 - 1


def check_flag(value: Any, *, name: str) -> bool:
    """``value`` as a bool; anything but True and False is refused."""
    if not isinstance(value, bool | np.bool_):
        raise InvalidTypeError(f"{name} must be True or False, got {value!r}")
    return bool(value)


def check_callable(value: Any, *, name: str) -> None:
    """Raise unless ``value`` can be called, or is None."""
    if not (value is None or callable(value)):
        raise InvalidTypeError(f"{name} must be a function or None, got {one_line(repr(value), 60)}")


def check_choice(value: Any, choices: Collection[str | None], *, name: str) -> None:
    """Raise unless ``value`` is one of the strings ``choices``, or None if that is among them."""
    if not (value is None or isinstance(value, str)) or value not in choices:
        listed = [repr(each) for each in choices]
        allowed = " or ".join(listed) if len(listed) == 2 else f"one of {', '.join(listed)}"
        raise InvalidInputError(f"{name} must be {allowed}, got {value!r}")


def check_text(value: Any, *, name: str, none: bool = False) -> None:
    """Raise unless ``value`` is a text, or, with ``none``, None."""
    if not (isinstance(value, str) or (none and value is None)):
        raise InvalidTypeError(f"{name} must be text{' or None' if none else ''}, got {one_line(repr(value), 60)}")


def check_dtype(dtype: Any, *, fractions: bool = False) -> np.dtype[Any]:
    """The argument ``dtype`` as a type of real numbers, or, with ``fractions``, of floating-point numbers only."""
    found = as_dtype(dtype)
    if found is None or found.kind not in ("f" if fractions else "biuf"):
        wanted = "floating-point" if fractions else "real"
        raise InvalidTypeError(f"dtype must be a type of {wanted} numbers, got {one_line(repr(dtype), 60)}")
    return found


def as_dtype(dtype: Any) -> np.dtype[Any] | None:
    """``dtype`` as a type of NumPy, or None if it is none."""
    with ignored_errors():  # NumPy asks any object for its attribute ``dtype``, whatever that does
        return np.dtype(dtype)
    return None


def check_size(value: Any, *, name: str, minimum: int = 1) -> int:
    """``value`` as an int of at least ``minimum`` that an index can hold."""
    if isinstance(value, bool) or not isinstance(value, numbers.Integral):
        raise InvalidTypeError(f"{name} must be an integer, got {value!r}")
    if value < minimum:
        raise InvalidInputError(f"{name} must be at least {minimum}, got {value}")
    if int(value) > _LARGEST:
        raise InvalidInputError(f"{name} must be below 2^63, got an integer of {int(value).bit_length()} bits")
    return int(value)


def check_rank(k: Any, shape: tuple[int, int], *, limit: str = "rank", name: str = "k") -> int:
    """``k`` as an int with 1 ≤ k ≤ min(m, n), or 1 ≤ k ≤ m when ``limit`` is ``"rows"``."""
    k = check_size(k, name=name)
    bound, what = (shape[0], "the number of rows") if limit == "rows" else (min(shape), "min(rows, columns)")
    if k > bound:
        raise InvalidInputError(f"{name} = {k} is more than {what} = {bound}; choose a smaller {name}")
    return k


def check_number(value: Any, *, name: str, minimum: float = -np.inf, maximum: float = np.inf) -> float:
    """``value`` as a finite float with minimum ≤ value ≤ maximum."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise InvalidTypeError(f"{name} must be a real number, got {value!r}")
    try:
        number = float(value)
    except OverflowError:  # an integer larger than any float
        number = np.inf
    if not (np.isfinite(number) and minimum <= number <= maximum):
        raise InvalidInputError(f"{name} must be a finite number between {minimum:g} and {maximum:g}, got {value}")
    return number


def check_tolerance(tol: Any) -> float | None:
    """``tol`` as a number from 0 up to but not including 1, or None."""
    if tol is None:
        return None
    if not 0 <= check_number(tol, name="tol") < 1:
        raise InvalidInputError(f"tol must be at least 0 and below 1, got {tol}")
    return float(tol)
