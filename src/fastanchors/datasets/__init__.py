"""Data with known anchors: the synthetic families of this field, and large or lifelike matrices of the same kind.

Everywhere a data point is a row (the literature's columns). Every generator takes ``rng``, gives the same data for
the same seed, and returns non-negative matrices: noise that would leave an entry negative is clipped at zero.
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
