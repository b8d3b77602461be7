"""Stress test: one writer and many readers of a store, and threads on one matrix, against a model of all states.

    python benchmarks/together.py --seconds 60

See ``tests/together.py``. Readers open the store during commits and compactions. They must find one of the committed
states, with matching answers. Their threads share the opened store.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from _table import Report, arguments

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))


def main() -> None:
    from together import one_matrix, together

    options = arguments(__doc__, seconds={"type": float, "default": 60.0}, readers={"type": int, "default": 3})
    seconds = 5.0 if options.quick else options.seconds
    report = Report("together", "Writers and readers at the same time", options)
    rows = []
    with tempfile.TemporaryDirectory(prefix="fastanchors-together-") as folder:
        for sparse in (True, False):
            path = Path(folder, f"store-{sparse}")
            found = together(path, int(sparse), options.readers, seconds, sparse=sparse)
            rows.append((f"store, {'sparse' if sparse else 'dense'}, {options.readers} processes × 3 threads", *found))
    rows.append(("matrix in memory, 4 threads", *one_matrix(seconds)))
    for *_, wrong in rows:
        print("\n".join(wrong), file=sys.stderr)
    report.text(f"{seconds:.0f} seconds each.")
    report.table(["what", "states", "looks", "wrong"], [(*row[:3], len(row[3])) for row in rows])
    report.save()
    sys.exit(any(row[3] for row in rows))


if __name__ == "__main__":
    main()
