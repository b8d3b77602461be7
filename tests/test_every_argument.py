"""Each argument of every public function and method in turn, with values of a wrong kind: a result, or our own error.

The table has one valid call for every public callable; a test fails if one is missing. No call may raise anything else,
warn from inside NumPy, or leave a temporary file.
"""

from __future__ import annotations

import functools
import inspect
import itertools
import os
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import ConvergenceWarning, NotFittedError

import fastanchors as fa
from fastanchors.errors import FastAnchorsError, GuessWarning
from fastanchors.rank import RankCurve
from fastanchors.warm_start import Factors

plt.switch_backend("agg")

A = fa.datasets.separable(12, 5, 3, noise=0.01, rng=0).A
COUNTS = np.arange(1.0, 21.0).reshape(5, 4) % 7 + 1
TEXTS = ["anchor row of data", "mixture of anchor", "row and data", "data of words"] * 3


class Call(NamedTuple):
    """A valid call."""

    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    options: dict[str, Any]


def call(function: Callable[..., Any], *arguments: Any, **options: Any) -> Call:
    return Call(function, arguments, options)


def and_then(first: Callable[..., Any], then: Callable[[Any], Any]) -> Callable[..., Any]:
    """``first`` with the same arguments, and ``then`` on its result: options of a class are also checked in use."""

    @functools.wraps(first)
    def both(*arguments: Any, **options: Any) -> Any:
        return then(first(*arguments, **options))

    both.__signature__ = inspect.signature(first)  # type: ignore[attr-defined]
    return both


def solving(kind: Any, **options: Any) -> Call:
    return call(and_then(kind, lambda solver: solver.seek(A, 2, rng=0)), **options)


# --- the data -----------------------------------------------------------------------------------------------------


@functools.cache
def counts() -> Any:
    return fa.datasets.topics(30, 20, 2, rng=0).A


@functools.cache
def model() -> Any:
    return fa.apps.topics(counts(), 2, vocabulary=[f"word{j}" for j in range(20)])


@functools.cache
def scene() -> Any:
    return fa.datasets.hyperspectral(6, 5, 12, 2, rng=0).A.reshape(6, 5, 12)


@functools.cache
def unmixed() -> Any:
    return fa.apps.unmix(scene(), 2)


@functools.cache
def found() -> Any:
    return fa.SPA().seek(A, 2)


@functools.cache
def vectors() -> Any:
    return fa.FactoredVectors(A, "right", [0, 1, 2], np.eye(3)[:, :2])


@functools.cache
def facts() -> Any:
    return fa.report.gather(A, found(), title="made", seed=0)


@functools.cache
def solution() -> Any:
    return fa.lowrank.solve(A, np.ones(12), 2, exact=True, rng=0)


def sampled() -> Any:
    return fa.SampleMatrix(A, normalize=None)


def ratings() -> Any:
    return fa.apps.RatingsTable(COUNTS, list("abcde"), list("wxyz"))


def recommender() -> Any:
    return fa.apps.Recommender(fa.SampleMatrix(COUNTS, normalize=None), 2, rng=0)


def fitted() -> Any:
    return fa.SeparableNMF(2, random_state=0).fit(A)


def topic_model() -> Any:
    return fa.TopicModel(2).fit(counts())


def store(here: Path) -> Any:
    fa.build(A, here / "s", normalize=None, sidecars=()).close()
    return fa.open(here / "s", "r+")


def remote(here: Path) -> Any:
    store(here).close()
    return fa.dask.connect(here / "s")


def spread() -> Any:
    import dask.array as da

    return fa.open_matrix(da.from_array(A, chunks=(6, 5)))


