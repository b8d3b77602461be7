"""Sources given by address and read through fsspec: the same blocks as from local files."""

from __future__ import annotations

import gzip
import io
import json
from typing import ClassVar

import fsspec
import numpy as np
import pandas as pd
import pytest
import scipy.io
import scipy.sparse as sp
from click.testing import CliRunner
from fsspec.implementations.memory import MemoryFileSystem
from fsspec.spec import AbstractBufferedFile

import fastanchors as fa
from fastanchors.cli.app import app
from fastanchors.io import open_source
from fastanchors.io.addresses import path_of


@pytest.fixture
def put():
    """Write bytes to the file system in memory and return their address; it is emptied afterwards."""
    memory = fsspec.filesystem("memory")
    memory.store.clear()

    def put(name, content):
        with memory.open(f"/data/{name}", "wb") as file:
            file.write(content)
        return f"memory://data/{name}"

    yield put
    memory.store.clear()


class Ranges(AbstractBufferedFile):
    """A file read by ranges of bytes, as those of object storage: its ``readline`` takes no limit."""

    def _fetch_range(self, start, end):
        return self.fs.cat_file(self.path, start, end)


class InRanges(MemoryFileSystem):
    """The file system in memory, with such files."""

    protocol = "ranges"
    store: ClassVar = MemoryFileSystem.store

    @classmethod
    def _strip_protocol(cls, path):
        return super()._strip_protocol(path.replace("ranges://", "memory://"))

    def _open(self, path, mode="rb", **options):
        return Ranges(self, path, mode, block_size=1000)


fsspec.register_implementation("ranges", InRanges)


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


@pytest.mark.parametrize("system", ["memory", "ranges"])
@pytest.mark.parametrize("name", FORMATS)
def test_formats_are_streamed(name, system, put):
    expected, write = FORMATS[name]
    source = open_source(put(name, written(write)).replace("memory", system))
    blocks = list(source.blocks(300))
    assert len(blocks) > 1
    assert source.name == f"{system}://data/{name}"
    found = sp.vstack(blocks).toarray() if source.is_sparse else np.concatenate(blocks)
    np.testing.assert_array_equal(found, expected.toarray() if sp.issparse(expected) else expected)


def test_build_and_seek_by_address(put, tmp_path):
    address = put("a.npy", written(lambda f: np.save(f, A)))
    S = fa.build(address, tmp_path / "s", normalize=None)
    np.testing.assert_array_equal(S.rows(np.arange(60)), A)
    assert fa.FAS(selection="spa").seek(address, 4).indices.tolist() == fa.SPA().seek(A, 4).indices.tolist()


def test_names_that_are_too_long_are_refused_as_in_a_path(tmp_path):
    address = f"file://{tmp_path}/{'a' * 300}.npy"
    for door in (fa.open_matrix, fa.open, fa.verify, lambda path: fa.build(A, path)):
        with pytest.raises(fa.errors.StoreError, match="is longer than a path or a name may be here"):
            door(address)
    np.save(tmp_path / ("é" * 100 + ".npy"), A)  # too long as it is written in the address
    assert fa.open_matrix(f"file://{tmp_path}/{'%C3%A9' * 100}.npy").shape == A.shape


def test_local_files_by_address_are_local(tmp_path):
    np.save(tmp_path / "a.npy", A)
    source = open_source(f"file://{tmp_path}/a.npy")
    assert source.name == str(tmp_path / "a.npy")
    np.testing.assert_array_equal(np.concatenate(list(source.blocks())), A)


def test_unreadable_addresses_raise(put):
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


def test_bags_of_words_have_their_vocabulary(put):
    put("docword.txt", b"3\n4\n4\n1 1 2\n1 2 1\n2 3 1\n3 4 5\n")
    plain = open_source("memory://data/docword.txt")
    assert plain.shape == (3, 4)
    assert plain.column_names is None
    put("vocab.txt", b"a\nb\nc\nd\n")
    assert list(open_source("memory://data/docword.txt").column_names) == ["a", "b", "c", "d"]
    put("x.ldac", b"2 0:1 3:2\n1 1:4\n")
    found = open_source("memory://data/x.ldac", row_names=put("rows.txt", b"one\ntwo\n"))
    assert list(found.column_names) == ["a", "b", "c", "d"]
    np.testing.assert_array_equal(sp.vstack(list(found.blocks())).toarray(), [[1, 0, 0, 2], [0, 4, 0, 0]])
    assert list(found.row_names) == ["one", "two"]
    named = open_source("memory://data/x.ldac", vocab=put("words.txt", b"w\nx\ny\nz\n"))
    assert list(named.column_names) == ["w", "x", "y", "z"]
    with pytest.raises(fa.errors.StoreError, match=r"names from memory://data/none\.txt"):
        open_source("memory://data/x.ldac", row_names="memory://data/none.txt")
    with pytest.raises(fa.errors.StoreError, match="is a directory"):
        open_source("memory://data")


