"""Flip single bits in the files of a store: each must be detected by ``fa.verify`` or change no value that is read.

python benchmarks/flips.py --count 5000
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import numpy as np

import fastanchors as fa
from _table import Report, arguments
from fastanchors.errors import FastAnchorsError

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))


def run(count, seed=0):
    """Count (file, detected or harmless). Raises if an undetected flip changes a value."""
    from test_store_damage import contents, make

    rng = np.random.default_rng(seed)
    outcomes = Counter()
    for sparse in (True, False):
        with tempfile.TemporaryDirectory(prefix="fastanchors-flips-") as folder:
            path = Path(folder) / "s"
            make(path, sparse=sparse)
            expected = contents(path)
            files = [file for file in sorted(path.iterdir()) if file.stat().st_size]
            for number in range(count // 2):
                file = files[number % len(files)]
                whole = file.read_bytes()
                damaged = bytearray(whole)
                damaged[rng.integers(len(whole))] ^= 1 << rng.integers(8)
                file.write_bytes(damaged)
                try:
                    fa.verify(path)
                    outcome = "harmless"
                except FastAnchorsError:
                    outcome = "found"
                if outcome == "harmless":
                    got = contents(path)
                    if not np.array_equal(got[0], expected[0]) or got[1:] != expected[1:]:
                        raise AssertionError(f"a flip in {file.name} went unnoticed")
                outcomes[file.name.split("-")[0], outcome] += 1
                file.write_bytes(whole)
    return outcomes


def main():
    options = arguments(__doc__, count={"type": int, "default": 5000}, seed={"type": int, "default": 0})
    count = 200 if options.quick else options.count
    report = Report("flips", "Flipped bits", options)
    start = time.perf_counter()
    outcomes = run(count, options.seed)
    report.text(f"{count} single bits flipped, one at a time, in {time.perf_counter() - start:.0f} s.")
    report.table(
        ["file", "outcome", "times"],
        [(file, outcome, times) for (file, outcome), times in sorted(outcomes.items())],
    )
    report.save()


if __name__ == "__main__":
    main()
