"""Measure seconds and memory of each solver by the number of rows, each run in a separate process.

``python benchmarks/choosing.py`` gives the figures behind the decision table of ``docs/choosing.md``.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time

import numpy as np

import fastanchors as fa
from _table import Report, arguments, number, peak_memory

COLUMNS, K, NOISE = 50, 10, 0.01
SIZES = (200, 10_000, 200_000)
PATIENCE = 120  # seconds

SOLVERS = {  # constructor, most rows tried
    "FAS()": 200_000,
    'FAS(selection="spa")': 200_000,
    "SPA()": 200_000,
    'SPA(precondition="mve")': 200_000,
    'SPA(robust="average")': 200_000,
    "SNPA()": 200_000,
    "XRAY()": 200_000,
    "DCA()": 200_000,
    'FAS(variant="paper")': 200_000,
    "FGNSR()": 10_000,
    "AroraLP()": 200,
    "Hottopixx()": 200,
}


def measure(solver: str, rows: int) -> None:
    """In the child process: least seconds of a call, memory added by the first call, share of anchors found."""
    made = eval(f"fa.{solver}", {"fa": fa})
    data = fa.datasets.separable(rows, COLUMNS, K, noise=NOISE, rng=0)
    small = fa.datasets.separable(60, COLUMNS, 3, rng=1)
    made.seek(small.A, 3, rng=0)  # compilation
    before = peak_memory() or 0
    start = time.perf_counter()
    found = made.seek(data.A, K, rng=0)
    seconds = time.perf_counter() - start
    memory = (peak_memory() or 0) - before
    for _ in range(4 if seconds < 5 else 0):  # the best of five
        start = time.perf_counter()
        made.seek(data.A, K, rng=0)
        seconds = min(seconds, time.perf_counter() - start)
    recovery = fa.metrics.anchor_recovery(found.indices, data.labels)
    print(json.dumps([seconds, memory, recovery, found.certificate.kind]))


def asked(solver: str, rows: int) -> list[str]:
    command = [sys.executable, __file__, "--solver", solver, "--rows", str(rows)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=True)
    except subprocess.TimeoutExpired:
        return [f"more than {PATIENCE}", "–", "–", "–"]
    seconds, memory, recovery, kind = json.loads(done.stdout)
    return [number(seconds), f"{memory / 2**20:.0f}", f"{recovery:.0%}", kind]


def with_outliers() -> list[tuple[str, str, int]]:
    """The effect of outliers."""
    data = fa.datasets.dirichlet(1_000, COLUMNS, K, copies=20, noise=NOISE, rng=0)
    rng = np.random.default_rng(1)
    outliers = rng.choice(np.flatnonzero(data.labels < 0), 10, replace=False)
    data.A[outliers] *= rng.uniform(0, 5, (10, COLUMNS))
    rows = []
    plain = ('FAS(selection="spa")', "SPA()")
    for name in ("FAS()", *plain, 'SPA(robust="neighbours")', 'SPA(robust="average")', 'SPA(robust="median")'):
        found = eval(f"fa.{name}", {"fa": fa}).seek(data.A, K, rng=0).indices
        rows.append(
            (f"`{name}`", f"{fa.metrics.anchor_recovery(found, data.labels):.0%}", int(np.isin(found, outliers).sum()))
        )
    return rows


def main() -> None:
    options = arguments(
        __doc__,
        solver={"help": "for the script's own use"},
        rows={"type": int, "help": "for the script's own use"},
        only={"default": "", "help": "solvers whose name contains this"},
    )
    if options.solver is not None:
        measure(options.solver, options.rows)
        return
    report = Report("choosing", "What each solver costs", options)
    for rows in SIZES[:1] if options.quick else SIZES:
        report.text(f"## {rows:,} × {COLUMNS}, {K} anchors, noise {NOISE:g}")
        table = [
            (f"`{solver}`", *asked(solver, rows))
            for solver, most in SOLVERS.items()
            if rows <= most and options.only in solver
        ]
        report.table(["solver", "seconds", "memory, MB", "anchors found", "certificate"], table)
    report.text(
        "One shot from a dense array in memory. Memory is what the call adds to the peak of its process, in which the "
        "matrix itself lies already. Every anchor stands alone, which averages take for an outlier. Solvers left "
        f"out at a size would take longer than {PATIENCE} s or are not meant for it."
    )
    report.text("## 1,200 × 50, every anchor 20 times, 10 outliers (entries times 0 to 5)")
    report.table(["solver", "anchors found", "outliers selected"], with_outliers())
    report.save()


if __name__ == "__main__":
    main()
