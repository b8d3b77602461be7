"""Every entry point takes every kind of source, and the same data gives the same anchors through all of them."""

from __future__ import annotations

import functools
import json

import dask.array as da
import dask.dataframe as dd
import fsspec
import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.io
import scipy.sparse as sp
from click.testing import CliRunner

import fastanchors as fa
from fastanchors.cli.app import app
from fastanchors.errors import InvalidInputError, InvalidTypeError, TooLargeError

K = 4
ROWS = [f"row {i}" for i in range(40)]
COLUMNS = [f"column {j}" for j in range(9)]


@pytest.fixture(scope="module")
def table() -> np.ndarray:
    """Counts with four anchors; no zero rows, and no entry that a text file would round."""
    rng = np.random.default_rng(0)
    anchors = np.floor(rng.random((K, 9)) ** 2 * 1000) + 1
    weights = np.vstack([np.eye(K), np.round(rng.dirichlet(np.ones(K), 36) * 64) / 64])
    return np.floor(64 * weights @ anchors)[rng.permutation(40)]


def in_memory(A, folder):
    anndata = pytest.importorskip("anndata", reason="AnnData is optional")
    return anndata.AnnData(A.copy(), pd.DataFrame(index=ROWS), pd.DataFrame(index=COLUMNS))


def backed(A, folder):
    in_memory(A, folder).write_h5ad(folder / "backed.h5ad")
    import anndata

    return anndata.read_h5ad(folder / "backed.h5ad", backed="r")


def saved(name, write):
    """A source that is the path of a file."""

    def make(A, folder):
        write(folder / name, A)
        return folder / name

    return make


def in_storage(A, folder):
    """An address of an fsspec file system that is not the disk."""
    with fsspec.open("memory://doors/a.csv", "w") as file:
        pd.DataFrame(A, columns=COLUMNS).to_csv(file, index=False)
    return "memory://doors/a.csv"


def store(A, folder, name="a.store"):
    fa.build(A, folder / name, normalize=None).close()
    return folder / name


SOURCES = {
    "array": lambda A, folder: A,
    "array of integers": lambda A, folder: A.astype(np.int64),
    "list": lambda A, folder: A.tolist(),
    "csr": lambda A, folder: sp.csr_array(A),
    "coo": lambda A, folder: sp.coo_array(A),
    "pandas": lambda A, folder: pd.DataFrame(A, ROWS, COLUMNS),
    "pandas nullable": lambda A, folder: pd.DataFrame(A, columns=COLUMNS).convert_dtypes(),
    "polars": lambda A, folder: pl.DataFrame(A, schema=COLUMNS),
    "anndata": in_memory,
    "anndata backed": backed,
    "sample matrix": lambda A, folder: fa.SampleMatrix(A, normalize=None),
    "open store": lambda A, folder: fa.open(store(A, folder, "b.store")),
    "store": store,
    "npy": saved("a.npy", np.save),
    "csv": saved("a.csv", lambda path, A: pd.DataFrame(A, ROWS, COLUMNS).to_csv(path)),
    "parquet": saved("a.parquet", lambda path, A: pd.DataFrame(A, columns=COLUMNS).to_parquet(path)),
    "mtx": saved("a.mtx", lambda path, A: scipy.io.mmwrite(path, sp.coo_array(A))),
    "npz": saved("a.npz", lambda path, A: sp.save_npz(path, sp.csr_array(A))),
    "reader": lambda A, folder: fa.io.open_source(saved("b.npy", np.save)(A, folder)),
    "address": in_storage,
    "dask array": lambda A, folder: da.from_array(A, chunks=(11, -1)),
    "dask frame": lambda A, folder: dd.from_pandas(pd.DataFrame(A, columns=COLUMNS), npartitions=3),
}
ON_DISK = ["store", "npy", "csv", "parquet", "mtx", "npz", "anndata backed"]


def computed(result):
    return np.asarray(result.compute() if isinstance(result, da.Array) else result)


