"""General NMF started from anchors: scikit-learn's NMF with initial factors from a separable solver.

Separable solutions as initial factors: N. Gillis, "Nonnegative Matrix Factorization", SIAM 2020. The usual
initialisation, ``init="nndsvd"``: C. Boutsidis and E. Gallopoulos, "SVD based initialization: a head start for
nonnegative matrix factorization", Pattern Recognit. 41, 2008.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from . import solvers
from ._equality import ComparedByValue
from ._parallel import one_blas_thread
from ._rng import RngLike, as_generator
from ._types import Rows
from ._validate import check_choice, check_flag, check_number, check_rank, check_size
from .encoder import encode
from .errors import InvalidInputError, InvalidTypeError, RankError, one_line
from .matrix import ArrayMatrix, open_matrix
from .matrix.scaled import divided, scale_rows, unit_of

__all__ = ["Factors", "nmf"]

_ENTRIES = 1 << 20  # entries of a product formed at a time
_STEP = 10  # iterations between checks of the error
_STARTS = ("anchors", "nndsvd", "nndsvda", "nndsvdar", "random")
_OPTIONS = ("solver", "alpha_W", "alpha_H", "l1_ratio", "shuffle", "beta_loss", "verbose", "random_state")


@dataclass(frozen=True, eq=False)
class Factors(ComparedByValue):
    """X ≈ W·H, both non-negative.

    Attributes
    ----------
    W, H
        m × k weights and k × n components.
    error
        ‖X − W·H‖_F.
    iterations
        Number of iterations of scikit-learn's NMF, checked every ten.
    converged
        Whether the last ten iterations improved the error by less than ``tol``·‖X‖_F.
    start_error
        The error of the initial factors; None if scikit-learn computed them.
    anchors
        The rows used as initial components, for ``init="anchors"``.
    """

    W: NDArray[Any]
    H: NDArray[Any]
    error: float
    iterations: int
    converged: bool
    start_error: float | None = None
    anchors: NDArray[np.intp] | None = None

    def __iter__(self) -> Iterator[NDArray[Any]]:
        """Allows ``W, H = fa.nmf(X, k)``."""
        return iter((self.W, self.H))


def nmf(
    X: Any,
    k: int,
    *,
    init: str = "anchors",
    anchor_solver: Any = "fas",
    max_iter: int = 500,
    tol: float = 1e-5,
    rng: RngLike = None,
    **options: Any,
) -> Factors:
    """Non-negative factors X ≈ W·H of any non-negative matrix, started from its anchors.

    The initial H are the anchor rows of X, and the initial W is the non-negative least-squares encoding of all rows in
    them. Then scikit-learn's :class:`~sklearn.decomposition.NMF` minimises the Frobenius norm. If X is near-separable,
    these factors are close to the solution (Gillis 2020; the usual start is that of Boutsidis and Gallopoulos 2008).

    Parameters
    ----------
    X
        m × n non-negative array or sparse matrix, kept sparse.
    k
        Number of components.
    init
        ``"anchors"``, or an ``init`` of scikit-learn, for comparison.
    anchor_solver
        Solver for the anchors, a name or an object; it works on the rows scaled to unit sum.
    max_iter, tol
        Stop after ``max_iter`` iterations, or when ten iterations improve the error by less than ``tol``·‖X‖_F.
        scikit-learn's own rule is relative to the first iteration, so it is stricter for a better start.
    rng
        A ``numpy.random.Generator``, an int seed or None.
    **options
        Further options of scikit-learn's NMF: ``solver``, ``alpha_W``, ``alpha_H``, ``l1_ratio``, ``shuffle``.

    Raises
    ------
    RankError
        The rows have fewer than k independent anchors; use a smaller k or another ``init``.

    Notes
    -----
    Costs one seek and one encoding, O(nnz·k), before the iterations of O(nnz·k) each. ``solver="mu"`` cannot change
    zeros, so zeros of the initial factors are replaced by a thousandth of their mean.

    Examples
    --------
    >>> import fastanchors as fa
    >>> X = fa.datasets.separable(100, 10, 3, noise=0.02, rng=0).A
    >>> factors = fa.nmf(X, 3, rng=0)
    >>> factors.W.shape, factors.H.shape
    ((100, 3), (3, 10))
    """
    if "random_state" in options:
        raise InvalidInputError("nmf takes its seed as rng, not random_state")
    opened = open_matrix(X, name="X")
    if not isinstance(opened, ArrayMatrix):
        raise InvalidTypeError(f"nmf needs a matrix in memory, got {type(X).__name__}; use fa.SeparableNMF instead")
    matrix = opened.data
    if not (matrix.data if sp.issparse(matrix) else matrix).any():
        raise RankError("every entry of X is zero: there is nothing to factor", 0)
    check_choice(init, _STARTS, name="init")
    _check_options(options)
    loss = options.get("beta_loss", "frobenius")
    if not (isinstance(loss, str | int | float) and loss in ("frobenius", 2)):
        raise InvalidInputError("nmf minimises the Frobenius norm; for other beta_loss use sklearn.decomposition.NMF")
    k = check_rank(k, matrix.shape, limit="rows" if init == "random" else "rank")
    max_iter = check_size(max_iter, name="max_iter")
    tol = check_number(tol, name="tol", minimum=0.0)
    if matrix.dtype.kind != "f":
        matrix = matrix.astype(np.float64)
    unit = unit_of(matrix)
    matrix = divided(matrix, unit)
    generator = as_generator(rng)
    options["random_state"] = int(generator.integers(1 << 31))
    if init != "anchors":
        return _in_units(_descend(matrix, k, None, None, {**options, "init": init}, max_iter, tol), unit)
    W, H, anchors = _start(matrix, k, anchor_solver, generator)
    before = _error(matrix, W, H)
    if options.get("solver") == "mu":
        W, H = (np.maximum(F, 1e-3 * F.mean()) for F in (W, H))
    done = _descend(matrix, k, W, H, options, max_iter, tol)
    return _in_units(replace(done, start_error=before, anchors=anchors), unit)


def _in_units(found: Factors, unit: float) -> Factors:
    """The factors of the matrix before it was divided by ``unit``."""
    if not (np.isfinite(found.W).all() and np.isfinite(found.H).all() and np.isfinite(found.error)):
        raise InvalidInputError(
            "the factors are not finite: the squares of most entries of X underflow beside those of its largest entry; "
            "remove or clip that entry"
        )
    if unit == 1:
        return found
    before = None if found.start_error is None else found.start_error * unit
    return replace(found, H=found.H * unit, error=found.error * unit, start_error=before)


def _check_options(options: dict[str, Any]) -> None:
    """Check the options that are passed on to scikit-learn's NMF, and make numbers floats."""
    unknown = [name for name in options if name not in _OPTIONS]
    if unknown:
        raise InvalidTypeError(f"nmf has no option {unknown[0]!r} (its options of NMF: {', '.join(_OPTIONS)})")
    check_choice(options.get("solver", "cd"), ("cd", "mu"), name="solver")
    for name in ("alpha_W", "alpha_H"):
        if name in options and not (isinstance(options[name], str) and options[name] == "same"):
            options[name] = check_number(options[name], name=name, minimum=0.0)
    if "l1_ratio" in options:
        options["l1_ratio"] = check_number(options["l1_ratio"], name="l1_ratio", minimum=0.0, maximum=1.0)
    check_flag(options.get("shuffle", False), name="shuffle")


