"""Synthetic data with known anchors: the test families of the literature, and large or realistic matrices.

A data point is a row (a column in the literature). Every generator takes ``rng``, returns the same data for the same
seed, and returns non-negative matrices: negative entries after adding noise are clipped at zero.
"""

from __future__ import annotations

from ._cells import Cells, cells
from ._components import nonnegative_components
from ._families import FAMILIES, dirichlet, family, middle_points
from ._ratings import Ratings, ratings
from ._scene import Scene, hyperspectral
from ._separable import Separable, SeparableBlocks, separable, separable_blocks
from ._topics import Corpus, topics

__all__ = [
    "FAMILIES",
    "Cells",
    "Corpus",
    "Ratings",
    "Scene",
    "Separable",
    "SeparableBlocks",
    "cells",
    "dirichlet",
    "family",
    "hyperspectral",
    "middle_points",
    "nonnegative_components",
    "ratings",
    "separable",
    "separable_blocks",
    "topics",
]
