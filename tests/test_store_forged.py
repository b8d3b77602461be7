"""Malicious stores with right checksums and wrong contents: one error, never a crash, no data lost."""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
import zlib

import numpy as np
import pytest
import scipy.sparse as sp

import fastanchors as fa
import fastanchors.store.store as store_module
from fastanchors.errors import CorruptStoreError, FastAnchorsError, StoreError
from fastanchors.store.arrays_file import write_arrays
from forgeries import KeptSketches


def make(path, **options):
    fa.build(sp.random_array((300, 60), density=0.2, rng=0, format="csr"), path, **options).close()
    return path


def read_manifest(path):
    return json.loads((path / "manifest.json").read_text())


def write_manifest(path, content):
    content = {key: value for key, value in content.items() if key != "crc32"} | {"crc32": "0" * 8}
    text = (json.dumps(content, indent=1) + "\n").encode()
    at = text.rfind(b"0" * 8)
    (path / "manifest.json").write_bytes(text[:at] + f"{zlib.crc32(text):08x}".encode() + text[at + 8 :])


def forge_journal(path, payload):
    """A journal with one record and right checksums."""
    head = struct.pack("<8sIQ", b"FASTANCH", 1, 1)
    content = bytearray(128)
    content[:24] = head + struct.pack("<I", zlib.crc32(head))
    frame = struct.pack("<QQI", 1, len(payload), zlib.crc32(payload))
    frame += struct.pack("<I", zlib.crc32(frame))
    slot = struct.pack("<QQ", 1, 128 + len(frame) + len(payload))
    content[32:52] = content[64:84] = slot + struct.pack("<I", zlib.crc32(slot))
    (path / "journal-000001.log").write_bytes(bytes(content) + frame + payload)


def operation(kind, head, *arrays):
    text, body = json.dumps(head).encode(), b"".join(array.tobytes() for array in arrays)
    return struct.pack("<IIQ", kind, len(text), len(body)) + text + body


def rows(indptr, indices, data, columns=60, **head):
    head = {"shape": [len(indptr) - 1, columns], "dtype": "<f8", "entries": len(indices)} | head
    return operation(2, head, np.array(indptr, "<i8"), np.array(indices, "<i8"), np.array(data, "<f8"))


def entries(i, j, x, **head):
    head = {"dtype": "<f8", "count": len(i)} | head
    return operation(1, head, np.array(i, "<i8"), np.array(j, "<i8"), np.array(x, "<f8"))


FORGED = {
    "column beyond": rows([0, 1, 2], [0, 10**9], [1.0, 2.0]),
    "column negative": rows([0, 1, 2], [0, -(10**9)], [1.0, 2.0]),
    "pointers fall": rows([0, 10**6, 0, 2], [0, 1], [1.0, 2.0]),
    "pointers begin late": rows([1, 2], [0, 1], [1.0, 2.0]),
    "pointers end early": rows([0, 1], [0, 1], [1.0, 2.0]),
    "columns unsorted": rows([0, 3], [7, 5, 6], [1.0, 2.0, 3.0]),
    "column twice": rows([0, 3], [5, 7, 7], [1.0, 2.0, 3.0]),
    "no rows": rows([0], [], []),
    "more entries than there are": rows([0, 1], [0], [1.0], entries=10**12),
    "entries below zero": rows([0, 1], [0], [1.0], entries=-1),
    "negative value": rows([0, 1], [0], [-1.0]),
    "nan": rows([0, 1], [0], [np.nan]),
    "names": rows([0, 1], [0], [1.0], names=[7]),
    "objects": rows([0, 1], [0], [1.0], dtype="|O"),
    "entry beyond": entries([300], [0], [1.0]),
    "entry negative": entries([0], [-1], [1.0]),
    "entry nan": entries([0], [0], [np.nan]),
    "entry huge": entries([0], [0], [1e308]),
    "count below zero": entries([0], [0], [1.0], count=-1),
}


@pytest.mark.parametrize("what", FORGED)
def test_a_forged_record_is_refused(tmp_path, what):
    path = make(tmp_path / "s")
    forge_journal(path, FORGED[what])
    for call in (fa.open, fa.verify):
        with pytest.raises(CorruptStoreError, match=r"journal-000001\.log"):
            call(path)


