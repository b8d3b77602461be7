"""Arguments of the wrong kind or size: the right result, or an error of this library, before memory is allocated."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

import fastanchors as fa
from fastanchors.errors import InvalidInputError, InvalidTypeError, StoreError, TooLargeError

A = fa.datasets.separable(20, 6, 3, noise=0.01, rng=0).A
HUGE = 2**42


class Config:
    columns = None


def put(value: Any) -> None:
    fa.SampleMatrix(A)[0, 0] = value


REFUSED: dict[str, Callable[[], Any]] = {
    "topics of an l1 view": lambda: fa.apps.topics(fa.open_matrix(A, normalize="l1"), 2),
    "save_topics": lambda: fa.apps.save_topics(fa.TopicModel(2), "never-made.npz"),
    "pyldavis": lambda: fa.apps.pyldavis(fa.TopicModel(2), A),
    "write_topics": lambda: fa.report.write_topics("never-made.html", fa.TopicModel(2), A),
    "write_unmixing": lambda: fa.report.write_unmixing("never-made.html", A),
    "save_maps": lambda: fa.apps.save_maps(A, "never-made"),
    "save_spectra": lambda: fa.apps.save_spectra(A, "never-made"),
    "save_pictures": lambda: fa.apps.save_pictures(A, "never-made"),
    "missing integers of Arrow": lambda: fa.FAS().seek(
        pd.DataFrame({"a": [1, 2, None, 3], "b": [1.5, 2, 3, 4]}).convert_dtypes(dtype_backend="pyarrow"), 1
    ),
    "nmf alpha_W": lambda: fa.nmf(A, 3, alpha_W=np.array([0.1, 0.2])),
    "nmf beta_loss": lambda: fa.nmf(A, 3, beta_loss=np.array([0.1, 0.2])),
    "nmf penalty": lambda: fa.nmf(A, 3, alpha_W=1e200),
    "FactoredVectors.sample": lambda: fa.fkv(A, 2, rng=0).sample([0, 1], 3, rng=0),
    "SampleMatrix[…]": lambda: put([10**400]),
    "choose empty": lambda: fa.solvers.choose(np.array([]), np.array([])),
    "choose NaN": lambda: fa.solvers.choose([1.0, np.nan], [1.0, 2.0]),
    "choose lengths": lambda: fa.solvers.choose([1.0, 2.0, 3.0], [1.0]),
    "project width": lambda: fa.open_matrix(A).project([0], np.ones((1, 5))),
    "project vector": lambda: fa.open_matrix(A).project([0], np.ones(6)),
    "inverse_transform": lambda: fa.SeparableNMF(3).fit(A).inverse_transform(Config()),
    "row_names": lambda: fa.SampleMatrix(A, row_names=sp.coo_matrix(A)),
    "representatives columns": lambda: fa.apps.representatives(A, 2, columns=3),
    "build progress": lambda: fa.build(A, "never-made.store", progress=1),
    "verify progress": lambda: fa.verify("never-made.store", progress=1),
    "topic_coherence of single words": lambda: fa.metrics.topic_coherence([[0], [1]], np.ones((3, 2))),
    "rows of lists": lambda: fa.io.open_source([[1, [2]], [3, 4]]),
    "hyperspectral rare": lambda: fa.datasets.hyperspectral(5, 5, 6, 1, rare=0.1),
    "abundance_rmse match": lambda: fa.metrics.abundance_rmse(A, A, match=fa.metrics.Match([0], [0, 1], [0.0])),
    "separable dtype": lambda: fa.datasets.separable(20, 6, 3, dtype=np),
    "Source dtype": lambda: fa.io.Source("x", (1, 1), np, False, iter),
    "hyperspectral spiky_gaps": lambda: fa.datasets.hyperspectral(8, 8, 10, 2, spiky_gaps=HUGE),
    "load_topics": lambda: fa.apps.load_topics(None),
    "load_topics of a file descriptor": lambda: fa.apps.load_topics(5),
    "read_mask cube": lambda: fa.apps.read_mask("mask.npy", np.ones((3, 3, 4))),
    "report anchors": lambda: fa.report.write("never-made.html", A, [0, 1]),
    "report row_names": lambda: fa.report.write("never-made.html", A, fa.SPA().seek(A, 2), row_names=3),
    "report image": lambda: fa.report.write("never-made.html", A, fa.SPA().seek(A, 2), image=(4, "5")),
    "material_curve clip": lambda: fa.apps.material_curve(np.ones((3, 3, 4)), 2, clip="no"),
    "unmix clip": lambda: fa.apps.unmix(np.ones((3, 3, 4)), 2, clip=np.ones(2)),
    "unmix nodata": lambda: fa.apps.unmix(np.ones((3, 3, 4)), 2, nodata=10**400),
    "unmix shape": lambda: fa.apps.unmix(np.ones((9, 4)), 2, shape=[[1], [2, 3]]),
    "topics refine": lambda: fa.apps.topics(np.ones((5, 4)), 2, refine=np.ones(2)),
    "TopicModel n_topics": lambda: fa.TopicModel(np.ones(2)).fit(np.ones((5, 4))),
    "representatives of no table": lambda: fa.apps.representatives(pd.NA, 2),
    "Hottopixx noise": lambda: fa.Hottopixx(noise=1e308).seek(A, 3),
    "most": lambda: fa.SPA().most("ab"),
    "most of a number": lambda: fa.SPA().most(3),
    "most of fractions": lambda: fa.SPA().most((-1, 2.5)),
    "blocks": lambda: list(fa.open_matrix(A).blocks(-1)),
    "map_blocks": lambda: fa.open_matrix(A).map_blocks(len, block_rows=0),
    "map_blocks of a SampleMatrix": lambda: fa.SampleMatrix(A).map_blocks(len, block_rows=0),
    "map_stored of a SampleMatrix": lambda: fa.SampleMatrix(A).map_stored(len, block_rows=-1),
    "map_stored": lambda: fa.open_matrix(A).map_stored(len, block_rows=2.5),
    "recommend exclude_seen": lambda: fa.apps.recommend(A, 0, k=2, exclude_seen=np.ones(2)),
}
TOO_LARGE: dict[str, Callable[[], Any]] = {
    "sample_rows": lambda: fa.SampleMatrix(A).sample_rows(HUGE, rng=0),
    "sample_columns": lambda: fa.SampleMatrix(A).sample_columns(HUGE, rng=0),
    "sample_in_row": lambda: fa.SampleMatrix(A).sample_in_row([0, 1], HUGE, rng=0),
    "sample_in_column": lambda: fa.SampleMatrix(A).sample_in_column(0, HUGE, rng=0),
    "VectorSampler": lambda: fa.VectorSampler([1.0]).sample(HUGE),
    "sample_combination": lambda: fa.sample_combination(A, np.ones(6), HUGE),
    "FactoredVectors.sample": lambda: fa.fkv(A, 2, rng=0).sample(0, HUGE, rng=0),
    "reconstruction_error": lambda: fa.metrics.reconstruction_error(A, A[:2], rows=HUGE),
    "hyperspectral": lambda: fa.datasets.hyperspectral(2**22, 2**22),
    "topics": lambda: fa.datasets.topics(HUGE, 100, 2),
    "ratings": lambda: fa.datasets.ratings(HUGE, 100, 2),
    "cells": lambda: fa.datasets.cells(HUGE, 100, 2),
    "dirichlet": lambda: fa.datasets.dirichlet(HUGE, 10, 2),
    "middle_points": lambda: fa.datasets.middle_points(10**6, 10**5),
    "nonnegative_components": lambda: fa.datasets.nonnegative_components(2, HUGE),
}


@pytest.mark.parametrize("name", REFUSED)
def test_bad_arguments_are_refused(name):
    with pytest.raises((InvalidInputError, InvalidTypeError)):
        REFUSED[name]()


@pytest.mark.parametrize("name", TOO_LARGE)
def test_sizes_beyond_memory_are_refused(name):
    with pytest.raises(TooLargeError, match="GB of memory"):
        TOO_LARGE[name]()


@pytest.mark.parametrize("name", ["a\0b", "\ud800"])
def test_names_that_no_file_has(name):
    for use in (lambda: fa.io.open_source(A, row_names=name), lambda: fa.open_matrix(name), lambda: fa.open(name)):
        with pytest.raises(StoreError, match="is not a path"):
            use()


def test_fractions_are_numbers():
    third = Fraction(1, 3)
    for solver in (fa.DCA(delta=third), fa.AroraLP(tolerance=third / 10**6), fa.Hottopixx(), fa.FGNSR(tol=third)):
        assert len(solver.seek(A, 3, rng=0)) == 3
    assert fa.AroraLP(radius=third).radius == 1 / 3
    assert fa.Hottopixx(noise=third).noise == 1 / 3
    assert fa.nmf(A, 3, l1_ratio=third, rng=0) == fa.nmf(A, 3, l1_ratio=1 / 3, rng=0)


def test_extreme_but_valid_arguments():
    assert fa.metrics.anchor_labels(A, [0, 1], tolerance=1e200).min() >= 0
    assert fa.solvers.choose([1, 4, 4], [1, 5, 9]) == 2
    found = fa.SPA().seek(A, 2)
    np.testing.assert_array_equal(found.points_in(A), A[found.indices])
    np.testing.assert_array_equal(found.check_rows(A, "…"), found.indices)
    assert len(fa.datasets.separable_blocks(HUGE, 6, 3, rng=0)) > 2**20  # blocks are made when they are asked for
    with pytest.raises(InvalidInputError, match="underflow"):
        fa.FGNSR(candidates=5).seek(A * 1e-310, 3)
