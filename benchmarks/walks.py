"""Test random sequences of calls on matrices and stores, checking every answer in exact arithmetic.

    python benchmarks/walks.py --count 10000

A walk (``tests/walks.py``) changes a small matrix with many ties, commits, compacts, reopens, discards uncommitted
changes, and seeks by every rule, with budgets, tolerances and several k at once. An ``exact`` answer must equal that of
SPA in fractions, ``near`` must keep its bound, and a noise-aware rule must give the same answer as on an array.
"""

from __future__ import annotations

import sys
import time
import traceback
import warnings
from collections import Counter
from pathlib import Path

from _table import Report, arguments

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

STEPS = 16
NOISE_EVERY = 8


def main() -> None:
    from walks import Walk, small_matrices

    options = arguments(
        __doc__,
        count={"type": int, "default": 10_000},
        first={"type": int, "default": 0, "help": "seed of the first walk"},
        minutes={"type": float, "default": 1e9, "help": "stop when this time is over"},
    )
    count = 40 if options.quick else options.count
    report = Report("walks", "Random walks against exact arithmetic", options)
    warnings.simplefilter("error")
    start, done, faults = time.perf_counter(), 0, 0
    seen: Counter[str] = Counter()
    with small_matrices():
        for seed in range(options.first, options.first + count):
            if time.perf_counter() - start > 60 * options.minutes:
                break
            try:
                Walk(seed, seen).run(STEPS, noise=seed % NOISE_EVERY == 0)
            except Exception:
                faults += 1
                print(f"FAULT in walk {seed}: {traceback.format_exc()[-700:]}", file=sys.stderr, flush=True)
            done += 1
            if done % 100 == 0:
                print(f"{done} walks, {faults} faults", file=sys.stderr, flush=True)
    report.text(
        f"{done} walks of {STEPS} steps in {time.perf_counter() - start:.0f} s; {faults} went wrong. "
        f"Rules that look at the noise occur in every {NOISE_EVERY}th walk."
    )
    report.table(["rule, certificate", "answers checked"], sorted(seen.items()))
    report.save()
    sys.exit(faults > 0)


if __name__ == "__main__":
    main()
