"""Rejection sampling from a linear combination of lines: the loop, and its two kinds of proposal.

The aim is to draw a position s with probability v_s²/‖v‖² for v = Σ_t w_t·a_t, where each line a_t can be sampled and
queried. Draw a line t, a position s on it by squared entry, and accept s with a probability that turns the proposal
into the target. By Cauchy–Schwarz, for any positive c_t,

    v_s² ≤ (Σ_t c_t) · Σ_t w_t² a_ts² / c_t,

and the right side is the distribution of s if t is drawn with probability ∝ w_t²‖a_t‖²/c_t. The expected number of
trials per accepted draw is (Σ c_t)(Σ w_t²‖a_t‖²/c_t)/‖v‖². Its minimum, ``(Σ_t |w_t|·‖a_t‖)²/‖v‖²``, is at
``c_t = |w_t|·‖a_t‖`` ("norm" weights). Equal c_t ("squared" weights, the choice of Tang) give p·Σ_t w_t²‖a_t‖²/‖v‖².
The draw is exact: the norm of v is not needed.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..errors import InvalidInputError, SamplingError
from ..matrix.norm_draws import draw_by_weight
from ..matrix.scaled import power_of_two
from ._lines import Lines

__all__ = ["Draws", "Weights", "one_layer", "one_layer_bound", "two_layers", "two_layers_bound"]

Weights: TypeAlias = Literal["norm", "squared"]
_Floats: TypeAlias = NDArray[np.float64]
_Proposal: TypeAlias = Callable[[int], tuple[NDArray[np.intp], _Floats, NDArray[np.bool_]]]


@dataclass(frozen=True)
class Draws:
    """Accepted positions, the value of the combination at each, and the number of trials."""

    indices: NDArray[np.intp]
    values: _Floats
    trials: int

    @property
    def trials_per_draw(self) -> float:
        return self.trials / max(1, len(self.indices))


def one_layer(
    lines: Lines, w: _Floats, size: int, rng: np.random.Generator, max_trials: int, weights: Weights = "norm"
) -> Draws:
    """``size`` draws from D_v for v = Σ_t w_t·(line t); each trial costs one sample and p queries."""
    norms = lines.norms()
    unit = _unit(w, norms)
    w = w / unit
    c = _splitting(w, norms, weights)
    line_weights = _divide(w**2 * norms**2, c)
    share, total = _divide(w**2, c), float(c.sum())

    def propose(batch: int) -> tuple[NDArray[np.intp], _Floats, NDArray[np.bool_]]:
        places = lines.draw(draw_by_weight(line_weights, batch, rng), rng)
        entries = lines.entries(places)
        values = entries @ w
        accepted = rng.random(batch) * (total * (entries**2 @ share)) < values**2
        return places, values * unit, accepted

    return _until(size, propose, lines.batch, max_trials)


def two_layers(
    lines: Lines, coefficients: _Floats, y: _Floats, size: int, rng: np.random.Generator, max_trials: int
) -> Draws:
    """The same draws by Algorithm 2 on top of draws from each vector, as in the paper.

    Outer layer: vector j with probability ∝ y_j²‖U^(j)‖², a position s from D_{U^(j)}, accepted with probability
    (U·y)_s² / (k·Σ_j y_j²U_sj²). Inner layer: s from D_{U^(j)} by rejection over the p lines with equal splitting.
    Drawing (j, line) jointly and restarting both layers when the inner one rejects gives j the right weight without
    knowing ‖U^(j)‖. The draw is therefore exact, where the paper's is α/(1 − α)-close.
    """
    norms = lines.norms()
    unit = _unit(np.abs(coefficients) @ np.abs(y), norms)
    y = y / unit
    pair_weights = (coefficients * norms[:, None]) ** 2 * y**2
    p, k = int(np.count_nonzero(norms)), int(np.count_nonzero(y))

    def propose(batch: int) -> tuple[NDArray[np.intp], _Floats, NDArray[np.bool_]]:
        line, vector = np.divmod(draw_by_weight(pair_weights.ravel(), batch, rng), len(y))
        places = lines.draw(line, rng)
        entries = lines.entries(places)
        vectors = entries @ coefficients
        values = vectors @ y
        inner = np.einsum("bt,tb->b", entries**2, coefficients[:, vector] ** 2)
        outer = vectors**2 @ y**2
        chosen = vectors[np.arange(batch), vector] ** 2
        accepted = rng.random(batch) * (p * inner) * (k * outer) < chosen * values**2
        return places, values * unit, accepted

    return _until(size, propose, lines.batch, max_trials)


def _unit(w: _Floats, norms: _Floats) -> float:
    """The power of two next to the largest part of a combination: squares of parts in this unit are about one."""
    largest = float((np.abs(w) * norms).max())
    if largest == 0:
        raise InvalidInputError("the combination is the zero vector: there is nothing to sample from")
    if not np.isfinite(largest):
        raise InvalidInputError("the combination overflows; divide its coefficients by the largest")
    return power_of_two(largest)


def one_layer_bound(norms: _Floats, w: _Floats, weights: Weights = "norm") -> float:
    """Expected trials per accepted draw, times ‖v‖²."""
    c = _splitting(w, norms, weights)
    return float(c.sum() * _divide(w**2 * norms**2, c).sum())


def two_layers_bound(norms: _Floats, coefficients: _Floats, y: _Floats) -> float:
    """Expected trials per accepted draw of :func:`two_layers`, times ‖U·y‖²."""
    p, k = int(np.count_nonzero(norms)), int(np.count_nonzero(y))
    return float(p * k * ((coefficients**2 * norms[:, None] ** 2) * y**2).sum())


def _splitting(w: _Floats, norms: _Floats, weights: Weights) -> _Floats:
    size = np.abs(w) * norms
    return size if weights == "norm" else (size > 0).astype(np.float64)


def _divide(a: _Floats, b: _Floats) -> _Floats:
    return np.divide(a, b, out=np.zeros_like(a), where=b > 0)


def _until(size: int, propose: _Proposal, largest: int, max_trials: int) -> Draws:
    """Propose in batches until ``size`` are accepted, or the trials exceed ``max_trials`` per draw."""
    indices = np.empty(size, dtype=np.intp)
    values = np.empty(size)
    have = trials = 0
    rate = 0.5
    while have < size:
        if trials >= max_trials * (have + 1):
            raise SamplingError(
                f"rejection sampling accepted {have} of {trials} trials (rate {have / trials:.2g}), "
                f"below one in max_trials = {max_trials}; orthonormalise the vectors or raise max_trials"
            )
        wanted = math.ceil(1.1 * (size - have) / rate) + 8
        batch = min(wanted, largest, max_trials * (have + 1) - trials)
        places, at, accepted = propose(batch)
        kept = np.flatnonzero(accepted)[: size - have]
        indices[have : have + len(kept)] = places[kept]
        values[have : have + len(kept)] = at[kept]
        have += len(kept)
        trials += int(kept[-1]) + 1 if have == size else batch
        rate = max((have + 1) / (trials + 2), 1e-6)
    return Draws(indices, values, trials)