def test_addresses_may_be_written_in_several_ways(put, tmp_path):
    put("a.npy", written(lambda f: np.save(f, A)))
    np.testing.assert_array_equal(np.concatenate(list(open_source("MEMORY://data/a.npy").blocks())), A)
    np.save(tmp_path / "with space.npy", A)
    for address in (f"file://{tmp_path}/with%20space.npy", f"FILE://{tmp_path}/with space.npy"):
        assert open_source(address).shape == A.shape


def test_a_store_is_a_directory_or_an_address_of_one(put, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    address = f"file://{tmp_path}/s"
    fa.build(A, address).close()
    assert (tmp_path / "s" / "manifest.json").exists()
    fa.verify(address)
    assert fa.open(address).shape == fa.dask.connect(address).shape == A.shape
    assert fa.SeparableNMF(2).fit(address).components_.shape == (2, 7)
    for door in (fa.open, fa.verify, fa.dask.connect):
        with pytest.raises(fa.errors.StoreError, match=r"memory://data/s .*is not a store"):
            door("memory://data/s")
    fitted = fa.SeparableNMF(2).fit(put("a.npy", written(lambda f: np.save(f, A))))
    np.testing.assert_array_equal(fitted.components_, fa.SeparableNMF(2).fit(A).components_)
    assert [path.name for path in tmp_path.iterdir()] == ["s"]


def test_addresses_on_the_command_line(put, tmp_path):
    address = put("a.npy", written(lambda f: np.save(f, A)))
    names = put("rows.txt", "\n".join(f"r{i}" for i in range(60)).encode())

    def run(*arguments):
        return CliRunner().invoke(app, list(arguments))

    store = f"file://{tmp_path}/s"
    assert run("build", address, store, "--row-names", names).exit_code == 0
    assert list(fa.open(tmp_path / "s").row_names[:2]) == ["r0", "r1"]
    sought = [run("seek", source, "-k", "3", "--json") for source in (address, store)]
    assert [each.exception for each in sought] == [None, None]
    one, other = (json.loads(each.stdout) for each in sought)
    assert one["anchors"] == other["anchors"]
    assert one["source"] == address
    assert run("build", address, "memory://data/s").exit_code == 0
    assert json.loads(run("seek", "memory://data/s", "-k", "3", "--json").stdout)["anchors"] == one["anchors"]
    again = run("build", address, "memory://data/s")
    assert again.exit_code == 1
    assert "exists already" in str(again.exception)
    assert "gcsfs" in str(run("build", "gs://bucket/x.npy", str(tmp_path / "t")).exception)


@pytest.mark.parametrize(
    ("question", "asked"), [("exists", "exists"), ("isdir", "is_dir"), ("isfile", "is_file"), ("size", "stat")]
)
def test_what_a_file_system_raises_about_an_address_is_one_error(monkeypatch, question, asked):
    """A bucket name that S3 refuses raised an error of its package."""

    def refuse(*_, **__):
        raise ValueError("not a name\nof a bucket")

    monkeypatch.setattr(type(fsspec.filesystem("memory")), question, refuse)
    with pytest.raises(fa.errors.StoreError, match=r"^cannot read memory://a\.csv: not a name of a bucket$"):
        getattr(path_of("memory://a.csv"), asked)()


def test_applications_read_local_files_by_their_addresses(tmp_path):
    np.save(tmp_path / "a scene.npy", np.ones((6, 5, 30)))
    (tmp_path / "texts.txt").write_text("cats purr\ndogs bark\ncats and dogs\n")
    (tmp_path / "ratings.csv").write_text("ann,tea,3\nbob,milk,4\n")
    cube = fa.apps.read_cube(f"file://{tmp_path}/a%20scene.npy", bands="last")
    assert cube.shape == (6, 5)
    assert fa.apps.read_corpus(f"file://{tmp_path}/texts.txt", min_df=1).counts.shape == (3, 4)
    assert fa.apps.read_ratings(f"file://{tmp_path}/ratings.csv").A.shape == (2, 2)
    for read in (fa.apps.read_cube, fa.apps.read_corpus, fa.apps.read_ratings):
        with pytest.raises(fa.errors.StoreError, match="needs a file or a store on this machine"):
            read("s3://bucket/x.npy")
