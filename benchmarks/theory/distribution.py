"""The distribution: total variation distance between what Algorithm 1 draws from and D_{AVx}, as p grows.

The matrices are small enough for the exact distributions. The rejection sampler is exact, so O_i = D_{Ûỹ} and the
paper's four terms are three: ① V̂ for V, ② ÛÛᵀA for A, ③ M̃ for M.
"""

from __future__ import annotations

import numpy as np
from common import BLUE, GREEN, GREY, ORANGE, legend_below, options, plain_ticks, plt, save, write_table

import fastanchors as fa

K, M_ROWS, N = 4, 400, 60


def separable(condition: float, seed: int = 0) -> np.ndarray:
    """Mixtures of k anchors; ``condition`` squeezes the anchors towards their mean."""
    rng = np.random.default_rng(seed)
    anchors = rng.dirichlet(np.full(N, 0.3), size=K)
    mean = anchors.mean(axis=0)
    anchors = mean + (anchors - mean) / condition
    A = rng.dirichlet(np.ones(K), size=M_ROWS) @ anchors
    A[:K] = anchors
    return A


def distribution(v: np.ndarray) -> np.ndarray:
    return v**2 / (v**2).sum()


def distance(u: np.ndarray, v: np.ndarray) -> float:
    return 0.5 * float(np.abs(distribution(u) - distribution(v)).sum())


def terms(A: np.ndarray, S: fa.SampleMatrix, p: int, zeta: float, mend: bool, seed: int) -> np.ndarray:
    """Median over directions of (total, ①, ②, ③)."""
    rng = np.random.default_rng(seed)
    V, U = fa.fkv(S, K, rows=p, columns=p, rng=rng), fa.fkv(S, K, side="left", rows=p, columns=p, rng=rng)
    basis = V.orthonormalize("exact").query(np.arange(N))  # the V of Lemma 2
    if mend:
        V, U = V.orthonormalize("exact"), U.orthonormalize("sampled", rng=rng)
    product = fa.estimate_product(U, S, V, zeta=zeta, eta=0.1, rng=rng)
    Vd, Ud = V.query(np.arange(N)), U.query(np.arange(M_ROWS))
    X = rng.standard_normal((50, K))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    result = []
    for x in X:
        ideal, first, second, drawn = A @ (basis @ x), A @ (Vd @ x), Ud @ (Ud.T @ (A @ (Vd @ x))), Ud @ (product @ x)
        result.append(
            [distance(ideal, drawn), distance(ideal, first), distance(first, second), distance(second, drawn)]
        )
    return np.median(result, axis=0)


def main() -> None:
    arguments = options(__doc__)
    sizes = [20, 80, 320] if arguments.quick else [20, 40, 80, 160, 320, 640, 1280, 5120]
    seeds = range(2 if arguments.quick else 7)
    zeta = 0.1 if arguments.quick else 0.02
    rows = []
    figure, axes = plt.subplots(1, 2, figsize=(9.5, 3.9), sharey=True)
    for axis, condition in zip(axes, (1.0, 4.0)):
        A = separable(condition)
        kappa = np.linalg.svd(A, compute_uv=False)
        kappa = kappa[0] / kappa[K - 1]
        S = fa.SampleMatrix(A, normalize=None)
        for mend, colour, label in ((False, ORANGE, "raw vectors"), (True, BLUE, "orthonormalised")):
            found = [np.median([terms(A, S, p, zeta, mend, seed) for seed in seeds], axis=0) for p in sizes]
            rows += [[float(kappa), label, p, *map(float, t)] for p, t in zip(sizes, found)]
            axis.loglog(sizes, [t[0] for t in found], "o-", color=colour, label=f"{label}: O against D(AVx)")
            if mend:
                axis.loglog(sizes, [t[3] for t in found], ":", color=GREY, label="of which the product, ③")
            else:
                axis.loglog(sizes, [t[2] for t in found], ":", color=GREEN, label="of which ÛÛᵀA for A, ②")
        axis.set(title=f"κ = {kappa:.1f}", xlabel="rows and columns drawn by FKV, p")
        plain_ticks(axis, sizes)
    axes[0].set_ylabel("total variation distance")
    legend_below(figure, axes, 2)
    save(arguments, figure, "distribution")
    caption = (
        f"{M_ROWS} × {N}, rank k = {K} exactly, ζ = {zeta}; medians over 50 directions and {len(seeds)} seeds. "
        "① V̂ for V, ② ÛÛᵀA for A, ③ M̃ for M; ④, the rejection, is exact."
    )
    header = ["κ", "vectors", "p", "TV(O, D(AVx))", "①", "②", "③"]
    write_table(arguments, "distribution", "The distribution of the draws", [(caption, header, rows)])


if __name__ == "__main__":
    main()
