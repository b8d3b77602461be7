"""Raise from a signal handler at many lines of commits, appends and compactions, and go on with the same store.

    python benchmarks/interrupts.py --step 41

See ``tests/interrupts.py``. The work of ``tests/store_trials.py`` is interrupted at every ``step``-th line of the
library that it runs, once for each, as Ctrl-C or ``signal.alarm`` could. What was interrupted is done again on the same
object. The store must then have its last state, pass ``fa.verify`` and answer a seek correctly.
"""

from __future__ import annotations

import gc
import shutil
import sys
import tempfile
import warnings
from pathlib import Path

from _table import Report, arguments

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))


def interrupted(folder: Path, step: int, *, sparse: bool) -> tuple[int, list[str]]:
    """The number of interrupted stores, and what is wrong with some."""
    from interrupts import work
    from store_trials import STEPS, check, make

    made, path, wrong = folder / "made", folder / "store", []
    make(made, sparse=sparse)
    for trial in range(1_000_000):
        shutil.copytree(made, path)
        place = None
        try:
            lines = work(path, trial * step)
            place = lines.place
            if place is None:  # the work has fewer lines
                break
            check(path, len(STEPS), len(STEPS))
        except Exception as error:
            wrong.append(f"{'sparse' if sparse else 'dense'}, line {trial * step}, {place}: {error!r}")
        gc.collect()
        shutil.rmtree(path)
    return trial, wrong


def main() -> None:
    options = arguments(__doc__, step={"type": int, "default": 41})
    step = 1000 if options.quick else options.step
    warnings.simplefilter("ignore", ResourceWarning)  # a file that is being opened is closed when collected
    report = Report("interrupts", "Signal handlers that raise in the middle of work on a store", options)
    rows = []
    for sparse in (True, False):
        with tempfile.TemporaryDirectory(prefix="fastanchors-interrupts-") as folder:
            found, wrong = interrupted(Path(folder), step, sparse=sparse)
            rows.append((f"store, {'sparse' if sparse else 'dense'}", found, len(wrong)))
            print("\n".join(wrong), file=sys.stderr)
    report.text(f"One interrupt every {step} lines; the last state, ``fa.verify`` and a seek are checked.")
    report.table(["what", "interrupted", "wrong"], rows)
    report.save()
    sys.exit(any(row[2] for row in rows))


if __name__ == "__main__":
    main()
