"""Format version 1: the stored fixtures open, and ``docs/format.md`` suffices to read them without the library."""

from __future__ import annotations

import json
import shutil
import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

import fastanchors as fa

FIXTURE = Path(__file__).parent / "fixtures" / "store-v1"


@pytest.fixture
def expected():
    with np.load(FIXTURE / "expected.npz") as arrays:
        return dict(arrays)


@pytest.mark.parametrize("kind", ["sparse", "dense"])
def test_kept_stores_open(tmp_path, kind, expected):
    path = tmp_path / kind
    shutil.copytree(FIXTURE / kind, path)
    fa.verify(path)
    A = expected[kind]
    with fa.open(path) as S:
        assert (S.shape, S.dtype, S.is_sparse) == (A.shape, A.dtype, kind == "sparse")
        assert S.normalize == ("l1" if kind == "sparse" else None)
        np.testing.assert_array_equal(S.raw(*np.indices(A.shape)), A)
        view = A / np.maximum(A.sum(axis=1, keepdims=True), 1) if kind == "sparse" else A.astype(np.float64)
        np.testing.assert_allclose(S.row_norm(np.arange(len(A))), np.linalg.norm(view, axis=1), rtol=1e-12)
        np.testing.assert_allclose(S.column_norm(np.arange(A.shape[1])), np.linalg.norm(view, axis=0), rtol=1e-12)
        if kind == "sparse":
            assert S.row_names[46:53] == ["row 46 é", "row 47 é", "a", "b", "c", "51", "52"]
            assert S.column_names[-1] == "column 69"
    with fa.open(path, mode="r+") as S:  # and can be changed
        S[0, 0] = 3
        S.compact()
        assert S.raw(0, 0) == 3
        np.testing.assert_array_equal(S.raw(*np.indices(A.shape))[1:], A[1:])
    fa.verify(path)


# --- a reader after docs/format.md: the standard library and NumPy, nothing of fastanchors --------------------------


def read_manifest(folder):
    raw = (folder / "manifest.json").read_bytes()
    manifest = json.loads(raw)
    assert manifest["format"] == "fastanchors store"
    assert manifest["version"] == 1
    at = raw.rindex(manifest["crc32"].encode())
    assert int(manifest["crc32"], 16) == zlib.crc32(raw[:at] + b"00000000" + raw[at + 8 :])
    return manifest


def read_arrays(folder, description):
    raw = (folder / description["file"]).read_bytes()
    assert len(raw) == description["bytes"]
    entries = sorted(description["arrays"].values(), key=lambda entry: entry["offset"])
    ends = [entry["offset"] for entry in entries[1:]] + [len(raw)]
    for entry, end in zip(entries, ends, strict=True):
        assert entry["offset"] % 64 == 0
        assert zlib.crc32(raw[entry["offset"] : end]) == entry["crc32"]
    return {
        name: np.frombuffer(raw, entry["dtype"], int(np.prod(entry["shape"])), entry["offset"]).reshape(entry["shape"])
        for name, entry in description["arrays"].items()
    }


def read_shard(folder, manifest, shard):
    arrays = read_arrays(folder, shard["data"])
    if not manifest["sparse"]:
        return arrays["data"].reshape(shard["rows"], manifest["columns"]).copy()
    rows = np.zeros((shard["rows"], manifest["columns"]), manifest["dtype"])
    for i in range(shard["rows"]):
        segment = slice(arrays["indptr"][i], arrays["indptr"][i + 1])
        rows[i, arrays["indices"][segment]] = arrays["data"][segment]
    return rows


def read_records(folder, manifest):
    raw = (folder / manifest["journal"]).read_bytes()
    magic, version, generation, crc = struct.unpack("<8sIQI", raw[:24])
    assert (magic, version, generation, crc) == (b"FASTANCH", 1, manifest["generation"], zlib.crc32(raw[:20]))
    slots = [struct.unpack("<QQI", raw[at : at + 20]) for at in (32, 64)]
    assert all(slot[2] == zlib.crc32(raw[at : at + 16]) for slot, at in zip(slots, (32, 64), strict=True))
    at, number = 128, 0
    while at < len(raw):
        found, length, payload_crc, crc = struct.unpack("<QQII", raw[at : at + 24])
        payload = raw[at + 24 : at + 24 + length]
        assert (found, crc, payload_crc) == (number + 1, zlib.crc32(raw[at : at + 20]), zlib.crc32(payload))
        number, at = number + 1, at + 24 + length
        yield payload
    assert max(slots)[:2] == (number, at)


