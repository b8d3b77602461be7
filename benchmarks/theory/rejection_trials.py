"""Algorithm 2: trials per accepted draw against the condition number, one layer against two."""

from __future__ import annotations

import numpy as np
from common import BLUE, GREEN, GREY, ORANGE, legend_below, low_rank, options, plain_ticks, plt, save, write_table

import fastanchors as fa
from fastanchors.lowrank.rejection import draw_combination, expected_trials

K = 10
WAYS = [
    ("one layer, norm weights", {}, BLUE),
    ("one layer, squared weights", {"weights": "squared"}, GREEN),
    ("two layers", {"layers": "two"}, ORANGE),
]


def main() -> None:
    arguments = options(__doc__)
    m, n = (600, 400) if arguments.quick else (1500, 1000)
    kappas = [2.0, 10.0, 50.0] if arguments.quick else [1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0]
    seeds = range(2 if arguments.quick else 5)
    rows, curves = [], {}
    for kappa in kappas:
        A = low_rank(m, n, K, kappa=kappa, noise=0.0)
        S = fa.SampleMatrix(A, normalize=None)
        for state in ("raw", "orthonormalised"):
            expected = {name: [] for name, _, _ in WAYS}
            seen = {name: [] for name, _, _ in WAYS}
            for seed in seeds:
                rng = np.random.default_rng([seed, int(kappa), state == "raw"])
                U = fa.fkv(S, K, side="left", rng=rng)
                V = fa.fkv(S, K, rng=rng).orthonormalize().query(np.arange(n))
                if state == "orthonormalised":
                    U = U.orthonormalize("exact")
                gram = U.gram("exact")
                M = U.query(np.arange(m)).T @ A @ V
                for _ in range(10):
                    x = rng.standard_normal(K)
                    for name, way, _ in WAYS:
                        expected[name].append(expected_trials(U, M @ x, gram=gram, **way))
                for name, way, _ in WAYS:
                    size = int(np.clip(20_000 / expected[name][-1], 20, 500))
                    drawn = draw_combination(U, M @ x, size, rng=rng, max_trials=10**6, **way)
                    seen[name].append(drawn.trials_per_draw / expected[name][-1])
            for name, _, _ in WAYS:
                curves.setdefault((state, name), []).append(np.median(expected[name]))
                rows.append([kappa, state, name, float(np.median(expected[name])), float(np.mean(seen[name]))])
    figure, axes = plt.subplots(1, 2, figsize=(9.5, 3.9), sharey=True)
    for axis, state in zip(axes, ("raw", "orthonormalised")):
        for name, _, colour in WAYS:
            axis.loglog(kappas, curves[state, name], "o-", color=colour, label=name)
        axis.axhline(K, color=GREY, linewidth=1, linestyle="--")
        axis.set(title=f"Û {state}", xlabel="condition number κ")
        plain_ticks(axis, kappas)
    axes[1].text(kappas[-1], K * 1.08, f"k = {K}", color=GREY, ha="right", fontsize=9)
    axes[0].set_ylabel("expected trials per accepted draw")
    legend_below(figure, axes, 3)
    save(arguments, figure, "rejection_trials")
    caption = (
        f"{m:,} × {n:,}, rank k = {K} exactly, 20·k sampled columns, y = Mx for random x; medians over {len(seeds)} "
        "seeds × 10 directions. The last column is trials seen over trials expected, in 20 to 500 draws per seed."
    )
    header = ["κ", "Û", "form", "expected trials per draw", "seen / expected"]
    write_table(arguments, "rejection_trials", "Algorithm 2: trials per accepted draw", [(caption, header, rows)])


if __name__ == "__main__":
    main()
