"""Code shared by all benchmarks: fair timing, and report tables that name the hardware and versions.

A script makes one :class:`Report`, adds tables and notes to it, and saves it as ``benchmarks/results/<name>.md``.
Competing tasks are timed in turns (:func:`in_turns`), so that a busy moment of the machine affects all of them. The
median of the rounds is reported.
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"


def arguments(description: str | None, **extra: dict[str, Any]) -> argparse.Namespace:
    """Parse the options common to all scripts and ``extra`` ones: name → arguments of ``add_argument``."""
    parser = argparse.ArgumentParser(description=(description or "").strip().split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="small sizes, to see that it runs; writes no table")
    parser.add_argument("--data", type=Path, default=None, help="directory of the data sets")
    parser.add_argument("--out", type=Path, default=None, help="directory for the table (benchmarks/results)")
    for name, settings in extra.items():
        parser.add_argument(f"--{name}", **settings)
    options = parser.parse_args()
    if options.out is None and not options.quick:
        options.out = RESULTS
    return options


def in_turns(tasks: dict[str, Callable[[], Any]], rounds: int = 5) -> dict[str, float]:
    """Median seconds of each task, after one unmeasured call each, in ``rounds`` rounds of one call each."""
    seconds: dict[str, list[float]] = {name: [] for name in tasks}
    for task in tasks.values():
        task()
    for _ in range(rounds):
        for name, task in tasks.items():
            start = time.perf_counter()
            task()
            seconds[name].append(time.perf_counter() - start)
    return {name: statistics.median(taken) for name, taken in seconds.items()}


def once(task: Callable[[], Any]) -> tuple[Any, float]:
    """The result of one call and its seconds."""
    start = time.perf_counter()
    result = task()
    return result, time.perf_counter() - start


def machine(packages: Sequence[str] = ("numpy", "scipy", "numba", "scikit-learn")) -> str:
    """Processor, cores, memory and versions, without the host name."""
    processor = platform.processor() or platform.machine()
    if Path("/proc/cpuinfo").exists():
        models = [line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")]
        processor = models[0].partition(":")[2].strip() if models else processor
    parts = [f"{processor}, {os.cpu_count()} cores"]
    if hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names:
        parts.append(f"{os.sysconf('SC_PHYS_PAGES') * os.sysconf('SC_PAGE_SIZE') / 2**30:.0f} GiB")
    parts += [platform.system(), f"Python {platform.python_version()}"]
    for package in packages:
        try:
            parts.append(f"{package} {version(package)}")
        except PackageNotFoundError:
            parts.append(f"{package} absent")
    return ", ".join(parts)


def peak_memory() -> int | None:
    """Peak resident bytes of this process, if the system reports them (Linux, macOS)."""
    try:
        import resource
    except ImportError:
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return int(peak if sys.platform == "darwin" else peak * 1024)


def number(x: float | None, digits: int = 3) -> str:
    """Three significant digits without an exponent; a dash for None."""
    if x is None:
        return "–"
    if x == 0:
        return "0"
    text = f"{x:.{digits}g}"
    return f"{float(text):,.10f}".rstrip("0").rstrip(".")


class Report:
    """A Markdown page of tables, printed as it is built and written by :meth:`save`."""

    def __init__(self, name: str, title: str, options: argparse.Namespace, packages: Sequence[str] = ()) -> None:
        self.name = name
        self.options = options
        self.lines: list[str] = []
        kind = " (quick: small sizes, figures mean little)" if options.quick else ""
        self.text(f"# {title}{kind}")
        self.text(f"Machine: {machine(('numpy', 'scipy', 'numba', 'scikit-learn', *packages))}.")

    def text(self, paragraph: str) -> None:
        print(paragraph + "\n", flush=True)
        self.lines += [paragraph, ""]

    def table(self, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
        """Add a table: numbers with three significant digits, right-aligned; None as a dash."""
        cells = [[x if isinstance(x, str) else number(x) for x in row] for row in rows]
        rule = ["---" if all(isinstance(x, str) for x in column) else "---:" for column in zip(*rows)]
        table = [columns, rule or ["---"] * len(columns), *cells]
        self.text("\n".join("| " + " | ".join(row) + " |" for row in table))

    def save(self) -> None:
        """Add the peak memory of the process, and write the page unless the run is a quick one."""
        peak = peak_memory()
        if peak is not None:
            self.text(f"Peak memory of this run: {peak / 1e9:.2f} GB.")
        if self.options.out is not None:
            self.options.out.mkdir(parents=True, exist_ok=True)
            path = self.options.out / f"{self.name}.md"
            path.write_text("\n".join(self.lines).rstrip() + "\n", encoding="utf-8")
            print(f"written: {path}", flush=True)
