"""Check the arguments of a report."""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import Any

from .._validate import as_array, check_choice, check_flag
from ..anchors import Anchors
from ..errors import InvalidInputError, InvalidTypeError, one_line
from ..rank import RankCurve

__all__ = ["check_display", "check_report"]

_RECOMPUTED = ("rows", "seek", "known", "likeness")


def check_report(
    anchors: Any, *, normalize: Any, steps: Any, curve: Any, solver: Any, searched: Any, again: Any
) -> None:
    """Raise on an argument of the wrong kind."""
    _need(isinstance(anchors, Anchors), "anchors", "the result of a solver", anchors)
    check_choice(normalize, ("l1", None), name="normalize")
    check_flag(searched, name="searched")
    results = steps is None or (_is_list(steps) and all(isinstance(step, Anchors) for step in steps))
    _need(results, "steps", "a list of results of a solver", steps)
    _need(curve is None or isinstance(curve, RankCurve), "curve", "the result of rank_curve", curve)
    seeks = callable(getattr(solver, "seek", None)) and not isinstance(solver, type)
    _need(solver is None or seeks, "solver", "an object with .seek(A, k)", solver)
    recomputed = all(callable(getattr(again, method, None)) for method in _RECOMPUTED)
    _need(again is None or recomputed, "again", f"an object with the methods {', '.join(_RECOMPUTED)}", again)


def check_display(*, image: Any, order: Any, texts: Any, **names: Any) -> None:
    """Raise on an argument of the wrong kind; ``names`` may also be mappings, and sets, which are refused later."""
    check_choice(order, ("C", "F"), name="order")
    if image is not None:
        size = as_array(image, "image")
        if size.shape != (2,) or size.dtype.kind not in "iu" or size.min() < 1:
            raise InvalidInputError(f"image must be (height, width), got {one_line(repr(image), 60)}")
    _need(texts is None or _is_list(texts), "texts", "a list", texts)
    for name, values in names.items():
        _need(values is None or isinstance(values, Mapping | Set) or _is_list(values), name, "a list", values)


def _is_list(values: Any) -> bool:
    kind = type(values)
    indexed = hasattr(kind, "__len__") and hasattr(kind, "__getitem__") and getattr(values, "ndim", 1) == 1
    return indexed and not isinstance(values, str | bytes | dict)


def _need(right: bool, name: str, what: str, value: Any) -> None:
    if not right:
        raise InvalidTypeError(f"{name} must be {what}, got {one_line(repr(value), 60)}")
