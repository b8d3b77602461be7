"""The gap: anchors found against m by the paper's rule and by the largest value, from ideal draws of D_{Aβ}.

No FKV, no product, no rejection: the draws are exact, so whatever is missed is missed by the rule.
"""

from __future__ import annotations

import math

import numpy as np
from common import BLUE, GREY, ORANGE, RED, legend_below, options, plt, save, write_table

K, S, DELTA = 10, 70, 0.1
MAX_DRAWS = 100_000


def found(m: int, counts: list[int], seed: int) -> np.ndarray:
    """For each number of draws: anchors found by most frequent and by largest, distinct votes, m·D_max and m·gap."""
    rng = np.random.default_rng(seed)
    F = rng.dirichlet(np.ones(K), size=m)
    anchors = rng.choice(m, size=K, replace=False)
    F[anchors] = np.eye(K)
    table = rng.dirichlet(np.full(50, 0.3), size=K)
    # A = F·table has the row space of the table; β = Vx with V an orthonormal basis of it
    basis = np.linalg.svd(table, full_matrices=False)[2].T
    frequent, largest = [set() for _ in counts], [set() for _ in counts]
    peaks, gaps = [], []
    for _ in range(S):
        v = F @ (table @ (basis @ rng.standard_normal(K)))
        weights = np.cumsum(v**2)
        for which, draws in enumerate(counts):
            drawn = np.searchsorted(weights, rng.random(draws) * weights[-1], side="right")
            distinct, repeats = np.unique(drawn, return_counts=True)
            frequent[which].add(int(distinct[np.argmax(repeats)]))
            largest[which].add(int(distinct[np.argmax(np.abs(v[distinct]))]))
        second, first = np.partition(v**2, m - 2)[-2:] / weights[-1]
        peaks.append(m * first)
        gaps.append(m * (first - second))
    medians = [float(np.median(peaks)), float(np.median(gaps))]
    kept = set(anchors.tolist())
    return np.array([[len(f & kept), len(g & kept), len(f), *medians] for f, g in zip(frequent, largest)])


def threshold(draws: int) -> float:
    return 4 * math.sqrt(2 * math.log(4 * draws / DELTA) / draws)


def main() -> None:
    arguments = options(__doc__)
    sizes = [10**3, 10**4] if arguments.quick else [10**3, 10**4, 10**5, 10**6]
    seeds = range(2 if arguments.quick else 5)
    schedules = [
        ("(ln m)²", lambda m: math.ceil(math.log(m) ** 2), ":"),
        ("(log₂ m)²", lambda m: math.ceil(math.log2(m) ** 2), "--"),
        ("10·(log₂ m)²", lambda m: math.ceil(10 * math.log2(m) ** 2), "-"),
        ("m, at most 10⁵", lambda m: m, "-."),
    ]
    rows, curves = [], {}
    for m in sizes:
        counts = [min(count(m), MAX_DRAWS) for _, count, _ in schedules]
        means = np.mean([found(m, counts, seed) for seed in seeds], axis=0)
        for (name, _, _), draws, result in zip(schedules, counts, means):
            curves.setdefault(name, []).append(result[:2])
            rows.append([m, name, draws, *map(float, result), threshold(draws)])
    figure, axes = plt.subplots(1, 2, figsize=(9.5, 3.9))
    for name, _, style in schedules:
        if name.startswith("m"):
            continue
        both = np.array(curves[name])
        axes[0].semilogx(sizes, both[:, 0], style, marker="o", color=ORANGE, label=f"most frequent, N = {name}")
        axes[0].semilogx(sizes, both[:, 1], style, marker="s", color=BLUE, label=f"largest value, N = {name}")
    axes[0].set(xlabel="rows m", ylabel=f"anchors found, of {K}", ylim=(-0.3, K + 0.3), title="what the rules find")
    m = np.geomspace(1e3, 1e30, 200)
    needed = np.array([threshold(math.ceil(math.log(x) ** 2)) for x in m])
    gap = np.median([row[7] for row in rows])
    axes[1].loglog(m, needed, color=RED, label="gap the theorem needs, N = (ln m)²")
    axes[1].loglog(m, gap / m, color=BLUE, label=f"gap there is, about {gap:.1f}/m")
    axes[1].axhline(1, color=GREY, linewidth=1, linestyle="--")
    axes[1].text(1e30, 3.0, "no gap is larger than 1", color=GREY, fontsize=9, ha="right")
    axes[1].set(xlabel="rows m", ylabel="D_max − D_secmax", ylim=(1e-20, 1e2), title="the condition")
    legend_below(figure, axes, 2)
    save(arguments, figure, "gap")
    caption = (
        f"k = {K}, {S} directions, one copy of each anchor, other rows Dirichlet(1), ideal draws from D(Aβ); means "
        f"over {len(seeds)} seeds. The threshold is 4√(2·log(4N/δ)/N) at δ = {DELTA}."
    )
    header = [
        "rows m",
        "N",
        "draws",
        "anchors, most frequent (paper)",
        "anchors, largest value",
        "distinct indices voted for",
        "m·D_max",
        "m·gap",
        "gap the theorem needs",
    ]
    write_table(arguments, "gap", "The gap: what the rules find in ideal draws", [(caption, header, rows)])


if __name__ == "__main__":
    main()
