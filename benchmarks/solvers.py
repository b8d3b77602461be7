"""Time ratios in one run: SPA, XRAY and the encoder against common alternatives.

``python benchmarks/solvers.py [--quick]``. Peers: textbook SPA (NumPy, full residual matrix), SPA in NumPy without
one, scikit-learn's NMF; for XRAY the same rows as a dense array; for the encoder a loop over SciPy's nnls and the
``transform`` of scikit-learn's NMF. The full run needs about 2 GB of memory.
"""

from __future__ import annotations

import sys
import warnings
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.optimize import nnls
from sklearn.decomposition import NMF
from sklearn.exceptions import ConvergenceWarning

import fastanchors as fa
from _table import Report, arguments, in_turns, once


def textbook_spa(A: np.ndarray, k: int) -> list[int]:
    """Select the largest residual, project, repeat; rewrites the residual matrix k times."""
    R = A.copy()
    chosen = []
    for _ in range(k):
        i = int(np.argmax((R**2).sum(axis=1)))
        q = R[i] / np.linalg.norm(R[i])
        R -= np.outer(R @ q, q)
        chosen.append(i)
    return chosen


def lean_spa(A: np.ndarray, k: int) -> list[int]:
    """No residual matrix: downdates squared norms. It neither checks its input nor guards against cancellation."""
    squared = np.einsum("ij,ij->i", A, A)
    basis = np.zeros((0, A.shape[1]), A.dtype)
    chosen = []
    for _ in range(k):
        i = int(np.argmax(squared))
        q = A[i] - basis.T @ (basis @ A[i])
        q /= np.linalg.norm(q)
        squared -= (A @ q) ** 2
        basis = np.vstack([basis, q])
        chosen.append(i)
    return chosen


def near_separable(m: int, n: int, k: int, dtype: Any) -> np.ndarray:
    rng = np.random.default_rng(0)
    H = rng.dirichlet(np.ones(k), m).astype(dtype)
    H[rng.permutation(m)[:k]] = np.eye(k)
    W = rng.random((k, n)).astype(dtype)
    A = H @ W
    A += 0.01 * rng.random((m, n), dtype=dtype)
    return A


def topics(m: int, n: int, k: int, words: int) -> sp.csr_array:
    """Counts of ``words`` words per document from k topics with Zipf-like word frequencies."""
    rng = np.random.default_rng(0)
    weights = 1 / np.arange(1, n + 1)
    W = rng.dirichlet(100 * weights / weights.sum(), k)
    owner = rng.integers(0, k, m)
    columns = np.concatenate([rng.choice(n, size=(int((owner == t).sum()) * words), p=W[t]) for t in range(k)])
    rows = np.concatenate([np.repeat(np.flatnonzero(owner == t), words) for t in range(k)])
    return sp.csr_array(sp.coo_array((np.ones(rows.size), (rows, columns)), shape=(m, n)))


def spa(report: Report, quick: bool) -> None:
    report.text("## SPA")
    rows = []
    for m, n, k, dtype in [(200_000, 200, 10, np.float64), (200_000, 200, 10, np.float32), (50_000, 1_000, 30, float)]:
        m = m // 20 if quick else m
        A = near_separable(m, n, k, dtype)
        taken = in_turns(
            {
                "ours": lambda A=A, k=k: fa.SPA().seek(A, k),
                "lean": lambda A=A, k=k: lean_spa(A, k),
                "textbook": lambda A=A, k=k: textbook_spa(A, k),
            },
            rounds=3,
        )
        same = fa.SPA().seek(A, k).indices.tolist() == textbook_spa(A.astype(float), k)
        ours = taken["ours"]
        peers = (taken["textbook"] / ours, taken["lean"] / ours)
        rows.append((f"{m:,} × {n}, k = {k}, {np.dtype(dtype)}", ours, *peers, "yes" if same else "no"))
    columns = ["matrix", "SPA (s)", "textbook NumPy ÷ SPA", "lean NumPy ÷ SPA", "same indices"]
    report.table(columns, rows)
    report.text("SPA includes the check of its input (NaN, negative entries), which the NumPy versions leave out.")


