"""Copies and pickles of results are complete, and independent of the original."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

import fastanchors as fa

ROWS = fa.datasets.separable(60, 8, 3, noise=0.02, rng=0).A


def test_a_copy_of_an_estimator_has_its_own_rows():
    model = fa.SeparableNMF(3).partial_fit(ROWS)
    other = copy.copy(model).partial_fit(ROWS)
    assert (other.n_samples_seen_, model.partial_fit(ROWS[:10]).n_samples_seen_) == (120, 70)
    assert copy.copy(fa.SeparableNMF(4)).n_components == 4


def test_a_copy_of_a_vector_has_its_own_entries():
    vector = fa.VectorSampler([1.0, 2.0])
    other = copy.copy(vector)
    other[0] = 5.0
    assert (vector[0], other[0], vector.norm, other.norm) == (1.0, 5.0, np.sqrt(5.0), np.sqrt(29.0))


def test_an_unmixing_of_an_array_can_be_pickled():
    result = fa.apps.unmix(ROWS, 3)
    again = pickle.loads(pickle.dumps(result))
    assert np.array_equal(again.abundances, result.abundances)
    assert np.array_equal(np.concatenate(list(again.cube.source.blocks(1000))), ROWS)


def test_opened_files_are_read_as_advised(tmp_path):
    np.save(tmp_path / "rows.npy", ROWS)
    opened = fa.open_matrix(tmp_path / "rows.npy")
    assert fa.SampleMatrix(opened).shape == ROWS.shape
    assert fa.cur(opened, 2, rng=0).rows.tolist() == fa.cur(ROWS, 2, rng=0).rows.tolist()


def test_lazy_weights_become_a_polars_frame():
    da = pytest.importorskip("dask.array", reason="extra dask")
    pl = pytest.importorskip("polars", reason="extra dev")
    model = fa.SeparableNMF(3).set_output(transform="polars")
    lazy = da.from_array(ROWS, chunks=(20, 8))
    for weights in (model.fit_transform(lazy), model.transform(lazy)):
        assert isinstance(weights, pl.DataFrame)
        assert weights.shape == (60, 3)


def test_annotated_data_are_approximated():
    anndata = pytest.importorskip("anndata", reason="extra anndata")
    found = fa.cur(anndata.AnnData(ROWS), 2, rng=0)
    assert found.rows.tolist() == fa.cur(ROWS, 2, rng=0).rows.tolist()
