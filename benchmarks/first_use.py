"""Time the first call of every public function on a machine without compiled kernels.

``python benchmarks/first_use.py [--quick] [--call NAME]``. Each call runs in a separate process with an empty kernel
cache. Processor time is that of the call alone: all modules are imported and the data made before. "Again" is the
second call in the same process.
"""

from __future__ import annotations

import importlib
import json
import os
import pkgutil
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from numba.core import event

import fastanchors as fa
from _table import Report, arguments

#: Most processor seconds allowed for a first call.
TARGETS = {
    "FAS().seek, 100,000 × 100": 3.0,
    "encode, 1,000 × 50": 3.0,
    "SeparableNMF.fit_transform, 1,000 × 50": 4.0,
    "build and FAS().seek, 5,000 × 50": 5.0,
}
PEER = "scikit-learn's NMF.fit_transform, 1,000 × 50"

Call = Callable[[], Any]


def rows(m: int, n: int) -> Any:
    """Mixtures of ten anchors, made without compiling anything."""
    rng = np.random.default_rng(0)
    weights = rng.dirichlet(np.full(10, 0.4), m)
    weights[:10] = np.eye(10)
    return weights @ rng.dirichlet(np.full(n, 0.5), 10) * rng.uniform(0.5, 2.0, (m, 1))


def build_and_seek(m: int, n: int) -> Call:
    X, folder, names = rows(m, n), tempfile.mkdtemp(), iter("abc")

    def call() -> None:
        fa.FAS().seek(fa.build(X, os.path.join(folder, next(names))), 10, rng=0)

    return call


def peer() -> Call:
    from sklearn.decomposition import NMF

    X = rows(1000, 50)
    warnings.simplefilter("ignore")  # about stopping at max_iter
    return lambda: NMF(10, random_state=0).fit_transform(X)


def seek(solver: str, m: int, n: int, **options: Any) -> Callable[[], Call]:
    def prepare() -> Call:
        X = rows(m, n)
        return lambda: getattr(fa, solver)(**options).seek(X, 10, rng=0)

    return prepare


def of_rows(function: Callable[[Any], Any], m: int = 1000, n: int = 50) -> Callable[[], Call]:
    def prepare() -> Call:
        X = rows(m, n)
        return lambda: function(X)

    return prepare


def draw(X: Any) -> None:
    matrix = fa.SampleMatrix(X)
    matrix.sample_rows(100, rng=0)


def update(X: Any) -> None:
    matrix = fa.SampleMatrix(X)
    matrix[3, 4] = 2.0
    matrix.sample_rows(100, rng=0)


def arrive(X: Any) -> None:
    model = fa.SeparableNMF(10, random_state=0)
    for first in (0, 600, 900):
        model.partial_fit(X[first : first + 300])


def change_store(m: int, n: int) -> Call:
    X, folder, names = rows(m, n), tempfile.mkdtemp(), iter("abc")

    def call() -> None:
        with fa.build(X, os.path.join(folder, next(names))) as store:
            store[3, 4] = 2.0
            store.append(X[:5])
            store.commit()
            fa.FAS().seek(store, 10, rng=0)

    return call


def rate(X: Any) -> None:
    model = fa.apps.Recommender(X, 5, rng=0)
    model.top_n([0, 1], 5)
    model.rate([0], [7], [5.0])
    model.top_n([0, 1], 5)


