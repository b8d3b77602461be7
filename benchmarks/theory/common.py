"""What the experiments share: options, a table in Markdown, a figure in one style."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

OUT = Path(__file__).resolve().parents[2] / "docs" / "theory"

BLUE, ORANGE, GREEN, RED, GREY = "#0b62a4", "#d9730d", "#2a8c55", "#b3261e", "#6b6b6b"

plt.rcParams.update(
    {
        "figure.dpi": 110,
        "font.size": 10,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.grid": True,
        "grid.color": "#e4e4e4",
        "grid.linewidth": 0.7,
        "axes.axisbelow": True,
        "legend.frameon": False,
        "lines.linewidth": 1.8,
        "lines.markersize": 5,
        "svg.hashsalt": "fastanchors",
    }
)


def options(description: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--quick", action="store_true", help="smaller sizes and fewer repeats")
    parser.add_argument("--out", type=Path, default=OUT, help="where the table and the figure go")
    parser.add_argument("--format", default="svg", help="format of the figure (svg, png)")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    return arguments


def cell(value: Any) -> str:
    if isinstance(value, (float, np.floating)):
        if value == 0 or 1e-3 <= abs(value) < 1e5:
            return f"{value:,.3g}" if abs(value) < 1000 else f"{value:,.0f}"
        return f"{value:.1e}"
    if isinstance(value, (int, np.integer)):
        return f"{value:,}"
    return str(value)


def write_table(arguments: argparse.Namespace, name: str, title: str, tables: Sequence[tuple[str, list, list]]) -> None:
    """Print and write tables: (caption, header, rows)."""
    lines = [f"# {title}", ""]
    for caption, header, rows in tables:
        lines += [caption, ""] if caption else []
        lines += ["| " + " | ".join(header) + " |", "|" + " --- |" * len(header)]
        lines += ["| " + " | ".join(cell(value) for value in row) + " |" for row in rows]
        lines.append("")
    lines.append(f"Written by `benchmarks/theory/{name}.py{' --quick' if arguments.quick else ''}`.")
    text = "\n".join(lines) + "\n"
    print(text)
    tables_folder = arguments.out / "tables"
    tables_folder.mkdir(parents=True, exist_ok=True)
    (tables_folder / f"{name}.md").write_text(text, encoding="utf-8")


def plain_ticks(axis: Any, values: Sequence[float]) -> None:
    """Ticks at the values themselves, as plain numbers."""
    axis.set_xticks(values, [f"{value:,g}" for value in values])
    axis.minorticks_off()


def legend_below(figure: Any, axes: Sequence[Any], columns: int) -> None:
    """One legend for all panels, under them."""
    found = {}
    for axis in axes:
        for handle, label in zip(*axis.get_legend_handles_labels()):
            found.setdefault(label, handle)
    figure.legend(
        found.values(), found.keys(), loc="upper center", bbox_to_anchor=(0.5, 0.0), ncol=columns, handlelength=3.2
    )


def save(arguments: argparse.Namespace, figure: Any, name: str) -> None:
    figure.tight_layout()
    metadata = {"Date": None} if arguments.format == "svg" else None
    figure.savefig(arguments.out / f"{name}.{arguments.format}", metadata=metadata, bbox_inches="tight")
    plt.close(figure)


def low_rank(m: int, n: int, k: int, *, kappa: float, noise: float, seed: int = 0) -> np.ndarray:
    """Random singular vectors, singular values from κ down to 1, and Gaussian noise of that share of the norm."""
    rng = np.random.default_rng(seed)
    left = np.linalg.qr(rng.standard_normal((m, k)))[0]
    right = np.linalg.qr(rng.standard_normal((n, k)))[0]
    A = left * np.geomspace(kappa, 1.0, k) @ right.T
    if noise:
        A += noise * np.linalg.norm(A) / np.sqrt(m * n) * rng.standard_normal((m, n))
    return A
