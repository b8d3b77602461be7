"""A writer keeps its memory limit between commits, however many entries it changes."""

from __future__ import annotations

import errno
import gc
import os
import subprocess
import sys
import tracemalloc
import weakref

import numpy as np
import pytest
import scipy.sparse as sp

import fastanchors as fa
from fastanchors.errors import CorruptStoreError, StoreError
from fastanchors.fas.read_once import ReadOnce
from fastanchors.greedy.coordinates import fit_frame
from fastanchors.io.name_spool import NameSpool
from fastanchors.io.row_source import read_names, split
from fastanchors.store import mapped_matrix, pending, store
from fastanchors.store.names import Names, encode_names

LIMIT = 1 << 22


def run_script(script, *arguments):
    """What a script prints that runs in a process of its own, whose memory is measured."""
    run = [sys.executable, "-W", "ignore", "-c", script, *map(str, arguments)]
    return subprocess.run(run, capture_output=True, text=True, check=True, timeout=300).stdout


WRITER = """
import sys, threading
import numpy as np, scipy.sparse as sp, fastanchors as fa
from fastanchors._maps import release_freed

def held():
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("RssAnon"))

def blocks(rows, columns):
    for k in range(10):
        yield sp.random_array((rows, columns), density=0.01, rng=k, format="csr") if sparse else rng.random((rows, 100))

path, sparse, limit, rng = sys.argv[1], sys.argv[2] == "sparse", 64 << 20, np.random.default_rng(0)
fa.build(blocks(10_000 if sparse else 3600, 4000), path, memory_limit=limit).close()
with fa.build(blocks(500, 300), path + ".small") as S:  # every kernel is compiled
    for _ in range(2):
        S.update(rng.integers(0, 5000, 3000), rng.integers(0, S.shape[1], 3000), rng.random(3000))
        S.compact()
release_freed()
with fa.open(path, mode="r+", memory_limit=limit) as S:
    m, n = S.shape
    before, most, done = held(), [0], threading.Event()

    def watch():
        while not done.wait(0.002):
            most[0] = max(most[0], held())

    watcher = threading.Thread(target=watch)
    watcher.start()
    for _ in range(2):
        S.update(rng.integers(0, m, 20_000), rng.integers(0, n, 20_000), rng.random(20_000))
        S.row_norm(rng.integers(0, m, 100))
        S.commit()
    done.set()
    watcher.join()
    print((most[0] - before) * 1024 / limit)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
@pytest.mark.parametrize("kind", ["sparse", "dense"])
def test_many_random_updates_stay_below_the_limit(tmp_path, kind):
    """20,000 random entries: their pages alone would be 800 MiB."""
    printed = run_script(WRITER, tmp_path / "s", kind)
    assert float(printed) < 1


CHANGED = WRITER.replace("(rows, 100)", "(rows, 200)").replace("3600", "10_000").replace("64 << 20", "48 << 20")


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_an_index_that_takes_in_many_changed_rows_stays_below_the_limit(tmp_path):
    """Random entries of 18,000 of 100,000 rows (160 MB of data): the index read up to 16,384 of them at a time."""
    printed = run_script(CHANGED, tmp_path / "s", "dense")
    assert float(printed) < 1


BYTES = (
    WRITER.replace("rng.random((rows, 100))", "rng.integers(0, 50, (rows, 20), np.uint8)")
    .replace("rng.random(", "rng.integers(1, 9, ")
    .replace("3600", "120_000")
    .replace("4000), path, memory_limit=limit)", "4000), path, sidecars=())")
)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_updates_of_bytes_in_large_shards_stay_below_the_limit(tmp_path):
    """97 MiB under a limit of 64: a changed shard, of a build with more memory, was rebuilt to move it to a file."""
    printed = run_script(BYTES, tmp_path / "s", "dense")
    assert float(printed) < 1


LISTED = (
    WRITER.replace("rng.random((rows, 100))", "rng.integers(0, 5, (rows, 20), np.int8)")
    .replace("rng.random(", "rng.integers(0, 5, ")
    .replace("3600", "90_000")
    .replace("limit).close()", "limit, normalize=None).close()")
    .replace("range(2):\n        S.update(rng.integers(0, m", "range(10):\n        S.update(rng.integers(0, m")
    .replace("20_000", "100_000")
    .replace("        S.row_norm(rng.integers(0, m, 100))\n        S.commit()", "    S.commit()")
)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_an_index_of_a_store_of_which_most_rows_have_changed_stays_below_the_limit(tmp_path):
    """81 MiB under a limit of 64: the changed rows were listed by hash tables."""
    printed = run_script(LISTED, tmp_path / "s", "dense")
    assert float(printed) < 1


EMPTY = (
    WRITER.replace("10_000 if", "200_000 if")
    .replace("density=0.01", "density=1e-8 if rows > 500 else 0.01")
    .replace("64 << 20", "16 << 20")
    .replace("limit).close()", "limit, sidecars=()).close()")
)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_new_entries_of_empty_rows_stay_below_the_limit(tmp_path):
    """18 MiB under a limit of 16: pages of shards without entries were kept when the shards were moved to files."""
    printed = run_script(EMPTY, tmp_path / "s", "sparse")
    assert float(printed) < 1


LARGE = (
    WRITER.replace("10_000 if", "2000 if").split("    before, most")[0]
    + """
    i, j, x = rng.integers(0, m, 2_000_000), rng.integers(0, n, 2_000_000), rng.random(2_000_000)
    before = held()
    S.update(i, j, x)
    print((held() - before) * 1024 / limit)