CALLS: dict[str, Callable[[], Call]] = {
    "FAS().seek, 100,000 × 100": seek("FAS", 100_000, 100),
    "encode, 1,000 × 50": of_rows(lambda X: fa.encode(X, X[:10])),
    "SeparableNMF.fit_transform, 1,000 × 50": of_rows(lambda X: fa.SeparableNMF(10, random_state=0).fit_transform(X)),
    "build and FAS().seek, 5,000 × 50": lambda: build_and_seek(5000, 50),
    PEER: peer,
    "FAS().seek, 1,000 × 50": seek("FAS", 1000, 50),
    "encode with sum_to_one, 1,000 × 50": of_rows(lambda X: fa.encode(X, X[:10], sum_to_one=True)),
    "encode, 20,000 × 50, anchors in pairs 1e-6 apart": of_rows(
        lambda X: fa.encode(X + 0.01, np.vstack([X[:5], X[:5] + 1e-6 * X[5:10]])), 20_000
    ),
    "SPA().seek, 1,000 × 50": seek("SPA", 1000, 50),
    "SNPA().seek, 1,000 × 50": seek("SNPA", 1000, 50),
    "XRAY().seek, 1,000 × 50": seek("XRAY", 1000, 50),
    "DCA().seek, 1,000 × 50": seek("DCA", 1000, 50),
    "FGNSR().seek, 100 × 50": seek("FGNSR", 100, 50),
    "rank_curve, 1,000 × 50": of_rows(lambda X: fa.rank_curve(X, k_max=15, rng=0)),
    "nmf, 1,000 × 50": of_rows(lambda X: fa.nmf(X, 10, rng=0)),
    "SampleMatrix and draws, 1,000 × 50": of_rows(draw),
    "SampleMatrix, a change and draws, 1,000 × 50": of_rows(update),
    "VectorSampler and draws, 1,000": of_rows(lambda X: fa.VectorSampler(X[:, 0]).sample(100, rng=0)),
    "fkv, 1,000 × 50": of_rows(lambda X: fa.fkv(fa.SampleMatrix(X), 5, rows=200, columns=40, rng=0)),
    "cur, 1,000 × 50": of_rows(lambda X: fa.cur(X, 5, rng=0)),
    "SeparableNMF.partial_fit, 1,000 × 50, three times": of_rows(arrive),
    "build, a change, commit and seek, 1,000 × 50": lambda: change_store(1000, 50),
    "lowrank.solve, 1,000 × 50": of_rows(
        lambda X: fa.lowrank.solve(X, X @ np.ones(50), 5, rows=200, columns=40, rng=0)
    ),
    "AroraLP().seek, 50 × 20": seek("AroraLP", 50, 20),
    "Hottopixx().seek, 50 × 20": seek("Hottopixx", 50, 20),
    "apps.topics, 1,000 documents of 300 words": of_rows(
        lambda X: fa.apps.topics(np.random.default_rng(0).poisson(20 * X), 5), 1000, 300
    ),
    "apps.representatives, 1,000 × 50": of_rows(lambda X: fa.apps.representatives(X, 5)),
    "apps.Recommender, 1,000 × 50, with a new rating": of_rows(rate),
    "report.gather, 1,000 × 50": of_rows(lambda X: fa.report.gather(X, fa.FAS().seek(X, 10, rng=0), title="rows")),
    "apps.unmix, 50 × 40 × 50": of_rows(lambda X: fa.apps.unmix(X.reshape(50, 40, 50), 5), 2000),
}


def import_all() -> None:
    """Import every module that the calls may need, so that only the calls are timed."""
    for module in pkgutil.walk_packages(fa.__path__, "fastanchors."):
        if not module.name.startswith(("fastanchors.dask", "fastanchors.cli", "fastanchors.__main__")):
            importlib.import_module(module.name)
    import sklearn.decomposition  # noqa: F401


class Compilers(event.Listener):
    """Processor time of compiling each kernel, excluding the kernels it calls."""

    def __init__(self) -> None:
        self.kernels: dict[str, float] = {}
        self._open: list[list[float]] = []

    def on_start(self, event: Any) -> None:
        self._open.append([time.process_time(), 0.0])

    def on_end(self, event: Any) -> None:
        start, inside = self._open.pop()
        taken = time.process_time() - start
        if self._open:
            self._open[-1][1] += taken
        function = event.data["dispatcher"].py_func
        if function.__module__.startswith("fastanchors"):
            self.kernels[function.__name__] = self.kernels.get(function.__name__, 0.0) + taken - inside


def measure(name: str) -> dict[str, Any]:
    """In this process: seconds of the first and second call, and how long each kernel took to compile."""
    import_all()
    call, compilers = CALLS[name](), Compilers()
    with event.install_listener("numba:compile", compilers):
        first = timed(call)
    return {"first": first, "again": timed(call), "kernels": compilers.kernels}


def timed(call: Call) -> float:
    start = time.process_time()
    call()
    return time.process_time() - start


def in_fresh_process(name: str) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "NUMBA_CACHE_DIR": folder, "TMPDIR": folder}
        command = [sys.executable, __file__, "--call", name]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{name}:\n{done.stderr}")
    return json.loads(done.stdout.splitlines()[-1])


def costliest(kernels: dict[str, float]) -> str:
    worst = sorted(kernels, key=lambda kernel: -kernels[kernel])[:3]
    return ", ".join(f"{kernel} {kernels[kernel]:.2f}" for kernel in worst) or "–"


def main() -> None:
    options = arguments(__doc__, call={"choices": list(CALLS), "help": "measure this call, here", "metavar": "NAME"})
    if options.call:
        print(json.dumps(measure(options.call)))
        return
    report = Report("first_use", "First use: processor time of a first call, nothing compiled before", options)
    names = list(TARGETS) if options.quick else list(CALLS)
    table = []
    for name in names:
        found = in_fresh_process(name)
        kernels = found["kernels"]
        table.append([name, found["first"], TARGETS.get(name), found["again"], str(len(kernels)), costliest(kernels)])
        print(f"{name}: {found['first']:.2f} s", file=sys.stderr, flush=True)
    report.table(["call", "first, s", "target, s", "again, s", "kernels", "the slowest to compile, s"], table)
    report.text(
        "Kernels are compiled once per machine: the next process loads them from the cache in milliseconds. Half a "
        "second of any first compile is numba's own start."
    )
    report.save()


if __name__ == "__main__":
    main()
