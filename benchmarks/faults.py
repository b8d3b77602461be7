"""Make every system call of a store fail, one at a time, and check the store that is left.

    python benchmarks/faults.py

A small preloaded library (``fault_shim.c``; needs a C compiler) counts the system calls on files of the store. The
n-th call fails with ENOSPC, EIO, EINTR, EMFILE or ENOMEM, once or from then on, or is done only half, or kills the
process. n increases until the work ends before the n-th call. The work is that of ``tests/store_trials.py`` (commits,
appended rows, appended shards, a compaction, more commits), a build, and a build that replaces a store. Each trial is a
separate process. Afterwards the store must open, pass ``fa.verify``, answer a seek correctly for its contents, and hold
the state of the last confirmed step or of the one attempted. Errors must be the library's own, and no stray file may
be left.
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from _table import Report, arguments

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

ONCE, FROM_THEN_ON, SHORT, DIE = range(4)
WRITING, READING, NAMES, SYNC, MAPPING, OPENING, LOOKING = 1, 2, 4, 8, 16, 32, 64
EVERY = 127


class Fault(NamedTuple):
    """The fault injected at the chosen call, and the kinds of calls it applies to."""

    name: str
    code: int
    mode: int
    kinds: int


FAULTS = [
    Fault("disk full, once", errno.ENOSPC, ONCE, WRITING | NAMES | SYNC),
    Fault("disk full from then on", errno.ENOSPC, FROM_THEN_ON, WRITING | NAMES | SYNC),
    Fault("input/output error, once", errno.EIO, ONCE, EVERY),
    Fault("input/output error from then on", errno.EIO, FROM_THEN_ON, EVERY),
    Fault("interrupted", errno.EINTR, ONCE, WRITING | READING | SYNC | OPENING),
    Fault("too many files", errno.EMFILE, ONCE, OPENING),
    Fault("no memory to map", errno.ENOMEM, ONCE, MAPPING),
    Fault("half written or read", 0, SHORT, WRITING | READING),
    Fault("process ends", 0, DIE, EVERY),
]


def updates(path: Path, told: Any) -> None:
    from store_trials import work

    work(path, told)


def build(path: Path, told: Any) -> None:
    _build(path, told, overwrite=False)


def replace(path: Path, told: Any) -> None:
    _build(path, told, overwrite=True)


def _build(path: Path, told: Any, *, overwrite: bool) -> None:
    import fastanchors as fa

    told("tried", 1)
    try:
        fa.build(iter([new_contents()[:9], new_contents()[9:]]), path, overwrite=overwrite).close()
    except fa.errors.StoreError:
        return
    told("done", 1)


def new_contents() -> np.ndarray:
    return np.arange(80).reshape(20, 4) % 7


def check_updates(path: Path, low: int, high: int) -> None:
    from store_trials import check

    check(path, low, high)


def check_build(path: Path, low: int, high: int) -> None:
    import fastanchors as fa

    if path.exists():
        fa.verify(path)
        with fa.open(path) as S:
            found = S.raw(*np.indices(S.shape))
        whole = np.array_equal(found, new_contents())
        from store_trials import first_state

        assert whole or (np.array_equal(found, first_state()) and low == 0), "neither the old store nor the new one"
    else:
        assert low == 0, "the build was confirmed"
    fa.build(np.ones((3, 3)), path, overwrite=True).close()
    assert os.listdir(path.parent) == [path.name], f"left behind: {os.listdir(path.parent)}"


WORK: dict[str, tuple[Callable[..., None], Callable[..., None], bool]] = {
    "commits and compaction": (updates, check_updates, True),
    "build": (build, check_build, False),
    "build over a store": (replace, check_build, True),
}


def trial(shim: Any, folder: Path, work: Any, fault: Fault, at: int) -> dict[str, Any]:
    """Run one child process: what it reported, and whether it reached the chosen call."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        ended = "no result"

        def tell(*what: Any) -> None:
            os.write(writing, (json.dumps(what) + "\n").encode())

        try:
            shim.fault_arm(os.fsencode(folder) + b"/", at, fault.code, fault.mode, fault.kinds)
            work(folder / "s", tell)
            ended = ""
        except BaseException:
            ended = traceback.format_exc()
        count = shim.fault_disarm()
        tell("ended", ended, count, shim.fault_name().decode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        lines = [json.loads(line) for line in pipe]
    _, status = os.waitpid(child, 0)
    result = {"done": 0, "tried": 0, "error": "", "met": True, "call": "", "status": os.waitstatus_to_exitcode(status)}
    for what, *rest in lines:
        if what == "ended":
            result |= {"error": rest[0], "met": rest[1] > at, "call": rest[2]}
        else:
            result[what] = rest[0]
    return result


def trials(shim: Any, scratch: Path, work: Any, made: Path | None, fault: Fault) -> Iterator[tuple[int, Any, Path]]:
    """One trial for every call in turn, until the work ends before the chosen call."""
    at = 0
    while True:
        folder = scratch / "trial"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        if made is not None:
            shutil.copytree(made, folder / "s")
        result = trial(shim, folder, work, fault, at)
        if not result["met"]:
            return
        yield at, result, folder / "s"
        at += 1


def besiege(kinds: list[bool], echo: Callable[[str], None]) -> list[tuple[Any, ...]]:
    import store_trials

    shim = ctypes.CDLL(None)
    shim.fault_arm.argtypes = [ctypes.c_char_p, ctypes.c_long, ctypes.c_int, ctypes.c_int, ctypes.c_uint]
    shim.fault_disarm.restype, shim.fault_name.restype = ctypes.c_long, ctypes.c_char_p
    rows = []
    with tempfile.TemporaryDirectory(prefix="fastanchors-faults-") as name:
        scratch = Path(name).resolve()
        for sparse in kinds:
            made = scratch / f"made-{sparse}"
            store_trials.make(made, sparse=sparse)
            warm = scratch / "warm" / "s"
            shutil.copytree(made, warm)
            store_trials.work(warm, lambda *_: None)  # compile the kernels before the first fork
            store_trials.check(warm, len(store_trials.STEPS), len(store_trials.STEPS))
            shutil.rmtree(warm.parent)
            warm.parent.mkdir()
            build(warm, lambda *_: None)
            check_build(warm, 1, 1)
            shutil.rmtree(warm.parent)
            for title, (work, check, with_store) in WORK.items():
                if sparse and not with_store:
                    continue  # the source of a build is the same
                for fault in FAULTS:
                    rows.append((title, "sparse" if sparse else "dense", fault.name))
                    rows[-1] += _tally(trials(shim, scratch, work, made if with_store else None, fault), check)
                    echo(" | ".join(map(str, rows[-1])))
    return rows


def _tally(found: Iterator[tuple[int, Any, Path]], check: Any) -> tuple[int, int, str]:
    count, faults, calls = 0, 0, Counter()
    for at, result, path in found:
        count += 1
        calls[result["call"] or "(ended)"] += 1
        wrong = result["error"]
        if not wrong and result["status"] not in (0, 99):
            wrong = f"the process ended with {result['status']}"
        try:
            if not wrong:
                check(path, result["done"], max(result["tried"], result["done"]))
        except Exception:
            wrong = traceback.format_exc()
        if wrong:
            faults += 1
            last = wrong.strip().splitlines()
            where = [line.strip() for line in last if line.startswith("  File") and "fastanchors/" in line][-1:]
            told = f"{result['done']} done, {result['tried']} tried"
            print(f"FAULT at call {at} ({result['call']}), {told}: {last[-1]} {' '.join(where)}", file=sys.stderr)
    return count, faults, ", ".join(f"{name} {times}" for name, times in sorted(calls.items()))


def main() -> None:
    options = arguments(__doc__)
    if "FASTANCHORS_SHIM" not in os.environ:
        with tempfile.TemporaryDirectory(prefix="fastanchors-shim-") as folder:
            shim = Path(folder, "shim.so")
            source = Path(__file__).with_name("fault_shim.c")
            subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", shim, source, "-ldl"], check=True)
            again = os.environ | {"LD_PRELOAD": str(shim), "FASTANCHORS_SHIM": "1"}
            sys.exit(subprocess.run([sys.executable, *sys.argv], env=again, check=False).returncode)
    report = Report("faults", "Faults at every system call", options)
    start = time.perf_counter()
    rows = besiege([True] if options.quick else [True, False], lambda text: print(text, file=sys.stderr))
    total, faults = sum(row[3] for row in rows), sum(row[4] for row in rows)
    report.text(
        f"{total} faults injected in {time.perf_counter() - start:.0f} s, one process each, at every call in turn; "
        f"{faults} stores were not as they must be. After each trial the store opened, passed `fa.verify`, answered a "
        "seek as its contents demand, held a committed state, and no file was left."
    )
    report.table(["work", "store", "fault", "trials", "wrong", "at calls of"], rows)
    report.save()
    sys.exit(faults > 0)


if __name__ == "__main__":
    main()