"""
)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_a_large_update_gives_back_its_memory(tmp_path):
    """75 MiB were kept under a limit of 64 after 2,000,000 new entries in one call."""
    printed = run_script(LARGE, tmp_path / "s", "sparse")
    assert float(printed) < 0.5


PENDING = """
import sys, threading
import numpy as np, scipy.sparse as sp, fastanchors as fa
from fastanchors._maps import release_freed

def held():
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("RssAnon"))

def blocks(rows, columns):
    density = 1e-4 if columns > 4000 else 0.01
    for k in range(10):
        block = sp.random_array((rows, columns), density=density, rng=k, format="csr") if sparse else None
        yield rng.random((rows, 100)) if block is None else block

def change(S, entries, rows):
    m, n = S.shape
    S.update(rng.integers(0, m, entries), rng.integers(0, n, entries), rng.random(entries))
    if rows:
        S.append(sp.random_array((rows, n), density=0.01, rng=5, format="csr") if sparse else rng.random((rows, n)))

path, kind, limit, rng = sys.argv[1], sys.argv[2], 64 << 20, np.random.default_rng(0)
sparse = kind != "updates"
shapes = {"compactions": (10_000, 4000), "scattered": (120_000, 20_000)}
fa.build(blocks(*shapes.get(kind, (2000, 4000))), path, memory_limit=limit, sidecars=()).close()
with fa.build(blocks(500, 300), path + ".small") as S:  # every kernel is compiled
    for _ in range(2):
        change(S, 3000, 10)
        S.compact()
release_freed()
with fa.open(path, mode="r+", memory_limit=limit) as S:
    before, most, done = held(), [0], threading.Event()

    def watch():
        while not done.wait(0.002):
            most[0] = max(most[0], held())

    watcher = threading.Thread(target=watch)
    watcher.start()
    steps = {"appends": (150, 10, 500), "compactions": (52, 10, 500), "grown": (100, 20_000, 0)}
    steps["scattered"] = (35, 20_000, 0)
    count, entries, rows = steps.get(kind, (150, 10_000, 0))
    for _ in range(count):
        change(S, entries, rows)
        if kind == "compactions":
            S.commit()
    S.commit()
    done.set()
    watcher.join()
    print((most[0] - before) * 1024 / limit, S.generation)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
@pytest.mark.parametrize("kind", ["updates", "appends", "compactions", "grown", "scattered"])
def test_what_is_not_committed_yet_stays_below_the_limit(tmp_path, kind):
    """93 MiB for 1,500,000 entries, 188 for 150 appends of 0.24 MB, 71 for the compactions among 52 commits, 92 for
    2,000,000 new non-zeros in a store of 800,000, 88 for 700,000 in rows that are mostly different."""
    printed = run_script(PENDING, tmp_path / "s", kind)
    taken, generation = printed.split()
    assert float(taken) < 1
    assert int(generation) > 1


