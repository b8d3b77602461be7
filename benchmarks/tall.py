"""Measure how near the default comes to the truth on tall matrices with few columns and with outliers.

``python benchmarks/tall.py [--seeds 2]`` compares which rows may be vertices: of more than 6,000 rows only the extreme
ones, these and the sampled rows, or the sampled rows only where few extreme ones are no outliers (the default). The
default was chosen on the shapes ``DEVELOPMENT`` with seeds from 100, and is reported on others.
"""

from __future__ import annotations

import time
from unittest.mock import patch

import numpy as np

from _table import Report, arguments
from fastanchors.greedy import anchoring
from fastanchors.greedy.summary import summarise
from fastanchors.matrix import open_matrix
from right import compare, plain, ten_lines

#: (columns, anchors), numbers of rows, first seed
DEVELOPMENT = ([(5, 2), (5, 3), (5, 4), (12, 3), (12, 8), (30, 2), (30, 5), (30, 8)], (8_000, 20_000), 100)
REPORTED = ([(7, 3), (7, 5), (9, 2), (20, 4), (20, 7), (60, 3), (60, 6)], (6_100, 50_000), 0)

FAMILIES = [("Gaussian", 0.1), ("Gaussian", 0.3), ("Gaussian", 1.0), ("counts", 50), ("counts", 1000)]
FAMILIES += [("outliers, foreign", part) for part in (0.01, 0.03, 0.05)]
FAMILIES += [(f"outliers, {kind}", part) for kind in ("spikes", "dark") for part in (0.01, 0.05)]

CANDIDATES = {"extreme rows": 0.0, "default": anchoring._ENOUGH, "and sampled rows": np.inf}
COPIES, ALPHA, LITTLE = 5, 0.5, 0.1


def make(seed: int, m: int, n: int, k: int, kind: str, level: float) -> tuple[np.ndarray, np.ndarray]:
    """Mixtures with ``COPIES`` of each anchor and noise: rows and components."""
    rng = np.random.default_rng([seed, m, n, k, 31])
    H = rng.gamma(0.5, size=(k, n)) + 1e-3
    H /= H.sum(axis=1, keepdims=True)
    W = rng.dirichlet(np.full(k, ALPHA), m)
    W[: k * COPIES] = np.repeat(np.eye(k), COPIES, axis=0)
    X = rng.permutation(W) @ H
    if kind == "counts":
        X = rng.poisson(X * level * rng.lognormal(0.0, 0.5, (m, 1))).astype(np.float64)
        return X[X.sum(axis=1) > 0], H
    if kind != "Gaussian":
        which = rng.choice(m, round(level * m), replace=False)
        if "foreign" in kind:
            X[which] = rng.dirichlet(np.full(n, 0.1), len(which))
        elif "spikes" in kind:
            X[which, rng.integers(n, size=len(which))] += rng.uniform(1, 5, len(which))
        else:
            X[which] *= 0.02
        level = LITTLE
    X = np.maximum(X + level * X.mean() * rng.standard_normal(X.shape), 0.0)
    return X[X.sum(axis=1) > 0], H


def measure(X: np.ndarray, H: np.ndarray, seed: int) -> list[float]:
    """Angles by each choice of candidates, of the ten lines and of plain SPA; then milliseconds of the first ones."""
    k, kept = len(H), summarise(open_matrix(X))
    angles, spent = [], []
    for enough in CANDIDATES.values():
        kept.answers.clear()
        with patch.object(anchoring, "_ENOUGH", enough):
            start = time.process_time()
            found = kept.find(k)
            spent.append(1e3 * (time.process_time() - start))
        assert found is not None
        angles.append(compare(found.profiles, H)[0])
    return [*angles, *(compare(peer(X, k, kept.coordinates, seed), H)[0] for peer in (ten_lines, plain)), *spent]


def main() -> None:
    options = arguments(__doc__, seeds={"type": int, "default": 2, "help": "matrices of each family and shape"})
    seeds = 1 if options.quick else options.seeds
    report = Report("tall", "Candidates of tall matrices: few columns, and outliers", options)
    report.text(
        f"Mean angle to the true components in radians, over all shapes; {seeds} matrices of each. Outliers are given "
        "as a part of the rows; *default*: sampled rows are candidates too if fewer extreme rows than a quarter of the "
        "sample are no outliers. *ms*: processor time of a seek from the coordinates."
    )
    halves = (("Shapes the default was chosen on", DEVELOPMENT), ("Shapes the default is reported on", REPORTED))
    for title, (shapes, rows, first) in halves:
        wanted = [(n, k, m, first + s) for n, k in shapes for m in rows for s in range(seeds)]
        wanted = wanted[:1] if options.quick else wanted
        table, everything = [], []
        for kind, level in FAMILIES:
            found = [measure(*make(seed, m, n, k, kind, level), seed) for n, k, m, seed in wanted]
            everything += found
            label = f"{kind} {level:g}" if "outliers" not in kind else f"{kind}, {level:.0%}"
            table.append([label, *(f"{x:.4f}" for x in np.mean(found, axis=0)[:5])])
        means = np.mean(everything, axis=0)
        table.append(["mean", *(f"{x:.4f}" for x in means[:5])])
        table.append(["ms", *(f"{x:.0f}" for x in means[5:]), "", ""])
        report.text(f"## {title}")
        report.text(f"(columns, anchors): {', '.join(map(str, shapes))}; {' and '.join(f'{m:,}' for m in rows)} rows.")
        report.table(["family", *CANDIDATES, "ten lines", "plain SPA"], table)
    report.save()


if __name__ == "__main__":
    main()