DOORS = {
    **{name: lambda X, name=name: fa.solvers.get(name).seek(X, K, rng=0).indices for name in fa.solvers.SOLVERS},
    "paper": lambda X: fa.FAS(variant="paper").seek(X, K, rng=0).indices,
    "robust": lambda X: fa.SPA(robust="average").seek(X, K).indices,
    "rank_curve": lambda X: np.append(fa.rank_curve(X, 6, rng=0).anchors, fa.rank_curve(X, 6, rng=0).k),
    "representatives": lambda X: fa.apps.representatives(X, K).indices,
    "build": lambda X, folder: _built(X, folder),
}


def _built(X, folder):
    with fa.build(X, folder / "built.store", normalize=None) as S:
        return fa.SPA().seek(S, K).indices


@pytest.fixture(scope="module")
def source_of(table, tmp_path_factory):
    """The table as a source of some kind, made once."""
    folder = tmp_path_factory.mktemp("sources")
    return functools.cache(lambda kind: SOURCES[kind](table, folder))


@pytest.fixture(scope="module")
def expected(table, tmp_path_factory):
    return {name: through(name, table, tmp_path_factory.mktemp("array")) for name in DOORS}


def through(door, source, folder):
    return (DOORS[door](source, folder) if door == "build" else DOORS[door](source)).tolist()


@pytest.mark.parametrize("kind", SOURCES)
@pytest.mark.parametrize("door", DOORS)
def test_every_door_takes_every_source(door, kind, source_of, expected, tmp_path):
    if door == "qdca":
        pytest.importorskip("pennylane")
    assert through(door, source_of(kind), tmp_path) == expected[door]


@pytest.mark.parametrize("kind", SOURCES)
def test_the_estimator_and_encode_take_every_source(kind, table, source_of):
    source = source_of(kind)
    want = fa.SeparableNMF(K, normalize=None, random_state=0).fit(table)
    got = fa.SeparableNMF(K, normalize=None, random_state=0).fit(source)
    assert got.anchors_.tolist() == want.anchors_.tolist()
    np.testing.assert_allclose(computed(got.transform(source)), want.transform(table), atol=1e-9)
    np.testing.assert_allclose(computed(fa.encode(source, got.result_)), fa.encode(table, want.result_), atol=1e-9)
    np.testing.assert_allclose(computed(fa.encode(source, want.components_)), fa.encode(table, want.components_))


@pytest.mark.parametrize("kind", [kind for kind in SOURCES if "sample" not in kind and "store" not in kind])
def test_the_default_scaling_is_the_same_for_every_source(kind, table, source_of):
    """A sample matrix and a store keep their own view; everything else is scaled as requested."""
    source = source_of(kind)
    assert fa.SeparableNMF(K).fit(source).anchors_.tolist() == fa.SeparableNMF(K).fit(table).anchors_.tolist()


@pytest.mark.parametrize("kind", ON_DISK)
def test_the_command_line_finds_the_same_anchors(kind, table, source_of):
    source = source_of(kind)
    path = str(source.filename if kind == "anndata backed" else source)
    options = [] if kind == "store" else ["--normalize", "none"]
    done = CliRunner().invoke(app, ["seek", path, "-k", str(K), "--json", *options])
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["anchors"] == fa.FAS().seek(table, K).indices.tolist()


def test_sources_outside_memory_are_loaded_up_to_a_limit():
    huge = da.ones((1 << 20, 200), chunks=(1 << 14, -1))
    with pytest.raises(TooLargeError, match=r"representatives needs all rows in memory: 1,677,721,600 bytes"):
        fa.apps.representatives(huge, 3)
    with pytest.raises(TooLargeError, match=r"make one with fa\.build"):
        fa.FAS(variant="paper").seek(huge, 3)


