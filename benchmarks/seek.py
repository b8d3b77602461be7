"""Compare FAS() with full SPA: equality of the anchors, and cost, on stores, arrays and files.

``python benchmarks/seek.py [--quick] [--full] [--only NAME …] [--scale X] [--gigabytes X]``. Sizes are those of
``--full`` times the scale (default 0.1): 1,000,000×400 dense, 5,000,000×2,000 sparse, growth to 10,000,000 rows, a
file of 20 GB (or ``--gigabytes``). ``--full`` needs 12 GB of memory, and disk space for 2.5 times the file (in
``TMPDIR``). Its files are removed, also on interruption. Peers: a NumPy SPA without a residual matrix, the same on
SciPy CSR, and this library's own solvers. Names: exact, store, sparse, growth, shot, file, curve,
build, rivals, figure.
"""

from __future__ import annotations

import os
import shutil
import signal
import statistics
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

import fastanchors as fa
from _seek import case, compare, draw, forget, no_small, plain_spa, profiled, streamed_spa
from _table import Report, arguments, once
from fastanchors.fas.sidecar import FasSidecar

K = 20


def typical(task: Callable[[], Any], rounds: int = 7) -> float:
    """Median seconds after one unmeasured call."""
    task()
    return statistics.median(once(task)[1] for _ in range(rounds))


