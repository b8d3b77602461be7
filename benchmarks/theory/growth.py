"""The main theorem: samples and queries of FAS(variant="paper") as the rows grow, beside the rows SPA reads.

Up to 10¹² rows through ``implicit.ImplicitSeparable``: exact sample access to a matrix whose mixtures repeat. At the
small end the same cost is measured on a ``SampleMatrix`` that holds all rows.
"""

from __future__ import annotations

import numpy as np
from common import BLUE, GREY, ORANGE, RED, options, plt, save, write_table
from implicit import ImplicitSeparable

import fastanchors as fa

K, N = 4, 20


def run(S: object, anchors: np.ndarray, rule: str, seeds: range) -> np.ndarray:
    """Mean over seeds of samples, queries, rows read, anchors found among the votes, anchors among the k returned."""
    result = []
    for seed in seeds:
        solved = fa.FAS(variant="paper", rule=rule, kappa=KAPPA).seek(S, K, rng=seed)
        voted = set(solved.certificate.details["votes"]) & set(anchors.tolist())
        kept = set(solved.indices.tolist()) & set(anchors.tolist())
        cost = solved.cost
        result.append([cost.samples, cost.queries, cost.rows_read, len(voted), len(kept)])
    return np.mean(result, axis=0)


# κ of the family as m grows, to three digits; given to every run, so that the schedule depends on m alone
KAPPA = float(np.round(np.divide(*ImplicitSeparable(10**9, N, K).singular_values[[0, -1]]), 1))


def main() -> None:
    arguments = options(__doc__)
    exponents = [3, 5, 7] if arguments.quick else [3, 4, 5, 6, 7, 8, 9, 10, 11, 12]
    seeds = range(2 if arguments.quick else 5)
    held = [3, 4] if arguments.quick else [3, 4, 5]
    rows, queries = [], []
    for e in exponents:
        m = 10**e
        A = ImplicitSeparable(m, N, K)
        most, largest = (run(A, A.anchors, rule, seeds) for rule in ("most-frequent", "largest"))
        queries.append(most[1])
        rows.append([f"10^{e}", "implicit", *map(float, most[:3]), float(K * m), most[4], largest[4]])
        if e in held:
            whole = fa.SampleMatrix(A.rows(np.arange(m)), normalize=None)
            most, largest = (run(whole, A.anchors, rule, seeds) for rule in ("most-frequent", "largest"))
            spa = float(fa.SPA().seek(whole, K).cost.rows_read)
            rows.append([f"10^{e}", "held whole", *map(float, most[:3]), spa, most[4], largest[4]])
    m = 10.0 ** np.array(exponents)
    power, intercept = np.polyfit(np.log(np.log(m)), np.log(queries), 1)
    slope = np.polyfit(np.log(m), np.log(queries), 1)[0]

    figure, axes = plt.subplots(1, 2, figsize=(9.5, 3.9))
    axes[0].loglog(m, queries, "o-", color=BLUE, label="entries FAS asks for")
    axes[0].loglog(m, np.exp(intercept) * np.log(m) ** power, "--", color=GREY, label=f"c·(log m)^{power:.1f}, fitted")
    axes[0].loglog(m, K * N * m, "-", color=RED, label="entries SPA reads, k·m·n")
    axes[0].set(xlabel="rows m", ylabel="entries", title="what it costs")
    axes[0].legend(fontsize=9)
    implicit = [row for row in rows if row[1] == "implicit"]
    axes[1].semilogx(m, [row[6] for row in implicit], "o-", color=ORANGE, label="most frequent index (paper)")
    axes[1].semilogx(m, [row[7] for row in implicit], "s-", color=BLUE, label="largest value among the draws")
    axes[1].set(xlabel="rows m", ylabel=f"anchors found, of {K}", ylim=(-0.1, K + 0.1), title="what it finds")
    axes[1].set_yticks(range(K + 1))
    axes[1].legend(fontsize=9)
    save(arguments, figure, "growth")
    caption = (
        f"n = {N}, k = {K}, κ = {KAPPA} given, each anchor once, default schedule (practical sizes, N = (ln m)² draws "
        f"per direction); means over {len(seeds)} seeds. The rows that SPA reads are counted where the matrix is "
        f"held whole, and k·m where it is implicit. Fit of the queries: c·(log m)^{power:.2f}; as a power of m, "
        f"m^{slope:.3f}."
    )
    header = [
        "rows m",
        "matrix",
        "samples",
        "queries",
        "rows read",
        "rows SPA reads",
        "anchors found, most frequent",
        "anchors found, largest",
    ]
    write_table(arguments, "growth", "The main theorem: cost against the number of rows", [(caption, header, rows)])


if __name__ == "__main__":
    main()
