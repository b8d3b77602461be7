"""The recipe of docs/scale.md for Ray, Spark and Delta: a store of a Parquet directory that is larger than memory."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import fastanchors as fa

FILES, ROWS, COLUMNS = 10, 60_000, 100
BOUND = 64  # MB that the build may take, besides what the imported libraries take

BUILD = f"""
import sys, threading, time
import numpy as np
import pyarrow.dataset as ds
import fastanchors as fa

def anonymous():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) / 1000 for line in status if line.startswith("RssAnon"))

def blocks(parts):
    batches = parts.to_batches(batch_size=8192, batch_readahead=1, fragment_readahead=1, use_threads=False)
    return (np.column_stack([c.to_numpy(zero_copy_only=False) for c in batch.columns]) for batch in batches)

parts = ds.dataset(sys.argv[1], format="parquet")
few = parts.head(3000)
fa.build(iter([np.column_stack([c.to_numpy() for c in few.columns])]), sys.argv[2] + ".few").close()  # compiles
before, peak, done = anonymous(), [0.0], threading.Event()

def watch():
    while not done.is_set():
        peak[0] = max(peak[0], anonymous() - before)
        time.sleep(0.002)

watching = threading.Thread(target=watch)
watching.start()
options = {{"column_names": parts.schema.names, "memory_limit": {BOUND // 2}_000_000, "n_jobs": 1}}
fa.build(blocks(parts), sys.argv[2], **options).close()
done.set()
watching.join()
print(peak[0])
"""


def test_the_recipe_leaves_out_the_index_of_pandas(tmp_path, monkeypatch):
    pytest.importorskip("pyarrow", reason="extra io")
    pd = pytest.importorskip("pandas")
    text = (Path(__file__).parent.parent / "docs" / "scale.md").read_text(encoding="utf-8")
    recipe = text[text.index('parts = ds.dataset("parts"') :].partition("```")[0]
    A = np.random.default_rng(0).random((30, 3))
    for name in (None, "key"):
        folder = tmp_path / str(name)
        (folder / "parts").mkdir(parents=True)
        monkeypatch.chdir(folder)
        index = pd.Index(np.arange(30) + 5, name=name)
        pd.DataFrame(A, columns=list("abc"), index=index[::-1]).to_parquet("parts/0.parquet")
        exec("import numpy as np\nimport pyarrow.dataset as ds\nimport fastanchors as fa\n" + recipe, {})
        S = fa.open("parts.store")
        assert list(S.column_names) == ["a", "b", "c"]
        assert S.shape == (30, 3)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc/self/status")
def test_a_parquet_directory_larger_than_memory(tmp_path):
    pa = pytest.importorskip("pyarrow", reason="extra io")
    pq = pytest.importorskip("pyarrow.parquet", reason="extra io")
    (tmp_path / "parts").mkdir()
    profiles = np.random.default_rng(0).integers(0, 64, (6, COLUMNS))
    first = None
    for i in range(FILES):
        rng = np.random.default_rng([1, i])
        A = (rng.integers(0, 4, (ROWS, 6)) @ profiles).astype(np.float32)
        A[0, 0] += 1 + i
        first = A[0] if first is None else first
        table = pa.table({f"c{j}": A[:, j] for j in range(COLUMNS)})
        pq.write_table(table, tmp_path / "parts" / f"{i:02d}.parquet", row_group_size=10_000)
    arguments = [sys.executable, "-c", BUILD, str(tmp_path / "parts"), str(tmp_path / "s")]
    ran = subprocess.run(arguments, capture_output=True, text=True, timeout=300)
    assert ran.returncode == 0, ran.stderr
    size = FILES * ROWS * COLUMNS * 4 / 1e6
    assert float(ran.stdout) < BOUND < size / 3, ran.stdout
    with fa.open(tmp_path / "s") as S:
        assert S.shape == (FILES * ROWS, COLUMNS)
        assert list(S.column_names) == [f"c{j}" for j in range(COLUMNS)]
        np.testing.assert_array_equal(S.raw(0, np.arange(COLUMNS)), first)


def test_a_list_of_files_and_tables_instead_of_batches(tmp_path):
    """A Delta table is the files that its log lists, whatever else its directory holds; Ray gives tables."""
    pa = pytest.importorskip("pyarrow", reason="extra io")
    pq = pytest.importorskip("pyarrow.parquet", reason="extra io")
    ds = pytest.importorskip("pyarrow.dataset", reason="extra io")
    rng = np.random.default_rng(0)
    files = [tmp_path / f"part-{i}.parquet" for i in range(3)]
    rows = [rng.random((500, 4)) for _ in files]
    for file, A in zip(files, rows):
        pq.write_table(pa.table({f"c{j}": A[:, j] for j in range(4)}), file)
    listed = ds.dataset([str(files[2]), str(files[0])], format="parquet")  # as DeltaTable.file_uris() lists them
    tables = (pa.Table.from_batches([batch]) for batch in listed.to_batches(batch_size=128))
    for blocks in (listed.to_batches(batch_size=128), tables):
        made = (np.column_stack([c.to_numpy(zero_copy_only=False) for c in each.columns]) for each in blocks)
        with fa.build(made, tmp_path / "s", normalize=None, overwrite=True) as S:
            np.testing.assert_array_equal(S.rows(np.arange(1000)), np.vstack([rows[2], rows[0]]))