def test_rows_that_are_right_are_taken(tmp_path):
    path = make(tmp_path / "s")
    forge_journal(path, rows([0, 0, 2, 3], [3, 59, 0], [1.0, 2.0, 3.0]) + entries([302], [1], [4.0]))
    with fa.open(path) as S:
        assert S.shape == (303, 60)
        assert S.raw([301, 301, 302, 302], [3, 59, 0, 1]).tolist() == [1.0, 2.0, 3.0, 4.0]
    fa.verify(path)


def test_next_shard_in_use_is_refused(tmp_path):
    path = make(tmp_path / "s")
    write_manifest(path, read_manifest(path) | {"next_shard": 0})
    for call in (fa.open, fa.verify):
        with pytest.raises(CorruptStoreError, match="next_shard is 0"):
            call(path)


@pytest.mark.parametrize("link", [True, False])
def test_an_existing_file_is_never_written_to(tmp_path, link):
    """For any manifest: neither another file of the store, nor a file outside through a link."""
    path, outside = make(tmp_path / "s"), tmp_path / "precious"
    outside.write_bytes(b"precious data\n" * 10)
    planted = path / "shard-000001.bin"
    if link:
        planted.symlink_to(outside)
    else:
        planted.write_bytes(outside.read_bytes())
    # Named by an unknown sidecar, so that it is not treated as left by a crash.
    manifest = read_manifest(path)
    manifest["extras"]["zzz"] = {"file": planted.name, "bytes": 140, "arrays": {}}
    write_manifest(path, manifest)
    with pytest.raises(CorruptStoreError):
        fa.verify(path)
    with pytest.raises(StoreError), fa.open(path, mode="r+") as S:
        S.append(np.ones((40_000, 60)))
    assert outside.read_bytes() == b"precious data\n" * 10
    assert planted.read_bytes() == outside.read_bytes()


def test_only_new_files_are_created(tmp_path):
    for name in ("file", "link"):
        (tmp_path / "old").write_bytes(b"old")
        target = tmp_path / name
        target.symlink_to(tmp_path / "old") if name == "link" else target.write_bytes(b"old")
        with pytest.raises(StoreError, match="exists already"):
            write_arrays(target, {"a": np.ones(3)})
        assert target.read_bytes() == (tmp_path / "old").read_bytes() == b"old"


def test_overwriting_removes_no_file_of_others(tmp_path):
    path = make(tmp_path / "s")
    (path / "thesis").mkdir()
    (path / "thesis" / "chapter1.txt").write_text("years of work")
    with pytest.raises(StoreError, match="'thesis'"):
        fa.build(np.eye(5), path, overwrite=True)
    assert (path / "thesis" / "chapter1.txt").read_text() == "years of work"
    assert fa.open(path).shape == (300, 60)
    (path / "thesis" / "chapter1.txt").rename(tmp_path / "chapter1.txt")
    (path / "thesis").rmdir()
    fa.build(np.eye(5), path, overwrite=True).close()
    assert fa.open(path).shape == (5, 5)


@pytest.mark.parametrize("name", ["manifest.json", "lock", "shard-000007.bin"])
def test_overwriting_removes_no_directory_in_place_of_a_file(tmp_path, name):
    path = tmp_path / "s"
    fa.build(np.eye(3), path).close()
    (path / name).unlink(missing_ok=True)
    (path / name).mkdir()
    (path / name / "thesis.txt").write_text("years of work")
    with pytest.raises(StoreError):
        fa.build(np.eye(4), path, overwrite=True)
    assert (path / name / "thesis.txt").read_text() == "years of work"


def test_a_file_created_during_the_build_stops_it(tmp_path):
    path = make(tmp_path / "s")

    def blocks():
        yield np.eye(5)
        (path / "notes.txt").write_text("mine")
        yield np.eye(5)

    with pytest.raises(StoreError, match=r"notes\.txt"):
        fa.build(blocks(), path, overwrite=True)
    assert (path / "notes.txt").read_text() == "mine"
    assert fa.open(path).shape == (300, 60)


