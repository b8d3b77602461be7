"""Measure how often ``n_components="auto"`` and ``-k auto`` choose the true number of anchors on noisy data.

``python benchmarks/how_many.py [--data DIR] [--seeds 5] [--only TEXT]`` runs :func:`fastanchors.rank_curve`, as both
call it, on the families of ``_right_families.py`` (and the scenes in ``DIR/hyperspectral``, if given).
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np

import fastanchors as fa
from _right_families import families, scenes
from _table import Report, arguments
from right import ONE_SCENE, SCENE_SEEDS, scaled

LOUD = ("Gaussian 3",)  # noise above the mean entry
UNSURE = "no clear gap"  # in the reason: the number is a guess


def chosen(X: Any, seed: int) -> fa.RankCurve:
    """The choice for rows divided by their sums."""
    return fa.rank_curve(scaled(X), k_max=min(50, *X.shape), rng=seed)


def main() -> None:
    options = arguments(
        __doc__,
        seeds={"type": int, "default": 5, "help": "matrices of each family"},
        only={"default": "", "help": "families whose name contains this"},
    )
    made = families() | (scenes(options.data) if options.data is not None else {})
    table, good, counted, start = [], 0, 0, time.process_time()
    for name, make in made.items():
        if options.only not in name:
            continue
        most = 1 if options.quick or name in ONE_SCENE else SCENE_SEEDS if "scene" in name else options.seeds
        numbers, unsure, k = [], 0, 0
        for seed in range(most):
            X, H = make(seed)
            found, k = chosen(X, seed), len(H)
            numbers.append(found.k)
            unsure += UNSURE in found.reason
        near = float(np.mean([abs(number - k) <= 1 for number in numbers]))
        good, counted = good + (name not in LOUD and near == 1), counted + (name not in LOUD)
        table.append([name, k, " ".join(map(str, sorted(set(numbers)))), f"{near:.0%}", f"{unsure} of {most}"])
        print(f"# {table[-1]} {time.process_time() - start:.0f} s", flush=True)
    report = Report("how_many", "How many anchors: the number that is chosen automatically", options)
    report.text(
        f"{options.seeds} matrices of each family ({SCENE_SEEDS} of a scene with simulated noise, one of others). "
        f"Of the {counted} families with noise of at most the mean entry, the number is within one of the true one "
        f"for all matrices in {good} ({good / max(1, counted):.0%}). *Cannot tell*: matrices for which the reason says "
        "that there is no clear gap, so that the number is a guess."
    )
    report.table(["family", "true k", "chosen", "within one", "cannot tell"], table)
    report.save()


if __name__ == "__main__":
    main()
