"""The bounds of the hull hold."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

import fastanchors as fa
from fastanchors.fas import seek as fas_seek
from fastanchors.fas.bounds import Sketch, row_space
from fastanchors.fas.coreset import Coreset
from fastanchors.fas.hull import mixtures
from fastanchors.fas.index import build_index
from fastanchors.fas.sidecar import recall
from matrices import metered
from naive.fas import noisy, residual_norms, separable


def test_shares_and_errors_are_those_of_the_mixture():
    rng = np.random.default_rng(0)
    F = rng.dirichlet(np.ones(4), 300) * rng.uniform(0.5, 1, (300, 1))
    points = rng.random((4, 12))
    A = F @ points
    A[7] += 0.3 * rng.random(12)  # no mixture
    known = np.zeros(300, bool)
    known[3] = True
    rows, values = mixtures(Sketch.of(metered(A), row_space(A, 8, rng)), points, known, 300)
    shares, error = np.zeros((300, 5)), values[-1]
    for j in range(5):
        shares[rows[j][rows[j] >= 0], j] = values[j][rows[j] >= 0]
    ordinary = np.setdiff1d(np.arange(300), [3, 7])
    np.testing.assert_allclose(shares[ordinary, :4], F[ordinary], atol=1e-5)
    assert (shares[ordinary, 4] < 1e-5).all()
    assert rows[-1, 0] == 7
    assert error[0] > 0.05
    assert not (rows == 3).any()


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("alpha", [0.05, 1.0])
def test_tails_hold_for_any_anchors(sparse, alpha):
    rng = np.random.default_rng(1)
    A = separable(rng, 4000, 15, 5, alpha=alpha)
    A = sp.csr_array(A) if sparse else A
    index = build_index(metered(A), 5, rng, pilot=300)
    assert index.hull is not None
    assert (index.hull.shares < 1).all()
    assert index.hull.gap < 1e-5
    outside = np.setdiff1d(np.arange(4000), index.coreset.indices)
    for _ in range(10):
        other = rng.choice(4000, 4, replace=False)
        true = residual_norms(A, other)[outside][:, :4].max(axis=0)
        run = Coreset.read(metered(A), other)
        basis = np.linalg.qr(np.asarray(run.points(other)).T)[0].T
        assert (true <= index.hull.tails(basis, 4)).all()
    covered = index.hull.covers(A[outside])
    assert covered.mean() > 0.9
    assert not index.hull.covers(2 * index.hull.points).any()


def test_no_hull_for_noise():
    rng = np.random.default_rng(2)
    A = noisy(rng, separable(rng, 3000, 15, 5))
    assert build_index(metered(A), 5, rng).hull is None


def test_changed_anchors_need_no_new_pass(monkeypatch):
    """Anchors move and vanish, near-pure rows move outwards: the hull proves the new anchors from the kept data."""
    monkeypatch.setattr(fas_seek, "SMALL", 0)
    rng = np.random.default_rng(3)
    S = fa.SampleMatrix(separable(rng, 20_000, 15, 5, alpha=0.3))
    found = fa.FAS(selection="spa").seek(S, 5, rng=0)
    for step in range(6):
        anchor = int(found.indices[step % 5])
        S[anchor, int(rng.integers(15))] = float(rng.random())
        S.update(rng.integers(20_000, size=20), rng.integers(15, size=20), rng.random(20))
        found = fa.FAS(selection="spa").seek(S, 5, rng=0)
        assert found.indices.tolist() == fa.SPA().seek(S, 5).indices.tolist()
        assert found.cost.rows_read <= 21
        assert found.certificate.details["index"].startswith("kept")
    assert recall(S).index.hull is not None
