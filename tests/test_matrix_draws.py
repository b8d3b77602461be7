"""The four kinds of draw have exactly the distribution of Proposition 1, fresh and after updates.

Chi-square tests at fixed seeds. Each rejects at p < 1e-6, so that all of them together (fewer than 400) would raise a
false alarm with probability below 4e-4 had the seeds not been fixed.
"""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.stats import chisquare

import fastanchors as fa

LEVEL = 1e-6
SHAPE = (70, 90)


def uniform(rng: np.random.Generator) -> np.ndarray:
    return np.ones(SHAPE)


def zipf(rng: np.random.Generator) -> np.ndarray:
    i, j = np.ogrid[1 : SHAPE[0] + 1, 1 : SHAPE[1] + 1]
    return rng.permuted(1.0 / (i * j), axis=1) * (rng.random(SHAPE) < 0.6)


def spike(rng: np.random.Generator) -> np.ndarray:
    A = rng.random(SHAPE) * (rng.random(SHAPE) < 0.5)
    A[33, 44] = 80.0
    return A


def extreme_rows(rng: np.random.Generator) -> np.ndarray:
    return (0.5 + rng.random(SHAPE) / 2) * np.where(np.arange(SHAPE[0]) % 2, 1e-150, 1e150)[:, None]


def extreme_columns(rng: np.random.Generator) -> np.ndarray:
    return (0.5 + rng.random(SHAPE) / 2) * np.where(np.arange(SHAPE[1]) % 2, 1e-150, 1e150)


def assert_drawn_by(weights: np.ndarray, drawn: np.ndarray) -> None:
    """Chi-square of ``drawn`` against ``weights``; cells with an expected count below 5 are pooled."""
    counts = np.bincount(drawn, minlength=len(weights))
    assert not counts[weights == 0].any()
    expected = weights / weights.sum() * len(drawn)
    rare = expected < 5
    counts = np.append(counts[~rare], counts[rare].sum())
    expected = np.append(expected[~rare], expected[rare].sum())
    if expected[-1] < 1e-3:
        assert counts[-1] == 0
        counts, expected = counts[:-1], expected[:-1]
    if len(counts) > 1:
        expected *= counts.sum() / expected.sum()
        assert chisquare(counts, expected).pvalue > LEVEL


def view_of(stored: np.ndarray, normalize: str | None) -> np.ndarray:
    return stored if normalize is None else stored / np.maximum(stored.sum(axis=1, keepdims=True), 1e-300)


def assert_all_draws(S: fa.SampleMatrix, stored: np.ndarray, seed: int) -> None:
    weights = view_of(stored, S.normalize) ** 2
    rng = np.random.default_rng(seed)
    assert_drawn_by(weights.sum(axis=1), S.sample_rows(20_000, rng=rng))
    assert_drawn_by(weights.sum(axis=0), S.sample_columns(20_000, rng=rng))
    # Under l1 a column of 1e-150 beside one of 1e150 has no squares left in double precision, and is refused.
    rows, columns = [0, 33, 69], [j for j in (1, 44, 88) if weights[:, j].any()]
    for j in {1, 44, 88}.difference(columns):
        with pytest.raises(fa.errors.InvalidInputError, match=f"column {j} is zero"):
            S.sample_in_column(j)
    for i, drawn in zip(rows, S.sample_in_row(rows, 5_000, rng=rng)):
        assert_drawn_by(weights[i], drawn)
    for j, drawn in zip(columns, S.sample_in_column(columns, 5_000, rng=rng)):
        assert_drawn_by(weights[:, j], drawn)


def drift(S: fa.SampleMatrix, stored: np.ndarray, rng: np.random.Generator) -> None:
    """Updates that move l1 norms a little and a lot, up and down, with new non-zeros and deletions."""
    m, n = stored.shape
    large = np.where(stored > 0, stored, np.median(stored[stored > 0]))
    for factor in (0.9, 0.6, 1.3, 0.1, 3.0):
        i, j = rng.integers(0, m, 150), rng.integers(0, n, 150)
        i[:60] = np.repeat([0, 33, 69], 20)
        _, once = np.unique(i * n + j, return_index=True)
        i, j = i[once], j[once]
        x = np.where(rng.random(len(i)) < 0.2, 0.0, large[i, j] * factor)
        S.update(i, j, x)
        stored[i, j] = x