@pytest.mark.parametrize("kind", ["pipe", "link"])
def test_a_pipe_or_a_link_as_a_file_of_the_store(tmp_path, kind):
    code, what = "import fastanchors as fa\n", "not a regular file" if kind == "pipe" else "symbolic link"
    for name in ("manifest.json", "journal-000001.log", "shard-000000.bin"):
        path = make(tmp_path / name.partition(".")[0], sidecars=())
        file, aside = path / name, tmp_path / f"aside-{name}"
        file.rename(aside)
        os.mkfifo(file) if kind == "pipe" else file.symlink_to(aside)
        for call in ("fa.open", "fa.verify"):
            code += f"try: {call}({str(path)!r})\nexcept fa.errors.StoreError as error: print(error)\n"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout.count(what) == 6


def rewrite_array(path, description, name, values):
    """Replace the contents of an array in a file, with right checksums."""
    file = path / description["file"]
    raw = bytearray(file.read_bytes())
    at = description["arrays"][name]["offset"]
    raw[at : at + values.nbytes] = values.tobytes()
    file.write_bytes(raw)
    order = sorted(description["arrays"].values(), key=lambda entry: entry["offset"])
    ends = [entry["offset"] for entry in order[1:]] + [len(raw)]
    for entry, end in zip(order, ends, strict=True):
        entry["crc32"] = zlib.crc32(raw[entry["offset"] : end])


@pytest.fixture
def indexed(tmp_path):
    fa.build(sp.random_array((3000, 60), density=0.2, rng=0, format="csr"), tmp_path / "s").close()
    return tmp_path / "s"


@pytest.mark.parametrize("forged", [[10**9] * 3, [-1, 2, 3], [5, 5, 5]])
def test_an_index_of_other_rows_is_refused(indexed, forged):
    manifest = read_manifest(indexed)
    rewrite_array(indexed, manifest["extras"]["fas.whole"], "indices", np.array(forged, "<i8"))
    write_manifest(indexed, manifest)
    with pytest.raises(CorruptStoreError, match="'fas' is wrong"):
        fa.verify(indexed)
    with pytest.raises(CorruptStoreError, match="index"):
        fa.FAS(selection="spa").seek(fa.open(indexed), 3)


def test_an_index_with_other_anchors_is_found(indexed):
    manifest = read_manifest(indexed)
    with fa.open(indexed) as S:
        arrays = S.sidecar_arrays("fas")[0]
        core, anchors = np.array(arrays["core.indices"]), np.array(arrays["indices"])
    other = np.setdiff1d(core, anchors)[0]
    description = manifest["extras"]["fas.whole"]
    rewrite_array(indexed, description, "indices", np.array([other, *anchors[1:]], "<i8"))
    write_manifest(indexed, manifest)
    with pytest.raises(CorruptStoreError, match="anchors"):
        fa.verify(indexed)


def test_an_index_with_other_values_is_found(indexed):
    manifest = read_manifest(indexed)
    rewrite_array(indexed, manifest["extras"]["fas.whole"], "core.csr.data", np.array([0.75]))
    write_manifest(indexed, manifest)
    with pytest.raises(CorruptStoreError, match="coreset"):
        fa.verify(indexed)


def test_an_index_that_does_not_name_its_ties_is_found(tmp_path):
    """A change of an anchor that the index did not name left its answer as it was, certified as exact."""
    rng = np.random.default_rng(1)
    fa.build(rng.dirichlet(np.full(6, 0.5), 2800) @ rng.random((6, 24)), tmp_path / "s", normalize=None).close()
    with fa.open(tmp_path / "s") as S:
        tied = np.array(S.sidecar_arrays("fas")[0]["tied"])
    manifest = read_manifest(tmp_path / "s")
    rewrite_array(tmp_path / "s", manifest["extras"]["fas.whole"], "tied", np.full_like(tied, tied[-1]))
    write_manifest(tmp_path / "s", manifest)
    with pytest.raises(CorruptStoreError, match="tied with its anchors"):
        fa.verify(tmp_path / "s")


def test_rows_that_are_tied_with_anchors_after_the_build_are_no_damage(tmp_path):
    rng = np.random.default_rng(1)
    A = rng.dirichlet(np.full(6, 0.5), 2800) @ rng.random((6, 24))
    fa.build(A, tmp_path / "s", normalize=None).close()
    with fa.open(tmp_path / "s", "r+") as S:
        anchors = fa.FAS(selection="spa").seek(S, 5).indices
        S.append(np.repeat(A[anchors], 40, axis=0))
        S.commit()
        assert fa.FAS(selection="spa").seek(S, 5).indices.tolist() == anchors.tolist()
        S.compact()
    fa.verify(tmp_path / "s")


