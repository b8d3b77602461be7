"""Helpers of ``seek.py``: plain SPA as the peer, random cases, a profile, and the figure."""

from __future__ import annotations

import os
import time
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

import fastanchors as fa
from fastanchors.errors import RankError
from fastanchors.fas import bounds as fas_bounds
from fastanchors.fas import coreset as fas_coreset
from fastanchors.fas import index as fas_index
from fastanchors.fas import seek as fas_seek
from fastanchors.matrix import MeteredMatrix


def plain_spa(A: Any, k: int) -> list[int]:
    """SPA as one would write it in NumPy or SciPy: no residual matrix, one product with the matrix per anchor."""
    squares = A.multiply(A).sum(axis=1) if sp.issparse(A) else np.einsum("ij,ij->i", A, A)
    squares = np.asarray(squares, dtype=np.float64).reshape(-1)
    Q: list[np.ndarray] = []
    found: list[int] = []
    for _ in range(k):
        i = int(np.argmax(squares))
        found.append(i)
        row = A[[i]].toarray()[0] if sp.issparse(A) else A[i]
        q = row.astype(np.float64)
        for p in Q:
            q = q - (p @ q) * p
        q /= np.linalg.norm(q)
        Q.append(q)
        squares -= np.asarray(A @ q.astype(A.dtype), dtype=np.float64) ** 2
    return found


def forget(path: Path) -> None:
    """Ask the system to drop a file from the page cache, so that the next read goes to the disk."""
    with open(path, "rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def streamed_spa(path: Path, k: int, *, cold: bool, block: int = 20_000) -> list[int]:
    """SPA by passes over a file in blocks of rows; with ``cold`` every pass reads from the disk."""
    A = np.load(path, mmap_mode="r")
    starts = range(0, len(A), block)
    squares = np.concatenate([np.einsum("ij,ij->i", A[s : s + block], A[s : s + block]) for s in starts]).astype(float)
    Q: list[np.ndarray] = []
    found: list[int] = []
    for _ in range(k):
        i = int(np.argmax(squares))
        found.append(i)
        q = A[i].astype(np.float64)
        if cold:  # mapped pages are not dropped
            del A
            forget(path)
            A = np.load(path, mmap_mode="r")
        for p in Q:
            q = q - (p @ q) * p
        q /= np.linalg.norm(q)
        Q.append(q)
        q32 = q.astype(np.float32)
        squares -= np.concatenate([np.asarray(A[s : s + block] @ q32, dtype=np.float64) for s in starts]) ** 2
    return found


def case(seed: int) -> tuple[str, Any, int]:
    """(name, random matrix, number of anchors)."""
    rng = np.random.default_rng(seed)
    families = sorted(fa.datasets.FAMILIES)
    noise = float(rng.choice([0.0, 0.0, 1e-6, 1e-3, 0.05, 0.3]))
    which = int(rng.integers(len(families) + 5))
    if which < len(families):
        name = families[which]
        A = fa.datasets.family(name, noise=noise, rng=rng).A
        k = min(20, *A.shape)
    else:
        name = ["separable", "duplicated rows", "scaled copies", "zero rows", "k above the rank"][which - len(families)]
        k = int(rng.integers(2, 12))
        m, n = int(rng.integers(200, 4000)), int(rng.integers(k + 3, 60))
        condition = [None, 100.0, 1000.0][rng.integers(3)]
        A = fa.datasets.separable(m, n, k, noise=noise, condition=condition, near_pure=5, rng=rng).A
        if name == "duplicated rows":
            A = A[rng.integers(0, m // 3, m)]
        elif name == "scaled copies":
            A = A[rng.integers(0, m // 3, m)] * rng.integers(1, 9, (m, 1))
            A = A / A.sum(axis=1, keepdims=True)
        elif name == "zero rows":
            A = A * (rng.random((m, 1)) < 0.6)
        elif name == "k above the rank":
            k += 2
    if rng.random() < 0.3:
        A = A.astype(np.float32)
    return name, sp.csr_array(A) if rng.random() < 0.5 else np.ascontiguousarray(A), k


def compare(A: Any, k: int, seed: int) -> bool:
    """Whether FAS, certified exact, gives the same answer as SPA, including rank errors."""
    answers = []
    for solver in (fa.SPA(), fa.FAS(selection="spa")):
        try:
            found = solver.seek(A, k, rng=seed)
            assert found.certificate.kind == "exact"
            answers.append(found.indices.tolist())
        except RankError as error:
            answers.append(error.rank)
    return answers[0] == answers[1]


@contextmanager
def no_small() -> Any:
    """Use the index on every matrix, with a small pilot."""
    kept = fas_seek._SMALL_ARRAY, fas_seek.build_index
    fas_seek._SMALL_ARRAY = 0
    fas_seek.build_index = lambda *a, **o: fas_index.build_index(*a, **{**o, "pilot": 20})
    try:
        yield
    finally:
        fas_seek._SMALL_ARRAY, fas_seek.build_index = kept


@contextmanager
def profiled() -> Any:
    """Measure the seconds spent in the parts of a seek."""
    parts = {"reads": 0.0, "pass": 0.0, "bounds": 0.0, "coreset": 0.0}

    def timed(function: Any, name: str) -> Any:
        def wrapper(*args: Any, **options: Any) -> Any:
            start = time.perf_counter()
            try:
                return function(*args, **options)
            finally:
                parts[name] += time.perf_counter() - start

        return wrapper

    places = [
        (MeteredMatrix, "rows", "reads"),
        (fas_bounds.Sketch, "of", "pass"),
        (fas_bounds.Sketch, "scan", "bounds"),
        (fas_coreset.Coreset, "run", "coreset"),
    ]
    before = [vars(owner)[name] for owner, name, _ in places]
    for owner, name, part in places:
        setattr(owner, name, timed(getattr(owner, name), part))
    try:
        yield parts
    finally:
        for (owner, name, _), function in zip(places, before):
            setattr(owner, name, function)


def draw(times: dict[str, list[tuple[int, float]]], path: Path, k: int) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(7.5, 4.6), layout="constrained")
    colours = {"FAS() on a store": "#c0392b", "FAS(), one shot": "#e67e22", "SPA": "#2c3e50"}
    labels = []
    for name, points in times.items():
        if not points:
            continue
        m, seconds = zip(*points)
        colour = colours.get(name, {"XRAY": "#7f8c8d", "DCA": "#95a5a6"}.get(name, "#8e44ad"))
        axes.loglog(m, seconds, marker="o", markersize=4, linewidth=2 if name in colours else 1.2, color=colour)
        labels.append((seconds[-1], m[-1], name, colour))
    axes.set_xlabel("rows")
    axes.set_ylabel("seconds")
    axes.set_title(f"Time to find {k} anchors, by the number of rows", loc="left")
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(True, which="major", color="#dddddd", linewidth=0.6)
    left, right = axes.get_xlim()
    axes.set_xlim(left, right * 12)  # room for the names
    bottom = -np.inf
    for seconds, m, name, colour in sorted(labels):
        y = max(np.log10(seconds), bottom + 0.22)  # names must not overlap
        bottom = y
        axes.annotate(name, (m, 10**y), xytext=(6, 0), textcoords="offset points", color=colour, va="center")
    axes.set_ylim(top=max(axes.get_ylim()[1], 10 ** (bottom + 0.2)))  # the top name may be above all points
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=160)
    plt.close(figure)
