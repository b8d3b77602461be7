"""Compare the encoder with common alternatives: a loop over SciPy's nnls, and the transform of scikit-learn's NMF.

``python benchmarks/encode.py [--quick]``. All encode the same rows in the same components; the error is
‖X − F·C‖_F/‖X‖_F. NMF's transform is coordinate descent with its default stopping rule; its components are set to the
given ones. The full run needs about 1 GB of memory.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.optimize import nnls
from sklearn.decomposition import NMF

import fastanchors as fa
from _table import Report, arguments, in_turns, once


def mixtures(m: int, n: int, k: int, noise: float, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Dirichlet(0.3) mixtures of uniform components, with noise that makes part of the constraints active."""
    rng = np.random.default_rng(seed)
    C = rng.random((k, n))
    X = rng.dirichlet(np.full(k, 0.3), m) @ C + noise * rng.standard_normal((m, n))
    return np.maximum(X, 0.0), C


def scipy_loop(X: np.ndarray, C: np.ndarray) -> np.ndarray:
    columns = np.ascontiguousarray(C.T)
    return np.array([nnls(columns, x)[0] for x in X])


def nmf_transform(C: np.ndarray) -> Callable[[Any], np.ndarray]:
    model = NMF(len(C))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(np.random.default_rng(0).random((2 * len(C), C.shape[1])))
    model.components_ = C

    def transform(X: Any) -> np.ndarray:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # stopping at max_iter shows in the error
            return model.transform(X)

    return transform


def error(X: np.ndarray, F: np.ndarray, C: np.ndarray) -> float:
    return float(np.linalg.norm(X - F @ C) / np.linalg.norm(X))


def against_peers(report: Report, m: int, n: int, k: int, rounds: int) -> None:
    X, C = mixtures(m, n, k, 0.05)
    ours = in_turns(
        {
            "fa.encode": lambda: fa.encode(X, C),
            "fa.encode, one worker": lambda: fa.encode(X, C, n_jobs=1),
            "fa.encode, sum to one": lambda: fa.encode(X, C, sum_to_one=True),
        },
        rounds,
    )
    seconds = ours["fa.encode"]
    F = fa.encode(X, C)
    exact, loop = once(lambda: scipy_loop(X, C))
    rows: list[list[Any]] = [["fa.encode", seconds, 1.0, f"{error(X, F, C):.9f}"]]
    rows.append(["fa.encode, one worker", ours["fa.encode, one worker"], None, f"{error(X, F, C):.9f}"])
    rows.append(["loop over scipy.optimize.nnls", loop, loop / seconds, f"{error(X, exact, C):.9f}"])
    transform = nmf_transform(C)
    G, taken = once(lambda: transform(X))
    rows.append(["NMF.transform", taken, taken / seconds, f"{error(X, G, C):.9f}"])
    report.text(f"## {m:,} × {n}, k = {k}: float64, noise 0.05")
    report.table(["encoder", "seconds", "times fa.encode's", "relative error"], rows)
    gap = float(np.abs(F - exact).max())
    report.text(
        f"Largest difference of a weight from SciPy's: {gap:.1e}. "
        f"With the weights made to sum to one: {ours['fa.encode, sum to one']:.3g} s."
    )


def kinds_of_rows(report: Report, m: int, n: int, k: int, rounds: int) -> None:
    """The same rows in other formats, and anchors that make the problem hard."""
    X, C = mixtures(m, n, k, 0.05, seed=1)
    rng = np.random.default_rng(2)
    thin = sp.random_array((m, 10 * n), density=0.02, rng=rng, format="csr")
    W = np.maximum(rng.standard_normal((k, 10 * n)), 0.0)
    twins = C.copy()
    twins[k // 2 :] = twins[: k - k // 2] + 1e-6 * rng.random((k - k // 2, n))
    X32 = X.astype(np.float32)
    tasks = {
        f"dense float64, {m:,} × {n}": lambda: fa.encode(X, C),
        f"dense float32, {m:,} × {n}": lambda: fa.encode(X32, C),
        f"CSR, {m:,} × {10 * n:,}, 2 % non-zero": lambda: fa.encode(thin, W),
        f"anchors in pairs 1e-6 apart, {m:,} × {n}": lambda: fa.encode(X, twins),
    }
    seconds = in_turns(tasks, rounds)
    report.text(f"## Kinds of rows, k = {k}")
    report.table(["rows", "seconds", "µs per row"], [[name, s, 1e6 * s / m] for name, s in seconds.items()])


def main() -> None:
    options = arguments(__doc__)
    report = Report("encode", "The encoder: non-negative least squares for all rows", options)
    m, rounds = (2000, 1) if options.quick else (100_000, 5)
    against_peers(report, m, 300, 20, rounds)
    kinds_of_rows(report, m // 2, 300, 20, 1 if options.quick else 3)
    report.save()


if __name__ == "__main__":
    main()