@pytest.mark.parametrize("proved", [20, 0])
def test_an_index_whose_anchors_do_not_span_the_rows_is_found(tmp_path, proved):
    """It said that nothing is left; only rows outside the coreset were compared, and none of them was beyond it."""
    A = np.eye(30)[np.random.default_rng(5).integers(0, 30, 2600)]
    fa.build(A, tmp_path / "s", normalize=None).close()
    manifest = read_manifest(tmp_path / "s")
    description = manifest["extras"]["fas.whole"]
    rewrite_array(tmp_path / "s", description, "numbers", np.array([proved, 2600, 0, 1], "<i8"))
    write_manifest(tmp_path / "s", manifest)
    with pytest.raises(CorruptStoreError, match="span all rows"):
        fa.verify(tmp_path / "s")


@pytest.mark.parametrize("which", ["row", "column"])
def test_names_that_are_not_text_are_found(tmp_path, which):
    A = np.random.default_rng(0).random((30, 4))
    names = {"row_names": [f"row {i}" for i in range(30)], "column_names": list("abcd")}
    fa.build(A, tmp_path / "s", **names).close()
    manifest = read_manifest(tmp_path / "s")
    description = manifest["shards"][0]["data"] if which == "row" else manifest["names"]
    rewrite_array(tmp_path / "s", description, "names.bytes", np.array([0xFF], np.uint8))
    write_manifest(tmp_path / "s", manifest)
    with pytest.raises(CorruptStoreError, match="not UTF-8"):
        fa.verify(tmp_path / "s")
    with fa.open(tmp_path / "s") as S, pytest.raises(CorruptStoreError, match="not UTF-8"):
        (S.row_names if which == "row" else S.column_names)[0]


def test_a_commit_that_is_durable_does_not_fail_for_a_compaction(tmp_path, monkeypatch):
    path, tries = make(tmp_path / "s"), []

    def full(store):
        tries.append(store)
        raise StoreError("cannot write: the disk is full")

    monkeypatch.setattr(store_module, "compact", full)
    monkeypatch.setattr(store_module, "worth_compacting", lambda store: True)
    with fa.open(path, mode="r+") as S:
        S.append(np.ones((2, 60)))
        with pytest.warns(UserWarning, match="committed, but not compacted"):
            S.commit()
        S.commit()  # nothing to commit, and no immediate retry
        assert len(tries) == 1
        with pytest.raises(StoreError, match="full"):
            S.compact()
        S[301, 3] = 5.0
        S.commit()
    with fa.open(path) as S:
        assert S.shape == (302, 60)
        assert S.raw(301, 3) == 5.0
    fa.verify(path)


def test_a_commit_is_done_when_its_record_is_durable(tmp_path, monkeypatch):
    """The slot in the head, written afterwards, only helps to distinguish damage from a torn end."""
    path = make(tmp_path / "s")
    write = os.pwrite

    def failing(file, data, at):
        if at < 128:
            raise OSError(5, "input/output error")
        return write(file, data, at)

    with fa.open(path, mode="r+") as S:
        S[1, 2] = 5.0
        with monkeypatch.context() as patch:
            patch.setattr(os, "pwrite", failing)
            S.commit()
        S[2, 2] = 6.0
    with fa.open(path) as S:
        assert S.raw([1, 2], [2, 2]).tolist() == [5.0, 6.0]
    fa.verify(path)


@pytest.mark.parametrize("offset", [4, -64])
def test_overlapping_and_misaligned_arrays_are_refused(tmp_path, offset):
    """A write to one would change the other: sums that overlapped counters led a kernel outside its arrays."""
    path = make(tmp_path / "s")
    manifest = read_manifest(path)
    arrays = manifest["shards"][0]["data"]["arrays"]
    arrays["counters"]["offset"] += offset
    write_manifest(path, manifest)
    for use in (fa.open, fa.verify):
        with pytest.raises(CorruptStoreError, match="overlap" if offset == -64 else "multiple of 64"):
            use(path)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_nan_sums_do_not_stop_a_write(tmp_path):
    path = make(tmp_path / "s")
    manifest = read_manifest(path)
    rewrite_array(path, manifest["shards"][0]["data"], "l1_sums", np.full(300, np.nan))
    rewrite_array(path, manifest["shards"][0]["data"], "scale", np.zeros(300))
    write_manifest(path, manifest)
    with pytest.raises(CorruptStoreError):
        fa.verify(path)
    with fa.open(path, mode="r+") as S:
        S.update(np.arange(300), np.arange(300) % 60, np.ones(300))
        S.close(commit=False)