def against_nmf(report: Report, quick: bool) -> None:
    report.text("## A factorisation: SPA and the encoder against scikit-learn's NMF (defaults, 200 iterations)")
    rows = []
    for m, n, k in [(5_000, 200, 10)] if quick else [(20_000, 200, 10), (20_000, 500, 20)]:
        A = near_separable(m, n, k, np.float64)

        def ours(A: np.ndarray = A, k: int = k) -> float:
            W = A[fa.SPA().seek(A, k).indices]
            return float(np.linalg.norm(A - fa.encode(A, W) @ W) / np.linalg.norm(A))

        def theirs(A: np.ndarray = A, k: int = k) -> float:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)
                model = NMF(k, init="nndsvda", random_state=0)
                F = model.fit_transform(A)
            return float(np.linalg.norm(A - F @ model.components_) / np.linalg.norm(A))

        ours()
        error, seconds = once(ours)
        their_error, their_seconds = once(theirs)
        rows.append((f"{m:,} × {n}, k = {k}", seconds, their_seconds / seconds, error, their_error))
    columns = ["matrix", "SPA + encode (s)", "NMF ÷ ours", "relative error, ours", "relative error, NMF"]
    report.table(columns, rows)


def xray(report: Report, quick: bool) -> None:
    report.text("## XRAY: sparse rows against the same rows held dense")
    rows = []
    for m, n, k in [(2_000, 1_000, 5)] if quick else [(20_000, 5_000, 10)]:
        A = topics(m, n, k, 60)
        dense = A.toarray()
        taken = in_turns(
            {
                "sparse": lambda A=A, k=k: fa.XRAY().seek(A, k),
                "dense": lambda A=dense, k=k: fa.XRAY().seek(A, k),
            },
            rounds=3,
        )
        same = (fa.XRAY().seek(A, k).indices == fa.XRAY().seek(dense, k).indices).all()
        share = f"{100 * A.nnz / (m * n):.2g} %"
        ratio = taken["dense"] / taken["sparse"]
        rows.append((f"{m:,} × {n:,}, k = {k}", share, taken["sparse"], ratio, "yes" if same else "no"))
    report.table(["matrix", "non-zero", "sparse (s)", "dense ÷ sparse", "same indices"], rows)


def encoder(report: Report, quick: bool) -> None:
    report.text("## Encoder: all rows at once against a loop over SciPy's nnls and against NMF.transform")
    m, n, k = (5_000, 100, 10) if quick else (100_000, 300, 20)
    A = near_separable(m, n, k, np.float64)
    W = A[fa.SPA().seek(A, k).indices]
    taken = in_turns({"ours": lambda: fa.encode(A, W)}, rounds=3)
    F = fa.encode(A, W)
    some = np.arange(0, m, max(1, m // 500))
    loop, seconds = once(lambda: np.array([nnls(W.T, a)[0] for a in A[some]]))
    worst = np.abs(loop - F[some]).max() / np.abs(loop).max()
    model = NMF(k, init="custom", random_state=0)
    model.components_, model.n_components_, model.n_features_in_ = W, k, n
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        theirs, transform = once(lambda: model.transform(A))
    ours = taken["ours"]
    peers = (seconds * m / len(some) / ours, transform / ours)
    errors = (np.linalg.norm(A - F @ W), np.linalg.norm(A - theirs @ W))
    columns = ["matrix", "encode (s)", "nnls loop ÷ ours", "transform ÷ ours", "error ours", "error transform"]
    report.table(columns, [(f"{m:,} × {n}, k = {k}", ours, *peers, *errors)])
    report.text(
        f"The loop was timed on {len(some)} rows and scaled to all; on these the weights differ by at most {worst:.1e} "
        "of the largest."
    )


def main() -> int:
    options = arguments(__doc__)
    report = Report("solvers", "Solvers and encoder: time ratios in one run", options)
    for part in (spa, against_nmf, xray, encoder):
        part(report, options.quick)
    report.save()
    return 0


if __name__ == "__main__":
    sys.exit(main())
