"""Results compare by value: equal to their copies, different from others, and never an error of NumPy."""

from __future__ import annotations

import copy
import dataclasses
import importlib
import pickle

import numpy as np
import pytest
import scipy.sparse as sp

import fastanchors as fa
from fastanchors import report
from fastanchors._equality import ComparedByValue, same
from fastanchors.anchors import Selection
from fastanchors.greedy.stability import Stability
from fastanchors.io.scene import SceneInfo
from fastanchors.lowrank.sampled_svd import SampleSize
from fastanchors.rank import RankCurve
from fastanchors.warm_start import Factors

ROOMS = ("", "apps", "datasets", "io", "lowrank", "metrics", "report", "solvers")


def rows(seed):
    return fa.datasets.separable(60, 8, 3, noise=0.02, rng=seed).A


def counts(seed):
    return fa.datasets.topics(300, 80, 3, rng=seed).A


def facts(seed):
    A = rows(seed)
    return report.gather(A, fa.SPA().seek(A, 3), title="t", seed=0)


def curve_of_materials(seed):
    return fa.apps.material_curve(fa.datasets.hyperspectral(12, 10, 30, 3, rng=seed).A, 4, shape=(12, 10))


# Every public type of result: a function of a seed that makes one.
RESULTS = {
    fa.Anchors: lambda seed: fa.SPA(robust="average").seek(rows(seed), 3),
    fa.Certificate: lambda seed: fa.DCA().seek(rows(seed), 3, rng=0).certificate,
    Selection: lambda seed: Selection(rows(seed)[0], fa.Certificate("none", "")),
    Stability: lambda seed: fa.FAS().seek(rows(seed), 3, rng=0).certificate.stability,
    fa.Cost: lambda seed: fa.Cost(samples=seed),
    RankCurve: lambda seed: fa.rank_curve(rows(seed), rng=0),
    Factors: lambda seed: fa.nmf(rows(seed), 3, rng=0),
    SampleSize: lambda seed: fa.fkv_sample_size(2 + seed, 0.5),
    SceneInfo: lambda seed: SceneInfo((2, 3), wavelengths=np.arange(4.0) + seed),
    fa.solvers.Robust: lambda seed: fa.solvers.Robust(support=2.0 + seed),
    fa.metrics.Match: lambda seed: fa.metrics.matched_spectral_angle(rows(seed)[:3], rows(0)[:3]),
    fa.metrics.ReconstructionError: lambda seed: fa.metrics.reconstruction_error(rows(seed), rows(seed)[:3], rng=0),
    fa.datasets.Separable: lambda seed: fa.datasets.separable(30, 6, 3, rng=seed),
    fa.datasets.SeparableBlocks: lambda seed: fa.datasets.separable_blocks(30, 6, 3, rng=seed),
    fa.datasets.Scene: lambda seed: fa.datasets.hyperspectral(6, 5, 20, 3, rng=seed),
    fa.datasets.Corpus: lambda seed: fa.datasets.topics(30, 20, 3, rng=seed),
    fa.datasets.Cells: lambda seed: fa.datasets.cells(30, 20, 3, rng=seed),
    fa.datasets.Ratings: lambda seed: fa.datasets.ratings(20, 15, 3, per_user=5, rng=seed),
    fa.apps.Corpus: lambda seed: fa.apps.as_corpus(counts(seed)),
    fa.apps.Topics: lambda seed: fa.apps.topics(counts(seed), 3),
    fa.apps.TopicChanges: lambda seed: fa.apps.TopicChanges(((0, 0),), (), (1,), (), {(0, 0): 0.25 * seed}),
    fa.apps.TopicCurve: lambda seed: fa.apps.TopicCurve((2, 3), (0.5, 0.25 + seed), (0.1, 0.1), 2),
    fa.apps.TopicScores: lambda seed: fa.apps.TopicScores("anchors", 0.5, 0.25 + seed, 1.0, 2.0),
    fa.apps.Unmixing: lambda seed: fa.apps.unmix(rows(seed), 3, shape=(6, 10)),
    fa.apps.MaterialCurve: curve_of_materials,
    fa.apps.Representatives: lambda seed: fa.apps.representatives(rows(seed), 3, rng=0),
    report.Shares: lambda seed: report.anchor_shares(rows(seed), rows(seed)[:3]),
    report.Facts: facts,
}
HELD = {fa.apps.Cube}  # compared by the identity of their pixels, which may be in a file