def test_columns_of_representatives_are_chosen_by_name(table):
    text = ["text"] * len(table)
    mixed = {"pandas": pd.DataFrame(table, columns=COLUMNS), "polars": pl.DataFrame(table, schema=COLUMNS)}
    mixed["pandas"]["word"], mixed["polars"] = text, mixed["polars"].with_columns(word=pl.Series(text))
    for frame in mixed.values():
        with pytest.raises(InvalidTypeError, match="columns 'word' do not hold numbers"):
            fa.apps.representatives(frame, K)
        with pytest.raises(InvalidInputError, match="the table has no column 'nothing'"):
            fa.apps.representatives(frame, K, columns=["nothing"])
        assert fa.apps.representatives(frame, K, non_numeric="drop").columns == COLUMNS
        some = fa.apps.representatives(frame, K, columns=COLUMNS[4:])
        np.testing.assert_array_equal(some.indices, fa.apps.representatives(table[:, 4:], K).indices)
    with pytest.raises(InvalidInputError, match="where they have names"):
        fa.apps.representatives(table, K, columns=["nothing"])


NAMED = ["pandas", "anndata", "anndata backed", "csv"]


@pytest.mark.parametrize("kind", NAMED)
def test_names_reach_the_result(kind, source_of):
    found = fa.SPA().seek(source_of(kind), K)
    assert found.names == tuple(ROWS[i] for i in found.indices)
    chosen = fa.apps.representatives(source_of(kind), K)
    assert chosen.names == [ROWS[i] for i in chosen.indices]
    assert chosen.columns == COLUMNS


ANNDATA_DOORS = {
    "open_matrix": lambda X, A: fa.open_matrix(X, signed=True),
    "FAS": lambda X, A: fa.FAS().seek(X, K),
    "SeparableNMF": lambda X, A: fa.SeparableNMF(K).fit(X),
    "encode": lambda X, A: fa.encode(X, A[:K]),
    "components": lambda X, A: fa.encode(A, X),
    "SampleMatrix": lambda X, A: fa.SampleMatrix(X),
    "fkv": lambda X, A: fa.fkv(X, 2, rng=0),
    "open_source": lambda X, A: fa.io.open_source(X),
    "representatives": lambda X, A: fa.apps.representatives(X, K),
}


@pytest.mark.parametrize("door", ANNDATA_DOORS)
@pytest.mark.filterwarnings("ignore::UserWarning")  # of AnnData
def test_the_matrices_of_a_view_of_anndata_are_matrices_and_other_parts_are_refused(door, table, tmp_path):
    anndata = pytest.importorskip("anndata", reason="AnnData is optional")
    names = pd.Index(ROWS)
    frame = pd.DataFrame(table, names, COLUMNS)
    layers = {"csc": sp.csc_matrix(table), "dense": table.copy()}
    adata = anndata.AnnData(sp.csr_matrix(table), frame, pd.DataFrame(index=COLUMNS), layers=layers, obsm={"f": frame})
    view, read = adata[:30], ANNDATA_DOORS[door]
    for part in (view.X, view.layers["csc"], view.layers["dense"], view.obs, view.obsm["f"]):
        assert type(part).__module__.startswith("anndata")
        read(part, table)
        if door == "open_matrix":
            opened = fa.open_matrix(part)
            assert type(opened.data) in (np.ndarray, sp.csr_array)
            np.testing.assert_array_equal(opened.dense_rows(range(30)), table[:30])
            assert opened.row_names == (ROWS[:30] if isinstance(part, pd.DataFrame) else None)
    adata.raw = adata.copy()
    adata.write_h5ad(tmp_path / "a.h5ad")
    on_disk = anndata.read_h5ad(tmp_path / "a.h5ad", backed="r")
    for part in (adata.raw, on_disk.X):
        with pytest.raises(InvalidTypeError, match="of anndata, which is no matrix in memory; pass the AnnData"):
            read(part, table)
    on_disk.file.close()


def test_a_frame_of_a_subclass_is_checked_as_a_frame_of_pandas():
    class Regions(pd.DataFrame):  # such as those of GeoPandas
        __module__ = "geopandas.frame"

    assert fa.open_matrix(Regions({"a": pd.array([1, 2], "Int64"), "b": [1.0, 2.0]})).dtype == np.float64
    with pytest.raises(InvalidInputError, match="9007199254740993"):  # float64 would round it
        fa.open_matrix(Regions({"a": [2**53 + 1, 2], "b": [1.0, 2.0]}))
