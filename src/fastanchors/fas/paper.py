"""Run Algorithm 1 of the paper, line by line, with its errors corrected (docs/theory.md derives each correction)."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from .._rng import as_generator
from .._validate import check_choice, check_flag, check_number, check_size
from ..anchors import Certificate, Selection
from ..errors import InvalidInputError, RankError, SamplingError, TooLargeError
from ..greedy.reader import Reader
from ..greedy.successive import successive_projection
from ..lowrank.factored import FactoredVectors
from ..lowrank.product import MAX_DRAWS, estimate_product
from ..lowrank.rejection import Draws, draw_combination, expected_trials
from ..lowrank.sampled_svd import fkv
from ..matrix import ArrayMatrix, SampleAccess, open_matrix
from ..matrix.array import all_rows
from ..matrix.metered import MeteredMatrix
from ..sampling.matrix import SampleMatrix

__all__ = ["PaperFAS", "Schedule"]

MAX_KAPPA = 1e100  # beyond any matrix of doubles, and κ² is still finite
MAX_DIRECTIONS = 10**9
_MOST_TRIALS = 10**8  # of rejection sampling, at 0.2 to 0.7 µs each: about a minute


@dataclass(frozen=True)
class Schedule:
    """Every parameter of one run of Algorithm 1."""

    kappa: float
    eps: float
    eps_V: float
    eps_U: float
    delta_V: float
    delta_U: float
    zeta: float
    eta: float
    gamma: float
    directions: int
    draws: int


@dataclass(frozen=True)
class PaperFAS:
    """Algorithm 1: FKV on both sides, the k × k product, and votes of s random directions.

    Lines 2–7 set up V̂ and Û by FKV and M̃ ≈ ÛᵀAV̂. Each of s directions x then gives ỹ = M̃x, N draws from D_{Ûỹ} by
    Algorithm 2, and one vote for the index drawn most often. The paper returns all voted indices, up to s; here SPA
    among the voted rows reduces them to k.

    The schedule follows the paper, with its O(·) made explicit and its errors corrected:

    ======== ============================================ ==================================================
    eps      ½·min(1, 2√(2·log(4·log²m/δ)/log²m))         the paper asks for ε below the root
    eps_V    min(2√2·ε/(k^1.5·κ), 0.99/(k·κ²))            the paper's first term lacks a factor k
    eps_U    min(2ε/k, 0.99/(k·κ²))                       as in the paper
    eta      1 − (1 − δ)^(1/4), also δ_V and δ_U          as in the paper
    gamma    1 − (1 − δ)^(1/4s)                           as in the paper
    zeta     ε/k (practical) or ε/(12·k²·κ) (theorem)     the paper has O(ε/(k²·κ))
    s        ⌈(3/α)·k·log(k/δ)⌉                           with log k, the failure probability is 1
    N        ⌈log²m⌉                                      the paper has polylog(m)
    ======== ============================================ ==================================================

    Arrays and sparse matrices must be non-negative, and are checked completely. A matrix with sample access is only
    checked in the entries that are read, the sampled core and the rows voted for: checking all of it would cost what
    the algorithm saves.

    Parameters
    ----------
    delta
        Failure probability δ.
    kappa
        Condition number κ(A); estimated as σ̂₁/σ̂_k of FKV when None.
    alpha
        The constant α ≤ 1 of "every anchor is the extreme row of a random direction with probability above α/k".
    sizes
        ``"practical"`` draws 20·k rows and columns for FKV and estimates M̃ to ζ = ε/k, enough for random directions
        on average. ``"theorem"`` takes the sizes proved sufficient in the worst case, and raises ``TooLargeError`` with
        the sizes if they are infeasible, which is usual for k > 1.
    rows, columns
        Sizes of FKV that replace either.
    eps, eps_V, eps_U, zeta, eta, gamma, directions, draws
        Values that replace those of the table. The others are not adjusted: more ``draws`` alone do not change ε, nor
        the gap that the theorem requires.
    orthonormalize
        Orthonormalise V̂ and Û in factored form. On by default, since raw vectors are useless at practical sizes. V̂ is
        done exactly (reads the sampled rows), Û by sampling; both exactly with ``sizes="theorem"``, which costs m
        queries for each sampled column.
    rule
        ``"most-frequent"`` as in the paper, or ``"largest"``: the drawn index where Ûỹ is largest in absolute value.
    layers
        ``"one"`` or ``"two"``, see :func:`fastanchors.sample_combination`.
    max_draws
        Bound on the draws of the product estimate.
    """

    delta: float = 0.1
    kappa: float | None = None
    alpha: float = 1.0
    sizes: Literal["practical", "theorem"] = "practical"
    rows: int | None = None
    columns: int | None = None
    eps: float | None = None
    eps_V: float | None = None
    eps_U: float | None = None
    zeta: float | None = None
    eta: float | None = None
    gamma: float | None = None
    directions: int | None = None
    draws: int | None = None
    orthonormalize: bool = True
    rule: Literal["most-frequent", "largest"] = "most-frequent"
    layers: Literal["one", "two"] = "one"
    max_draws: int = MAX_DRAWS

    def __post_init__(self) -> None:
        for name in ("delta", "eps", "eps_V", "eps_U", "eta", "gamma"):
            value = getattr(self, name)
            if value is not None and check_number(value, name=name, minimum=0, maximum=1) in (0, 1):
                raise InvalidInputError(f"{name} must be strictly between 0 and 1, got {value}")
        for name, largest in (("alpha", 1.0), ("zeta", math.inf)):
            value = getattr(self, name)
            if value is not None and check_number(value, name=name, minimum=0, maximum=largest) == 0:
                raise InvalidInputError(f"{name} must be positive")
        if self.kappa is not None:
            check_number(self.kappa, name="kappa", minimum=1, maximum=MAX_KAPPA)
        for name in ("rows", "columns", "directions", "draws", "max_draws"):
            value = getattr(self, name)
            if value is not None:
                check_size(value, name=name)
        check_flag(self.orthonormalize, name="orthonormalize")
        for name, choices in (
            ("sizes", ("practical", "theorem")),
            ("rule", ("most-frequent", "largest")),
            ("layers", ("one", "two")),
        ):
            check_choice(getattr(self, name), choices, name=name)
        if self.sizes == "theorem" and (self.rows is not None or self.columns is not None):
            raise InvalidInputError('rows and columns cannot be given together with sizes="theorem"')

    def prepare(self, A: Any) -> MeteredMatrix:
        """Sample access to ``A``; a matrix without it gets one in memory, not normalised."""
        matrix = open_matrix(A)
        if not isinstance(matrix, SampleAccess):
            rows = all_rows(matrix, "FAS(variant='paper') without a store (make one with fa.build)")
            matrix = SampleMatrix(rows, normalize=None, row_names=matrix.row_names)
        return MeteredMatrix(matrix)

    def schedule(self, m: int, k: int, kappa: float) -> Schedule:
        """The parameters of a run on m rows at rank k and condition number κ."""
        delta = self.delta
        polylog = max(1, math.ceil(math.log(m) ** 2))
        eps = self.eps or min(1.0, 2 * _deviation(polylog, delta)) / 2
        span = 0.99 / (k * kappa**2)
        directions = self.directions or max(1, math.ceil(min(3 / self.alpha * k * math.log(k / delta), 1e300)))
        if directions > MAX_DIRECTIONS:
            raise TooLargeError(f"{directions:.3g} directions cannot be tried; allow fewer, or a larger alpha")
        quarter = -math.expm1(math.log1p(-delta) / 4)  # 1 − (1 − δ)^(1/4), accurate for small δ
        return Schedule(
            kappa=kappa,
            eps=eps,
            eps_V=self.eps_V or min(2 * math.sqrt(2) * eps / (k**1.5 * kappa), span),
            eps_U=self.eps_U or min(2 * eps / k, span),
            delta_V=quarter,
            delta_U=quarter,
            zeta=self.zeta or (eps / (12 * k**2 * kappa) if self.sizes == "theorem" else eps / k),
            eta=self.eta or quarter,
            gamma=self.gamma or -math.expm1(math.log1p(-delta) / (4 * directions)),
            directions=directions,
            draws=self.draws or polylog,
        )

    def select(self, data: MeteredMatrix, k: int, rng: np.random.Generator | None) -> Selection:
        """Run Algorithm 1 on checked input."""
        rng = as_generator(rng)
        S = data.sampled
        assert S is not None
        V = kappa = None
        if self.kappa is None or self.sizes == "practical":
            V = fkv(S, k, rows=self.rows, columns=self.columns, rng=rng)
            kappa = float(V.singular_values[0] / V.singular_values[-1])  # type: ignore[index]
        plan = self.schedule(S.shape[0], k, self.kappa or kappa or 1.0)
        V, U, gram = self._vectors(S, k, plan, V, rng)
        _refuse_negative(S, V.indices, U.indices)
        M = estimate_product(U, S, V, zeta=plan.zeta, eta=plan.eta, rng=rng, max_draws=self.max_draws)
        drawn = self._directions(U, M, gram, plan, rng)
        tally = _Tally.count(drawn, self.rule)
        indices, residuals, reduction = _reduce(data, tally, k)
        details = {
            "variant": "paper",
            "rule": self.rule,
            "sizes": self.sizes,
            "schedule": asdict(plan),
            "kappa_estimated": self.kappa is None,
            "fkv": {"rows": len(V.indices), "columns": len(U.indices), "orthonormalized": self.orthonormalize},
            "draws": int(sum(len(d.indices) for d in drawn)),
            "trials_per_draw": sum(d.trials for d in drawn) / max(1, sum(len(d.indices) for d in drawn)),
            "votes": tally.votes,
            "reduction": reduction,
        }
        return Selection(indices, self._certificate(indices, tally, plan, details), residuals)

    def _vectors(
        self, S: SampleAccess, k: int, plan: Schedule, V: FactoredVectors | None, rng: np.random.Generator
    ) -> tuple[FactoredVectors, FactoredVectors, NDArray[np.float64]]:
        """Lines 3–6: V̂ and Û, orthonormalised if requested, and the Gram matrix of Û."""
        theorem = self.sizes == "theorem"
        if theorem or V is None:
            V = fkv(S, k, eps=plan.eps_V, delta=plan.delta_V, rng=rng)
        if theorem:
            U = fkv(S, k, side="left", eps=plan.eps_U, delta=plan.delta_U, rng=rng)
        else:
            U = fkv(S, k, side="left", rows=self.rows, columns=self.columns, rng=rng)
        method: Literal["exact", "sampled"] = "exact" if theorem else "sampled"
        if self.orthonormalize:
            V = V.orthonormalize("exact")
            U = U.orthonormalize(method, rng=rng)
            return V, U, np.eye(k)
        return V, U, U.gram(method, rng=rng)

    def _directions(
        self,
        U: FactoredVectors,
        M: NDArray[np.float64],
        gram: NDArray[np.float64],
        plan: Schedule,
        rng: np.random.Generator,
    ) -> list[Draws]:
        """Lines 8–11: for each random unit x, N draws from D_{Ûỹ} with ỹ = M̃x."""
        X = rng.standard_normal((plan.directions, M.shape[1]))
        X /= np.linalg.norm(X, axis=1, keepdims=True)
        Y = X @ M.T
        trials = [expected_trials(U, y, gram=gram, layers=self.layers) for y in Y]
        if plan.draws * sum(trials) > _MOST_TRIALS:
            raise SamplingError(
                f"the draws would take about {plan.draws * sum(trials):.1e} trials, more than {_MOST_TRIALS:.0e}: the "
                f"{M.shape[0]} vectors nearly cancel; use a smaller k, or draw more rows and columns"
            )
        drawn: list[Draws] = []
        for y, expected in zip(Y, trials):
            if (used := sum(draws.trials for draws in drawn)) > 2 * _MOST_TRIALS:  # the Gram matrix is an estimate
                raise SamplingError(
                    f"{len(drawn)} of {plan.directions} directions took {used:.1e} trials, far more than expected: the "
                    f"{M.shape[0]} vectors nearly cancel; use a smaller k, or draw more rows and columns"
                )
            # With T the expected number of trials, a draw takes more than T·log(N/γ) with probability below γ/N. The
            # factor 4 allows for the error of the estimated Gram matrix.
            limit = math.ceil(max(4 * expected * (math.log(plan.draws) - math.log(plan.gamma)), 100.0))
            drawn.append(draw_combination(U, y, plan.draws, rng=rng, layers=self.layers, max_trials=limit))
        return drawn

    def _certificate(
        self, indices: NDArray[np.intp], tally: _Tally, plan: Schedule, details: dict[str, Any]
    ) -> Certificate:
        """The guarantee that the votes support.

        By the Dvoretzky–Kiefer–Wolfowitz inequality (Massart's constant), with probability 1 − δ all frequencies of
        all s directions are within √(2·log(2s/δ)/N) of their probabilities. A vote is *decided* when the observed gap
        exceeds twice that plus twice ε (a total variation distance of ε can shrink a gap by 2ε). Then it went to the
        row where A·β is largest in absolute value, if the distribution is ε-close, as the theorem's sizes guarantee.
        """
        width = 2 * math.sqrt(2 * math.log(2 * plan.directions / self.delta) / plan.draws)
        threshold = 2 * _deviation(plan.draws, self.delta) + 2 * plan.eps
        lower = np.maximum(tally.gaps - width, 0.0)
        decided = lower > 2 * plan.eps
        held = int(np.count_nonzero(lower > threshold))
        details["gap"] = {
            "estimates": tally.gaps,
            "intervals": np.stack([lower, np.minimum(tally.gaps + width, 1.0)], axis=1),
            "confidence": 1 - self.delta,
            "decided": int(np.count_nonzero(decided)),
        }
        details["condition"] = {
            "threshold": threshold,
            "threshold_as_printed": 4 * _deviation(plan.draws, self.delta),
            "attainable": threshold < 1,
            "held_in": held,
            "held": held == plan.directions,
        }
        proved = (
            self._close(plan, len(indices))
            and self.rule == "most-frequent"
            and set(indices.tolist()) <= set(tally.winners[decided].tolist())
        )
        if proved:
            return Certificate(
                "sampled",
                f"if A has rank {len(indices)} and condition number at most {plan.kappa:g}, then with probability at "
                f"least {1 - 2 * self.delta:g} every index is the row of largest |A·β| for some direction β",
                details,
            )
        return Certificate(
            "none",
            f"no guarantee: the theorem's condition, a gap D_max − D_secmax above {threshold:.2g}, held in {held} of "
            f"{plan.directions} directions (median gap seen {float(np.median(tally.gaps)):.2g})",
            details,
        )

    def _close(self, plan: Schedule, k: int) -> bool:
        """Whether the draws are proved ε-close to D_{AVx} with probability 1 − δ, for A of rank k and this κ.

        With vectors orthonormalised exactly, V̂ and Û span the right spaces for ε_V, ε_U < 1/(k·κ²). The remaining error
        is that of the product: at most ζ·k‖A‖_F ≤ ζ·k^1.5·κ·‖AVx‖. At most half of ε‖AVx‖ keeps the distance below ε.
        """
        failure = 1 - (1 - plan.delta_V) * (1 - plan.delta_U) * (1 - plan.eta)
        return (
            self.sizes == "theorem"
            and self.orthonormalize
            and self.kappa is not None
            and max(plan.eps_V, plan.eps_U) < 1 / (k * plan.kappa**2)
            and plan.zeta <= plan.eps / (2 * k**1.5 * plan.kappa)
            and failure <= self.delta
        )


@dataclass(frozen=True)
class _Tally:
    """The winner of each direction, its lead over the next index, and the total number of draws of every index."""

    winners: NDArray[np.intp]
    gaps: NDArray[np.float64]
    votes: dict[int, int]
    drawn: dict[int, int]

    @classmethod
    def count(cls, directions: list[Draws], rule: str) -> _Tally:
        winners, gaps = [], []
        drawn: dict[int, int] = {}
        for draws in directions:
            distinct, first, counts = np.unique(draws.indices, return_index=True, return_counts=True)
            best = counts if rule == "most-frequent" else np.abs(draws.values[first])
            winners.append(int(distinct[np.argmax(best)]))  # ties: the lowest index
            top = np.sort(counts)[::-1]
            gaps.append((top[0] - (top[1] if len(top) > 1 else 0)) / len(draws.indices))
            for index, count in zip(distinct.tolist(), counts.tolist()):
                drawn[index] = drawn.get(index, 0) + count
        won = np.array(winners, dtype=np.intp)
        indices, votes = np.unique(won, return_counts=True)
        ranked = sorted(zip(indices.tolist(), votes.tolist()), key=lambda pair: (-pair[1], pair[0]))
        return cls(won, np.array(gaps), dict(ranked), drawn)


def _reduce(data: MeteredMatrix, tally: _Tally, k: int) -> tuple[NDArray[np.intp], NDArray[np.float64], str]:
    """Reduce the voted indices to k by SPA among their rows; if too few, add the other rows drawn most often."""
    candidates = sorted(tally.votes)
    indices, residuals = _spa(data, candidates, k)
    reduction = f"SPA among the {len(candidates)} voted rows"
    if len(indices) < k:
        others = sorted(set(tally.drawn) - set(candidates), key=lambda i: (-tally.drawn[i], i))
        added = others[: max(10 * k, len(tally.winners))]
        indices, residuals = _spa(data, sorted(candidates + added), k)
        reduction = f"SPA among the {len(candidates)} voted rows and the {len(added)} drawn most often besides"
    if len(indices) < k:
        raise RankError(
            f"the rows drawn have rank {len(indices)}, below k = {k}; use a smaller k or more draws", len(indices)
        )
    return indices, residuals, reduction


def _spa(data: MeteredMatrix, candidates: list[int], k: int) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
    """SPA among ``candidates`` (ascending, so that ties go to the lowest index)."""
    R = data.dense_rows(candidates)
    if R.min() < 0:
        _negative(int(candidates[int(np.argmin(R.min(axis=1)))]))
    try:
        path = successive_projection(Reader(ArrayMatrix(R)), min(k, len(R)), allow_fewer=True)
    except RankError:  # all of them are zero
        return np.zeros(0, dtype=np.intp), np.zeros(0)
    return np.asarray(candidates, dtype=np.intp)[path.indices], np.array(path.residuals)


def _refuse_negative(S: SampleAccess, rows: NDArray[np.intp], columns: NDArray[np.intp]) -> None:
    """Raise if the sampled core, which is read anyway, has a negative entry; sample access allows signed matrices."""
    core = S[rows[:, None], columns[None, :]]
    core = core.toarray() if sp.issparse(core) else np.asarray(core)
    if core.min() < 0:
        _negative(int(rows[int(np.argmin(core.min(axis=1)))]))


def _negative(row: int) -> None:
    raise InvalidInputError(f"row {row} has a negative entry; clip or shift it: anchors need non-negative entries")


def _deviation(draws: int, delta: float) -> float:
    """√(2·log(4N/δ)/N), half the gap that Theorem 3 requires besides its ε."""
    return math.sqrt(2 * math.log(4 * draws / delta) / draws)