@pytest.mark.parametrize("columns", [True, False])
@pytest.mark.parametrize("disorder", [True, False])
def test_columns_of_entries_that_were_moved_are_found(tmp_path, columns, disorder):
    """Every sum is the same; only the order inside a row, or the column side of the shard, differs."""
    path = make(tmp_path / "s", columns=columns, sidecars=())
    manifest = read_manifest(path)
    with fa.open(path) as S:
        row = S.rows([0])
    moved = np.roll(row.indices, 1) if disorder else np.setdiff1d(np.arange(60), row.indices)[: row.nnz]
    rewrite_array(path, manifest["shards"][0]["data"], "indices", moved.astype("<i4"))
    write_manifest(path, manifest)
    if not columns and not disorder:
        fa.verify(path)  # the rows of another matrix, which are valid
        return
    with pytest.raises(CorruptStoreError, match="the rows are not a valid" if disorder else "other entries"):
        fa.verify(path)


FORGED_INDEX = {
    "tails": (0.0, "bounds"),
    "norm": (0.0, "longer"),
    "low": (1e9, "thresholds"),
    "basis": (2.0, "directions"),
}


@pytest.mark.parametrize("name", FORGED_INDEX)
def test_bounds_of_an_index_are_held_against_the_rows(indexed, name):
    value, said = FORGED_INDEX[name]
    manifest = read_manifest(indexed)
    rewrite_array(indexed, manifest["extras"]["fas.whole"], name, np.array([value]))
    write_manifest(indexed, manifest)
    with pytest.raises(CorruptStoreError, match=said):
        fa.verify(indexed)


def test_an_index_of_another_store_is_found(tmp_path):
    """The coreset is the same in both; SPA would choose a row outside of it."""
    A = sp.random_array((3000, 60), density=0.2, rng=0, format="lil")
    for name in "ab":
        fa.build(A.tocsr(), tmp_path / name, normalize=None).close()
        with fa.open(tmp_path / name) as S:
            core = np.array(S.sidecar_arrays("fas")[0]["core.indices"])
        A[np.setdiff1d(np.arange(3000), core)[0], :10] = 50.0
    manifest, other = read_manifest(tmp_path / "b"), read_manifest(tmp_path / "a")["extras"]["fas.whole"]
    (tmp_path / "b" / other["file"]).write_bytes((tmp_path / "a" / other["file"]).read_bytes())
    manifest["extras"]["fas.whole"] = other
    write_manifest(tmp_path / "b", manifest)
    with pytest.raises(CorruptStoreError, match="longer than it says"):
        fa.verify(tmp_path / "b")


@pytest.mark.parametrize("name", ["hull.points", "hull.shares", "basis", "tails", "low"])
def test_an_index_of_another_shape_is_refused(tmp_path, name):
    corners = np.random.default_rng(1).random((5, 30))
    A = np.random.default_rng(0).dirichlet(np.ones(5), 4000) @ corners
    fa.build(np.concatenate([corners, A]), tmp_path / "s").close()
    manifest = read_manifest(tmp_path / "s")
    entry = manifest["extras"]["fas.whole"]["arrays"][name]
    entry["shape"] = [entry["shape"][0] - 1] if len(entry["shape"]) == 1 else entry["shape"][::-1]
    write_manifest(tmp_path / "s", manifest)
    with fa.open(tmp_path / "s") as S, pytest.raises(CorruptStoreError, match="index"):
        fa.FAS(selection="spa").seek(S, 3)
    with pytest.raises(CorruptStoreError):
        fa.verify(tmp_path / "s")


def coordinates_of(path):
    fa.build(np.random.default_rng(0).random((1000, 30)), path).close()
    manifest = read_manifest(path)
    return manifest, manifest["extras"]["coordinates.whole"]