@pytest.mark.parametrize("normalize", ["l1", None])
@pytest.mark.parametrize("kind", ["dense", "sparse"])
@pytest.mark.parametrize("family", [uniform, zipf, spike, extreme_rows, extreme_columns])
def test_draws(family, kind, normalize):
    rng = np.random.default_rng(7)
    stored = family(rng)
    S = fa.SampleMatrix(sp.csr_array(stored) if kind == "sparse" else stored, normalize=normalize)
    assert_all_draws(S, stored, seed=1)
    drift(S, stored, rng)
    assert_all_draws(S, stored, seed=2)
    S.check()


@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_draws_from_several_blocks(kind):
    rng = np.random.default_rng(8)
    stored = zipf(rng)
    parts = [stored[:52], stored[52:65], stored[65:]]
    parts = [sp.csr_array(part) for part in parts] if kind == "sparse" else parts
    S = fa.SampleMatrix(parts[0])
    S.append(parts[1])
    S.append(parts[2])
    assert len(S._blocks) == 3
    assert_all_draws(S, stored, seed=3)
    drift(S, stored, rng)
    assert_all_draws(S, stored, seed=4)


def test_the_rejection_step_is_what_makes_drifted_columns_exact():
    """Without it the test above would see stale weights, which differ from the true ones by up to a factor of 16."""
    rng = np.random.default_rng(9)
    stored = rng.random(SHAPE)
    S = fa.SampleMatrix(stored)
    S.update(np.arange(35), 0, 20.0)
    stored[:35, 0] = 20.0
    block = S._blocks[0]
    assert block.drifted
    stale = block.column_weights(np.arange(SHAPE[1]))
    true = (view_of(stored, "l1") ** 2).sum(axis=0)
    assert np.abs(stale / stale.sum() / (true / true.sum()) - 1).max() > 0.1
    assert_drawn_by(true, S.sample_columns(50_000, rng=5))
    assert 1 / 16 <= block.acceptance(np.arange(35)).min() <= block.acceptance(np.arange(70)).max() <= 1 + 1e-12


@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_slightly_changed_rows_are_drawn_exactly_without_refresh(kind):
    """The stale scale may also lie below the true factor: the bound on the weights covers it."""
    rng = np.random.default_rng(11)
    stored = rng.random(SHAPE) + 0.5
    S = fa.SampleMatrix(sp.csr_array(stored) if kind == "sparse" else stored)
    pristine = S._blocks[0].view.scale.copy()
    S.update(np.arange(30), 1, 0.1)
    stored[:30, 1] = 0.1
    block = S._blocks[0]
    np.testing.assert_array_equal(block.view.scale, pristine)
    assert (block.view.scale[:30] * block.l1_norms(np.arange(30)) < 1).all()
    assert block.acceptance(np.arange(SHAPE[0])).max() <= 1
    assert_all_draws(S, stored, seed=12)
    true = (view_of(stored, "l1") ** 2).sum(axis=0)
    np.testing.assert_allclose(S.column_norm(np.arange(SHAPE[1])) ** 2, true, rtol=1e-12)


@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_scales_stay_within_the_band_and_rebuilt_blocks_are_fresh(kind):
    """Norms that fall, rise, and leave the band: ratios in [1/4, F] and F ≤ 4; only rows that left are rewritten."""
    rng = np.random.default_rng(13)
    stored = rng.random(SHAPE) + 0.5
    S = fa.SampleMatrix(sp.csr_array(stored) if kind == "sparse" else stored)
    block, every = S._blocks[0], np.arange(SHAPE[0])
    pristine = block.view.scale.copy()
    for rows, x in ((slice(0, 20), 0.01), (slice(20, 40), 60.0), (slice(40, 50), 900.0)):
        i, j = (a.reshape(-1) for a in np.meshgrid(every[rows], np.arange(45), indexing="ij"))
        stored[i, j] = x if x < 1 else stored[i, j]
        stored[every[rows], 3] = max(x, 0.01)
        S.update(i, j, stored[i, j])
    ratio = (1.0 / (block.l1_norms(every) * block.view.scale)) ** 2
    bound = float(block.view.bound[0])
    assert 1 < bound <= 4
    assert ratio.min() >= 0.25
    assert ratio.max() <= bound * (1 + 1e-12)
    moved = block.view.scale != pristine
    assert not moved[50:].any()
    assert moved[40:50].all()
    assert_all_draws(S, stored, seed=14)
    S.append(sp.csr_array(stored[:5]) if kind == "sparse" else stored[:5])
    assert [b.drifted for b in S._blocks] == [True, False]
    assert_drawn_by((view_of(np.vstack([stored, stored[:5]]), "l1") ** 2).sum(axis=0), S.sample_columns(20_000, rng=15))
    S.consolidate()
    assert not any(b.drifted for b in S._blocks)
    assert S._blocks[0].view.bound[0] == 1.0
    S.check()
