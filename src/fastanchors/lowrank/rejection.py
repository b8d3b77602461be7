"""Draw from D_{U·y} by rejection sampling (Algorithm 2 of the paper)."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._rng import RngLike, as_generator
from .._validate import as_reals, check_choice, check_draws, check_size
from ..errors import InvalidInputError
from ._layers import Draws, Weights, one_layer, one_layer_bound, two_layers, two_layers_bound
from .factored import FactoredVectors, as_factored

__all__ = ["Draws", "Layers", "draw_combination", "expected_trials", "sample_combination"]

Layers: TypeAlias = Literal["one", "two"]


def sample_combination(
    U: Any,
    y: ArrayLike,
    size: int | None = None,
    *,
    rng: RngLike = None,
    layers: Layers = "one",
    weights: Weights = "norm",
    max_trials: int = 10_000,
) -> Any:
    """Draw indices s with probability (U·y)_s²/‖U·y‖² (Algorithm 2 of the paper, corrected).

    As printed, Algorithm 2 draws j with probability ∝ ‖U^(j)y_j‖ and accepts s with (U·y)_s²/(k·Σ_i y_i U_ij).
    Two corrections are possible, and both are implemented:

    * squares in both places: j ∝ ‖U^(j)y_j‖², acceptance (U·y)_s²/(k·Σ_j y_j²U_sj²) (``weights="squared"``);
    * line 1 as printed, j ∝ ‖U^(j)y_j‖ =: c_j, with the matching acceptance probability
      (U·y)_s²/((Σ_j c_j)·Σ_j y_j²U_sj²/c_j) (``weights="norm"``, the default). It never needs more trials.

    For factored vectors U = Σ_t A^(t)·Φ_t the default writes U·y as one combination w = Φ·y of the p sampled columns
    and runs the algorithm once on those (``layers="one"``). ``layers="two"`` is the paper's form, Algorithm 2 on top of
    a rejection sampler for each U^(j); it never needs fewer trials, and always uses squared weights.

    Parameters
    ----------
    U
        Factored vectors, or a matrix (array or sample access) whose columns are the vectors.
    y
        k coefficients.
    size
        Number of draws; None for a single int.
    rng
        A ``numpy.random.Generator``, an int seed or None.
    layers
        ``"one"`` layer of rejection, or ``"two"`` as in the paper.
    weights
        ``"norm"`` or ``"squared"``: which of the two corrections above.
    max_trials
        Limit of the trials per accepted draw.

    Raises
    ------
    SamplingError
        More than ``max_trials`` trials per accepted draw; the message reports the acceptance rate.

    Notes
    -----
    Costs one sample and p queries per trial; :func:`expected_trials` returns the expected number of trials. The draws
    are exact for any U: it need not be orthonormal.

    Examples
    --------
    >>> import fastanchors as fa
    >>> import numpy as np
    >>> U = np.eye(5)[:, :2]
    >>> drawn = fa.sample_combination(U, [3.0, 4.0], 1000, rng=0)
    >>> np.unique(drawn).tolist()
    [0, 1]
    """
    count = 1 if size is None else check_draws(size)
    drawn = draw_combination(U, y, count, rng=rng, layers=layers, weights=weights, max_trials=max_trials).indices
    return int(drawn[0]) if size is None else drawn


def draw_combination(
    U: Any,
    y: ArrayLike,
    size: int,
    *,
    rng: RngLike = None,
    layers: Layers = "one",
    weights: Weights = "norm",
    max_trials: int = 10_000,
) -> Draws:
    """Like :func:`sample_combination`, but also returns the value (U·y)_s at each draw and the number of trials."""
    vectors = as_factored(U)
    coefficients = _check(vectors, y, layers, weights)
    size, max_trials = check_draws(size), check_size(max_trials, name="max_trials")
    generator = as_generator(rng)
    if layers == "two":
        return two_layers(vectors._lines, vectors.coefficients, coefficients, size, generator, max_trials)
    return one_layer(vectors._lines, vectors.coefficients @ coefficients, size, generator, max_trials, weights)


def expected_trials(
    U: Any, y: ArrayLike, *, gram: ArrayLike, layers: Layers = "one", weights: Weights = "norm"
) -> float:
    """Expected trials per accepted draw of :func:`sample_combination`, given UᵀU (:meth:`FactoredVectors.gram`).

    One layer: ``(Σ_t |w_t|·‖A^(t)‖)²/‖U·y‖²`` with ``"norm"`` weights, p·Σ_t w_t²‖A^(t)‖²/‖U·y‖² with ``"squared"``.
    Two layers: k·p·Σ_j y_j²·Σ_t Φ_tj²‖A^(t)‖²/‖U·y‖². Each is at least the one before it, by Cauchy–Schwarz.
    """
    vectors = as_factored(U)
    coefficients = _check(vectors, y, layers, weights)
    G = as_reals(gram, "gram")
    if G.shape != (len(coefficients),) * 2:
        raise InvalidInputError(f"gram must have shape {(len(coefficients),) * 2}, got {G.shape}")
    norms = vectors._lines.norms()
    if layers == "two":
        bound = two_layers_bound(norms, vectors.coefficients, coefficients)
    else:
        bound = one_layer_bound(norms, vectors.coefficients @ coefficients, weights)
    squared = float(coefficients @ G @ coefficients)
    return bound / squared if squared > 0 else float("inf")


def _check(U: FactoredVectors, y: ArrayLike, layers: Any, weights: Any) -> NDArray[np.float64]:
    coefficients = as_reals(y, "y")
    if coefficients.shape != (U.shape[1],):
        raise InvalidInputError(
            f"y must hold {U.shape[1]} numbers, one for each vector, got shape {coefficients.shape}"
        )
    if not coefficients.any():
        raise InvalidInputError("y is zero: U·y is the zero vector and there is nothing to sample from")
    check_choice(layers, ("one", "two"), name="layers")
    check_choice(weights, ("norm", "squared"), name="weights")
    return coefficients
