"""Fuzz the store with forged contents under valid checksums; the process must never die.

    python benchmarks/siege_store.py --count 100000

Small stores of six kinds (see ``tests/forgeries.py``) get semantic changes. A separate process with 4 GiB of address
space then opens, verifies, reads, samples, seeks in, changes, commits and compacts them. Refusals are counted by step.
An error that is not the library's own, a crash or a hang is a fault. With ``NUMBA_BOUNDSCHECK=1`` an out-of-bounds
access in a kernel is a fault too, even if it has no visible effect. A store that ``fa.verify`` passes must answer a
seek correctly for its contents.
"""

from __future__ import annotations

import json
import os
import resource
import select
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from _table import Report, arguments

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

ADDRESS_SPACE = 4 << 30
PIECE = 1500
COLUMNS = ("forged", "refused by verify", "by open", "later", "faults")
PATIENCE, AT_FIRST = 60, 900  # seconds for one small store; a new process compiles kernels


def batch(kind: str, first: int, count: int) -> None:
    """In a separate process: forge and use stores, printing a line of JSON before and after each use."""
    import fastanchors.store.store as store_module
    from forgeries import Sample, forge, make, use

    store_module.time = type("NoTime", (), {"sleep": staticmethod(lambda _: None)})  # there is no other writer
    warnings.simplefilter("ignore")
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE, ADDRESS_SPACE))
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 28, 1 << 28))
    with tempfile.TemporaryDirectory(prefix="fastanchors-siege-", dir=_fast()) as folder:
        path = Path(folder, "s")
        make(path, kind)
        sample = Sample(path)
        use(path, 0)
        for seed in range(first, first + count):
            sample.restore()
            said = ""
            try:
                said = forge(sample, np.random.default_rng([KINDS_SEED, hash_of(kind), seed]))
                print(json.dumps({"seed": seed, "said": said}), flush=True)
                found = use(path, seed)
                fault = "" if "verify" in found else answers(path)
            except Exception:
                found, fault = {}, traceback.format_exc()
            print(json.dumps({"seed": seed, "said": said, "found": sorted(found), "fault": fault}), flush=True)


KINDS_SEED = 20_261


def hash_of(kind: str) -> int:
    return sum(map(ord, kind))


def _fast() -> str | None:
    """A directory in which syncing is free, if there is one."""
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


def answers(path: Path) -> str:
    """The error in the answer of a store that passed verification; empty if correct."""
    import fastanchors as fa
    from forgeries import using_index

    try:
        with using_index(path), fa.open(path) as S:
            rows = S.rows(np.arange(S.shape[0]))
            found = fa.FAS(selection="spa").seek(S, 3, rng=0)
            want = fa.SPA().seek(rows, 3)
    except fa.errors.FastAnchorsError:
        return ""
    wrong = found.certificate.kind == "exact" and found.indices.tolist() != want.indices.tolist()
    return f"exact, but {found.indices.tolist()} in place of {want.indices.tolist()}" if wrong else ""


class Worker:
    """A process that works through a batch; restarted after the case that killed it."""

    def __init__(self, kind: str, first: int, last: int) -> None:
        self.kind, self.at, self.last = kind, first, last

    def run(self, tell) -> None:
        while self.at < self.last:
            command = [sys.executable, __file__, "--batch", self.kind, str(self.at), str(self.last - self.at)]
            child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            said, ended = self._follow(child, tell)
            if ended and self.at < self.last:
                tell({"seed": self.at, "said": said, "found": [], "fault": ended})
                self.at += 1

    def _follow(self, child, tell) -> tuple[str, str]:
        said, patience = "", AT_FIRST
        while True:
            ready, _, _ = select.select([child.stdout], [], [], patience)
            if not ready:
                child.kill()
                child.wait()
                return said, f"no answer in {patience} s"
            line = child.stdout.readline()
            if not line:
                break
            result, patience = json.loads(line), PATIENCE
            said = result["said"]
            if "fault" in result:
                self.at = result["seed"] + 1
                tell(result)
            else:
                self.at = result["seed"]
        code = child.wait()
        return said, f"the process ended with {code}: {child.stderr.read()[-300:]}" if code else ""


def main() -> None:
    if sys.argv[1:2] == ["--batch"]:
        batch(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
        return
    from forgeries import KINDS

    options = arguments(
        __doc__,
        count={"type": int, "default": 100_000},
        first={"type": int, "default": 0, "help": "seed of the first forgery"},
        minutes={"type": float, "default": 1e9, "help": "stop after the piece in which this time is over"},
    )
    count = (600 if options.quick else options.count) // len(KINDS)
    report = Report("siege_store", "Forged stores", options)
    start = time.perf_counter()
    tallies: dict[str, Counter[str]] = {kind: Counter() for kind in KINDS}
    for first in range(options.first, options.first + count, PIECE):
        for kind in KINDS:
            if time.perf_counter() - start < 60 * options.minutes:
                last = min(first + PIECE, options.first + count)
                Worker(kind, first, last).run(lambda result, kind=kind: note(result, kind, tallies[kind]))
                print(kind, last, dict(tallies[kind]), file=sys.stderr, flush=True)
    rows = [(kind, *(tallies[kind][name] for name in COLUMNS)) for kind in KINDS]
    faults = sum(row[-1] for row in rows)
    checked = " with checked indices" if os.environ.get("NUMBA_BOUNDSCHECK") == "1" else ""
    report.text(
        f"{sum(row[1] for row in rows)} forged stores in {time.perf_counter() - start:.0f} s{checked}; {faults} faults."
    )
    report.table(["store", *COLUMNS], rows)
    report.save()
    sys.exit(faults > 0)


def note(result: dict[str, Any], kind: str, tally: Counter[str]) -> None:
    """Count a result, and print it if it is a fault."""
    tally["forged"] += 1
    tally["refused by verify"] += "verify" in result["found"]
    tally["by open"] += "open" in result["found"]
    tally["later"] += bool(set(result["found"]) - {"verify", "open", "open r+"})
    if result["fault"]:
        tally["faults"] += 1
        lines = result["fault"].strip().splitlines()
        where = [line.strip() for line in lines if line.startswith("  File") and "fastanchors/" in line][-1:]
        print(f"FAULT {kind} {result['seed']}: {result['said']}: {lines[-1]} {where}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
