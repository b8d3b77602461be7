"""The synthetic families with which near-separable NMF algorithms are compared.

N. Gillis and S. A. Vavasis, "Fast and robust recursive algorithms for separable nonnegative matrix factorization",
IEEE PAMI 36, 2014; N. Gillis, "Successive nonnegative projection algorithm for robust nonnegative blind source
separation", SIAM J. Imaging Sci. 7, 2014, §4.1; N. Gillis, "Nonnegative Matrix Factorization", SIAM, 2020,
figures 7.5 and 7.6 (the families whose name starts with "book").
"""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls

from .._rng import RngLike, as_generator
from .._validate import check_flag, check_memory, check_number, check_size
from ..errors import InvalidInputError
from ._components import nonnegative_components
from ._separable import Separable

__all__ = ["FAMILIES", "dirichlet", "family", "middle_points"]

#: name -> (generator, its options): the sizes of the literature.
FAMILIES: dict[str, tuple[str, dict[str, Any]]] = {
    "rank_deficient_dirichlet": ("dirichlet", {"mixtures": 200, "n": 10, "k": 20, "copies": 2}),
    "rank_deficient_middle_points": ("middle_points", {"n": 10, "k": 20}),
    "ill_conditioned_dirichlet": ("dirichlet", {"mixtures": 200, "n": 20, "k": 20, "copies": 2, "condition": 1e3}),
    "ill_conditioned_middle_points": ("middle_points", {"n": 20, "k": 20, "condition": 1e3}),
    "well_conditioned_dirichlet": ("dirichlet", {"mixtures": 200, "n": 200, "k": 20}),
    "well_conditioned_middle_points": ("middle_points", {"n": 200, "k": 20}),
    "book_well_conditioned_dirichlet": (
        "dirichlet",
        {"mixtures": 200, "n": 40, "k": 20, "alpha": 0.5, "relative": True},
    ),
    "book_ill_conditioned_dirichlet": (
        "dirichlet",
        {"mixtures": 200, "n": 40, "k": 20, "alpha": 0.5, "relative": True, "condition": 1e6},
    ),
    "book_well_conditioned_middle_points": ("middle_points", {"n": 40, "k": 20}),
    "book_ill_conditioned_middle_points": ("middle_points", {"n": 40, "k": 20, "condition": 1e6}),
}


def family(name: str, *, noise: float = 0.0, rng: RngLike = None) -> Separable:
    """A random matrix of a family of the literature, with the sizes used there.

    Parameters
    ----------
    name
        A key of ``FAMILIES``.
    noise
        Size of the noise.
    rng
        A ``numpy.random.Generator``, an int seed or None.

    Examples
    --------
    >>> import fastanchors as fa
    >>> fa.datasets.family("well_conditioned_middle_points", rng=0).A.shape
    (210, 200)
    """
    if not isinstance(name, str) or name not in FAMILIES:
        raise InvalidInputError(f"unknown family {name!r}; the families are {', '.join(sorted(FAMILIES))}")
    generator, options = FAMILIES[name]
    make = dirichlet if generator == "dirichlet" else middle_points
    return make(noise=noise, rng=rng, **options)


def dirichlet(
    mixtures: int = 200,
    n: int = 20,
    k: int = 20,
    *,
    copies: int = 1,
    alpha: float | None = None,
    condition: float | None = None,
    noise: float = 0.0,
    relative: bool = False,
    rng: RngLike = None,
) -> Separable:
    """Dirichlet experiment: ``copies`` copies of each anchor and ``mixtures`` Dirichlet mixtures, all noisy.

    The literature's M = W·[I … I H′] + N with a data point as a row. The Dirichlet parameters are ``alpha``, or
    uniform on [0, 1] if it is None. N = δ·randn with δ = ``noise``; with ``relative``, N is scaled so that
    ‖N‖_F = δ·‖W·H‖_F. Negative entries are clipped at zero. Rows are in random order.

    Parameters
    ----------
    mixtures, n, k
        Numbers of mixtures, columns and anchors.
    copies
        Copies of each anchor.
    alpha
        Parameter of the Dirichlet distribution; None draws one for each anchor.
    condition
        Condition number of the anchors; None for uniform entries.
    noise
        Size of the noise.
    relative
        Whether ``noise`` is relative to the norm of the data.
    rng
        A ``numpy.random.Generator``, an int seed or None.

    Examples
    --------
    >>> import fastanchors as fa
    >>> fa.datasets.dirichlet(50, 10, 4, rng=0).A.shape
    (54, 10)
    """
    rng = as_generator(rng)
    mixtures, copies = check_size(mixtures, name="mixtures"), check_size(copies, name="copies")
    noise = check_number(noise, name="noise", minimum=0.0, maximum=1e30)
    W = _family_components(k, n, condition, rng)
    rows = mixtures + copies * W.shape[0]
    check_memory(24 * rows * sum(W.shape), f"{rows:,} rows of {W.shape[1]:,} columns", "use fewer")
    parameters = (
        rng.random(k) if alpha is None else np.full(k, check_number(alpha, name="alpha", minimum=1e-300, maximum=1e30))
    )
    F = np.vstack([np.tile(np.eye(k), (copies, 1)), rng.dirichlet(parameters, mixtures)])
    clean = F @ W
    N = rng.standard_normal(clean.shape)
    if check_flag(relative, name="relative"):
        N *= np.linalg.norm(clean) / np.linalg.norm(N)
    labels = np.concatenate([np.tile(np.arange(k), copies), np.full(mixtures, -1)])
    return _shuffled(np.maximum(clean + noise * N, 0.0), F, labels, W, rng)


