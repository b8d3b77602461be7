"""A connected store whose files are replaced: it keeps what it has mapped, and opens no files of another state."""

from __future__ import annotations

import copy
from dataclasses import replace

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal

import fastanchors as fa
from fastanchors.store import listed

REPLACED = "was replaced or compacted since it was connected to: .* is not the file that it had then; connect to it"


@pytest.fixture(autouse=True)
def synchronous():
    with dask.config.set(scheduler="synchronous"):
        yield


def matrix(seed):
    return np.random.default_rng(seed).random((9000, 8))  # large enough for an index


def named(A, what):
    return pd.DataFrame(A, index=[f"{what}{i:04d}" for i in range(len(A))], columns=list("abcdefgh"))


def another_holder(S):
    """What another worker makes if that of the first part is lost."""
    described, _ = copy.deepcopy(S._parts._handles[0]._holding)
    return described.open()


def test_rows_of_a_store_that_was_built_again_do_not_mix_with_the_old_ones(tmp_path):
    """Files were opened by path, whatever they were: a new store of the same layout has files of the same names."""
    old, new = matrix(0), matrix(1)
    fa.build(dd.from_pandas(named(old, "a"), npartitions=3), tmp_path / "s", normalize=None).close()
    S = fa.dask.connect(tmp_path / "s")
    rows = S.to_dask()
    fa.build(dd.from_pandas(named(new, "b"), npartitions=3), tmp_path / "s", normalize=None, overwrite=True).close()
    assert_array_equal(S.rows(np.arange(9000)), old)
    assert S.row_names[:2] == ["a0000", "a0001"]
    for selection in ("auto", "spa"):
        solver = fa.FAS(selection=selection)
        assert solver.seek(S, 5).indices.tolist() == solver.seek(old, 5).indices.tolist()
    for read in (
        rows.compute,
        S.to_dask().compute,
        fa.encode(rows, old[:3]).compute,
        lambda: another_holder(S).rows([0]),
        lambda: another_holder(S).names_of(np.arange(2)),
    ):
        with pytest.raises(fa.errors.StoreError, match=REPLACED):
            read()
    assert_array_equal(fa.dask.connect(tmp_path / "s").to_dask().compute(), new)


def test_a_shard_of_another_length_is_not_called_damaged(tmp_path):
    fa.build(matrix(0), tmp_path / "s").close()
    rows = fa.dask.connect(tmp_path / "s").to_dask()
    fa.build(matrix(1)[:100], tmp_path / "s", overwrite=True).close()
    with pytest.raises(fa.errors.StoreError, match=REPLACED) as caught:
        rows.compute()
    assert not isinstance(caught.value, fa.errors.CorruptStoreError)


def test_files_that_a_later_state_still_has_are_read(tmp_path, monkeypatch):
    """And the manifest, which is large if there are many shards, is read once for all of them."""
    A, reads, read = matrix(0), [], listed._read
    monkeypatch.setattr(listed, "_read", lambda folder: reads.append(folder) or read(folder))
    fa.build(da.from_array(A, chunks=(3000, 8)), tmp_path / "s", normalize=None).close()
    S = fa.dask.connect(tmp_path / "s")
    assert len(reads) == 1
    assert len(S.manifest.shards) == 3
    replace(S.manifest, generation=7).write(tmp_path / "s")
    assert_array_equal(S.to_dask().compute(), A)
    assert len(reads) == 2
    replace(S.manifest, shards=S.manifest.shards[:2]).write(tmp_path / "s")
    with pytest.raises(fa.errors.StoreError, match=REPLACED):
        S.to_dask()[6000:].compute()
    assert_array_equal(S.rows(np.arange(9000)), A)


def test_a_symbolic_link_is_followed_once(tmp_path):
    """The link was followed at each access, so that a connected store opened the files of another one."""
    for number in (0, 1):
        fa.build(matrix(number)[:50], tmp_path / f"s{number}", normalize=None).close()
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "s0")
    S = fa.dask.connect(link)
    link.unlink()
    link.symlink_to(tmp_path / "s1")
    assert str(S.storage) == str(tmp_path.resolve() / "s0")
    assert_array_equal(another_holder(S).rows(np.arange(50)), matrix(0)[:50])
    assert_array_equal(S.to_dask().compute(), matrix(0)[:50])
