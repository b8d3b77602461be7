"""Sources by their address, read through fsspec: the same blocks as from local files."""

from __future__ import annotations

import gzip
import io

import fsspec
import numpy as np
import pandas as pd
import pytest
import scipy.io
import scipy.sparse as sp

import fastanchors as fa
from fastanchors.io import open_source


@pytest.fixture
def put():
    """Puts bytes into memory's file system and returns their address; it is empty again afterwards."""
    memory = fsspec.filesystem("memory")
    memory.store.clear()

    def put(name, content):
        with memory.open(f"/data/{name}", "wb") as file:
            file.write(content)
        return f"memory://data/{name}"

    yield put
    memory.store.clear()


def written(write):
    buffer = io.BytesIO()
    write(buffer)
    return buffer.getvalue()


A = np.random.default_rng(0).random((60, 7)).round(3)
B = sp.csr_array(A * (A > 0.5))
FORMATS = {
    "c.npy": (A, lambda f: np.save(f, A)),
    "fortran.npy": (A, lambda f: np.save(f, np.asfortranarray(A))),
    "dense.npz": (A, lambda f: np.savez_compressed(f, A)),
    "sparse.npz": (B, lambda f: sp.save_npz(f, sp.csr_matrix(B))),
    "dia.npz": (B, lambda f: sp.save_npz(f, sp.dia_matrix(B))),
    "table.csv": (A, lambda f: pd.DataFrame(A).to_csv(f, index=False, header=False)),
    "table.csv.gz": (A, lambda f: f.write(gzip.compress(pd.DataFrame(A).to_csv(index=False, header=False).encode()))),
    "table.parquet": (A, lambda f: pd.DataFrame(A, columns=list("abcdefg")).to_parquet(f)),
    "sparse.mtx": (B, lambda f: scipy.io.mmwrite(f, sp.coo_matrix(B))),
    "no_suffix": (A, lambda f: np.save(f, A)),
}


@pytest.mark.parametrize("name", FORMATS)
def test_formats_are_streamed(name, put):
    expected, write = FORMATS[name]
    source = open_source(put(name, written(write)))
    blocks = list(source.blocks(800))
    assert len(blocks) > 1
    assert source.name == f"memory://data/{name}"
    found = sp.vstack(blocks).toarray() if source.is_sparse else np.concatenate(blocks)
    np.testing.assert_array_equal(found, expected.toarray() if sp.issparse(expected) else expected)


def test_build_and_seek_by_address(put, tmp_path):
    address = put("a.npy", written(lambda f: np.save(f, A)))
    S = fa.build(address, tmp_path / "s", normalize=None)
    np.testing.assert_array_equal(S.rows(np.arange(60)), A)
    assert fa.FAS().seek(address, 4).indices.tolist() == fa.SPA().seek(A, 4).indices.tolist()


def test_local_files_by_address_are_local(tmp_path):
    np.save(tmp_path / "a.npy", A)
    source = open_source(f"file://{tmp_path}/a.npy")
    assert source.name == str(tmp_path / "a.npy")
    np.testing.assert_array_equal(np.concatenate(list(source.blocks())), A)


def test_what_cannot_be_read_is_said(put):
    with pytest.raises(fa.errors.StoreError, match=r"memory://data/none\.npy does not exist"):
        open_source("memory://data/none.npy")
    with pytest.raises(fa.errors.StoreError, match="local files only"):
        open_source(put("x.h5ad", b"\x89HDF"))
    with pytest.raises(fa.errors.StoreError, match="cannot read nowhere"):
        open_source("nowhere://x.npy")
    whole = written(lambda f: np.save(f, A))
    with pytest.raises(fa.errors.StoreError, match="truncated"):
        list(open_source(put("cut.npy", whole[:-100])).blocks(800))
    with pytest.raises(fa.errors.StoreError, match=r"cannot read memory://data/bad\.npy"):
        open_source(put("bad.npy", b"nothing"))
    with pytest.raises(fa.errors.InvalidInputError, match="two-dimensional"):
        open_source(put("flat.npy", written(lambda f: np.save(f, A[0]))))