class Bench:
    def __init__(self, report: Report, scale: float, quick: bool, gigabytes: float) -> None:
        self.report, self.scale, self.quick, self.gigabytes = report, scale, quick, gigabytes
        self.folder = Path(tempfile.mkdtemp(prefix="seek-"))

    def rows(self, full: int) -> int:
        return max(10_000, int(full * self.scale))

    def dense(self, k: int = K, **options: Any) -> fa.datasets.Separable:
        m = self.rows(1_000_000)
        return fa.datasets.separable(m, 400, k, dtype=np.float32, keep_weights=False, rng=0, **options)

    # --- the same anchors -------------------------------------------------------------------------------------------

    def exact(self) -> None:
        cases = 60 if self.quick else 500
        seen: Counter[tuple[str, str]] = Counter()
        wrong: Counter[tuple[str, str]] = Counter()
        with no_small():
            for seed in range(cases):
                name, A, k = case(seed)
                outcome = compare(A, k, seed)
                kind = "dense" if isinstance(A, np.ndarray) else "sparse"
                seen[name, kind] += 1
                wrong[name, kind] += not outcome
        self.report.text(
            f"## The same indices as full SPA, {cases} random cases\n\nFamilies of the literature (noise 0 to 0.3), "
            "larger separable matrices, and the same with duplicated rows, scaled copies, zero rows and k above the "
            "rank (there both must raise the same error). Half of the cases are held as CSR. The index is used however "
            "small the matrix is, with a pilot of 20 rows."
        )
        names = sorted({name for name, _ in seen})
        self.report.table(
            ["family", "cases", "exact, but not SPA's"],
            [
                [n, sum(seen[n, x] for x in ("dense", "sparse")), sum(wrong[n, x] for x in ("dense", "sparse"))]
                for n in names
            ],
        )

    # --- stores -----------------------------------------------------------------------------------------------------

    def store(self) -> None:
        rows = []
        for label, options in (("", {}), (", noise 5 %", {"noise": 0.05})):
            data = self.dense(**options)
            S = fa.build(data.A, self.folder / "dense", normalize=None, overwrite=True)
            for k in (10, K):
                rows.append(self._against(f"{shape(data.A)} float32{label}", S, data.A, k))
            S.close()
        self._stores("Seek on a store, dense", "NumPy SPA in memory", rows)

    def sparse(self) -> None:
        m = self.rows(5_000_000)
        A = fa.datasets.separable(m, 2000, K, sparse=14 / 2000, dtype=np.float32, keep_weights=False, rng=0).A
        S = fa.build(A, self.folder / "sparse", normalize=None, overwrite=True)
        rows = [self._against(f"{shape(A)} CSR, {A.nnz / m:.0f} per row", S, A, K)]
        S.close()
        self._stores("Seek on a store, sparse", "SciPy-sparse SPA in memory", rows)

    def _against(self, label: str, S: Any, A: Any, k: int) -> list[Any]:
        expected, peer = once(lambda: plain_spa(A, k))
        S = fa.open(S.path)
        first = fa.FAS(selection="spa").seek(S, k)
        again = typical(lambda: fa.FAS(selection="spa").seek(S, k))
        same = fa.SPA().seek(A, k).indices.tolist()
        assert first.certificate.kind == "exact"
        assert first.indices.tolist() == same
        agreed = sum(a == b for a, b in zip(expected, same))
        return [
            label,
            k,
            peer,
            first.seconds,
            again,
            peer / again,
            peer / first.seconds,
            first.cost.rows_read,
            f"{agreed}/{k}",
        ]

    def _stores(self, title: str, peer: str, rows: list[list[Any]]) -> None:
        self.report.text(
            f"## {title}\n\nThe first seek after opening the store reads the index; the others have it. Every answer "
            f"is certified exact and is that of this library's SPA. *Same*: choices in which {peer} agrees; it has no "
            "rule for ties."
        )
        columns = [
            "matrix",
            "k",
            f"{peer}, s",
            "first seek, s",
            "seek, s",
            "times faster",
            "first, times",
            "rows read",
            "same",
        ]
        self.report.table(columns, rows)

    def growth(self) -> None:
        sizes = [m for m in (10_000, 100_000, 1_000_000, 10_000_000) if m <= self.rows(10_000_000)]
        families: dict[str, Callable[[int], dict[str, Any]]] = {
            "single-copy anchors": lambda m: {},
            "many near-pure rows (a tenth of all, 95 % pure)": lambda m: {"near_pure": m // 100},
            "rows arbitrarily near an anchor (Dirichlet 0.1)": lambda m: {"alpha": 0.1},
        }
        for label, options in families.items():
            rows = []
            for m in sizes:
                blocks = fa.datasets.separable_blocks(m, 40, 10, dtype=np.float32, rng=1, **options(m))
                fa.build(iter(blocks), self.folder / "growth", overwrite=True).close()
                with fa.open(self.folder / "growth", mode="r+") as S:
                    first = fa.FAS(selection="spa").seek(S, 10)
                    again = typical(lambda S=S: fa.FAS(selection="spa").seek(S, 10))
                    rng = np.random.default_rng(0)
                    updates, reads, kinds = [], [], Counter()
                    for _ in range(3):
                        S.update(rng.integers(m, size=1000), rng.integers(40, size=1000), rng.random(1000, np.float32))
                        found = fa.FAS(selection="spa").seek(S, 10)
                        assert found.certificate.kind == "exact"
                        updates.append(found.seconds)
                        reads.append(found.cost.rows_read)
                        kinds[found.certificate.details["index"].split(";")[0]] += 1
                    S._log.discard_operations()
                how = ", ".join(f"{kinds[x]} {x}" for x in kinds)
                updated = statistics.median(updates)
                rows.append(
                    [
                        f"{m:,}",
                        first.seconds,
                        again,
                        first.cost.rows_read,
                        updated,
                        updated / first.seconds,
                        max(reads),
                        how,
                    ]
                )
            self.report.text(f"## Growth of a seek on a store, k = 10, 40 columns: {label}")
            self.report.table(
                [
                    "rows",
                    "first seek, s",
                    "seek, s",
                    "rows read",
                    "after 1,000 updates, s",
                    "× first",
                    "rows read then",
                    "index then",
                ],
                rows,
            )
            self.report.text(
                f"From {sizes[0]:,} to {sizes[-1]:,} rows the first seek takes {rows[-1][1] / rows[0][1]:.2f} times, "
                f"a later one {rows[-1][2] / rows[0][2]:.2f} times as long."
            )

    # --- arrays and files -------------------------------------------------------------------------------------------

    def shot(self) -> None:
        rows = []
        for label, options in (
            ("", {}),
            (", noise 5 %", {"noise": 0.05}),
            (", near-pure rows", {"near_pure": 200, "alpha": 0.1}),
        ):
            A = self.dense(**options).A
            times: dict[str, list[float]] = {"plain": [], "spa": [], "fas": []}
            for _ in range(3):
                times["plain"].append(once(lambda A=A: plain_spa(A, K))[1])
                times["spa"].append(once(lambda A=A: fa.SPA().seek(A, K))[1])
                with profiled() as parts:
                    found, seconds = once(lambda A=A: fa.FAS(selection="spa").seek(A, K, rng=0))
                times["fas"].append(seconds)
            assert found.indices.tolist() == fa.SPA().seek(A, K).indices.tolist()
            t = {name: statistics.median(taken) for name, taken in times.items()}
            rest = max(0.0, seconds - sum(parts.values()))
            share = [parts[x] / seconds for x in ("reads", "pass", "bounds", "coreset")]
            rows.append(
                [
                    f"{shape(A)}{label}",
                    t["plain"],
                    t["spa"],
                    t["fas"],
                    t["fas"] / t["plain"],
                    found.cost.rows_read,
                    *share,
                    rest / seconds,
                ]
            )
        self.report.text(
            f"## One shot from an array, k = {K}, float32\n\nNothing is kept; checking the entries is part of the "
            "time. The last five columns say where the time of FAS goes: reading single rows, the pass (BLAS and "
            "conversion), bounds on all rows, SPA on the coreset, and the rest (Python, the pilot's basis)."
        )
        self.report.table(
            [
                "matrix",
                "NumPy SPA, s",
                "SPA(), s",
                "FAS(), s",
                "FAS/NumPy",
                "rows read",
                "reads",
                "pass",
                "bounds",
                "coreset",
                "rest",
            ],
            rows,
        )

    def file(self) -> None:
        n = 400
        m = max(20_000, int(self.gigabytes * 1e9 / (4 * n)))
        path, place = self.folder / "large.npy", self.folder / "built"
        need, free = 2.5 * 4 * m * n, shutil.disk_usage(self.folder).free
        if need > free:
            raise SystemExit(f"{need / 1e9:.0f} GB of disk are needed in {self.folder}, {free / 1e9:.0f} are free")
        target = np.lib.format.open_memmap(path, mode="w+", dtype=np.float32, shape=(m, n))
        at = 0
        for block in fa.datasets.separable_blocks(m, n, K, dtype=np.float32, rng=0):
            target[at : at + len(block)] = block
            at += len(block)
        target.flush()
        del target, block
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        size = path.stat().st_size

        def through_a_store() -> Any:
            with fa.build(path, place, normalize=None, columns=False, overwrite=True) as S:
                return fa.FAS(selection="spa").seek(S, K)

        ways: dict[str, Callable[[], Any]] = {
            f"SPA, {K + 1} passes over the file": lambda: streamed_spa(path, K, cold=True),
            "FAS() on the file": lambda: fa.FAS(selection="spa").seek(path, K, rng=0),
            "fa.build (rows only) and FAS() on the store": through_a_store,
        }
        answers, times = [], []
        for way in ways.values():
            forget(path)
            answer, seconds = once(way)
            answers.append(answer)
            times.append(seconds)
        expected, streamed, stored = answers
        assert streamed.certificate.kind == stored.certificate.kind == "exact"
        assert streamed.indices.tolist() == stored.indices.tolist()
        agreed = sum(a == b for a, b in zip(expected, streamed.indices.tolist()))
        shutil.rmtree(place)
        path.unlink()
        self.report.text(
            f"## Out of core: a file of {size / 1e9:.1f} GB, {m:,}×{n} float32, k = {K}\n\nMemory: {memory / 1e9:.1f} "
            f"GB. Before each way, and before each pass of SPA, the system is asked to drop what it holds of the file "
            f"(`POSIX_FADV_DONTNEED`), so that every pass reads from the disk. FAS(): "
            f"{streamed.certificate.details.get('source', '')}. NumPy SPA, which has no rule for ties, agrees in "
            f"{agreed} of {K} choices."
        )
        self.report.table(
            ["way", "seconds", "GB/s of the file", "times faster"],
            [
                [name, seconds, size / 1e9 * (K + 1 if at == 0 else 1) / seconds, times[0] / seconds]
                for at, (name, seconds) in enumerate(zip(ways, times))
            ],
        )

    def curve(self) -> None:
        k = 50
        A = fa.datasets.separable(self.rows(500_000), 200, k, noise=0.01, dtype=np.float32, keep_weights=False, rng=0).A
        one = typical(lambda: fa.FAS(selection="spa").seek(A, k, rng=0), 3)
        many = typical(lambda: fa.FAS(selection="spa").seek(A, range(1, k + 1), rng=0), 3)
        S = fa.build(A, self.folder / "curve", normalize=None, overwrite=True)
        fa.FAS(selection="spa").seek(S, k)
        kept_one = typical(lambda: fa.FAS(selection="spa").seek(S, k))
        kept_many = typical(lambda: fa.FAS(selection="spa").seek(S, range(1, k + 1)))
        self.report.text(f"## Rank curve, k = 1 … {k} from one seek ({shape(A)}, noise 1 %)")
        self.report.table(
            ["source", f"k = {k}, s", f"k = 1 … {k}, s", "ratio"],
            [["array", one, many, many / one], ["store, index kept", kept_one, kept_many, kept_many / kept_one]],
        )

    def build(self) -> None:
        rows = []
        dense = self.dense(noise=0.02).A
        sparse = fa.datasets.separable(
            self.rows(2_000_000), 2000, K, sparse=14 / 2000, dtype=np.float32, keep_weights=False, rng=0
        ).A
        for label, A in ((f"{shape(dense)} dense, noise 2 %", dense), (f"{shape(sparse)} CSR", sparse)):
            times: dict[bool, list[tuple[float, float]]] = {True: [], False: []}
            sizes = {}
            for _ in range(4):
                for index in (False, True):
                    sidecars = [FasSidecar()] if index else []
                    place, used = self.folder / "overhead", time.process_time()
                    taken = once(lambda A=A, p=place, s=sidecars: fa.build(A, p, overwrite=True, sidecars=s).close())[1]
                    times[index].append((taken, time.process_time() - used))
                    sizes[index] = sum(x.stat().st_size for x in place.iterdir()) / 1e6
            without, with_index = (np.median(times[x][1:], axis=0).tolist() for x in (False, True))
            more = [b / a - 1 for a, b in zip(without, with_index)]
            rows.append([label, without[0], more[0], without[1], more[1], sizes[False], sizes[True]])
        self.report.text("## What the index costs the build\n\nSeconds by the clock, and of the processor.")
        columns = ["matrix", "without, s", "overhead", "without, processor s", "overhead", "without, MB", "with, MB"]
        self.report.table(columns, rows)

    # --- others -----------------------------------------------------------------------------------------------------

    def rivals(self) -> None:
        from sklearn.decomposition import NMF, MiniBatchNMF

        k, m = 10, self.rows(200_000)
        data = fa.datasets.separable(m, 200, k, noise=0.01, dtype=np.float32, keep_weights=False, rng=3)
        A = data.A
        rows = []
        for name, solver in (
            ("FAS()", fa.FAS(selection="spa")),
            ("SPA()", fa.SPA()),
            ("XRAY()", fa.XRAY()),
            ("DCA()", fa.DCA()),
        ):
            found, seconds = once(lambda s=solver: s.seek(A, k, rng=0))
            rows.append([name, seconds, len(set(found.indices.tolist()) & set(data.anchors.tolist())), None])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for name, model in (
                ("sklearn NMF", NMF(k, init="nndsvda", max_iter=200, random_state=0)),
                ("sklearn MiniBatchNMF", MiniBatchNMF(k, random_state=0)),
            ):
                W, seconds = once(lambda model=model: model.fit_transform(A))
                error = np.linalg.norm(A - W @ model.components_) / np.linalg.norm(A)
                rows.append([name, seconds, None, float(error)])
        C = A[fa.FAS(selection="spa").seek(A, k, rng=0).indices]
        F, seconds = once(lambda: fa.encode(A, C))
        rows.append(
            ["FAS() + fa.encode", rows[0][1] + seconds, None, float(np.linalg.norm(A - F @ C) / np.linalg.norm(A))]
        )
        self.report.text(f"## Beside other ways, {shape(A)}, k = {k}, noise 1 %, one run each")
        self.report.table(["way", "seconds", f"anchors found of {k}", "relative error"], rows)

    def figure(self) -> None:
        """Seconds against rows for every solver on the same axes: docs/figures/growth.png."""
        limit = 5.0 if self.quick else 30.0
        k, n = 10, 40
        sizes = [
            m
            for m in (1_000, 3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000, 3_000_000)
            if m <= self.rows(3_000_000)
        ]
        solvers = {
            "XRAY": fa.XRAY(),
            "DCA": fa.DCA(),
            'FAS(variant="paper")': fa.FAS(variant="paper"),
            "SPA": fa.SPA(),
            "FAS(), one shot": fa.FAS(selection="spa"),
        }
        times: dict[str, list[tuple[int, float]]] = {name: [] for name in [*solvers, "FAS() on a store"]}
        for m in sizes:
            data = fa.datasets.separable(m, n, k, dtype=np.float32, keep_weights=False, rng=2)
            S = fa.SampleMatrix(data.A)
            for name, solver in solvers.items():
                if times[name] and (times[name][-1][0] < sizes[sizes.index(m) - 1] or times[name][-1][1] > limit):
                    continue
                source = S if "paper" in name else data.A
                try:
                    if not times[name]:
                        solver.seek(source, k, rng=0)  # compiles
                    times[name].append((m, once(lambda s=solver, a=source: s.seek(a, k, rng=0))[1]))
                except fa.FastAnchorsError as error:
                    self.report.text(f"{name} at {m:,} rows: {error}")
            store = fa.build(data.A, self.folder / "figure", overwrite=True)
            times["FAS() on a store"].append((m, typical(lambda S=store: fa.FAS(selection="spa").seek(S, k))))
            store.close()
        self.report.text(f"## Seconds to find {k} anchors, {n} columns, by the number of rows")
        names = list(times)
        known = {name: dict(times[name]) for name in names}
        self.report.table(["rows", *names], [[f"{m:,}", *(known[name].get(m) for name in names)] for m in sizes])
        if not self.quick:
            draw(times, Path(__file__).parent.parent / "docs" / "figures" / "growth.png", k)


def shape(A: Any) -> str:
    return f"{A.shape[0]:,}×{A.shape[1]:,}"


def warm_up() -> None:
    """Compile every kernel before anything is timed."""
    A = np.random.default_rng(0).random((20_000, 120), dtype=np.float32)
    for B in (A, sp.csr_array(A)):
        fa.FAS(selection="spa").seek(B, 3, rng=0)
        fa.FAS(selection="spa").seek(fa.SampleMatrix(B), 3, rng=0)
        fa.SPA().seek(B, 3)


def main() -> None:
    words = sys.argv[1:]
    scale = 0.1
    if "--full" in words:
        words.remove("--full")
        scale = 1.0
    if "--scale" in words:
        at = words.index("--scale")
        scale = float(words[at + 1])
        del words[at : at + 2]
    gigabytes: float | None = None
    if "--gigabytes" in words:
        at = words.index("--gigabytes")
        gigabytes = float(words[at + 1])
        del words[at : at + 2]
    only: list[str] = []
    if "--only" in words:
        at = words.index("--only")
        while at + 1 < len(words) and not words[at + 1].startswith("-"):
            only.append(words.pop(at + 1))
        words.remove("--only")
    sys.argv[1:] = words
    options = arguments(__doc__)
    scale = 0.01 if options.quick else scale
    gigabytes = 20 * scale if gigabytes is None else gigabytes
    report = Report("seek" if not only else "seek-" + "-".join(only), "Seeking anchors: FAS() and full SPA", options)
    report.text(f"Sizes: {scale:g} of the full ones.")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that files are removed, as on an interrupt
    bench = Bench(report, scale, options.quick, gigabytes)
    try:
        warm_up()
        for name in ("exact", "store", "sparse", "growth", "shot", "file", "curve", "build", "rivals", "figure"):
            if not only or name in only:
                getattr(bench, name)()
    finally:
        shutil.rmtree(bench.folder, ignore_errors=True)
    report.save()


if __name__ == "__main__":
    main()
