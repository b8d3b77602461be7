"""Theorem 1: the error of FKV against the number p of rows and columns drawn, raw and orthonormalised."""

from __future__ import annotations

import math

import numpy as np
from common import BLUE, GREY, ORANGE, RED, legend_below, low_rank, options, plain_ticks, plt, save, write_table
from scipy.sparse.linalg import svds

import fastanchors as fa

K, DELTA = 10, 0.1


def relative_error(A: np.ndarray, V: np.ndarray) -> float:
    return float(np.linalg.norm(A - (A @ V) @ V.T) / np.linalg.norm(A))


def bound(optimum: float, p: int) -> float:
    """√(opt² + ε) with the ε that p rows and columns buy, see ``fa.fkv_sample_size``."""
    eps = math.sqrt(16 * K / p) * (1 + math.sqrt(2 * math.log(2 / DELTA)))
    return math.sqrt(optimum**2 + eps)


def main() -> None:
    arguments = options(__doc__)
    m, n = (1000, 800) if arguments.quick else (4000, 3000)
    sizes = [20, 100, 400] if arguments.quick else [20, 50, 100, 200, 400, 800, 1600]
    seeds = range(2 if arguments.quick else 5)
    cases = [(3.0, 0.1), (3.0, 0.0), (50.0, 0.1), (50.0, 0.0)]
    rows = []
    figure, axes = plt.subplots(1, 2, figsize=(9.5, 3.9), sharey=True)
    for kappa, noise in cases:
        A = low_rank(m, n, K, kappa=kappa, noise=noise)
        S = fa.SampleMatrix(A, normalize=None)
        top = svds(A, K, v0=np.ones(n), return_singular_vectors=False)
        optimum = math.sqrt(np.linalg.norm(A) ** 2 - (top**2).sum()) / np.linalg.norm(A) if noise else 0.0
        raw, mended, alphas = [], [], []
        for p in sizes:
            found = [fa.fkv(S, K, rows=p, columns=p, rng=seed) for seed in seeds]
            raw.append(np.median([relative_error(A, V.query(np.arange(n))) for V in found]))
            mended.append(np.median([relative_error(A, V.orthonormalize().query(np.arange(n))) for V in found]))
            alphas.append(np.median([V.alpha() for V in found]))
            rows.append([kappa, noise, p, raw[-1], mended[-1], optimum, alphas[-1], bound(optimum, p)])
        if noise:
            axis = axes[0 if kappa == 3.0 else 1]
            axis.loglog(sizes, raw, "o-", color=ORANGE, label="V̂ as FKV gives it")
            axis.loglog(sizes, mended, "s-", color=BLUE, label="V̂ orthonormalised")
            axis.loglog(sizes, [bound(optimum, p) for p in sizes], "--", color=GREY, label="bound, probability 0.9")
            axis.axhline(optimum, color=RED, linewidth=1, label="best rank 10")
            axis.set(title=f"κ = {kappa:g}, noise {noise:g}", xlabel="rows and columns drawn, p")
            plain_ticks(axis, sizes)
    axes[0].set_ylabel("‖A − A·V̂·V̂ᵀ‖ / ‖A‖")
    legend_below(figure, axes, 4)
    save(arguments, figure, "fkv_error")
    caption = f"{m:,} × {n:,}, k = {K}; medians over {len(seeds)} seeds."
    header = ["κ", "noise", "p", "error, raw", "error, orthonormalised", "best rank k", "α of raw V̂", "bound"]
    write_table(arguments, "fkv_error", "Theorem 1: error of FKV against p", [(caption, header, rows)])


if __name__ == "__main__":
    main()