@pytest.mark.parametrize(
    ("name", "value"), [("values", np.float32(5)), ("sums", 9.0), ("left", 9.0), ("directions", 2.0), ("rows", 10**9)]
)
def test_coordinates_of_other_rows_are_found(tmp_path, name, value):
    manifest, description = coordinates_of(tmp_path / "s")
    rewrite_array(tmp_path / "s", description, name, np.array([value]))
    write_manifest(tmp_path / "s", manifest)
    with pytest.raises(CorruptStoreError, match="'coordinates' is wrong"):
        fa.verify(tmp_path / "s")


@pytest.mark.parametrize("dtype", ["<c8", "<i8", "<u8", "<f8"])
@pytest.mark.parametrize("sidecar", ["coordinates", "fas"])
def test_arrays_of_another_type_are_refused(tmp_path, sidecar, dtype):
    """Complex numbers of the right length passed ``fa.verify``, and a seek raised a TypeError."""
    rng = np.random.default_rng(0)
    mixtures = rng.dirichlet(np.ones(5), 4000) @ rng.random((5, 30))
    fa.build(mixtures if sidecar == "fas" else rng.random((1000, 30)), tmp_path / "s").close()
    manifest = read_manifest(tmp_path / "s")
    changed = 0
    for name, entry in manifest["extras"][f"{sidecar}.whole"]["arrays"].items():
        if np.dtype(entry["dtype"]).itemsize == 8 and entry["dtype"] != dtype and name != "core.rows":
            kept, entry["dtype"] = entry["dtype"], dtype
            write_manifest(tmp_path / "s", manifest)
            with pytest.raises(CorruptStoreError, match=f"{sidecar}' is wrong: its array '{name}' holds"):
                fa.verify(tmp_path / "s")
            entry["dtype"], changed = kept, changed + 1
    assert changed > 3


def test_a_view_of_another_kind_is_refused(tmp_path):
    """A manifest that says ``"normalize": null`` showed the l1 view of its shards as their entries."""
    fa.build(np.random.default_rng(0).random((70, 40)), tmp_path / "s").close()
    manifest = read_manifest(tmp_path / "s")
    manifest["normalize"] = None
    write_manifest(tmp_path / "s", manifest)
    for door in (fa.open, fa.verify):
        with pytest.raises(CorruptStoreError, match="has an array 'l1_nodes', which does not belong"):
            door(tmp_path / "s")


@pytest.mark.parametrize("name", ["values", "left", "candidates", "directions", "shares", "centre"])
def test_coordinates_of_another_shape_are_refused(tmp_path, name):
    manifest, description = coordinates_of(tmp_path / "s")
    entry = description["arrays"][name]
    entry["shape"] = [0] if name == "candidates" else [entry["shape"][0] - 1, *entry["shape"][1:]]
    write_manifest(tmp_path / "s", manifest)
    with pytest.raises(CorruptStoreError, match="'coordinates' is wrong"):
        fa.verify(tmp_path / "s")
    with fa.open(tmp_path / "s") as S, pytest.raises(CorruptStoreError, match="the coordinates of"):
        fa.FAS().seek(S, 3)


def test_a_basis_of_another_shape_is_refused_by_a_compaction(tmp_path):
    path = tmp_path / "s"
    fa.build(
        iter([sp.random_array((300, 60), density=0.2, rng=0, format="csr")]), path, sidecars=[KeptSketches()]
    ).close()
    manifest = read_manifest(path)
    manifest["extras"]["fas"]["arrays"]["V"]["shape"] = [60]
    write_manifest(path, manifest)
    with pytest.raises(CorruptStoreError, match="basis"):
        fa.verify(path)
    with fa.open(path, mode="r+") as S:
        S[0, 0] = 3.0
        with pytest.raises(CorruptStoreError, match="basis"):
            S.compact()
        S.close(commit=False)


def test_a_file_without_named_arrays_is_found(tmp_path):
    fa.build(np.eye(4), tmp_path / "s", column_names=list("abcd")).close()
    manifest = read_manifest(tmp_path / "s")
    manifest["names"]["arrays"] = {}
    write_manifest(tmp_path / "s", manifest)
    with pytest.raises(CorruptStoreError, match="names no array"):
        fa.verify(tmp_path / "s")