def written(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def saved(path: Path, array: Any) -> Path:
    np.save(path, array)
    return path


def saved_model(path: Path) -> Path:
    fa.apps.save_topics(model(), path)
    return path


def scene_file(here: Path) -> Path:
    return saved(here / "cube.npy", scene())


def corpus_file(here: Path) -> Path:
    return written(here / "texts.txt", "\n".join(TEXTS))


def adata() -> Any:
    import anndata

    return anndata.AnnData(A.copy())


class Thing:
    """A class that takes any arguments, so that it can also be used as a function."""

    def __init__(self, *_: Any) -> None:
        pass

    def __iter__(self) -> Iterator[Any]:
        return iter(())


def part_size(*parts: Any) -> int:
    """A function for map_blocks and its like."""
    return len(parts)


FRAME = pd.DataFrame({"user": list("aab"), "item": list("xyx"), "rating": [1.0, 2.0, 3.0]})
CIRCUIT = fa.QDCA(shots=16)
BETA = np.array([1.0, 2.0, 0.5, 1.0])

# --- the table ----------------------------------------------------------------------------------------------------

CALLS: dict[str, Callable[[Path], Call]] = {
    # solvers
    **{
        f"fa.{name}": functools.partial(lambda here, kind: solving(kind), kind=getattr(fa, name))
        for name in ("DCA", "FAS", "FGNSR", "SNPA", "SPA", "XRAY", "AroraLP", "Hottopixx")
    },
    "fa.QDCA": lambda here: solving(fa.QDCA, projections=2, shots=16),
    "paper": lambda here: call(and_then(functools.partial(fa.FAS, "paper"), lambda s: s.seek(A, 2, rng=0))),
    "Solver.seek": lambda here: call(fa.SPA().seek, A, 2),
    "FAS.seek": lambda here: call(fa.FAS().seek, A, 2),
    "Solver.most": lambda here: call(fa.SPA().most, (3, 4)),
    "Parameters.get_params": lambda here: call(fa.SPA().get_params),
    "Parameters.set_params": lambda here: call(fa.SPA().set_params, tol=0.1),
    "QDCA.circuit": lambda here: call(CIRCUIT.circuit, COUNTS, BETA),
    "QDCA.draw": lambda here: call(CIRCUIT.draw, COUNTS, BETA),
    "QDCA.measure": lambda here: call(CIRCUIT.measure, COUNTS, BETA, rng=0),
    "solvers.Robust": lambda here: call(fa.solvers.Robust),
    "Robust.count": lambda here: call(fa.solvers.Robust().count, 12),
    "solvers.choose": lambda here: call(fa.solvers.choose, [1.0, 2.0], [1.0, 2.0]),
    "solvers.get": lambda here: call(fa.solvers.get, "spa"),
    # results of solvers
    "fa.Anchors": lambda here: call(fa.Anchors, [0, 1], "spa", fa.Cost(), 0.1, found().certificate),
    "Anchors.points_in": lambda here: call(found().points_in, A),
    "Anchors.check_rows": lambda here: call(found().check_rows, A, "take others"),
    "Anchors.to_frame": lambda here: call(found().to_frame),
    "Anchors.plot": lambda here: call(found().plot, A),
    "Anchors.report": lambda here: call(found().report, here / "page.html", A, title="made"),
    "Anchors.as_dict": lambda here: call(found().as_dict),
    "Certificate.with_provenance": lambda here: call(found().certificate.with_provenance, "drawn"),
    "Cost.copy": lambda here: call(fa.Cost().copy),
    "Cost.as_dict": lambda here: call(fa.Cost().as_dict),
    # matrices
    "fa.open_matrix": lambda here: call(fa.open_matrix, A),
    **{
        f"RowMatrix.{name}": functools.partial(
            lambda here, name, given: call(getattr(fa.open_matrix(A), name), *given), name=name, given=given
        )
        for name, given in {
            "reading": (),
            "check_entries": (),
            "rows_once": ([0],),
            "row_entries": ([0],),
            "dense_rows": ([0],),
            "map_blocks": (part_size,),
            "map_stored": (part_size,),
            "default_block_rows": (),
            "l1_scaled": (),
            "squared_norms": (),
            "row_sums": (),
            "dot": (np.ones((5, 1)),),
            "transposed_dot": (np.ones((12, 1)),),
            "project": (np.array([0]), np.eye(5)[:2]),
        }.items()
    },
    "SampleAccess.norm_bound": lambda here: call(sampled().norm_bound),
    "SampleAccess.squared_norms": lambda here: call(sampled().squared_norms),
    # the sample model
    "fa.SampleMatrix": lambda here: call(fa.SampleMatrix, A),
    "SampleMatrix.blocks": lambda here: call(sampled().blocks, 5),
    "SampleMatrix.map_stored": lambda here: call(sampled().map_stored, part_size),
    "SampleMatrix.__setitem__": lambda here: call(sampled().__setitem__, (0, 1), 2.0),
    "SampleMatrix.update": lambda here: call(sampled().update, [0], [1], [2.0]),
    "SampleMatrix.add": lambda here: call(sampled().add, [0], [1], [2.0]),
    "SampleMatrix.reading": lambda here: call(sampled().reading),
    "SampleMatrix.changes_since": lambda here: call(sampled().changes_since, 0),
    "SampleMatrix.append": lambda here: call(sampled().append, A[:2]),
    "SampleMatrix.consolidate": lambda here: call(sampled().consolidate),
    "SampleMatrix.check": lambda here: call(sampled().check),
    "BlockStack.row_entries": lambda here: call(sampled().row_entries, [0]),
    "Draws.sample_rows": lambda here: call(sampled().sample_rows, 3, rng=0),
    "Draws.sample_columns": lambda here: call(sampled().sample_columns, 3, rng=0),
    "Draws.sample_in_row": lambda here: call(sampled().sample_in_row, 0, 3, rng=0),
    "Draws.sample_in_column": lambda here: call(sampled().sample_in_column, 0, 3, rng=0),
    "Queries.__getitem__": lambda here: call(sampled().__getitem__, (0, 1)),
    **{
        f"Queries.{name}": functools.partial(
            lambda here, name, given: call(getattr(sampled(), name), *given), name=name, given=given
        )
        for name, given in {
            "raw": ([0], [1]),
            "row_norm": ([0],),
            "column_norm": ([0],),
            "l1_norm": ([0],),
            "rows": ([0],),
            "raw_rows": ([0],),
        }.items()
    },
    "fa.VectorSampler": lambda here: call(fa.VectorSampler, [1.0, 2.0]),
    "VectorSampler.__getitem__": lambda here: call(fa.VectorSampler([1.0, 2.0]).__getitem__, 1),
    "VectorSampler.__setitem__": lambda here: call(fa.VectorSampler([1.0, 2.0]).__setitem__, 1, 3.0),
    "VectorSampler.update": lambda here: call(fa.VectorSampler([1.0, 2.0]).update, [1], [3.0]),
    "VectorSampler.sample": lambda here: call(fa.VectorSampler([1.0, 2.0]).sample, 3),
    # stores
    "fa.build": lambda here: call(and_then(fa.build, lambda S: S.close()), A, here / "t", overwrite=True),
    "fa.open": lambda here: call(and_then(fa.open, lambda S: S.close()), (store(here).close(), here / "s")[1]),
    "fa.verify": lambda here: call(fa.verify, (store(here).close(), here / "s")[1]),
    "Store.__setitem__": lambda here: call(store(here).__setitem__, (0, 1), 2.0),
    "Store.update": lambda here: call(store(here).update, [0], [1], [2.0]),
    "Store.add": lambda here: call(store(here).add, [0], [1], [2.0]),
    "Store.append": lambda here: call(store(here).append, A[:2]),
    "Store.commit": lambda here: call(store(here).commit),
    "Store.compact": lambda here: call(store(here).compact),
    "Store.consolidate": lambda here: call(store(here).consolidate),
    "Store.close": lambda here: call(store(here).close, commit=False),
    **{
        f"StoreContent.{name}": functools.partial(
            lambda here, name, given: call(getattr(store(here), name), *given), name=name, given=given
        )
        for name, given in {
            "rows_once": ([0],),
            "map_stored": (part_size,),
            "column_norm": ([0],),
            "sample_columns": (3,),
            "sample_in_column": (0, 3),
        }.items()
    },
    **{
        f"SampleDelegate.{name}": functools.partial(
            lambda here, name, given: call(getattr(store(here), name), *given), name=name, given=given
        )
        for name, given in {
            "row_entries": ([0],),
            "__getitem__": ((0, 1),),
            "raw": ([0], [1]),
            "row_norm": ([0],),
            "l1_norm": ([0],),
            "rows": ([0],),
            "raw_rows": ([0],),
            "blocks": (5,),
            "sample_rows": (3,),
            "sample_in_row": (0, 3),
            "reading": (),
            "changes_since": (0,),
            "check": (),
            "map_stored": (part_size,),
            "column_norm": ([0],),
            "sample_columns": (3,),
            "sample_in_column": (0, 3),
        }.items()
    },
    # Dask
    "dask.connect": lambda here: call(fa.dask.connect, (store(here).close(), here / "s")[1]),
    **{
        f"DaskMatrix.{name}": functools.partial(
            lambda here, name, given: call(getattr(spread(), name), *given), name=name, given=given
        )
        for name, given in {
            "l1_scaled": (),
            "rows": ([0],),
            "blocks": (5,),
            "default_block_rows": (),
            "map_blocks": (part_size,),
            "transposed_dot": (np.ones((12, 1)),),
        }.items()
    },
    **{
        f"RemoteStore.{name}": functools.partial(
            lambda here, name, given: call(getattr(remote(here), name), *given), name=name, given=given
        )
        for name, given in {
            "changes_since": (0,),
            "close": (),
            "blocks": (5,),
            "squared_norms": (),
            "norm_bound": (),
            "to_dask": (),
            "check": (),
        }.items()
    },
    # low rank
    "fa.fkv": lambda here: call(fa.fkv, A, 2, rng=0),
    "fa.fkv_sample_size": lambda here: call(fa.fkv_sample_size, 2, 0.5),
    "fa.cur": lambda here: call(fa.cur, A, 2, rng=0),
    "CUR.query": lambda here: call(fa.cur(A, 2, rng=0).query, [0], [1]),
    "CUR.error": lambda here: call(fa.cur(A, 2, rng=0).error),
    "fa.estimate_product": lambda here: call(fa.estimate_product, A.T[:2], A, np.eye(5), draws=50, rng=0),
    "fa.sample_combination": lambda here: call(fa.sample_combination, A[:, :2], [1.0, 2.0], 5, rng=0),
    "lowrank.solve": lambda here: call(fa.lowrank.solve, A, np.ones(12), 2, rng=0),
    "LinearSolution.query": lambda here: call(solution().query, [0]),
    "LinearSolution.__getitem__": lambda here: call(solution().__getitem__, 0),
    "LinearSolution.sample": lambda here: call(solution().sample, 3, rng=0),
    "LinearSolution.toarray": lambda here: call(solution().toarray),
    "fa.FactoredVectors": lambda here: call(fa.FactoredVectors, A, "right", [0, 1], np.eye(2)),
    "FactoredVectors.query": lambda here: call(vectors().query, [0]),
    "FactoredVectors.sample": lambda here: call(vectors().sample, 0, 3, rng=0),
    "FactoredVectors.transform": lambda here: call(vectors().transform, np.eye(2)),
    "FactoredVectors.gram": lambda here: call(vectors().gram, rng=0),
    "FactoredVectors.alpha": lambda here: call(vectors().alpha, rng=0),
    "FactoredVectors.orthonormalize": lambda here: call(vectors().orthonormalize, rng=0),
    # estimators and factorisations
    "fa.SeparableNMF": lambda here: call(and_then(fa.SeparableNMF, lambda e: e.fit(A)), 2),
    "SeparableNMF.fit": lambda here: call(fitted().fit, A),
    "SeparableNMF.partial_fit": lambda here: call(fitted().partial_fit, A),
    "SeparableNMF.fit_transform": lambda here: call(fitted().fit_transform, A),
    "SeparableNMF.transform": lambda here: call(fitted().transform, A),
    "SeparableNMF.inverse_transform": lambda here: call(fitted().inverse_transform, np.ones((3, 2))),
    "SeparableNMF.score": lambda here: call(fitted().score, A),
    "fa.TopicModel": lambda here: call(and_then(fa.TopicModel, lambda e: e.fit(counts())), 2),
    "TopicModel of texts": lambda here: call(and_then(fa.TopicModel, lambda e: e.fit(TEXTS)), 2, min_df=1),
    "TopicModel.fit": lambda here: call(topic_model().fit, counts()),
    "TopicModel.fit_transform": lambda here: call(topic_model().fit_transform, counts()),
    "TopicModel.transform": lambda here: call(topic_model().transform, counts()),
    "TopicModel.inverse_transform": lambda here: call(topic_model().inverse_transform, np.ones((3, 2))),
    "TopicModel.score": lambda here: call(topic_model().score, counts()),
    "TopicModel.perplexity": lambda here: call(topic_model().perplexity, counts()),
    "fa.encode": lambda here: call(fa.encode, A, A[:2]),
    "fa.nmf": lambda here: call(fa.nmf, A, 2, rng=0, alpha_W=0.1),
    "fa.rank_curve": lambda here: call(fa.rank_curve, A, 2, rng=0),
    "RankCurve.as_dict": lambda here: call(fa.rank_curve(A, 2, rng=0).as_dict),
    # topics
    "apps.topics": lambda here: call(fa.apps.topics, counts(), 2),
    "topics of texts": lambda here: call(fa.apps.topics, TEXTS, 2, min_df=1, stop_words=None, ngrams=1, html=False),
    "Topics.top": lambda here: call(model().top, 5),
    "Topics.name": lambda here: call(model().name, 5),
    "Topics.words": lambda here: call(model().words, 5),
    "Topics.examples": lambda here: call(model().examples, 2),
    "Topics.document": lambda here: call(model().document, 2),
    "Topics.report": lambda here: call(model().report, here / "page.html", counts(), title="made"),
    "apps.as_corpus": lambda here: call(fa.apps.as_corpus, counts()),
    "as_corpus of texts": lambda here: call(fa.apps.as_corpus, TEXTS, min_df=1, max_df=1.0, stop_words=None, ngrams=1),
    "apps.read_corpus": lambda here: call(fa.apps.read_corpus, corpus_file(here), min_df=1),
    "apps.compare_topics": lambda here: call(fa.apps.compare_topics, model(), counts()),
    "apps.topic_curve": lambda here: call(fa.apps.topic_curve, counts(), (2,)),
    "apps.topic_changes": lambda here: call(fa.apps.topic_changes, model(), model()),
    "apps.pyldavis": lambda here: call(fa.apps.pyldavis, model(), counts()),
    "apps.load_topics": lambda here: call(fa.apps.load_topics, saved_model(here / "m.npz")),
    "apps.save_topics": lambda here: call(fa.apps.save_topics, model(), here / "m.npz"),
    "apps.save_table": lambda here: call(
        fa.apps.save_table, np.eye(2), here / "t.csv", rows=["a", "b"], columns=["c", "d"]
    ),
    "TopicScores.as_dict": lambda here: call(fa.apps.TopicScores("a", 1.0, 1.0, 1.0, 1.0).as_dict),
    # scenes
    "apps.unmix": lambda here: call(fa.apps.unmix, scene(), 2),
    "unmix of a file": lambda here: call(fa.apps.unmix, scene_file(here), 2),
    "apps.read_cube": lambda here: call(fa.apps.read_cube, scene_file(here)),
    "apps.read_mask": lambda here: call(fa.apps.read_mask, saved(here / "mask.npy", np.ones((6, 5))), unmixed().cube),
    "apps.material_curve": lambda here: call(fa.apps.material_curve, scene(), 2),
    "MaterialCurve.as_dict": lambda here: call(fa.apps.material_curve(scene(), 2).as_dict),
    "Cube.blocks": lambda here: call(unmixed().cube.blocks),
    "Cube.image": lambda here: call(unmixed().cube.image, np.ones(30)),
    "Cube.flat": lambda here: call(unmixed().cube.flat, np.ones((6, 5))),
    "Cube.place": lambda here: call(unmixed().cube.place, 3),
    "Unmixing.positions": lambda here: call(unmixed().positions),
    "Unmixing.report": lambda here: call(unmixed().report, here / "page.html", title="made"),
    "apps.save_maps": lambda here: call(fa.apps.save_maps, unmixed(), here / "maps"),
    "apps.save_pictures": lambda here: call(fa.apps.save_pictures, unmixed(), here / "pictures"),
    "apps.save_spectra": lambda here: call(fa.apps.save_spectra, unmixed(), here / "spectra"),
    # ratings, tables and cells
    "apps.RatingsTable": lambda here: call(fa.apps.RatingsTable, COUNTS, list("abcde"), list("wxyz")),
    "RatingsTable.from_frame": lambda here: call(fa.apps.RatingsTable.from_frame, FRAME),
    "RatingsTable.rows_of": lambda here: call(ratings().rows_of, ["a"]),
    "RatingsTable.named": lambda here: call(ratings().named, [0, -1]),
    "RatingsTable.popular": lambda here: call(ratings().popular, ["a"], 2),
    "apps.read_ratings": lambda here: call(fa.apps.read_ratings, written(here / "r.csv", "u,i,r\na,x,1\nb,y,2\n")),
    "apps.recommend": lambda here: call(fa.apps.recommend, COUNTS, [0], 2, k=2, exclude_seen=False, rng=0),
    "recommend of a table": lambda here: call(fa.apps.recommend, ratings(), ["a"], 2, k=2, passes=1, rng=0),
    "recommend of a frame": lambda here: call(fa.apps.recommend, FRAME, ["a"], 1, k=1, rng=0),
    "apps.Recommender": lambda here: call(fa.apps.Recommender, fa.SampleMatrix(COUNTS, normalize=None), 2, rng=0),
    "Recommender.refresh": lambda here: call(recommender().refresh),
    "Recommender.rate": lambda here: call(recommender().rate, [0], [1], [2.5]),
    "Recommender.coordinates": lambda here: call(recommender().coordinates, [0]),
    "Recommender.scores": lambda here: call(recommender().scores, [0]),
    "Recommender.sample": lambda here: call(recommender().sample, 0, 2, exclude_seen=False, rng=0),
    "Recommender.top_n": lambda here: call(recommender().top_n, [0], 2, exclude_seen=False),
    "apps.representatives": lambda here: call(fa.apps.representatives, pd.DataFrame(A, columns=list("abcde")), 2),
    "Representatives.nearest": lambda here: call(fa.apps.representatives(A, 2).nearest),
    "apps.archetypes": lambda here: call(fa.apps.archetypes, adata(), 2, copy=True),
    # reports
    "report.anchor_shares": lambda here: call(fa.report.anchor_shares, A, A[:2], rows=5, rng=0),
    "report.gather": lambda here: call(
        fa.report.gather,
        A,
        found(),
        title="made",
        seed=0,
        row_names=None,
        column_names=None,
        kind="auto",
        image=None,
        order="C",
        embedding=None,
        texts=None,
    ),
    "report.page": lambda here: call(fa.report.page, facts()),
    "report.write": lambda here: call(fa.report.write, here / "page.html", A, found()),
    "report.write_topics": lambda here: call(fa.report.write_topics, here / "page.html", model(), counts()),
    "report.write_unmixing": lambda here: call(fa.report.write_unmixing, here / "page.html", unmixed()),
    # metrics
    "metrics.abundance_rmse": lambda here: call(fa.metrics.abundance_rmse, A, A),
    "metrics.anchor_labels": lambda here: call(fa.metrics.anchor_labels, A, [0, 1]),
    "metrics.anchor_recovery": lambda here: call(fa.metrics.anchor_recovery, [0, 1], [0, 1, -1]),
    "metrics.matched_spectral_angle": lambda here: call(fa.metrics.matched_spectral_angle, A[:2], A[:2]),
    "metrics.reconstruction_error": lambda here: call(fa.metrics.reconstruction_error, A, A[:2], rng=0),
    "metrics.spectral_angles": lambda here: call(fa.metrics.spectral_angles, A, A[:2]),
    "metrics.topic_coherence": lambda here: call(fa.metrics.topic_coherence, COUNTS[:2], COUNTS, top=2),
    "metrics.topic_uniqueness": lambda here: call(fa.metrics.topic_uniqueness, COUNTS[:2], top=2),
    # data sets
    "datasets.cells": lambda here: call(fa.datasets.cells, 9, 6, 2, rng=0),
    "datasets.dirichlet": lambda here: call(fa.datasets.dirichlet, 9, 5, 2, rng=0),
    "datasets.family": lambda here: call(fa.datasets.family, "rank_deficient_dirichlet", rng=0),
    "datasets.hyperspectral": lambda here: call(fa.datasets.hyperspectral, 5, 4, 12, 2, rng=0),
    "datasets.middle_points": lambda here: call(fa.datasets.middle_points, 5, 3, rng=0),
    "datasets.nonnegative_components": lambda here: call(fa.datasets.nonnegative_components, 2, 5, rng=0),
    "datasets.ratings": lambda here: call(fa.datasets.ratings, 9, 8, 2, per_user=3, rng=0),
    "datasets.separable": lambda here: call(fa.datasets.separable, 9, 5, 2, rng=0),
    "datasets.separable_blocks": lambda here: call(and_then(fa.datasets.separable_blocks, next_of), 9, 5, 2, rng=0),
    "SeparableBlocks.block": lambda here: call(fa.datasets.separable_blocks(9, 5, 2, rng=0).block, 0),
    "datasets.topics": lambda here: call(fa.datasets.topics, 9, 12, 2, rng=0),
    # readers
    "io.Source": lambda here: call(and_then(fa.io.Source, next_of), "x", (2, 2), "float64", False, reader),
    "Source.blocks": lambda here: call(fa.io.open_source(A).blocks),
    "io.formats": lambda here: call(fa.io.formats),
    "io.open_source": lambda here: call(fa.io.open_source, A),
}


def reader(max_bytes: int) -> Iterator[Any]:
    yield np.eye(2)


def next_of(made: Any) -> Any:
    return next(iter(made.blocks() if hasattr(made, "blocks") else made))


PACKAGES = {
    "fa": fa,
    "apps": fa.apps,
    "report": fa.report,
    "metrics": fa.metrics,
    "datasets": fa.datasets,
    "solvers": fa.solvers,
    "lowrank": fa.lowrank,
    "io": fa.io,
    "dask": fa.dask,
}
RESULTS = (RankCurve, Factors)  # classes of results that no package names

#: why a public callable is not in the table
EXCLUDED = {
    **dict.fromkeys(
        (
            "fa.Certificate",
            "fa.Cost",
            "apps.Corpus",
            "apps.Cube",
            "apps.MaterialCurve",
            "apps.Representatives",
            "apps.TopicChanges",
            "apps.TopicCurve",
            "apps.TopicScores",
            "apps.Topics",
            "apps.Unmixing",
            "report.Facts",
            "report.Shares",
            "metrics.Match",
            "metrics.ReconstructionError",
            "datasets.Cells",
            "datasets.Corpus",
            "datasets.Ratings",
            "datasets.Scene",
            "datasets.Separable",
            "datasets.SeparableBlocks",
            "RankCurve",
            "Factors",
        ),
        "a record that functions return: it holds what it is given",
    ),
    **dict.fromkeys(
        (
            "fa.Store",
            "Store.unwritten",
            "SampleMatrix.from_blocks",
            "dask.DaskMatrix",
            "dask.RemoteStore",
            "lowrank.CUR",
            "lowrank.LinearSolution",
        ),
        "made of parts that only this library makes; open, SampleMatrix, connect, cur and solve return them",
    ),
    **dict.fromkeys(("fa.RowMatrix", "fa.SampleAccess", "solvers.Solver"), "abstract"),
    **dict.fromkeys(
        ("RemoteStore.__setitem__", "RemoteStore.update", "RemoteStore.add", "RemoteStore.append"),
        "refuses every argument: the store is read-only",
    ),
    "Anchors.__getitem__": "a sequence of Python, which needs its IndexError and TypeError",
    **dict.fromkeys(
        (
            "SPA.after_first",
            "Robust.average",
            "RowMatrix.map_rows",
            "RowMatrix.map_parts",
            "DaskMatrix.map_rows",
            "DaskMatrix.map_parts",
            "DaskMatrix.sketch",
            "RemoteStore.kept_sketch",
            "Source.fitted",
        ),
        "a step that solvers and builds call on clean arrays",
    ),
    **dict.fromkeys(
        (
            "StoreContent.sidecars",
            "StoreContent.shared_arrays",
            "StoreContent.sidecar_arrays",
            "StoreContent.shard_arrays",
            "RemoteStore.shared_arrays",
            "RemoteStore.sidecar_arrays",
        ),
        "what sidecars ask of a store",
    ),
    "io.register_object": "changes the process for good",
}


def public_callables() -> dict[str, Any]:
    """Every public function, class and method by its name in the table; an inherited method has that of its class."""
    found: dict[str, Any] = {}
    seen: set[int] = set()
    named = [
        (f"{package}.{name}", getattr(module, name)) for package, module in PACKAGES.items() for name in module.__all__
    ]
    for name, value in [*named, *((kind.__name__, kind) for kind in RESULTS)]:
        if not callable(value) or id(value) in seen or (inspect.isclass(value) and issubclass(value, Exception)):
            continue
        seen.add(id(value))
        found[name] = value
        for base in value.__mro__ if inspect.isclass(value) else ():
            for method, part in vars(base).items() if base.__module__.startswith("fastanchors") else ():
                part = getattr(part, "__func__", part)
                if (
                    inspect.isfunction(part)
                    and (method[0] != "_" or method in ("__getitem__", "__setitem__"))
                    and not (getattr(part, "__isabstractmethod__", False))
                ):
                    found[f"{base.__name__}.{method}"] = part
    return found


def test_every_public_callable_is_in_the_table():
    public = public_callables()
    assert set(public) - set(CALLS) - set(EXCLUDED) == set()
    assert set(EXCLUDED) - set(public) == set()


# --- wrong values -------------------------------------------------------------------------------------------------

WRONG: dict[str, Callable[[], Any]] = {
    "None": lambda: None,
    "True": lambda: True,
    "-1": lambda: -1,
    "0": lambda: 0,
    "2.5": lambda: 2.5,
    "nan": lambda: float("nan"),
    "10**18": lambda: 10**18,
    "'x'": lambda: "x",
    "''": lambda: "",
    "b'x'": lambda: b"x",
    "[]": list,
    "[1, 'a']": lambda: [1, "a"],
    "()": tuple,
    "{}": dict,
    "object()": object,
    "a class": lambda: Thing,
    "array of no dimension": lambda: np.array(3),
    "array of another shape": lambda: np.ones((2, 3, 2)),
    "NUL": lambda: "a\0b",
    "'.'": lambda: ".",
    "an iterator": lambda: iter([1, 2]),
}
#: a class for which '.' is a folder to write results to, and 'x' a file
WRITES_HERE = {"apps.save_maps", "apps.save_pictures", "apps.save_spectra", "fa.build"}
#: arguments that are not replaced: a function is called as it is, and its exceptions are its own
FUNCTIONS = ("function", "passed")
#: counts that only mean more time, however large; and a folder that has two names
SKIPPED = {("refine", "10**18"), ("passes", "10**18"), ("directions", "10**18"), ("folder", "''")}
#: methods of scikit-learn's interface, which has errors of its own
ESTIMATORS = ("fa.SeparableNMF", "SeparableNMF.", "fa.TopicModel", "TopicModel")


def mutated(valid: Call) -> Iterator[tuple[str, Callable[[], Any]]]:
    """The call with each argument in turn replaced by each wrong value."""
    signature = inspect.signature(valid.function)
    bound = signature.bind(*valid.arguments, **valid.options)
    for name, parameter in signature.parameters.items():
        places: list[tuple[str, Callable[[dict[str, Any], Any], None]]] = []
        if parameter.kind is parameter.VAR_KEYWORD:
            for option in bound.arguments.get(name, {}):
                places.append((option, functools.partial(_put_option, name=name, option=option)))
        elif parameter.kind is not parameter.VAR_POSITIONAL:
            places.append((name, functools.partial(_put, name=name)))
        for (argument, put), (what, value) in itertools.product(places, WRONG.items()):
            if argument in FUNCTIONS or (argument, what) in SKIPPED:
                continue
            arguments = dict(bound.arguments)
            put(arguments, value())
            changed = inspect.BoundArguments(signature, arguments)  # type: ignore[arg-type]
            yield f"{argument}={what}", functools.partial(_run, valid.function, changed)


def _put(arguments: dict[str, Any], value: Any, *, name: str) -> None:
    arguments[name] = value


def _put_option(arguments: dict[str, Any], value: Any, *, name: str, option: str) -> None:
    arguments[name] = {**arguments[name], option: value}


def _run(function: Callable[..., Any], bound: inspect.BoundArguments) -> None:
    made = function(*bound.args, **bound.kwargs)
    if isinstance(made, Iterator):
        for _ in itertools.islice(made, 3):
            pass


def wrong_outcome(name: str, run: Callable[[], Any]) -> str | None:
    """What is wrong about the exception or warning of a call, or None."""
    allowed: tuple[type[Exception], ...] = (FastAnchorsError,)
    if name.startswith(ESTIMATORS):
        allowed = (FastAnchorsError, ValueError, NotFittedError)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", GuessWarning)
        warnings.simplefilter("ignore", ConvergenceWarning)
        try:
            run()
        except allowed as error:
            return None if len(str(error)) < 500 else f"{len(str(error))} characters"
        except Exception as error:
            return f"{type(error).__name__}: {error}"
    return None


@pytest.mark.parametrize("name", CALLS)
def test_wrong_arguments_are_refused_by_our_own_errors(name, tmp_path, monkeypatch):
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    valid = CALLS[name](tmp_path)
    _run(valid.function, inspect.signature(valid.function).bind(*valid.arguments, **valid.options))
    wrong = {case: outcome for case, run in mutated(valid) if (outcome := wrong_outcome(name, run)) is not None}
    plt.close("all")
    assert wrong == {}
    if name not in WRITES_HERE:
        assert set(os.listdir()) <= {"x"}