def middle_points(
    n: int = 20, k: int = 20, *, condition: float | None = None, noise: float = 0.0, rng: RngLike = None
) -> Separable:
    """Middle points experiment: the anchors and the k(k−1)/2 middle points of their pairs.

    Anchors have no noise; each middle point M_j moves outwards by δ·(M_j − w̄), where w̄ is the mean of the anchors and
    δ = ``noise``: the worst kind of noise. Negative entries are clipped at zero. Rows are in random order.

    Parameters
    ----------
    n, k
        Numbers of columns and anchors.
    condition
        Condition number of the anchors; None for uniform entries.
    noise
        Size of the noise, which moves the middle points away from the mean of the anchors.
    rng
        A ``numpy.random.Generator``, an int seed or None.

    Examples
    --------
    >>> import fastanchors as fa
    >>> fa.datasets.middle_points(10, 4, rng=0).A.shape
    (10, 10)
    """
    rng = as_generator(rng)
    noise = check_number(noise, name="noise", minimum=0.0, maximum=1e30)
    if check_size(k, name="k") < 2:
        raise InvalidInputError(f"middle points need at least k = 2 anchors, got {k}")
    W = _family_components(k, n, condition, rng)
    check_memory(16 * k * k * sum(W.shape), f"the middle points of {k:,} anchors", "use fewer")
    pairs = np.array(list(combinations(range(k), 2)))
    F = np.zeros((k + len(pairs), k))
    F[:k] = np.eye(k)
    np.put_along_axis(F[k:], pairs, 0.5, axis=1)
    A = F @ W
    A[k:] += noise * (A[k:] - W.mean(axis=0))
    labels = np.concatenate([np.arange(k), np.full(len(pairs), -1)])
    return _shuffled(np.maximum(A, 0.0), F, labels, W, rng)


def _shuffled(
    A: NDArray[np.float64],
    F: NDArray[np.float64],
    labels: NDArray[Any],
    W: NDArray[np.float64],
    rng: np.random.Generator,
) -> Separable:
    """Shuffle the rows, so that tie-breaking rules cannot favour the anchors."""
    order = rng.permutation(len(A))
    shuffled = labels[order].astype(np.int32)
    anchors = np.array([np.argmax(shuffled == a) for a in range(len(W))], dtype=np.intp)
    return Separable(np.ascontiguousarray(A[order]), anchors, shuffled, W, F[order])


def _family_components(k: int, n: int, condition: float | None, rng: np.random.Generator) -> NDArray[np.float64]:
    """Anchors of full rank, or if k > n, each at least 0.01 away from the hull of the others and the origin."""
    for _ in range(1000):
        W = nonnegative_components(k, n, condition=condition, rng=rng)
        if k <= n or all(_distance_to_hull(W[a], np.delete(W, a, axis=0)) >= 1e-2 for a in range(k)):
            return W
    raise InvalidInputError(f"{k} random points in {n} dimensions are almost never all extreme; choose a larger n")


def _distance_to_hull(point: NDArray[np.float64], others: NDArray[np.float64]) -> float:
    """Distance to the hull of ``others`` and the origin; a heavy extra equation enforces the sum to one."""
    heavy = 1e4
    vertices = np.vstack([others, np.zeros_like(point)])
    system = np.vstack([vertices.T, np.full(len(vertices), heavy)])
    weights, _ = nnls(system, np.append(point, heavy))
    return float(np.linalg.norm(point - weights @ vertices))
