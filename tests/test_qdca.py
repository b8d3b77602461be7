"""QDCA on the simulator: its states, their measurements, and a comparison with the dequantised draws."""

from __future__ import annotations

import builtins

import numpy as np
import pytest
import scipy.sparse as sp
import scipy.stats

import fastanchors as fa
from fastanchors.errors import InvalidInputError, InvalidTypeError, MissingExtraError, RankError, TooLargeError
from fastanchors.solvers.qdca import _angles
from naive.family import multiplexed_state, rotation_angle
from naive.lowrank import squared_distribution


def simulated(circuit):
    """The state that a circuit prepares."""
    import pennylane as qml

    tape = qml.tape.QuantumScript(circuit.operations, [qml.state()])
    return qml.execute([tape], qml.device("default.qubit", wires=circuit.num_wires))[0]


@pytest.fixture(scope="module")
def signed():
    """13 rows (no power of two) and a direction whose projections have both signs."""
    rng = np.random.default_rng(0)
    A = rng.random((13, 5))
    beta = rng.standard_normal(5)
    assert (A @ beta).min() < 0 < (A @ beta).max()
    return A, beta


@pytest.mark.parametrize("preparation", ["state", "gates"])
def test_the_state_is_the_projection_with_its_signs(signed, preparation):
    A, beta = signed
    circuit = fa.QDCA(preparation=preparation).circuit(A, beta)
    assert circuit.num_wires == 4
    state = simulated(circuit)
    np.testing.assert_allclose(state[:13], A @ beta / np.linalg.norm(A @ beta), atol=1e-12)
    assert not np.abs(state[13:]).any() or np.abs(state[13:]).max() < 1e-12


@pytest.mark.parametrize("m", [1, 2, 3, 8])
def test_gates_prepare_states_of_any_size(m):
    A = np.random.default_rng(m).random((m, 3))
    beta = np.array([1.0, -1.0, 0.3])
    state = simulated(fa.QDCA(preparation="gates").circuit(A, beta))
    np.testing.assert_allclose(state[:m], A @ beta / np.linalg.norm(A @ beta), atol=1e-12)


def test_angles_are_those_of_the_tree_node_by_node():
    v = np.random.default_rng(1).standard_normal(8)
    v /= np.linalg.norm(v)
    levels = _angles(v)
    assert [len(level) for level in levels] == [1, 2, 4]
    for depth, level in enumerate(levels):
        for node, angle in enumerate(level):
            assert angle == pytest.approx(rotation_angle(v, depth, node))
    np.testing.assert_allclose(multiplexed_state(levels), v, atol=1e-14)


def test_measurements_and_the_sample_model_draw_from_one_distribution():
    """The dequantisation: |Aβ⟩ measured, a tree on Aβ, and rejection on A's columns. False alarms: 1e-4 each."""
    rng = np.random.default_rng(2)
    A, beta, draws = rng.random((100, 4)), rng.standard_normal(4), 40_000
    expected = draws * squared_distribution(A @ beta)
    measured = {
        "measured": fa.QDCA(shots=draws).measure(A, beta, rng=3),
        "tree": np.bincount(fa.VectorSampler(A @ beta).sample(draws, rng=4), minlength=100),
        "rejection": np.bincount(
            fa.sample_combination(fa.SampleMatrix(A, normalize=None), beta, draws, rng=5), minlength=100
        ),
    }
    common = expected >= 5  # the rest in one cell, so that every cell expects enough
    for name, counts in measured.items():
        seen, wanted = (np.append(x[common], x[~common].sum()) for x in (counts, expected))
        keep = wanted > 0
        assert counts.sum() == draws
        assert scipy.stats.chisquare(seen[keep], wanted[keep]).pvalue > 1e-4, name
    table = np.stack([measured["measured"], measured["tree"], measured["rejection"]])
    assert scipy.stats.chi2_contingency(table[:, common]).pvalue > 1e-4


def test_gates_measure_the_same_distribution(signed):
    """False-alarm rate 1e-4."""
    A, beta = signed
    counts = fa.QDCA(shots=20_000, preparation="gates").measure(A, beta, rng=6)
    assert scipy.stats.chisquare(counts, 20_000 * squared_distribution(A @ beta)).pvalue > 1e-4


