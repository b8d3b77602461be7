"""Build a store of ten million rows from blocks, then query it.

Run: python examples/ten_million.py [ROWS]   (about 2 GB on disk for ten million, removed at the end)
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import fastanchors as fa

COLUMNS, ANCHORS, BLOCK = 20, 6, 250_000


def blocks(rows: int) -> Iterator[Any]:
    """Mixtures of six rows; the first block contains these rows themselves."""
    rng = np.random.default_rng(0)
    anchors = rng.random((ANCHORS, COLUMNS)).astype(np.float32)
    for start in range(0, rows, BLOCK):
        weights = rng.dirichlet(np.ones(ANCHORS), min(BLOCK, rows - start)).astype(np.float32)
        block = weights @ anchors
        if start == 0:
            block[:ANCHORS] = anchors
        yield block


def main(rows: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        started = time.perf_counter()
        store = fa.build(blocks(rows), Path(folder) / "many.store", columns=False)
        print(f"build    {time.perf_counter() - started:7.1f} s for {rows:,} rows")
        solver = fa.FAS(selection="spa")
        solver.seek(store, ANCHORS)  # reads the index from disk
        anchors = solver.seek(store, ANCHORS)
        read = anchors.cost.rows_read
        print(f"seek     {1000 * anchors.seconds:7.2f} ms, {read} rows read, {anchors.certificate.kind}")
        print(f"anchors  {sorted(anchors)}")
        store.close()


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000_000)
