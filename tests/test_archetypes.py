"""Archetypes of single cells: results, from objects in memory, backed objects, files and layers."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

import fastanchors as fa
from fastanchors.errors import InvalidInputError, InvalidTypeError


@pytest.fixture(scope="module")
def cells():
    return fa.datasets.cells(300, 80, 4, depth=20_000, rng=0)


def test_cells_are_mixtures_of_programmes(cells):
    assert sp.issparse(cells.A)
    assert cells.A.shape == (300, 80)
    np.testing.assert_allclose(cells.components.sum(axis=1), 1.0)
    np.testing.assert_allclose(cells.weights.sum(axis=1), 1.0)
    assert set(cells.labels) == {-1, 0, 1, 2, 3}
    assert np.isclose(np.median(np.asarray(cells.A.sum(axis=1))), 20_000, rtol=0.1)
    expected = cells.weights @ cells.components * np.asarray(cells.A.sum(axis=1)).reshape(-1, 1)
    assert np.linalg.norm(cells.A - expected) < 0.1 * np.linalg.norm(expected)
    again = fa.datasets.cells(300, 80, 4, depth=20_000, rng=0)
    np.testing.assert_array_equal(again.A.toarray(), cells.A.toarray())


def test_more_programmes_than_cells():
    with pytest.raises(InvalidInputError, match="k = 4 is more than"):
        fa.datasets.cells(3, 10, 4)


def test_other_objects_get_an_error_with_advice(cells):
    with pytest.raises(InvalidTypeError, match="representatives"):
        fa.apps.archetypes(cells.A, 4)


class TestAnnData:
    @pytest.fixture(autouse=True)
    def anndata(self):
        return pytest.importorskip("anndata", reason="AnnData is optional")

    @pytest.fixture
    def adata(self, anndata, cells):
        import pandas as pd

        obs = pd.DataFrame(index=[f"cell{i}" for i in range(300)])
        var = pd.DataFrame(index=[f"gene{j}" for j in range(80)])
        layers = {"halved": sp.csr_matrix(cells.A / 2), "dense": cells.A.toarray()}
        return anndata.AnnData(sp.csr_matrix(cells.A), obs=obs, var=var, layers=layers)

    def test_results_are_written_where_scanpy_expects_them(self, adata, cells, tmp_path, anndata):
        assert fa.apps.archetypes(adata, 4, rng=0) is None
        shares, found = adata.obsm["X_archetypes"], adata.uns["archetypes"]
        assert shares.shape == (300, 4)
        assert shares.dtype == np.float32  # as X
        np.testing.assert_allclose(shares.sum(axis=1), 1.0, rtol=1e-6)
        assert sorted(cells.labels[found["indices"]]) == [0, 1, 2, 3]
        order = np.argsort(cells.labels[found["indices"]])
        assert np.abs(shares[:, order] - cells.weights).mean() < 0.05
        assert list(found["names"]) == [f"cell{i}" for i in found["indices"]]
        assert found["components"].shape == (4, 80)
        np.testing.assert_allclose(found["components"].sum(axis=1), 1.0, rtol=1e-6)
        assert 0 < found["relative_error"] < 0.3
        assert list(adata.obs["archetypes"].cat.categories) == list(found["names"])
        assert np.flatnonzero(adata.obs["archetypes_anchor"]).tolist() == sorted(found["indices"])
        largest = [found["names"][j] for j in shares.argmax(axis=1)]
        assert adata.obs["archetypes"].tolist() == largest
        adata.write_h5ad(tmp_path / "with.h5ad")
        again = anndata.read_h5ad(tmp_path / "with.h5ad")
        np.testing.assert_array_equal(again.obsm["X_archetypes"], shares)
        assert list(again.uns["archetypes"]["names"]) == list(found["names"])

    def test_a_copy_leaves_the_original_alone(self, adata):
        copied = fa.apps.archetypes(adata, 4, key="ends", copy=True, rng=0)
        assert list(adata.obsm) == []
        assert "X_ends" in copied.obsm
        assert "ends_anchor" in copied.obs

    @pytest.mark.parametrize("layer", ["halved", "dense"])
    def test_layers(self, adata, layer):
        plain = fa.apps.archetypes(adata, 4, copy=True, rng=0).uns["archetypes"]
        other = fa.apps.archetypes(adata, 4, layer=layer, copy=True, rng=0).uns["archetypes"]
        assert set(other["names"]) == set(plain["names"])
        assert other["params"]["layer"] == layer
        with pytest.raises(InvalidInputError, match=r"no layer 'none'; the layers are: halved, dense"):
            fa.apps.archetypes(adata, 4, layer="none")

    @pytest.mark.parametrize("mode", ["r", "r+"])
    def test_backed_objects(self, adata, anndata, tmp_path, mode):
        expected = fa.apps.archetypes(adata, 4, copy=True, rng=0)
        adata.write_h5ad(tmp_path / "a.h5ad")
        backed = anndata.read_h5ad(tmp_path / "a.h5ad", backed=mode)
        fa.apps.archetypes(backed, 4, rng=0)
        assert list(backed.uns["archetypes"]["names"]) == list(expected.uns["archetypes"]["names"])
        np.testing.assert_allclose(backed.obsm["X_archetypes"], expected.obsm["X_archetypes"], atol=1e-6)
        half = fa.FAS().seek(backed[:150], 4, rng=0)
        assert half.indices.max() < 150
        backed.file.close()

    @pytest.mark.parametrize("layer", [None, "dense"])
    @pytest.mark.parametrize("mode", ["r", "r+"])
    def test_views_of_backed_objects_need_a_copy(self, adata, anndata, tmp_path, mode, layer):
        adata.write_h5ad(tmp_path / "a.h5ad")
        odd = np.arange(300) % 2 == 1
        expected = fa.apps.archetypes(adata[odd], 4, layer=layer, copy=True, rng=0)
        backed = anndata.read_h5ad(tmp_path / "a.h5ad", backed=mode)
        view = backed[odd]
        with pytest.raises(InvalidInputError, match=r"view of a backed AnnData object .* pass copy=True"):
            fa.apps.archetypes(view, 4, layer=layer, rng=0)
        found = fa.apps.archetypes(view, 4, layer=layer, copy=True, rng=0)
        assert list(found.uns["archetypes"]["names"]) == list(expected.uns["archetypes"]["names"])
        np.testing.assert_allclose(found.obsm["X_archetypes"], expected.obsm["X_archetypes"], atol=1e-6)
        assert not found.isbacked
        assert fa.apps.archetypes(backed, 4, layer=layer, copy=True, rng=0).obsm["X_archetypes"].shape == (300, 4)
        assert list(backed.obsm) == list(view.obsm) == []
        backed.file.close()

    @pytest.mark.parametrize("layer", [None, "dense"])
    def test_cells_without_counts_have_no_archetype(self, adata, anndata, tmp_path, layer):
        empty = [3, 100, *range(200, 300)]
        part = adata[np.setdiff1d(np.arange(300), empty)]
        expected = fa.apps.archetypes(part, 4, layer=layer, solver="spa", copy=True)
        adata.layers["dense"][empty] = 0
        adata.X = sp.csr_matrix(adata.layers["dense"])
        fa.apps.archetypes(adata, 4, layer=layer, solver="spa")
        assert (adata.obsm["X_archetypes"][empty] == 0).all()
        assert np.flatnonzero(adata.obs["archetypes"].isna()).tolist() == empty
        full = adata[part.obs_names]
        np.testing.assert_allclose(full.obsm["X_archetypes"], expected.obsm["X_archetypes"], atol=1e-6)
        assert full.obs["archetypes"].tolist() == expected.obs["archetypes"].tolist()
        errors = [each.uns["archetypes"]["relative_error"] for each in (adata, expected)]
        np.testing.assert_allclose(*errors, rtol=1e-6)
        adata.write_h5ad(tmp_path / "with.h5ad")
        assert anndata.read_h5ad(tmp_path / "with.h5ad").obs["archetypes"].isna().sum() == len(empty)

    @pytest.mark.parametrize("layer", [None, "halved", "dense"])
    @pytest.mark.filterwarnings("ignore:Writing zarr v2")
    def test_files_of_both_kinds_and_objects_give_the_same(self, adata, tmp_path, layer):
        adata.write_h5ad(tmp_path / "a.h5ad")
        adata.write_zarr(tmp_path / "a.zarr")
        options = {} if layer is None else {"layer": layer}
        kept = fa.open_matrix(adata, normalize="l1", **options)
        for name in ("a.h5ad", "a.zarr"):
            opened = fa.open_matrix(tmp_path / name, normalize="l1", **options)
            assert list(opened.row_names) == list(adata.obs_names)
            assert list(opened.column_names) == list(adata.var_names)
            for one, other in zip(opened.blocks(), kept.blocks(), strict=True):
                np.testing.assert_array_equal(_dense(one[1]), _dense(other[1]))

    def test_estimator_and_solver_take_the_object(self, adata):
        model = fa.SeparableNMF(4, random_state=0).fit(adata)
        found = fa.FAS().seek(adata, 4, rng=0)
        assert set(found.names) <= set(adata.obs_names)
        assert model.transform(adata).shape == (300, 4)
        assert list(model.feature_names_in_) == list(adata.var_names)
        with pytest.raises(ValueError, match="feature names should match"):
            model.transform(adata[:, ::-1])  # the same genes in another order

    def test_a_layer_is_chosen_by_an_option_of_every_entry_point(self, adata, tmp_path):
        adata.layers["other"] = sp.csr_matrix(adata.X[::-1])
        expected = fa.FAS().seek(adata.layers["other"], 4, rng=0).indices
        adata.write_h5ad(tmp_path / "a.h5ad")
        for source in (adata, tmp_path / "a.h5ad"):
            assert fa.FAS().seek(source, 4, rng=0, layer="other").indices.tolist() == expected.tolist()
            assert (
                fa.SPA().seek(source, 4, layer="other").indices.tolist()
                == fa.SPA().seek(adata.X[::-1], 4).indices.tolist()
            )
            model = fa.SeparableNMF(4, layer="other", random_state=0).fit(source)
            assert set(model.anchors_) == set(fa.SeparableNMF(4, random_state=0).fit(adata.X[::-1]).anchors_)
        with pytest.raises(InvalidTypeError, match="'layer' is not an option for a"):
            fa.FAS().seek(adata.X, 4, layer="other")
        with pytest.raises(InvalidInputError, match="no layer 'none'"):
            fa.SeparableNMF(4, layer="none").fit(adata)

    @pytest.mark.parametrize("mode", [None, "r", "r+"])
    def test_a_store_is_built_from_an_anndata_object(self, adata, anndata, tmp_path, mode):
        adata.write_h5ad(tmp_path / "a.h5ad")
        source = adata if mode is None else anndata.read_h5ad(tmp_path / "a.h5ad", backed=mode)
        with fa.build(source, tmp_path / "s", layer="halved", normalize=None) as store:
            assert list(store.row_names) == list(adata.obs_names)
            np.testing.assert_array_equal(_dense(store.rows(np.arange(300))), _dense(adata.layers["halved"]))

    def test_objects_without_a_matrix_and_with_equal_names(self, adata):
        adata.obs_names = ["same"] * 300
        fa.apps.archetypes(adata, 4, rng=0)
        indices = adata.uns["archetypes"]["indices"]
        assert list(adata.obs["archetypes"].cat.categories) == [f"same (row {i})" for i in indices]
        adata.X = None
        with pytest.raises(InvalidInputError, match=r"no X; name one of its layers .*halved, dense"):
            fa.FAS().seek(adata, 4)


def _dense(block):
    return block.toarray() if sp.issparse(block) else np.asarray(block)


@pytest.mark.filterwarnings("ignore::UserWarning")  # of AnnData: an index of its own becomes one of text
@pytest.mark.parametrize("missing", [False, True], ids=["complete", "missing"])
@pytest.mark.parametrize("kind", ["category", "string", "object"])
def test_names_of_a_file_are_those_of_the_object(tmp_path, kind, missing):
    """Categories were no names in a file, so that the columns of anchors were matched by position."""
    anndata = pytest.importorskip("anndata", reason="AnnData is optional")
    pd = pytest.importorskip("pandas")
    names = pd.Index(["b", "a", None if missing and kind != "object" else "d", "c"], dtype=kind)
    adata = anndata.AnnData(np.arange(1.0, 25.0).reshape(6, 4))
    adata.var_names = names
    adata.obs_names = pd.Index([f"cell {i}" for i in range(6)], dtype=kind)
    with anndata.settings.override(allow_write_nullable_strings=True):
        adata.write_h5ad(tmp_path / "a.h5ad")
        adata.write_zarr(tmp_path / "a.zarr")
    expected = fa.open_matrix(adata)
    for name in ("a.h5ad", "a.zarr"):
        found = fa.open_matrix(tmp_path / name)
        assert list(found.column_names) == list(expected.column_names)
        assert list(found.row_names) == list(expected.row_names)
