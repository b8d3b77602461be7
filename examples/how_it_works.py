"""Draw the figures of docs/how-it-works.md: a simplex of rows, SPA's steps on it, and length-squared sampling.

Run: python examples/how_it_works.py [OUTPUT_DIRECTORY]   (needs the extra 'report')
"""

from __future__ import annotations

import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

import fastanchors as fa

INK, ACCENT, PALE = "#333333", "#d55e00", "#9ab8d3"


def _corners() -> np.ndarray:
    return np.array([[0.92, 0.04, 0.04], [0.06, 0.88, 0.06], [0.1, 0.05, 0.85]])


def _plane(rows: np.ndarray) -> np.ndarray:
    """Two-dimensional coordinates of points of the plane x + y + z = 1."""
    basis = np.array([[-1.0, 1.0, 0.0], [-1.0, -1.0, 2.0]])
    return rows @ (basis / np.linalg.norm(basis, axis=1, keepdims=True)).T


def _frame(axis: plt.Axes, title: str) -> None:
    axis.set_aspect("equal")
    axis.set_axis_off()
    axis.set_title(title, color=INK, fontsize=11)


def simplex(path: Path) -> None:
    """Rows as points, with mixtures inside and anchors at the corners; then the three steps of SPA."""
    rng = np.random.default_rng(3)
    corners = _corners()
    A = np.vstack([rng.dirichlet([0.9] * 3, 300) @ corners, corners])
    found = fa.SPA().seek(A, 3)
    figure, axes = plt.subplots(1, 4, figsize=(12, 3.3), layout="constrained")
    points = _plane(A)
    _frame(axes[0], "rows of A, unit sum")
    axes[0].scatter(*points.T, s=9, color=PALE, lw=0)
    axes[0].scatter(*_plane(corners).T, s=50, facecolor="none", edgecolor=ACCENT, lw=1.6)
    residual = A.copy()
    for step, axis in enumerate(axes[1:]):
        size = np.linalg.norm(residual, axis=1)
        _frame(axis, f"step {step + 1}: the largest residual")
        axis.scatter(*points.T, s=9, c=size, cmap="Blues", vmin=0, vmax=size.max(), lw=0)
        chosen = found.indices[: step + 1]
        axis.scatter(*points[chosen].T, s=50, facecolor="none", edgecolor=ACCENT, lw=1.6)
        q = residual[found.indices[step]] / size[found.indices[step]]
        residual -= np.outer(residual @ q, q)
    figure.savefig(path, dpi=110)


def sampling(path: Path) -> None:
    """A vector, and how often each entry is drawn: proportionally to its square."""
    values = np.array([3.0, -1.0, 0.5, 2.0, 0.0, -4.0, 1.5, 1.0])
    v = fa.VectorSampler(values)
    counts = np.bincount(v.sample(20_000, rng=0), minlength=len(values))
    figure, axes = plt.subplots(1, 2, figsize=(8.5, 2.6), layout="constrained")
    axes[0].bar(range(len(values)), values, color=PALE)
    axes[0].axhline(0, color=INK, lw=0.8)
    axes[0].set_title("entries", color=INK, fontsize=11)
    axes[1].bar(range(len(values)), counts / counts.sum(), color=PALE, label="20,000 draws")
    axes[1].plot(range(len(values)), values**2 / v.norm**2, "_", ms=22, mew=2, color=ACCENT, label="square / norm²")
    axes[1].set_title("how often each is drawn", color=INK, fontsize=11)
    axes[1].legend(frameon=False)
    for axis in axes:
        axis.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=110)


if __name__ == "__main__":
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    simplex(folder / "simplex.png")
    sampling(folder / "sampling.png")
    print(f"simplex.png and sampling.png written to {folder}")