@pytest.mark.parametrize("refused", [False, True])
@pytest.mark.parametrize("sparse", [False, True])
def test_changes_in_a_pending_file_are_committed_or_dropped(tmp_path, sparse, refused, monkeypatch):
    """With ``refused`` the disk takes no pending operations, which then stay in memory."""
    rng = np.random.default_rng(0)
    A = rng.random((300, 40)) * (rng.random((300, 40)) < 0.3)
    names = [f"row {i}" for i in range(300)]
    write, parts = pending.write_all, []

    def limited(*args):
        parts.append(args)
        if refused and len(parts) % 3:
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(*args)

    monkeypatch.setattr(pending, "write_all", limited)
    source = sp.csr_array(A) if sparse else A
    with fa.build(source, tmp_path / "s", normalize=None, row_names=names, memory_limit=LIMIT, sidecars=()) as S:
        S[0, 0] = A[0, 0] = 0.5
        S._pending.room = 1000
        for step in range(9):
            before, known = A.copy(), len(names)
            for size in rng.integers(1, 100, 4):  # of 24 bytes each
                i, j, x = rng.integers(0, len(A), size), rng.integers(0, 40, size), rng.random(size)
                S.update(i, j, x)
                for each in zip(i, j, x, strict=True):
                    A[each[0], each[1]] = each[2]
                S[int(i[0]), 3] = A[i[0], 3] = 0.25
                S.append(A[:2], row_names=[f"{step}, {size}", "é"])
                A, names = np.concatenate([A, A[:2]]), [*names, f"{step}, {size}", "é"]
            with fa.open(tmp_path / "s") as R:
                assert R.shape[0] == (len(before) if step else 300)
            if step % 3 == 1:
                S.close(commit=False)
                A, names = before, names[:known]
                S = fa.open(tmp_path / "s", mode="r+", memory_limit=LIMIT)
                S[0, 0] = float(A[0, 0])
                S._pending.room = 1000
            S.commit()
            assert not S._log.pending
            np.testing.assert_array_equal(S.raw(*np.indices(A.shape)), A)
            with fa.open(tmp_path / "s") as R:
                np.testing.assert_array_equal(R.raw(*np.indices(A.shape)), A)
                assert list(R.row_names) == names
        assert len(parts) > 50
        S.close()
    fa.verify(tmp_path / "s")


@pytest.mark.parametrize("commit", [False, True])
def test_a_closed_store_gives_the_space_of_its_pending_changes_back(tmp_path, commit):
    """The file was open as long as the store was referred to."""
    S = fa.build(np.eye(40), tmp_path / "s", normalize=None, memory_limit=LIMIT, sidecars=())
    S[0, 0] = 0.5
    S._pending.room = 100
    S.update(np.arange(40), np.arange(40), np.full(40, 0.5))
    file = S._pending._file
    assert not file.closed
    S.close(commit=commit)
    assert file.closed
    assert not S._pending
    with fa.open(tmp_path / "s") as R:
        assert R.raw(7, 7) == (0.5 if commit else 1.0)


def test_the_pieces_of_a_long_append_get_files_also_if_each_is_small(tmp_path):
    """Under a small limit every piece went to the journal, so that all were in memory at a time."""
    with fa.build(np.eye(40), tmp_path / "s", normalize=None, memory_limit=1 << 22, sidecars=()) as S:
        S.append(np.full((1000, 40), k) for k in range(1, 9))
        files = sorted(path.name for path in (tmp_path / "s").glob("shard-*"))
        assert len(files) > 8
        S.commit()
        assert S.raw([39, 40, 8039], [39, 0, 39]).tolist() == [1, 1, 8]
    fa.verify(tmp_path / "s")


def test_the_replay_of_many_commits_takes_little_more_than_the_journal(tmp_path, monkeypatch):
    """It was decoded as a whole, copied and joined: four times its bytes."""
    monkeypatch.setattr(store, "worth_compacting", lambda _: False)
    rng, size = np.random.default_rng(0), 0
    with fa.build(rng.random((200, 50)), tmp_path / "s", normalize=None, sidecars=()) as S:
        for _ in range(8):
            S.update(rng.integers(0, 200, 80_000), rng.integers(0, 50, 80_000), rng.random(80_000))
            S.commit()
        size, known = S._writer.end, S.raw(*np.indices((200, 50)))
    tracemalloc.start()
    try:
        with fa.open(tmp_path / "s") as S:
            assert tracemalloc.get_traced_memory()[1] < 2.5 * size
            np.testing.assert_array_equal(S.raw(*np.indices((200, 50))), known)
    finally:
        tracemalloc.stop()