def dataclasses_in(value):
    """The types of all dataclass instances in a value."""
    if dataclasses.is_dataclass(value):
        yield type(value)
        value = [getattr(value, each.name) for each in dataclasses.fields(value)]
    if isinstance(value, dict):
        value = list(value.values())
    for each in value if isinstance(value, list | tuple) else ():
        yield from dataclasses_in(each)


def test_the_table_has_every_public_dataclass():
    modules = [importlib.import_module(f"fastanchors.{room}".rstrip(".")) for room in ROOMS]
    public = [getattr(module, name) for module in modules for name in module.__all__]
    assert {each for each in public if isinstance(each, type) and dataclasses.is_dataclass(each)} <= {*RESULTS, *HELD}


@pytest.mark.parametrize("kind", RESULTS, ids=lambda kind: kind.__name__)
def test_results_compare_by_value(kind):
    result, again, other = RESULTS[kind](0), RESULTS[kind](0), RESULTS[kind](1)
    assert type(result) is kind
    assert result == result
    assert result == again
    assert result != other
    assert result != "another type"
    assert copy.deepcopy(result) == result
    assert pickle.loads(pickle.dumps(result)) == result
    if isinstance(result, ComparedByValue) and kind is not fa.Anchors:
        with pytest.raises(TypeError, match="unhashable"):
            hash(result)
    elif kind is not fa.Cost:  # which can be changed
        assert hash(result) == hash(again)
    for part in set(dataclasses_in(result)):
        arrays = any(word in each.type for each in dataclasses.fields(part) for word in ("Array", "Rows"))
        assert issubclass(part, ComparedByValue) or not arrays, part
        assert part.__eq__ is ComparedByValue.__eq__ or not issubclass(part, ComparedByValue), part


def test_results_that_read_from_a_matrix_are_equal_to_themselves_only():
    A = rows(0)
    for make in (fa.cur, fa.fkv, fa.apps.Recommender, lambda A, k, rng: fa.lowrank.solve(A, A.sum(axis=1), k, rng=rng)):
        result = make(A, 2, rng=0)
        assert result == result
        assert result != make(A, 2, rng=0)
        assert len({result, result}) == 1


def test_time_and_the_source_of_the_pixels_are_not_compared_but_the_image_is():
    result = fa.apps.unmix(rows(0), 3, shape=(6, 10))
    assert dataclasses.replace(result, seconds=-1.0) == result
    assert fa.apps.unmix(rows(0), 3, shape=(10, 6)) != result
    assert result.cube == result.cube
    assert result.cube != fa.apps.unmix(rows(0), 3, shape=(6, 10)).cube


def test_options_that_are_arrays_compare_by_value():
    weights = np.arange(1.0, 61.0)
    assert fa.FAS(weights=weights) == fa.FAS(weights=weights.copy())
    assert fa.FAS(weights=weights) != fa.FAS(weights=weights + 1)
    assert fa.FAS(weights=weights) != fa.FAS()


EQUAL = [
    (np.array([1.0, np.nan]), np.array([1.0, np.nan])),
    (np.array([1, 2]), np.array([1.0, 2.0])),
    (np.array(["a", "b"]), np.array(["a", "b"])),
    (np.array([None, np.nan, "a"], dtype=object), np.array([None, np.nan, "a"], dtype=object)),
    (sp.csr_array(np.eye(3)), sp.csc_array(np.eye(3))),
    ({"a": [np.ones(2)]}, {"a": [np.ones(2)]}),
    (float("nan"), np.float32("nan")),
]
DIFFERENT = [
    (np.zeros(2), np.zeros(3)),
    (np.zeros((2, 1)), np.zeros((1, 2))),
    (np.zeros(2), [0.0, 0.0]),
    (np.zeros(2), None),
    (np.zeros(2), "a"),
    (np.array(["a"]), np.array([1.0])),
    (sp.csr_array(np.eye(3)), np.eye(3)),
    (sp.csr_array(np.eye(3)), sp.csr_array((3, 3))),
    (sp.csr_array((3, 3)), sp.csr_array((3, 2))),
    ({"a": np.ones(2)}, {"b": np.ones(2)}),
    ([np.ones(2)], (np.ones(2),)),
    (float("nan"), 1.0),
    (1.0, float("nan")),
]


@pytest.mark.parametrize(("one", "other"), EQUAL)
def test_equal_values(one, other):
    assert same(one, other) is True
    assert same(other, one) is True


@pytest.mark.parametrize(("one", "other"), DIFFERENT)
def test_different_values(one, other):
    assert same(one, other) is False
    assert same(other, one) is False
