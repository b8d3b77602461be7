"""Lemma 7: the error of the estimate of M = L·A·R against the number of draws, and its bound."""

from __future__ import annotations

import numpy as np
from common import BLUE, GREY, ORANGE, RED, legend_below, low_rank, options, plt, save, write_table

import fastanchors as fa
from fastanchors.lowrank.product import product_draws

K = 5


def main() -> None:
    arguments = options(__doc__)
    A = low_rank(500, 300, K, kappa=5.0, noise=0.1)
    left, _, right = np.linalg.svd(A, full_matrices=False)
    L, R = left[:, :K].T, right[:K].T
    S = fa.SampleMatrix(A, normalize=None)
    exact = L @ A @ R
    scale = np.linalg.norm(A) * np.linalg.norm(L) * np.linalg.norm(R)

    def errors(repeats: int, **how: float) -> np.ndarray:
        return np.array(
            [np.linalg.norm(fa.estimate_product(L, S, R, rng=seed, **how) - exact) / scale for seed in range(repeats)]
        )

    repeats = 20 if arguments.quick else 100
    counts = [10**2, 10**3, 10**4] if arguments.quick else [10**2, 10**3, 10**4, 10**5]
    means = []
    for draws in counts:
        e = errors(repeats, draws=draws)
        means.append([draws, np.sqrt((e**2).mean()), np.quantile(e, 0.95), 1 / np.sqrt(draws)])
    lemma = []
    for zeta in [0.5, 0.2, 0.1] if arguments.quick else [0.5, 0.2, 0.1, 0.05, 0.02]:
        groups, per_group = product_draws(K * K, zeta, 0.1)
        e = errors(max(5, repeats // 5), zeta=zeta, eta=0.1)
        lemma.append([zeta, groups * per_group, groups, np.median(e), e.max(), f"{(e <= zeta).mean():.0%}"])

    figure, axis = plt.subplots(figsize=(6.4, 4.1))
    axis.loglog(counts, [row[2] for row in means], "o:", color=BLUE, label="one mean, 95 % of runs below")
    axis.loglog(counts, [row[1] for row in means], "o-", color=BLUE, label="one mean, root mean square")
    axis.loglog(counts, [row[3] for row in means], "--", color=GREY, label="1/√draws, the bound on it")
    axis.loglog(
        [row[1] for row in lemma], [row[4] for row in lemma], "s-", color=ORANGE, label="median of means, worst run"
    )
    axis.loglog(
        [row[1] for row in lemma], [row[0] for row in lemma], "--", color=RED, label="ζ, the bound of the lemma"
    )
    axis.set(xlabel="draws", ylabel="‖M̃ − M‖ / (‖A‖·‖L‖·‖R‖)")
    legend_below(figure, [axis], 2)
    save(arguments, figure, "product_error")
    write_table(
        arguments,
        "product_error",
        "Lemma 7: error of the product estimate",
        [
            (
                f"One mean of unbiased draws, {repeats} runs; 500 × 300, k₁ = k₂ = {K}, κ = 5, noise 0.1.",
                ["draws", "root mean square error", "95 % quantile", "bound 1/√draws"],
                means,
            ),
            (
                "Median of means with the draws that the lemma's constants ask for, η = 0.1.",
                ["ζ", "draws", "groups", "median error", "largest error", "runs within ζ"],
                lemma,
            ),
        ],
    )


if __name__ == "__main__":
    main()