@pytest.mark.parametrize("value", [-1e308, 1.5, np.nan])
def test_a_basis_that_is_not_orthonormal_is_refused(tmp_path, value):
    path = tmp_path / "s"
    A = sp.random_array((3000, 60), density=0.2, rng=0, format="csr")
    fa.build(iter([A]), path, sidecars=[KeptSketches()]).close()
    manifest = read_manifest(path)
    rewrite_array(path, manifest["extras"]["fas"], "V", np.array([value]))
    write_manifest(path, manifest)
    with pytest.raises(CorruptStoreError, match="orthonormal"):
        fa.verify(path)
    with fa.open(path, mode="r+") as S:
        S[0, 0] = 3.0
        with pytest.raises(CorruptStoreError, match="orthonormal"):
            S.compact()
        S.close(commit=False)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("value", [np.inf, np.nan])
def test_entries_that_are_not_finite_raise_our_error(tmp_path, value):
    A = np.random.default_rng(0).random((300, 30))
    fa.build(A, tmp_path / "s", sidecars=()).close()
    manifest = read_manifest(tmp_path / "s")
    rewrite_array(tmp_path / "s", manifest["shards"][0]["data"], "data", np.array([value]))
    write_manifest(tmp_path / "s", manifest)
    with fa.open(tmp_path / "s") as S, pytest.raises(FastAnchorsError, match="not finite"):
        fa.FAS().seek(S, 3)


@pytest.mark.parametrize("name", ["l1_sums", "weights"])
def test_sums_of_other_entries_end_a_seek_with_our_error(tmp_path, name):
    """The largest distance was found nowhere, which was an AssertionError."""
    rng = np.random.default_rng(5)
    fa.build(rng.dirichlet(np.full(6, 0.5), 2800) @ rng.random((6, 24)), tmp_path / "s").close()
    manifest = read_manifest(tmp_path / "s")
    description = manifest["shards"][0]["data"]
    with fa.open(tmp_path / "s") as S:
        sums = S.l1_norm(np.arange(2800)) if name == "l1_sums" else S.squared_norms()
    sums[7] = 1e30
    rewrite_array(tmp_path / "s", description, name, sums)
    write_manifest(tmp_path / "s", manifest)
    with fa.open(tmp_path / "s") as S, pytest.raises(CorruptStoreError, match="sums"):
        fa.FAS(selection="spa").seek(S, 20)


@pytest.mark.parametrize("place", ["journal", "names", "shard"])
def test_a_file_name_that_cannot_be_encoded_is_refused(tmp_path, place):
    fa.build(np.eye(4), tmp_path / "s", column_names=list("abcd")).close()
    content = read_manifest(tmp_path / "s")
    where = {"journal": content, "names": content["names"], "shard": content["shards"][0]["data"]}[place]
    where["journal" if place == "journal" else "file"] = "\ud800"
    write_manifest(tmp_path / "s", content)
    for action in (fa.open, fa.verify):
        with pytest.raises(CorruptStoreError, match="not a manifest"):
            action(tmp_path / "s")


@pytest.mark.parametrize("kind", ["nested", "nan"])
def test_metadata_that_cannot_be_written_again_is_refused(tmp_path, kind):
    value = float("nan")
    if kind == "nested":
        value = 0
        for _ in range(900):
            value = [value]
    with pytest.raises(fa.errors.InvalidInputError, match="cannot be written as JSON"):
        fa.build(np.eye(4), tmp_path / "s", metadata={"a": value})
    fa.build(np.eye(4), tmp_path / "s").close()
    content = read_manifest(tmp_path / "s")
    content["metadata"] = {"a": value}
    write_manifest(tmp_path / "s", content)
    for action in (fa.open, fa.verify):
        with pytest.raises(CorruptStoreError):
            action(tmp_path / "s")


def test_numbers_that_json_does_not_have_are_refused(tmp_path):
    """Python reads NaN: the manifest passed, and every later commit raised a ValueError."""
    fa.build(np.random.default_rng(0).random((3000, 25)), tmp_path / "s").close()
    manifest = read_manifest(tmp_path / "s")
    manifest["extras"]["fas.whole"]["generation"] = float("nan")
    write_manifest(tmp_path / "s", manifest)
    with pytest.raises(CorruptStoreError, match="truncated or damaged"):
        fa.open(tmp_path / "s")
