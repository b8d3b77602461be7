"""Check for the same indices as N. Gillis's own MATLAB code on 24 near-separable matrices.

``python benchmarks/golden.py --data DIR`` reads ``DIR/golden/gillis_matlab.npz``: for each case the matrix and the
results of FastSepNMF (plain, on l1-scaled rows, preconditioned by itself) and FastConicalHull (XRAY "max"). SPA and
XRAY must give the same indices in the same order. Preconditioned SPA must give the same set: its first anchors
have norm one by construction, so rounding determines their order. Exits with 1 if any answer differs.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

import numpy as np

import fastanchors as fa
from _table import Report, arguments


def scaled(A: np.ndarray) -> np.ndarray:
    return A / A.sum(axis=1, keepdims=True)


# Name of the stored answer -> (our function, whether the order matters).
CHECKS: dict[str, tuple[Callable[[np.ndarray, int], np.ndarray], bool]] = {
    "spa": (lambda A, k: fa.SPA().seek(A, k).indices, True),
    "spa_l1": (lambda A, k: fa.SPA().seek(scaled(A), k).indices, True),
    "spa_l1, SampleMatrix": (lambda A, k: fa.SPA().seek(fa.SampleMatrix(A, normalize="l1"), k).indices, True),
    "xray": (lambda A, k: fa.XRAY().seek(A, k).indices, True),
    "spa_preconditioned": (lambda A, k: fa.SPA(precondition="spa").seek(A, k).indices, False),
}


def main() -> int:
    options = arguments(__doc__)
    file = None if options.data is None else options.data / "golden" / "gillis_matlab.npz"
    if file is None or not file.exists():
        print(f"golden answers are absent ({file or 'no --data given'}); nothing was compared")
        return 0
    report = Report("golden", "The indices of N. Gillis's MATLAB code", options)
    with np.load(file) as stored:
        answers = {key: stored[key] for key in stored.files}
    cases = sorted({key.partition("/")[0] for key in answers})
    if options.quick:
        cases = cases[::6]
    agree = dict.fromkeys(CHECKS, 0)
    differing = []
    for case in cases:
        A = answers[f"{case}/A"]
        for name, (ours, ordered) in CHECKS.items():
            expected = answers[f"{case}/{name.partition(',')[0]}"].tolist()
            found = ours(A, len(expected)).tolist()
            same = found == expected if ordered else set(found) == set(expected)
            agree[name] += same
            if not same:
                differing.append((case, name, str(expected), str(found)))
    columns = ["answer", "compared as", "cases", "equal"]
    report.table(
        columns, [(name, "order" if CHECKS[name][1] else "set", len(cases), count) for name, count in agree.items()]
    )
    if differing:
        report.table(["case", "answer", "expected", "found"], differing)
    report.save()
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())
