"""``fastanchors bench``: compare the speed and the answers of solvers on this machine."""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import numpy as np
from numpy.typing import NDArray

from ._terminal import working
from .app import emit, json_option

__all__ = ["bench"]


@click.command()
@click.option("--rows", type=click.IntRange(10), default=50_000, show_default=True)
@click.option("--columns", type=click.IntRange(2), default=200, show_default=True)
@click.option("-k", "size", type=click.IntRange(1), default=10, show_default=True, help="Number of anchors.")
@click.option("--noise", type=click.FloatRange(0), default=0.001, show_default=True, help="Relative to the entries.")
@click.option("--repeats", type=click.IntRange(1), default=3, show_default=True)
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True)
@json_option
def bench(rows: int, columns: int, size: int, noise: float, repeats: int, seed: int, as_json: bool) -> None:
    """Compare solvers on this machine, on synthetic data with known anchors.

    Each solver is run once to warm up (compilation and caches are not counted) and then REPEATS times; the median time
    is shown, with the fraction of the true anchors that were found. Building the store is timed separately.
    """
    if size > min(rows, columns):
        raise click.BadParameter(f"{size} is more than min(rows, columns) = {min(rows, columns)}", param_hint="-k")
    from .. import datasets
    from ..metrics import anchor_recovery

    with working("making data"):
        data = datasets.separable(rows, columns, size, noise=noise, rng=seed)
        A = np.ascontiguousarray(data.A / data.A.sum(axis=1, keepdims=True))
    results = []
    with tempfile.TemporaryDirectory(prefix="fastanchors-") as folder:
        for name, run in _methods(A, size, seed, Path(folder)).items():
            with working(f"running {name}"):
                seconds, indices = _timed(run, 1 if name.startswith("build") else repeats)
            recovery = None if indices is None else anchor_recovery(indices, data.labels)
            results.append({"name": name, "seconds": seconds, "recovery": recovery})
    record = {"rows": rows, "columns": columns, "k": size, "noise": noise, "seed": seed, "results": results}
    if as_json:
        emit(record)
    else:
        click.echo(_table(record))


def _methods(A: NDArray[np.float64], k: int, seed: int, folder: Path) -> dict[str, Callable[[], Any]]:
    """Name -> function to time; it returns the anchors, or None."""
    from .. import FAS, SPA, XRAY
    from ..fas.stores import build
    from ..fas.stores import open as open_store

    store = folder / "store"

    def seek_store() -> Any:
        with open_store(store) as S:
            return FAS().seek(S, k, rng=seed).indices

    def make_store() -> None:
        build(A, store, normalize=None, columns=False, overwrite=True).close()

    return {
        "textbook SPA in NumPy": lambda: textbook_spa(A, k),
        "SPA()": lambda: SPA().seek(A, k).indices,
        "XRAY()": lambda: XRAY().seek(A, k).indices,
        "FAS() on the array": lambda: FAS().seek(A, k, rng=seed).indices,
        "build a store (once)": make_store,
        "FAS() on the store": seek_store,
    }


def textbook_spa(A: NDArray[np.float64], k: int) -> list[int]:
    """SPA as it is usually written: project the whole residual matrix, k times."""
    R = A.copy()
    chosen = []
    for _ in range(k):
        i = int(np.argmax(np.sum(R**2, axis=1)))
        q = R[i] / np.linalg.norm(R[i])
        R -= np.outer(R @ q, q)
        chosen.append(i)
    return chosen


def _timed(run: Callable[[], Any], repeats: int) -> tuple[float, Any]:
    """Median seconds and the answer."""
    answer = run()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        answer = run()
        times.append(time.perf_counter() - start)
    return statistics.median(times), answer


def _table(record: dict[str, Any]) -> str:
    lines = [
        f"{record['rows']:,} × {record['columns']:,} synthetic data, {record['k']} anchors, relative noise "
        f"{record['noise']:g}; median of repeats, compilation not counted",
        "",
        f"{'':<24} {'seconds':>9}  {'vs textbook':>12}  anchors found",
    ]
    peer = record["results"][0]["seconds"]
    for entry in record["results"]:
        ratio = peer / entry["seconds"]
        against = f"{ratio:.3g}× faster" if ratio >= 1 else f"{1 / ratio:.3g}× slower"
        found = "" if entry["recovery"] is None else f"{100 * entry['recovery']:.0f} %"
        against = "" if entry["recovery"] is None or entry is record["results"][0] else against
        lines.append(f"{entry['name']:<24} {entry['seconds']:>9.3g}  {against:>12}  {found}")
    lines += ["", "The build of the store makes an index, so a seek in the store reads almost no rows."]
    return "\n".join(line.rstrip() for line in lines)
