"""Fuzz the readers with damaged files of every format under an address-space limit; the process must never die.

python benchmarks/siege_io.py --count 3000

Each sample (see ``tests/mutations.py``) is damaged ``count`` times in ways that keep its structure and any checksums
valid. A separate process with 4 GiB of address space reads it to its end. Outcomes are counted: files read, files
refused with one short error, and everything else, which is a fault.
"""

from __future__ import annotations

import json
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import numpy as np

from _table import Report, arguments

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

ADDRESS_SPACE = 4 << 30
BATCH = 500
PATIENCE = 30  # seconds for one small file


def batch(name: str, first: int, count: int) -> None:
    """In a separate process: damage and read files, printing one line of JSON for each."""
    from mutations import SAMPLES, attempt, damage

    resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE, ADDRESS_SPACE))
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 28, 1 << 28))
    with tempfile.TemporaryDirectory(prefix="fastanchors-siege-") as folder:
        good = Path(folder, "good")
        good.mkdir()
        path = SAMPLES[name](good)
        assert attempt(path) == "read", f"the sample {name} is not read: {attempt(path)}"
        for seed in range(first, first + count):
            place = Path(folder, "bad")
            shutil.copytree(good, place)
            signal.alarm(PATIENCE)  # ends the process: a hanging library call cannot be interrupted otherwise
            damage(place / path.name, np.random.default_rng([seed, len(name)]))
            print(json.dumps([seed, attempt(place / path.name)]), flush=True)
            shutil.rmtree(place)


def besiege(name: str, count: int, first: int = 0) -> tuple[Counter[str], list[str]]:
    """The count of each outcome, and the faults with the seeds that reproduce them."""
    outcomes: Counter[str] = Counter()
    faults: list[str] = []
    seed, last = first, first + count
    while seed < last:
        code = [sys.executable, __file__, "--batch", json.dumps([name, seed, min(BATCH, last - seed)])]
        done = subprocess.run(code, capture_output=True, text=True, check=False, timeout=1800)
        lines = [json.loads(line) for line in done.stdout.splitlines()]
        for number, outcome in lines:
            kind = outcome if outcome in ("read", "refused") else "fault"
            outcomes[kind] += 1
            if kind == "fault":
                faults.append(f"{name}, seed {number}: {outcome}")
        seed += len(lines)
        if done.returncode:
            if done.returncode > 0:
                raise RuntimeError(done.stderr[-2000:])
            outcomes["fault"] += 1
            ended = "no end" if done.returncode == -signal.SIGALRM else f"died of signal {-done.returncode}"
            faults.append(f"{name}, seed {seed}: {ended}")
            seed += 1
    return outcomes, faults


def main() -> int:
    if len(sys.argv) == 3 and sys.argv[1] == "--batch":
        batch(*json.loads(sys.argv[2]))
        return 0
    from mutations import SAMPLES

    options = arguments(
        __doc__, count={"type": int, "default": 3000}, seed={"type": int, "default": 0}, only={"default": ""}
    )
    count = 50 if options.quick else options.count
    start = time.perf_counter()
    report = Report("siege_io", "Damaged files", options)
    rows, faults = [], []
    for name in SAMPLES:
        if options.only and not name.startswith(options.only):
            continue
        outcomes, found = besiege(name, count, options.seed)
        rows.append([name, count, outcomes["read"], outcomes["refused"], outcomes["fault"]])
        faults += found
        print(*rows[-1], *found[:5], sep="  ", flush=True)
    total = [sum(row[i] for row in rows) for i in range(1, 5)]
    rows.append(["all", *total])
    shown = [[row[0], *(f"{value:,}" for value in row[1:])] for row in rows]
    report.table(["sample", "files", "read", "refused", "faults"], shown)
    report.text(
        f"Read: the damage changed values, names or nothing, and what the file says was taken. Refused: one error of "
        f"ours, on one line, under 500 characters. 4 GiB of address space, 256 MiB of file size, seeds from "
        f"{options.seed}, {time.perf_counter() - start:.0f} s."
    )
    for fault in faults[:50]:
        report.text(fault)
    report.save()
    return int(bool(faults))


if __name__ == "__main__":
    sys.exit(main())
