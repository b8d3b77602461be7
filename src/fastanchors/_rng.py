"""The ``rng`` convention: a ``numpy.random.Generator``, an int seed, or None for fresh entropy."""

from __future__ import annotations

import numbers
from typing import TypeAlias

import numpy as np

from .errors import InvalidInputError, InvalidTypeError

__all__ = ["RngLike", "as_generator", "spawn"]

RngLike: TypeAlias = np.random.Generator | np.random.SeedSequence | int | None


def as_generator(rng: RngLike = None) -> np.random.Generator:
    """``rng`` as a generator; a Generator is returned as it is, so that using it advances it."""
    if isinstance(rng, np.random.Generator):
        return rng
    if isinstance(rng, numbers.Integral) and not isinstance(rng, bool):
        if rng < 0:
            raise InvalidInputError(f"rng must be a non-negative seed, got {rng}")
        return np.random.default_rng(int(rng))
    if rng is None or isinstance(rng, np.random.SeedSequence):
        return np.random.default_rng(rng)
    raise InvalidTypeError(f"rng must be a numpy.random.Generator, an int seed or None, got {type(rng).__name__}")


def spawn(rng: np.random.Generator, n: int) -> list[np.random.Generator]:
    """``n`` independent child generators, one per chunk: results do not depend on which thread runs which chunk."""
    return rng.spawn(n)
