"""Fast Anchors Seeking, the algorithm this library is named after, in its variants."""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, overload

import numpy as np

from .._rng import RngLike, as_generator
from .._validate import check_rank
from ..anchors import Anchors, Certificate
from ..errors import InvalidInputError, InvalidTypeError
from ._rows import MatrixRows, as_rows
from ._solver import Selection, Solver

__all__ = ["FAS"]

# Variant -> (module, class). Each class takes the variant's options and has ``prepare(A)``, which turns the matrix
# into what the variant works on, and ``select(data, k, rng)``.
_VARIANTS = {"indexed": ("fastanchors.fas.seek", "IndexedFAS"), "paper": ("fastanchors.fas.paper", "PaperFAS")}
_DEFAULT = "indexed"


class FAS(Solver):
    """Fast Anchors Seeking (Chen, Li, Sun, Yuan and Zhang).

    Parameters
    ----------
    variant : ``"indexed"``, the default, is the best this library has: SPA's anchors, proved, at a cost that hardly
        grows with the matrix, see :class:`~fastanchors.fas.seek.IndexedFAS`. ``"paper"`` is Algorithm 1 of
        the paper line by line, see :class:`~fastanchors.fas.paper.PaperFAS`.
    **options : the options of that variant.
    """

    name: ClassVar[str] = "fas"

    def __init__(self, variant: str = _DEFAULT, **options: Any) -> None:
        if variant not in _VARIANTS:
            raise InvalidInputError(f"variant must be one of {', '.join(map(repr, _VARIANTS))}, got {variant!r}")
        module, kind = _VARIANTS[variant]
        engine = getattr(importlib.import_module(module), kind)
        self.variant = variant
        self.options = options
        try:
            self._engine = engine(**options)
        except TypeError as error:
            if "unexpected keyword" not in str(error):
                raise
            raise InvalidTypeError(f"FAS(variant={variant!r}): {str(error).split(') ')[-1]}") from None

    @overload
    def seek(self, A: Any, k: int, *, rng: RngLike = None) -> Anchors: ...

    @overload
    def seek(self, A: Any, k: Sequence[int], *, rng: RngLike = None) -> list[Anchors]: ...

    def seek(self, A: Any, k: int | Sequence[int], *, rng: RngLike = None) -> Anchors | list[Anchors]:
        """Find ``k`` anchor rows of ``A`` (an array, a sparse matrix, a ``SampleMatrix``, a store or a file).

        A file that needs options to be read is given as ``fa.io.open_source(path, variable=…)``.

        ``rng`` is a ``numpy.random.Generator``, an int seed or None; same seed, same answer. ``FAS()`` also takes a
        sequence of numbers, such as ``[5, 10, 20]``, and returns one result for each at the cost of the largest; with
        ``precondition`` or ``robust``, where anchors are not nested, at the cost of each. Where the rank is below the
        largest number the whole call raises ``RankError``, unless ``allow_fewer=True``.
        """
        started = time.perf_counter()
        data = as_rows(self._engine.prepare(A))
        shape = getattr(data, "whole_shape", data.shape)  # of a file of which only the beginning is read
        if isinstance(k, np.ndarray):
            k = k.tolist()
        if not isinstance(k, Sequence) or isinstance(k, str):
            k = check_rank(k, shape, limit=self._limit)
            return self._anchors(data, self._select(data, k, as_generator(rng)), started)
        if not hasattr(self._engine, "select_many"):
            raise InvalidTypeError(f"FAS(variant={self.variant!r}) takes one k at a time, got {k!r}")
        if len(k) == 0:
            raise InvalidInputError("k is empty: give at least one number of anchors")
        ends = (k[0], k[-1]) if isinstance(k, range) else k
        checked = [check_rank(each, shape, limit=self._limit) for each in ends]
        sizes = k if isinstance(k, range) else checked
        found = self._engine.select_many(data, sizes, as_generator(rng))
        if isinstance(found, Selection):
            return _beginnings(self._anchors(data, found, started), sizes, found.of_the_first)
        return [self._anchors(data, selection, started) for selection in found]

    def _select(self, data: MatrixRows, k: int, rng: np.random.Generator) -> Selection:
        return self._engine.select(data, k, rng)


def _beginnings(
    whole: Anchors, sizes: Sequence[int], certificate: Callable[[int], Certificate] | None
) -> list[Anchors]:
    """The first k of nested anchors, for each k, each with its own certificate.

    Fields are set at once: one after the other, as a frozen dataclass does it, they would take longer than the seek.
    """
    fields, indices, residuals, names = vars(whole), whole.indices, whole.residuals, whole.names
    parts = []
    for k in sizes:
        part = object.__new__(Anchors)
        own = part.__dict__
        own.update(fields)
        own["indices"] = indices[:k]
        if certificate is not None and k < len(indices):
            own["certificate"] = certificate(k)
        if residuals is not None:
            own["residuals"] = residuals[:k]
        if names is not None:
            own["names"] = names[:k]
        parts.append(part)
    return parts