def apply(folder, manifest, rows, payload):
    at = 0
    while at < len(payload):
        kind, head_length, length = struct.unpack("<IIQ", payload[at : at + 16])
        head = json.loads(payload[at + 16 : at + 16 + head_length])
        body = payload[at + 16 + head_length : at + 16 + head_length + length]
        at += 16 + head_length + length
        if kind == 1:
            count = head["count"]
            i, j = (np.frombuffer(body, "<i8", count, 8 * count * part) for part in (0, 1))
            rows[i, j] = np.frombuffer(body, head["dtype"], count, 16 * count)
        elif kind == 2:
            (m, n), entries = head["shape"], head["entries"]
            if entries is None:
                new = np.frombuffer(body, head["dtype"]).reshape(m, n)
            else:
                indptr = np.frombuffer(body, "<i8", m + 1)
                indices = np.frombuffer(body, "<i8", entries, 8 * (m + 1))
                data = np.frombuffer(body, head["dtype"], entries, 8 * (m + 1 + entries))
                new = np.zeros((m, n), head["dtype"])
                new[np.repeat(np.arange(m), np.diff(indptr)), indices] = data
            rows = np.concatenate([rows, new])
        else:
            assert kind == 3
            rows = np.concatenate([rows, read_shard(folder, manifest, head)])
    return rows


@pytest.mark.parametrize("kind", ["sparse", "dense"])
def test_a_reader_after_the_documentation(kind, expected):
    folder = FIXTURE / kind
    manifest = read_manifest(folder)
    rows = np.concatenate([read_shard(folder, manifest, shard) for shard in manifest["shards"]])
    assert rows.shape == (manifest["rows"], manifest["columns"])
    for payload in read_records(folder, manifest):
        rows = apply(folder, manifest, rows, payload)
    assert rows.dtype == expected[kind].dtype
    np.testing.assert_array_equal(rows, expected[kind])


def tree(terms):
    """The nodes of a tree over ``terms`` as documented, level by level, and its sum."""
    if len(terms) <= 32:
        return [], left_to_right(terms)
    level = [left_to_right(terms[k : k + 32]) for k in range(0, len(terms), 32)]
    nodes = list(level)
    while len(level) > 16:
        level = [left_to_right(level[k : k + 16]) for k in range(0, len(level), 16)]
        nodes += level
    return nodes, left_to_right(level)


def left_to_right(terms):
    total = 0.0
    for term in terms:
        total += float(term)
    return total


def test_trees_are_as_documented(tmp_path):
    rng = np.random.default_rng(0)
    A = rng.random((3, 1200))
    A[1, 7:] = 0
    for name, matrix in (("dense", A), ("sparse", sp.csr_array(A))):
        path = tmp_path / name
        fa.build(matrix, path, sidecars=()).close()
        manifest = read_manifest(path)
        arrays = read_arrays(path, manifest["shards"][0]["data"])
        used = np.zeros(arrays["row_nodes"].size, bool)
        for i in range(3):
            p = int(arrays["indptr"][i]) if name == "sparse" else 1200 * i
            length = int(arrays["indptr"][i + 1]) - p if name == "sparse" else 1200
            row = arrays["data"][p : p + length]
            for terms, kept, sums in ((row * row, "row_nodes", "row_sums"), (abs(row), "l1_nodes", "l1_sums")):
                nodes, total = tree(terms)
                assert arrays[kept][p >> 4 : (p >> 4) + len(nodes)].tolist() == nodes
                assert arrays[sums][i] == total
                used[p >> 4 : (p >> 4) + len(nodes)] = True
        assert not arrays["row_nodes"][~used].any()
        np.testing.assert_array_equal(arrays["scale"], 1 / arrays["l1_sums"])
