"""The ``rng`` convention: a ``numpy.random.Generator``, an int seed, or None for fresh entropy."""

from __future__ import annotations

import numbers
from typing import TypeAlias

import numpy as np

from .errors import InvalidInputError, InvalidTypeError

__all__ = ["RngLike", "as_generator", "spawn"]

RngLike: TypeAlias = np.random.Generator | np.random.SeedSequence | int | None


def as_generator(rng: RngLike = None) -> np.random.Generator:
    """Return the generator that ``rng`` stands for; a Generator is passed through and advanced by its use."""
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
    """``n`` independent child generators: one per chunk, so that results do not depend on who runs which."""
    return rng.spawn(n)