@one_blas_thread()  # so that the factors do not depend on the number of threads
def _descend(matrix: Rows, k: int, W: Any, H: Any, options: dict[str, Any], max_iter: int, tol: float) -> Factors:
    """Run scikit-learn's iterations, ten at a time, until the error improves too little."""
    from sklearn.decomposition import NMF  # start-up

    enough = tol * float(np.linalg.norm(matrix.data if sp.issparse(matrix) else matrix))
    error, done, gain = np.inf, 0, np.inf
    while done < max_iter and gain > enough:
        settings = options if W is None else {**options, "init": "custom"}
        step = min(_STEP, max_iter - done)
        model = NMF(k, max_iter=step, tol=0.0, **settings)  # with tol = 0 it neither stops early nor warns
        with np.errstate(invalid="ignore"):  # for sparse rows its error is the root of a difference, maybe below zero
            try:
                W = model.fit_transform(matrix, W=W, H=H)
            except ValueError as reason:  # a penalty so large that all factors are zero
                raise InvalidInputError(
                    f"NMF of scikit-learn: {one_line(str(reason), 200)}; use other options"
                ) from None
        H = model.components_
        left = _error(matrix, W, H) if sp.issparse(matrix) else float(model.reconstruction_err_)
        gain, error = error - left, left
        done += step
    return Factors(W, H, error, done, bool(gain <= enough))


def _start(
    matrix: Rows, k: int, solver: Any, rng: np.random.Generator
) -> tuple[NDArray[Any], NDArray[Any], NDArray[np.intp]]:
    """(W, H, anchors): the anchor rows and the encoding of all rows in them."""
    try:
        anchors = solvers.get(solver).seek(scale_rows(matrix), k, rng=rng).indices
    except RankError as error:
        raise RankError(f"{error}; or start from init='nndsvda'", error.rank) from None
    rows = matrix[anchors]
    H = np.ascontiguousarray(rows.toarray() if sp.issparse(rows) else rows)
    W = np.ascontiguousarray(encode(matrix, H), dtype=H.dtype)
    return W, H.copy(), anchors


def _error(matrix: Rows, W: NDArray[Any], H: NDArray[Any]) -> float:
    """‖X − W·H‖_F by ‖X‖² − 2⟨X·Hᵀ, W⟩ + ⟨WᵀW, HHᵀ⟩, or if rounding may matter there, by W·H of some rows at a time."""
    values = matrix.data if sp.issparse(matrix) else matrix
    squares = float(np.vdot(values, values))
    cross = float(np.vdot(np.asarray(matrix @ H.T), W))
    left = squares - 2 * cross + float(np.vdot(W.T @ W, H @ H.T))
    if not left < np.sqrt(np.finfo(matrix.dtype).eps) * squares:
        return float(np.sqrt(left))
    step = max(1, _ENTRIES // matrix.shape[1])
    parts = (slice(start, start + step) for start in range(0, matrix.shape[0], step))
    return math.hypot(*(np.linalg.norm(matrix[part] - W[part] @ H) for part in parts))
