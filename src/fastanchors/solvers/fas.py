"""Fast Anchors Seeking, the algorithm this library is named after, in its variants."""

from __future__ import annotations

import importlib
import time
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from .._rng import RngLike
from ..anchors import Anchors
from ..errors import InvalidInputError, InvalidTypeError
from ._rows import MatrixRows
from ._solver import Selection, Solver

__all__ = ["FAS"]

# Variant -> (module, class). Each class takes the variant's options and has ``prepare(A)``, which turns the matrix
# into what the variant works on, and ``select(data, k, rng)``.
_VARIANTS = {"paper": ("fas_paper", "PaperFAS")}
_DEFAULT = "paper"


class FAS(Solver):
    """Fast Anchors Seeking (Chen, Li, Sun, Yuan and Zhang).

    Parameters
    ----------
    variant : ``"paper"`` is Algorithm 1 of the paper line by line, see
        :class:`~fastanchors.solvers.fas_paper.PaperFAS`.
    **options : the options of that variant.
    """

    name: ClassVar[str] = "fas"

    def __init__(self, variant: str = _DEFAULT, **options: Any) -> None:
        if variant not in _VARIANTS:
            raise InvalidInputError(f"variant must be one of {', '.join(map(repr, _VARIANTS))}, got {variant!r}")
        module, kind = _VARIANTS[variant]
        engine = getattr(importlib.import_module(f".{module}", __package__), kind)
        self.variant = variant
        self.options = options
        try:
            self._engine = engine(**options)
        except TypeError as error:
            if "unexpected keyword" not in str(error):
                raise
            raise InvalidTypeError(f"FAS(variant={variant!r}): {str(error).split(') ')[-1]}") from None

    def seek(self, A: Any, k: int, *, rng: RngLike = None) -> Anchors:
        started = time.perf_counter()
        result = super().seek(self._engine.prepare(A), k, rng=rng)
        return replace(result, seconds=time.perf_counter() - started)

    seek.__doc__ = Solver.seek.__doc__

    def _select(self, data: MatrixRows, k: int, rng: np.random.Generator) -> Selection:
        return self._engine.select(data, k, rng)
