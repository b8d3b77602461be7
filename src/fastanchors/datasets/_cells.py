"""Synthetic single-cell counts: mixtures of a few expression programmes, with varying depth."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from .._equality import ComparedByValue
from .._rng import RngLike, as_generator
from .._types import Rows
from .._validate import check_memory, check_number, check_size
from ..errors import InvalidInputError

__all__ = ["Cells", "cells"]


@dataclass(frozen=True, eq=False)
class Cells(ComparedByValue):
    """Counts from known programmes.

    Attributes
    ----------
    A : CSR matrix of counts, cells × genes
    components : array of shape (k, genes)
        The programmes: proportions of the genes, which sum to one.
    weights : array of shape (cells, k)
        The proportions of the programmes in each cell, which sum to one.
    labels : array of int
        The programme of a pure cell; −1 for mixtures.

    Examples
    --------
    >>> import fastanchors as fa
    >>> made = fa.datasets.cells(50, 30, 3, rng=0)
    >>> made.A.shape, made.weights.shape
    ((50, 30), (50, 3))
    """

    A: Rows
    components: NDArray[np.float64]
    weights: NDArray[np.float64]
    labels: NDArray[np.intp]


def cells(
    m: int,
    genes: int,
    k: int,
    *,
    depth: float = 5000.0,
    pure: float = 0.1,
    alpha: float = 0.5,
    rng: RngLike = None,
) -> Cells:
    """Counts as in single-cell sequencing: cell i has Poisson counts with mean depth_i · (F·C)_i.

    Parameters
    ----------
    m, genes, k : int
        Numbers of cells, genes and programmes; there is at least one pure cell of each programme.
    depth : float
        The median number of counts of a cell; depths are log-normal with a standard deviation of 0.3.
    pure : float
        The fraction of cells with a single programme.
    alpha : float
        The Dirichlet parameter of the other cells' mixtures.
    rng : int, Generator or None
        Random generator or seed.

    Examples
    --------
    >>> import fastanchors as fa
    >>> fa.datasets.cells(100, 50, 3, rng=0).A.shape
    (100, 50)
    """
    m, genes, k = (check_size(value, name=name) for value, name in ((m, "m"), (genes, "genes"), (k, "k")))
    if k > min(m, genes):
        raise InvalidInputError(f"k = {k} is more than min(cells, genes) = {min(m, genes)}; choose a smaller k")
    depth = check_number(depth, name="depth", minimum=1.0, maximum=1e15)
    pure = check_number(pure, name="pure", minimum=0.0, maximum=1.0)
    check_memory(24 * (m + k) * (genes + k), f"{m:,} cells of {genes:,} genes", "use fewer")
    generator = as_generator(rng)
    shared = generator.gamma(0.3, size=genes)  # genes expressed in all cells
    own = generator.gamma(0.3, size=(k, genes)) * (generator.random((k, genes)) < 0.2)
    own[np.arange(k), generator.permutation(genes)[:k]] += 1.0  # a marker gene each
    components = 0.3 * shared / shared.sum() + 0.7 * own / own.sum(axis=1, keepdims=True)
    weights = generator.dirichlet(np.full(k, check_number(alpha, name="alpha", minimum=1e-300, maximum=1e30)), m)
    labels = np.full(m, -1, dtype=np.intp)
    chosen = generator.permutation(m)[: max(k, round(pure * m))]
    labels[chosen] = np.arange(len(chosen)) % k
    weights[chosen] = np.eye(k)[labels[chosen]]
    depths = depth * np.exp(0.3 * generator.standard_normal(m))
    counts = generator.poisson(depths[:, None] * (weights @ components))
    return Cells(sp.csr_array(counts.astype(np.float32)), components, weights, labels)