BUILDER = """
import sys, threading
import numpy as np, scipy.sparse as sp, fastanchors as fa
from fastanchors._maps import release_freed

def held():
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("RssAnon"))

def skewed(rows, columns, few, full):
    # Rows of a few entries, and the last ones without a zero.
    lengths = np.append(np.full(rows - full, few), np.full(full, columns))
    step = columns // few
    short = np.arange(0, few * step, step) + rng.integers(0, step, (rows - full, few))
    indices = np.append(short.reshape(-1), np.tile(np.arange(columns), full)).astype(np.int32)
    return sp.csr_array((rng.random(len(indices)) + 0.01, indices, np.append(0, np.cumsum(lengths))), (rows, columns))

path, kind, limit, rng = sys.argv[1], sys.argv[2], 64 << 20, np.random.default_rng(0)
some = sp.random_array((2000, 2000), density=0.02, rng=0, format="csr")
for normalize in ("l1", None):  # every kernel is compiled
    for small in (some, rng.random((2000, 50)), (rng.random((2000, 50)) * 200).astype(np.uint8)):
        with fa.build(small, path, memory_limit=1 << 23, normalize=normalize, overwrite=True) as S:
            S.append(iter([small[:1000], small[1000:]]))
normalize, rows = "l1", None
if kind == "wide":  # a basis of 28 directions of the first block alone would take 13 MB
    rows = skewed(300, 60_000, 600, 40)[rng.permutation(300)]
    rows = iter([rows[at : at + 50] for at in range(0, 300, 50)])
elif kind == "skewed":  # 600 rows without zeros are the largest: of 1,900 bytes on average, but each has 240,000
    normalize, rows = None, skewed(20_000, 20_000, 60, 600)
elif kind in ("tied", "compact"):  # all are tied at the first step
    rows = sp.csr_array((np.ones(1_200_000), rng.integers(0, 50, 1_200_000).astype(np.int32), np.arange(1_200_001)))
elif kind == "fewer":  # they fit, but those tied at each step do not
    rows = sp.csr_array((np.ones(130_000), rng.integers(0, 50, 130_000).astype(np.int32), np.arange(130_001)))
elif kind == "pairs":  # sketches prove the index
    columns = np.column_stack([rng.integers(0, 25, 2_500_000), rng.integers(25, 50, 2_500_000)]).astype(np.int32)
    rows = sp.csr_array((rng.random(5_000_000), columns.reshape(-1), np.arange(0, 5_000_001, 2)), (2_500_000, 50))
elif kind in ("bytes", "wider"):  # sums and sketches, and converted entries, are larger than the entries
    rows = rng.integers(0, 100, (1_500_000 if kind == "bytes" else 500_000, 30), np.uint8)
elif kind == "dense":
    rows = (np.full((40, 60_000), 7, np.uint8) + rng.integers(0, 9, (40, 60_000), np.uint8) for _ in range(10))
elif kind in ("frame", "table"):  # columns of two types, and those of Arrow
    import pandas as pd, pyarrow as pa
    for small in (pd.DataFrame({"a": [1.0, 2.0], "b": [1, 2]}), pa.table({"a": [1.0, 2.0], "b": [1.0, 2.0]})):
        fa.build(small, path, overwrite=True).close()
    columns = {f"c{j}": rng.random(200_000) for j in range(60)}
    if kind == "frame":
        columns |= {f"c{j}": rng.integers(0, 9, 200_000) for j in range(0, 60, 2)}
    rows = pd.DataFrame(columns) if kind == "frame" else pa.table(columns)
    del columns
else:
    fa.build(sp.random_array((20_000, 4000), density=0.01, rng=99, format="csr"), path, overwrite=True).close()
    rows = (sp.random_array((20_000, 4000), density=0.01, rng=i, format="csr") for i in range(5))
if kind == "compact":
    fa.build(rows, path, memory_limit=limit, overwrite=True).close()
if kind == "wider":
    fa.build(rng.random((2000, 30)), path, memory_limit=limit, overwrite=True).close()
if kind in ("append", "wider", "compact"):
    opened = fa.open(path, mode="r+", memory_limit=limit)
release_freed()
before, most, done = held(), [0], threading.Event()

def watch():
    while not done.wait(0.002):
        most[0] = max(most[0], held())

watcher = threading.Thread(target=watch)
watcher.start()
if kind in ("append", "wider"):
    opened.append(rows)
    opened.commit()
elif kind == "compact":
    opened.update(np.arange(0, 1_200_000, 60), rng.integers(0, 50, 20_000), 1.0)
    opened.compact()
else:
    opened = fa.build(rows, path, memory_limit=limit, normalize=normalize, overwrite=True)
done.set()
watcher.join()
print((most[0] - before) * 1024 / limit, opened.sidecar_arrays("fas") is not None)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
@pytest.mark.parametrize(
    ("kind", "indexed"),
    [
        ("wide", False),
        ("skewed", True),
        ("dense", False),
        ("append", True),
        ("tied", False),
        ("fewer", False),
        ("pairs", True),
        ("bytes", True),
        ("wider", False),
        ("compact", False),
        ("frame", True),
        ("table", True),
    ],
)
def test_builds_and_appends_of_any_rows_stay_below_the_limit(tmp_path, kind, indexed):
    """161 MiB for few wide rows of which some have no zeros, 520 for many, 230 for dense bytes, 78 for the append of an
    iterator (40 of them its own), 270 for 1,200,000 tied rows, 100 for pairs, 70 for rows of 30 bytes, 200 for these
    appended to doubles, 117 for a frame of two types or an Arrow table were taken under a limit of 64 MiB."""
    printed = run_script(BUILDER, tmp_path / "s", kind)
    taken, has_index = printed.split()
    assert float(taken) < 1
    assert has_index == str(indexed)


def test_the_index_of_rows_of_different_lengths_is_that_of_spa(tmp_path):
    """A build that has little memory for long rows keeps fewer of them, and proves the same anchors."""
    rng = np.random.default_rng(0)
    A = rng.random((4000, 900)) * (rng.random((4000, 900)) < 0.01)
    A[::10] = rng.random((400, 900))
    with fa.build(sp.csr_array(A), tmp_path / "s", normalize=None, memory_limit=1 << 22) as S:
        assert S.sidecar_arrays("fas") is not None
        for state in ("built", "changed", "compacted"):
            found = fa.FAS(selection="spa").seek(S, 12)
            assert found.certificate.kind == "exact", state
            assert found.indices.tolist() == fa.SPA().seek(A, 12).indices.tolist(), state
            if state == "built":
                A[::7, 3] = 5.0
                S.update(np.arange(0, 4000, 7), 3, 5.0)
                S.commit()
            elif state == "changed":
                S.compact()
    fa.verify(tmp_path / "s")


@pytest.mark.parametrize("sparse", [False, True])
def test_row_entries_are_those_of_the_rows(tmp_path, sparse):
    rng = np.random.default_rng(0)
    A = rng.random((3000, 40)) * (rng.random((3000, 40)) < rng.random((3000, 1)))
    with fa.build(sp.csr_array(A) if sparse else A, tmp_path / "s", memory_limit=LIMIT) as S:
        rows = rng.integers(0, 3000, 500)
        assert S.row_entries(rows).tolist() == (np.count_nonzero(A[rows], axis=1).tolist() if sparse else [40] * 500)
        S[7, 3] = A[7, 3] = 0.25
        assert S.row_entries([7])[0] == (np.count_nonzero(A[7]) if sparse else 40)
        data = ReadOnce(S, 100, block_bytes=2000, room=5000)
        sizes = (12 if sparse else 8) * S.row_entries(np.arange(3000))
        blocks = list(data.blocks())
        heights = [block.shape[0] for _, block in blocks]
        assert [start for start, _ in blocks] == np.cumsum([0, *heights])[:-1].tolist()
        assert sum(heights) == 3000
        if sparse:
            assert max(12 * block.nnz for _, block in blocks) <= max(2000, sizes.max())
        fits = data.fitting(np.arange(3000))
        assert sizes[:fits].sum() <= 5000 < sizes[: fits + 1].sum()
        assert data.weight(np.arange(fits)) == sizes[:fits].sum()


@pytest.mark.parametrize("normalize", ["l1", None])
@pytest.mark.parametrize("sparse", [False, True])
def test_moved_blocks_are_the_same_matrix(tmp_path, sparse, normalize, monkeypatch):
    rng = np.random.default_rng(0)
    A = rng.random((3000, 40)) * (rng.random((3000, 40)) < 0.3)
    moved = []
    move = mapped_matrix.MappedMatrix._moved
    monkeypatch.setattr(
        mapped_matrix.MappedMatrix, "_moved", lambda self, block: (moved.append(1), move(self, block))[1]
    )
    with fa.build(sp.csr_array(A) if sparse else A, tmp_path / "s", normalize=normalize, memory_limit=LIMIT) as S:
        S._matrix._limit = 1 << 18
        for round_ in range(6):
            i, j, x = rng.integers(0, len(A), 400), rng.integers(0, 40, 400), rng.random(400)
            S.update(i, j, x)
            for each in zip(i, j, x, strict=True):
                A[each[0], each[1]] = each[2]
            S[round_, 3] = A[round_, 3] = 0.25
            if round_ == 3:
                S.append(A[:5])
                A = np.concatenate([A, A[:5]])
            np.testing.assert_array_equal(S.raw(*np.indices(A.shape)), A)
            S.check()
        assert moved
        assert not list((tmp_path / "s").glob("scratch-*"))
    with fa.open(tmp_path / "s") as S:
        np.testing.assert_array_equal(S.raw(*np.indices(A.shape)), A)
    fa.verify(tmp_path / "s")


@pytest.mark.parametrize("columns", [True, False])
@pytest.mark.parametrize("room", ["always", "sometimes", "never"])
def test_shards_with_many_new_entries_are_rebuilt_in_files(tmp_path, room, columns, monkeypatch):
    """Where the disk has no room for these files, in memory."""
    rng = np.random.default_rng(0)
    A = rng.random((3000, 300)) * (rng.random((3000, 300)) < 0.02)
    write, calls, mapped = mapped_matrix.write_all, [], []

    def limited(*args):
        calls.append(args)
        if room == "never" or (room == "sometimes" and len(calls) % 2):
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(*args)

    monkeypatch.setattr(mapped_matrix, "write_all", limited)
    with fa.build(sp.csr_array(A), tmp_path / "s", columns=columns, memory_limit=LIMIT, sidecars=()) as S:
        S[0, 0] = A[0, 0] = 0.5
        for step in range(6):
            S._matrix._limit = 1 << (25 if step == 2 else 18)
            i, j, x = rng.integers(0, 3000, 7000), rng.integers(0, 300, 7000), rng.random(7000)
            x[::9] = 0
            S.update(i, j, x)
            for each in zip(i, j, x, strict=True):
                A[each[0], each[1]] = each[2]
            mapped += [block.entries.base is not None for block in S._blocks]
            np.testing.assert_array_equal(S.raw(*np.indices(A.shape)), A)
            S.check()
            if step == 3:
                S.commit()
        assert calls
        assert any(mapped)
    with fa.open(tmp_path / "s") as S:
        np.testing.assert_array_equal(S.raw(*np.indices(A.shape)), A)
    fa.verify(tmp_path / "s")


def test_a_block_moves_to_a_scratch_file_once(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    A = sp.random_array((20_000, 40), density=0.3, rng=rng, format="csr")
    moved = []
    move = mapped_matrix.MappedMatrix._moved
    monkeypatch.setattr(
        mapped_matrix.MappedMatrix, "_moved", lambda self, block: (moved.append(1), move(self, block))[1]
    )
    with fa.build(A, tmp_path / "s", memory_limit=LIMIT, sidecars=()) as S:
        rows = np.repeat(np.arange(20_000), np.diff(A.indptr))
        for _ in range(20):
            some = rng.integers(0, A.nnz, 2000)
            A.data[some] = rng.random(2000)
            S.update(rows[some], A.indices[some], A.data[some])
        assert 0 < len(moved) <= len(S._blocks)
        np.testing.assert_array_equal(S.raw(rows, A.indices), A.data)
        S.check()


def test_a_block_that_moves_again_with_its_new_entries_is_freed(tmp_path, monkeypatch):
    """All earlier ones were held, with their new entries in memory and their files on the disk."""
    rng = np.random.default_rng(0)
    A = sp.random_array((3000, 300), density=0.05, rng=rng, format="csr")
    moved = []
    move = mapped_matrix.MappedMatrix._moved

    def noted(self, block):
        moved.append(weakref.ref(block := move(self, block)))
        return block

    monkeypatch.setattr(mapped_matrix.MappedMatrix, "_moved", noted)
    with fa.build(A, tmp_path / "s", memory_limit=LIMIT, sidecars=()) as S:
        S._matrix._limit = 1 << 12
        S.update(np.arange(40) % 2 * 2999, np.arange(40), np.ones(40))
        gc.collect()
        assert len(moved) > len(S._blocks) >= sum(ref() is not None for ref in moved)
        S.check()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
@pytest.mark.parametrize("which", ["blocks", "operations"])
def test_a_fork_does_not_read_what_its_parent_is_changing(tmp_path, which):
    with fa.build(np.random.default_rng(0).random((2000, 40)), tmp_path / "s", memory_limit=LIMIT) as S:
        S[0, 0] = 0.25
        if which == "blocks":
            S._matrix._limit = 1 << 18
        else:
            S._matrix._limit, S._pending.room = 1 << 30, 1000
        for _ in range(3):
            S.update(np.arange(0, 2000, 5), np.zeros(400, int), np.full(400, 0.5))
        child = os.fork()
        if not child:
            try:
                S.row_norm([0])
            except StoreError as error:
                os._exit(7 if "open it again" in str(error) else 8)
            os._exit(9)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        assert S.raw([0], [0]) == [0.5]


def test_a_compaction_leaves_no_tiny_shards(tmp_path):
    """A shard that has grown is rewritten as it is, or in equal parts; never with a small remainder."""
    rng = np.random.default_rng(0)
    A = sp.random_array((20_000, 50), density=0.3, rng=rng, format="csr")
    with fa.build(A, tmp_path / "s", memory_limit=1 << 23, sidecars=()) as S:
        before = len(S.manifest.shards)
        for _ in range(2):
            S.update(rng.integers(0, 20_000, 4000), rng.integers(0, 50, 4000), rng.random(4000))
            S.compact()
        sizes = [shard.rows for shard in S.manifest.shards]
    assert len(sizes) <= 2 * before
    assert min(sizes) > max(sizes) / 4
    fa.verify(tmp_path / "s")


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("written", [0, 1, 2])
def test_an_update_that_finds_the_disk_full_midway_sets_nothing(tmp_path, sparse, written, monkeypatch):
    rng = np.random.default_rng(0)
    A = rng.random((20_000, 40)) * (rng.random((20_000, 40)) < 0.3)
    i, j, x = rng.integers(0, len(A), 3000), rng.integers(0, 40, 3000), rng.random(3000)
    write, left = mapped_matrix.write_arrays, [written]

    def full(path, *args, **options):
        left[0] -= 1
        if left[0] < 0:
            raise OSError(errno.ENOSPC, "No space left on device", str(path))
        return write(path, *args, **options)

    source = sp.csr_array(A) if sparse else A
    with fa.build(source, tmp_path / "s", normalize=None, memory_limit=LIMIT, sidecars=()) as S:
        assert len(S._blocks) > 2
        S[0, 0] = A[0, 0] = 0.75
        monkeypatch.setattr(mapped_matrix, "write_arrays", full)
        with pytest.raises(StoreError, match="the disk is full"):
            S.update(i, j, x)
        assert left == [-1]
        monkeypatch.undo()
        np.testing.assert_array_equal(S.raw(*np.indices(A.shape)), A)
        S.check()
        S.commit()
        with fa.open(tmp_path / "s") as R:
            np.testing.assert_array_equal(R.raw(*np.indices(A.shape)), A)
        S.update(i, j, x)  # again, with room
        for row, column, value in zip(i, j, x, strict=True):
            A[row, column] = value
        S.check()
    fa.verify(tmp_path / "s")
    with fa.open(tmp_path / "s") as R:
        np.testing.assert_array_equal(R.raw(*np.indices(A.shape)), A)


def test_names_of_parts_are_not_decoded():
    """Compactions copy them: lists of text exceeded the memory limit, and took ten times the time of the rows."""
    named = encode_names(["a", "bé", "", "d"])
    names = Names([(4, named), (3, {}), (4, named)])
    for start in range(12):
        for stop in range(start, 12):
            part, expected = names.part(start, stop), [names[i] for i in range(start, min(stop, len(names)))]
            assert list(part) == expected
            assert names[start:stop] == expected
            assert list(Names([(stop - start, encode_names(part))])) == expected
    assert names[np.int64(-1)] == "d"
    for wrong in ("3", 2.7):  # they were taken for 3 and 2
        with pytest.raises(TypeError):
            names[wrong]
    named["names.ends"][1] = 99
    with pytest.raises(CorruptStoreError, match="the names of rows 0 to 1 are damaged"):
        names.part(0, 2)


def test_row_names_of_a_large_file_are_kept_on_disk(tmp_path):
    expected = [f"row {i} é" for i in range(100_000)]
    (tmp_path / "names.txt").write_bytes(("\ufeff" + "\r\n".join(expected) + "\n").encode())
    names = read_names(tmp_path / "names.txt", "row")
    assert isinstance(names, NameSpool)
    assert list(names) == expected
    (tmp_path / "names.txt").write_bytes("\n".join(expected).encode("latin-1"))
    with pytest.raises(StoreError, match="line 1: the byte 0xe9 is not"):
        read_names(tmp_path / "names.txt", "row")


@pytest.mark.parametrize("sparse", [True, False])
def test_rows_read_once_are_read_in_few_parts(tmp_path, sparse, monkeypatch):
    """Every other row of small blocks took a read for each 16 rows under a limit of 64 MiB: 45 s for 100,000 rows."""
    rng = np.random.default_rng(0)
    A = np.eye(50)[rng.integers(0, 50, 30_000)]
    parts = []
    with fa.build(sp.csr_array(A) if sparse else A, tmp_path / "s", memory_limit=1 << 23, sidecars=()) as S:
        assert len(S.manifest.shards) > 1
        wanted, read = np.append(np.arange(0, 30_000, 2), [7, 3, 29_999]), S.rows
        expected = read(wanted)
        monkeypatch.setattr(type(S), "rows", lambda self, rows: parts.append(len(rows)) or read(rows))
        for pages in (1 << 12, 1 << 22, 1 << 40):  # that one row may load
            monkeypatch.setattr("fastanchors.store.few_pages._PAGES", pages)
            parts.clear()
            assert abs(S.rows_once(wanted) - expected).max() == 0
            assert sum(parts) == len(wanted)
            assert len(parts) < 40, pages
        monkeypatch.setattr("fastanchors.store.few_pages._PAGES", 1 << 20)
        monkeypatch.setattr("fastanchors.store.few_pages._PAGES_SHARE", 1 << 40)  # no room for a block
        parts.clear()
        assert abs(S.rows_once(wanted[-99:]) - expected[-99:]).max() == 0
        assert parts == [8] * 12 + [3]
        S[3, 4] = 2.0
        assert abs(S.rows_once(wanted) - read(wanted)).max() == 0


def test_parts_of_a_sparse_block_are_about_equal():
    """The last part had what was left: shards of a few rows."""
    A = sp.csr_array((np.ones(10_100), np.zeros(10_100, np.int32), np.arange(10_101)))
    sizes = [part.shape[0] for part in split(A, 50_000, 28)]  # 48 bytes a row: 1,041 rows at most
    assert sum(sizes) == 10_100
    assert max(sizes) <= 1041
    assert min(sizes) > 0.9 * max(sizes)


def test_the_frame_of_many_tied_rows_takes_little_memory():
    """Each row that counts for more than a few typical ones was compared with a thousand, all at once: 8 kB each."""
    rng = np.random.default_rng(0)
    rows = sp.csr_array((np.ones(40_000), rng.integers(0, 50, 40_000).astype(np.int32), np.arange(40_001)))
    tracemalloc.start()
    try:
        fit_frame(rows)
        assert tracemalloc.get_traced_memory()[1] < 150e6
    finally:
        tracemalloc.stop()