@pytest.mark.parametrize("geometry", ["hull", "cone"])
def test_anchors_are_found(geometry):
    made = fa.datasets.separable(120, 10, 3, rng=0)
    found = fa.QDCA(30, geometry=geometry).seek(made.A, 3, rng=1)
    assert fa.metrics.anchor_recovery(found.indices, made.labels) == 1.0
    assert found.solver == "qdca"
    assert found.certificate.kind == "none"
    assert found.certificate.details["shots"] == 1 << 14


def test_twelve_qubits_and_the_largest_outcome_seen():
    made = fa.datasets.separable(1 << 12, 12, 4, rng=2)
    found = fa.QDCA(40, vote="largest").seek(made.A, 4, rng=3)
    assert fa.metrics.anchor_recovery(found.indices, made.labels) == 1.0
    assert fa.QDCA().circuit(made.A, np.ones(12)).num_wires == 12


def test_same_seed_same_answer_for_every_kind_of_matrix():
    A = np.round(100 * fa.datasets.separable(40, 8, 3, rng=4).A)
    A = np.vstack([A, np.zeros(8)])
    solver = fa.QDCA(12, shots=2000)
    expected = solver.seek(A, 3, rng=5).indices.tolist()
    assert 40 not in expected
    for held in (A.astype(np.float32), sp.csr_array(A), fa.SampleMatrix(A, normalize=None)):
        assert solver.seek(held, 3, rng=5).indices.tolist() == expected
    assert fa.SeparableNMF(3, solver="qdca", random_state=0).fit(A[:40]).n_components_ == 3
    counts = [fa.QDCA(shots=500).measure(A, np.ones(8), rng=seed) for seed in (1, 1, 2)]
    assert (counts[0] == counts[1]).all()
    assert (counts[0] != counts[2]).any()


def test_the_circuit_can_be_drawn(signed):
    A, beta = signed
    text = fa.QDCA().draw(A[:4], beta)
    assert text.count("RY") == 3
    assert text.splitlines()[0].startswith("0: ")
    assert "Sample" in text


@pytest.mark.parametrize(
    ("solver", "error", "message"),
    [
        (lambda: fa.QDCA(shots=0), InvalidInputError, "shots must be at least 1"),
        (lambda: fa.QDCA(shots=10**12), TooLargeError, "more than the simulator can return"),
        (lambda: fa.QDCA(shots=1.5), InvalidTypeError, "shots must be an integer"),
        (lambda: fa.QDCA(vote="loudest"), InvalidInputError, "vote must be"),
        (lambda: fa.QDCA(preparation="qram"), InvalidInputError, "preparation must be"),
        (lambda: fa.QDCA(geometry="ball"), InvalidInputError, "geometry must be"),
    ],
)
def test_bad_options_are_one_clear_error(solver, error, message):
    with pytest.raises(error, match=message):
        solver().seek(np.eye(4), 2, rng=0)


def test_bad_projections_and_sizes():
    solver = fa.QDCA(preparation="gates")
    with pytest.raises(InvalidInputError, match="beta must hold 3"):
        solver.measure(np.eye(3), np.ones(2))
    with pytest.raises(InvalidInputError, match="beta is zero"):
        solver.measure(np.eye(3), np.zeros(3))
    with pytest.raises(InvalidInputError, match="shots"):
        fa.QDCA(shots=0).measure(np.eye(3), np.ones(3))
    with pytest.raises(TooLargeError, match="preparation='state'"):
        solver.circuit(np.ones((20_000, 1)), [1.0])
    with pytest.raises(TooLargeError, match="23 qubits"):
        fa.QDCA(1).seek(sp.csr_array((np.ones(1), ([0], [0])), shape=((1 << 22) + 1, 1)), 1)
    with pytest.raises(RankError, match="only 1 distinct"):
        fa.QDCA(2, shots=50).seek(np.ones((4, 3)), 2, rng=0)


def test_without_pennylane_the_error_names_the_extra(monkeypatch):
    real = builtins.__import__

    def absent(name, *args, **kwargs):
        if name == "pennylane":
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", absent)
    with pytest.raises(MissingExtraError, match=r"fastanchors\[quantum\]"):
        fa.QDCA().seek(np.eye(3), 2)


@pytest.mark.parametrize("beta", [[1j] * 8, ["a"] * 8])
def test_beta_must_be_real(beta):
    with pytest.raises(fa.errors.InvalidTypeError, match="real numbers"):
        fa.QDCA().measure(np.ones((4, 8)), beta)


def test_draw_checks_the_options():
    with pytest.raises(fa.errors.InvalidInputError, match="preparation"):
        fa.QDCA(preparation="x").draw(np.ones((4, 8)), np.ones(8))
