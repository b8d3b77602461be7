"""Check the arguments of a report."""

from __future__ import annotations

import os
from typing import Any

from .._validate import as_array, check_choice
from ..anchors import Anchors
from ..errors import InvalidInputError, InvalidTypeError, one_line
from ..rank import RankCurve

__all__ = ["check_report"]


def check_report(
    path: Any, anchors: Any, *, normalize: Any, image: Any, steps: Any, curve: Any, solver: Any, **listed: Any
) -> None:
    """Raise on an argument of the wrong kind; ``listed`` are sequences or None."""
    _need(isinstance(path, str | os.PathLike), "path", "a path", path)
    _need(isinstance(anchors, Anchors), "anchors", "the result of a solver", anchors)
    check_choice(normalize, ("l1", None), name="normalize")
    for name, values in listed.items():
        _need(values is None or _is_list(values), name, "a list", values)
    if image is not None:
        size = as_array(image, "image")
        if size.shape != (2,) or size.dtype.kind not in "iu" or size.min() < 1:
            raise InvalidInputError(f"image must be (height, width), got {one_line(repr(image), 60)}")
    results = steps is None or (_is_list(steps) and all(isinstance(step, Anchors) for step in steps))
    _need(results, "steps", "a list of results of a solver", steps)
    _need(curve is None or isinstance(curve, RankCurve), "curve", "the result of rank_curve", curve)
    _need(solver is None or callable(getattr(solver, "seek", None)), "solver", "an object with .seek(A, k)", solver)


def _is_list(values: Any) -> bool:
    kind = type(values)
    indexed = hasattr(kind, "__len__") and hasattr(kind, "__getitem__") and getattr(values, "ndim", 1) == 1
    return indexed and not isinstance(values, str | bytes | dict)


def _need(right: bool, name: str, what: str, value: Any) -> None:
    if not right:
        raise InvalidTypeError(f"{name} must be {what}, got {one_line(repr(value), 60)}")
