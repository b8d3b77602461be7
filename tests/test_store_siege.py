"""Forged stores with right checksums: used or refused with one error; ``benchmarks/siege_store.py`` has more."""

from __future__ import annotations

import json
import zlib

import numpy as np
import pytest
import scipy.sparse as sp

import fastanchors as fa
import fastanchors.store.store as store_module
from fastanchors._validate import csr_of
from fastanchors.errors import CorruptStoreError, InvalidInputError
from fastanchors.greedy.noise import Noise
from fastanchors.store.manifest import _stamp
from forgeries import KINDS, Sample, forge, make, use

EACH = 40


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # from NaN sums
@pytest.mark.filterwarnings("ignore:committed, but not:UserWarning")  # a compaction or a sidecar finds the forgery
@pytest.mark.parametrize("kind", KINDS)
def test_forged_stores_are_used_or_refused(tmp_path, monkeypatch, kind):
    monkeypatch.setattr(store_module, "_ATTEMPTS", 2)
    make(tmp_path / "s", kind)
    sample = Sample(tmp_path / "s")
    said = use(sample.path, 0)
    missing = {"draw columns", "column norms"} if "rows only" in kind else {"seek by noise"} if "raw" in kind else set()
    assert set(said) == {"draw in an empty row"} | missing
    refused = 0
    for seed in range(EACH):
        sample.restore()
        forge(sample, np.random.default_rng([7, seed]))
        refused += "verify" in use(sample.path, seed)
    assert refused > EACH // 2


ARRAYS = {
    "a row that ends before it begins": ("indptr", 5, -7),
    "a row beyond the end": ("indptr", 90, 2**31 - 1),
    "a column beyond the last": ("indices", 3, 10**8),
    "a negative column": ("indices", 3, -5),
    "a row number in the columns beyond the last": ("column_indices", 3, 10**8),
    "columns that end elsewhere": ("column_indptr", 20, 2**31 - 1),
    "more non-zeros than entries": ("counters", 0, 2**40),
    "rows that have drifted": ("counters", 1, 10**9),
}


@pytest.mark.parametrize("what", ARRAYS)
def test_out_of_range_indices_are_refused_when_used(tmp_path, what):
    """No kernel uses them: reading, drawing, writing and compaction raise, as verify does."""
    path = tmp_path / "s"
    rng = np.random.default_rng(0)
    fa.build(sp.csr_array(rng.integers(1, 5, (90, 40)).astype(float)), path, sidecars=()).close()
    name, at, value = ARRAYS[what]
    forge_array(path, name, at, value)
    with pytest.raises(CorruptStoreError):
        fa.verify(path)
    i, j = np.indices((90, 40))

    def uses():
        yield lambda S: S.rows(np.arange(90))
        yield lambda S: S.sample_in_row(np.arange(90), 40, rng=0)
        yield lambda S: S.sample_in_column(np.arange(40), 90, rng=0)
        yield lambda S: S.update(i.ravel(), j.ravel(), np.full(3600, 2))
        yield lambda S: (S.update([0], [0], [3]), S.compact())

    refused = 0
    for use_it in uses():
        try:
            with fa.open(path, mode="r+") as S:
                use_it(S)
                S.close(commit=False)
        except CorruptStoreError:
            refused += 1
    assert refused


@pytest.mark.parametrize("name", ["row_nodes", "l1_nodes", "column_nodes"])
def test_missing_trees_are_detected(tmp_path, name):
    """A file may omit trees that are not needed; rows and columns of this length need theirs."""
    path = tmp_path / "s"
    fa.build(sp.csr_array(np.random.default_rng(0).random((90, 40))), path, sidecars=()).close()
    forge_array(path, name, None, None)
    with pytest.raises(CorruptStoreError, match=r"the trees of the (rows|columns) are missing"):
        fa.verify(path)
    with fa.open(path, mode="r+") as S:
        S.sample_in_row(np.arange(90), rng=0)
        S.update(np.arange(40), np.arange(40), np.ones(40))
        with pytest.raises(CorruptStoreError):
            S.check()
        S.close(commit=False)


def forge_array(path, name, at, value):
    """Change a number of an array of the first shard (None: leave the array out), with right checksums."""
    manifest = json.loads((path / "manifest.json").read_bytes())
    description = manifest["shards"][0]["data"]
    raw = bytearray((path / description["file"]).read_bytes())
    entry = description["arrays"][name]
    if at is None:
        del description["arrays"][name]
    else:
        np.frombuffer(raw, entry["dtype"], entry["shape"][0], entry["offset"])[at] = value
    (path / description["file"]).write_bytes(raw)
    entries = sorted(description["arrays"].values(), key=lambda entry: entry["offset"])
    for entry, end in zip(entries, [e["offset"] for e in entries[1:]] + [len(raw)], strict=True):
        entry["crc32"] = zlib.crc32(raw[entry["offset"] : end])
    manifest["crc32"] = "0" * 8
    (path / "manifest.json").write_text(_stamp((json.dumps(manifest, indent=1) + "\n").encode()))


def test_a_journal_with_rows_beyond_all_integers():
    empty, pointers = np.empty(0), np.zeros(2, np.int64)
    with pytest.raises(InvalidInputError, match="damaged"):
        csr_of((empty, empty.astype(np.int64), pointers), (1, 2**63))


def test_noise_that_is_not_finite():
    """Coordinates of a forged store can be NaN."""
    with pytest.raises(InvalidInputError, match="not finite"):
        Noise(np.full(3, np.nan), np.nan, np.nan, True).neighbours(100, 3)
