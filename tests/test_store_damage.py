"""Damage: every flipped bit is found or harmless; truncated, foreign and newer directories raise clear errors."""

from __future__ import annotations

import json
import shutil
import zlib

import numpy as np
import pytest
import scipy.sparse as sp

import fastanchors as fa
import fastanchors.store.store as store_module
from fastanchors.errors import CorruptStoreError, FastAnchorsError, StoreError

FLIPS = 150  # per store; ``benchmarks/flips.py`` does thousands


def make(path, *, sparse):
    """A store with every kind of file and record: shards, names, a journal with updates and both ways of appending."""
    rng = np.random.default_rng(0)
    A = rng.integers(0, 9, (50, 40)) * (rng.random((50, 40)) < 0.5)
    names = {"row_names": [f"r{i}" for i in range(50)], "column_names": [f"c{j}" for j in range(40)]}
    inline, store_module._INLINE_ROWS = store_module._INLINE_ROWS, 1 << 14
    try:
        with fa.build(sp.csr_array(A) if sparse else A, path, **names) as S:
            S.update([1, 2, 3], [4, 5, 6], [7, 8, 9])
            S.append(A[:2])
            S.commit()
            S.append(np.tile(A, (4, 1)))
            S.commit()
    finally:
        store_module._INLINE_ROWS = inline


def contents(path):
    with fa.open(path) as S:
        i, j = np.indices(S.shape)
        return S.raw(i, j), list(S.row_names), list(S.column_names)


@pytest.mark.parametrize("sparse", [True, False])
def test_every_flipped_bit_is_found_or_harmless(tmp_path, sparse):
    path = tmp_path / "s"
    make(path, sparse=sparse)
    expected = contents(path)
    fa.verify(path)
    files = [file for file in sorted(path.iterdir()) if file.stat().st_size]
    assert len(files) == 6  # manifest, journal, two shards, column names, a sidecar
    rng = np.random.default_rng(1)
    for number in range(FLIPS):
        file = files[number % len(files)]
        whole = file.read_bytes()
        damaged = bytearray(whole)
        damaged[rng.integers(len(whole))] ^= 1 << rng.integers(8)
        file.write_bytes(damaged)
        try:
            fa.verify(path)
            message = None
        except FastAnchorsError as error:
            message = str(error)
        if message is None:
            got = contents(path)
            assert np.array_equal(got[0], expected[0])
            assert got[1:] == expected[1:]
        else:
            assert str(path) in message
        file.write_bytes(whole)
    fa.verify(path)


@pytest.mark.parametrize("sparse", [True, False])
def test_truncated_files(tmp_path, sparse):
    path = tmp_path / "s"
    make(path, sparse=sparse)
    for file in sorted(path.iterdir()):
        whole = file.read_bytes()
        for keep in {0, len(whole) // 2, len(whole) - 1} if whole else ():
            file.write_bytes(whole[:keep])
            with pytest.raises(StoreError, match=file.name if file.name != "manifest.json" else "manifest.json|store"):
                fa.verify(path)
        file.write_bytes(whole)
        if file.name != "lock":
            file.rename(tmp_path / "away")
            with pytest.raises(StoreError, match=file.name):
                fa.open(path)
            (tmp_path / "away").rename(file)
    fa.verify(path)


def test_foreign_and_newer_directories(tmp_path):
    with pytest.raises(StoreError, match="does not exist; build a store"):
        fa.open(tmp_path / "nothing")
    (tmp_path / "file").write_text("x")
    with pytest.raises(StoreError, match="is a file, not a store"):
        fa.open(tmp_path / "file")
    (tmp_path / "other").mkdir()
    with pytest.raises(StoreError, match=r"is not a store: it has no manifest\.json"):
        fa.open(tmp_path / "other", mode="r+")
    assert list((tmp_path / "other").iterdir()) == []
    for text in ('{"name": "some web app"}', "[1, 2]", "rubbish"):
        (tmp_path / "other" / "manifest.json").write_text(text)
        with pytest.raises(StoreError, match="belongs to something else"):
            fa.open(tmp_path / "other")
    make(tmp_path / "s", sparse=True)
    manifest = tmp_path / "s" / "manifest.json"
    content = json.loads(manifest.read_text())
    content.update(version=2, crc32="00000000")
    raw = (json.dumps(content, indent=1) + "\n").encode()
    manifest.write_bytes(raw.replace(b'"crc32": "00000000"', f'"crc32": "{zlib.crc32(raw):08x}"'.encode()))
    with pytest.raises(StoreError, match="format version 2, this release reads up to 1; upgrade"):
        fa.open(tmp_path / "s")


def test_files_of_another_store(tmp_path):
    make(tmp_path / "a", sparse=True)
    make(tmp_path / "b", sparse=True)
    with fa.open(tmp_path / "b", mode="r+") as S:
        S.compact()
    shutil.copy(tmp_path / "b" / "journal-000002.log", tmp_path / "a" / "journal-000001.log")
    with pytest.raises(CorruptStoreError, match="belongs to generation 2"):
        fa.open(tmp_path / "a")


def test_a_wrong_tree_is_found_even_with_a_right_checksum(tmp_path):
    """As from a faulty writer: sums that do not match their entries."""
    from fastanchors.store.arrays_file import map_arrays, write_arrays
    from fastanchors.store.manifest import Manifest

    path = tmp_path / "s"
    make(path, sparse=False)
    manifest = Manifest.read(path)
    arrays = map_arrays(path, manifest.shards[0].data)
    arrays["row_sums"][3] *= 1.0000001
    (path / "shard-000000.bin").unlink()
    manifest.shards[0].data = write_arrays(path / "shard-000000.bin", {name: a.copy() for name, a in arrays.items()})
    manifest.write(path)
    with pytest.raises(CorruptStoreError, match=r"shard-000000\.bin: the sums of the rows differ"):
        fa.verify(path)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("indices", 10**6, "rows are not a valid sparse matrix"),
        ("indices", -1, "rows are not a valid sparse matrix"),
        ("indptr", 10**6, "rows are not a valid sparse matrix"),
        ("column_indices", 10**6, "columns are not a valid sparse matrix"),
        ("row_nodes", None, "trees of the rows are missing"),
        ("column_nodes", None, "trees of the columns are missing"),
    ],
)
def test_invalid_segments_are_found_even_with_a_right_checksum(tmp_path, name, value, message):
    from fastanchors.store.arrays_file import map_arrays, write_arrays
    from fastanchors.store.manifest import Manifest

    path = tmp_path / "s"
    fa.build(sp.csr_array(np.arange(1.0, 1 + 50 * 40).reshape(50, 40)), path).close()
    manifest = Manifest.read(path)
    arrays = {key: array.copy() for key, array in map_arrays(path, manifest.shards[0].data).items()}
    if value is None:
        arrays[name] = arrays[name][:0]
    else:
        arrays[name][3] = value
    (path / "shard-000000.bin").unlink()
    manifest.shards[0].data = write_arrays(path / "shard-000000.bin", arrays)
    manifest.write(path)
    with pytest.raises(CorruptStoreError, match=rf"shard-000000\.bin: the {message}"):
        fa.verify(path)
