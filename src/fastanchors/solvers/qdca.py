"""QDCA, quantum divide-and-conquer anchoring on a simulator: the algorithm that Fast Anchors Seeking dequantises.

Y. Du, T. Liu, Y. Li, R. Duan and D. Tao, "Quantum divide-and-conquer anchoring for separable non-negative matrix
factorization", IJCAI 2018.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._rng import RngLike, as_generator
from .._validate import as_reals, check_choice, check_size
from ..anchors import Certificate
from ..errors import InvalidInputError, MissingExtraError, TooLargeError
from ..matrix import RowMatrix, open_matrix
from .dca import DCA, projected

__all__ = ["QDCA"]

_MAX_QUBITS = 22  # 2^22 rows: 64 MB of amplitudes, of which the simulator keeps a few copies
_MAX_GATE_QUBITS = 14  # preparation takes 2^(q+1) gates, each over 2^q amplitudes
_MAX_SHOTS = 1 << 26  # the simulator returns every qubit of every shot
_PROJECTED_ENTRIES = 1 << 22


class QDCA(DCA):
    """Quantum divide-and-conquer anchoring (QDCA), on PennyLane's simulator (extra ``quantum``): Du et al., IJCAI 2018.

    Each random direction β gives the state ``|Aβ⟩`` = Σ_i (Aβ)_i/‖Aβ‖ ``|i⟩`` of ⌈log₂ m⌉ qubits. A measurement returns
    row i with probability (Aβ)_i²/‖Aβ‖², so the most frequent outcome of enough shots is the end of the data on that
    line, a vote for an anchor. The k anchors are chosen from the votes as in :class:`~fastanchors.DCA`.

    The sample model draws from the same distribution D_{Aβ} with a tree of partial sums, and the same tree prepares the
    state here (:meth:`circuit`). This is the dequantisation.

    Parameters
    ----------
    projections
        As in :class:`~fastanchors.DCA`, on lines.
    shots
        Measurements of each state. If the two largest probabilities of D_{Aβ} are c/m and (c − g)/m, about
        (2c/g²)·m·log m shots are needed for the most frequent outcome to be the largest: shots grow with m.
    vote
        ``"frequent"`` votes for the most frequent outcome, as published (the lowest row among equals); ``"largest"``
        queries Aβ at every outcome and votes for the largest, which is correct as soon as the end was measured once.
    preparation
        ``"state"`` sets the simulator's amplitudes; ``"gates"`` prepares them by rotations and CNOTs from ``|0…0⟩``, as
        a device would, up to 2^14 rows.
    geometry, directions, delta, allow_fewer
        As in :class:`~fastanchors.DCA`, on lines.

    Notes
    -----
    A simulator stores all 2^⌈log₂ m⌉ amplitudes and computes A·β, so the time is O(nnz·s), as for DCA, plus the shots.
    It shows what the quantum algorithm does, not its speed. At most 2^22 rows.

    Examples
    --------
    >>> import fastanchors as fa
    >>> X = fa.datasets.separable(200, 10, 4, rng=0).A
    >>> solver = fa.QDCA(projections=40, shots=1024)  # seek needs the extra 'quantum'
    >>> solver.get_params()['shots']
    1024
    """

    name: ClassVar[str] = "qdca"

    def __init__(
        self,
        projections: int | None = None,
        *,
        shots: int = 1 << 14,
        vote: Literal["frequent", "largest"] = "frequent",
        preparation: Literal["state", "gates"] = "state",
        geometry: Literal["hull", "cone"] = "hull",
        directions: Literal["gaussian", "row-space", "whitened", "mixed"] = "gaussian",
        delta: float = 0.01,
        allow_fewer: bool = False,
    ) -> None:
        super().__init__(
            projections, dimension=1, geometry=geometry, directions=directions, delta=delta, allow_fewer=allow_fewer
        )
        if check_size(shots, name="shots") > _MAX_SHOTS:
            raise TooLargeError(f"shots = {shots} are more than the simulator can return; at most {_MAX_SHOTS}")
        check_choice(vote, ("frequent", "largest"), name="vote")
        check_choice(preparation, ("state", "gates"), name="preparation")
        self.shots = shots
        self.vote = vote
        self.preparation = preparation

    def circuit(self, A: Any, beta: ArrayLike) -> Any:
        """The circuit of one projection: prepare ``|Aβ⟩``, measure all qubits. A ``pennylane.tape.QuantumScript``."""
        return self._circuit(self._project(A, beta))

    def draw(self, A: Any, beta: ArrayLike) -> str:
        """The circuit of one projection as text, with every rotation (up to 2^14 rows)."""
        values = self._project(A, beta)
        qml = _quantum()
        tape = qml.tape.QuantumScript(_rotations(values), [qml.sample(wires=range(_qubits(len(values))))])
        return str(qml.drawer.tape_text(tape, decimals=2, max_length=120))

    def measure(self, A: Any, beta: ArrayLike, *, rng: RngLike = None) -> NDArray[np.intp]:
        """How often each of the m rows is measured in ``shots`` preparations of ``|Aβ⟩``."""
        return self._measure(self._project(A, beta), as_generator(rng))

    def _project(self, A: Any, beta: ArrayLike) -> NDArray[np.float64]:
        data = open_matrix(A)
        direction = as_reals(beta, "beta")
        if direction.shape != (data.shape[1],):
            raise InvalidInputError(f"beta must hold {data.shape[1]} finite numbers, got shape {direction.shape}")
        return data.dot(direction)

    def _collect_votes(
        self, data: RowMatrix, directions: NDArray[np.float64], rng: np.random.Generator
    ) -> Iterator[tuple[int, float]]:
        m, s = data.shape[0], directions.shape[1]
        _qubits(m)  # raises if m is too large, before anything is computed
        step = max(1, _PROJECTED_ENTRIES // m)
        for start in range(0, s, step):
            some = directions[:, start : start + step]
            values = np.zeros((some.shape[1], m))
            for rows, P in projected(data, some, cone=self.geometry == "cone"):
                values[:, rows] = P.T
            for projection in values:
                if not projection.any():  # a zero vector has no state
                    continue
                counts = self._measure(projection, rng)
                yield self._winner(counts, projection), 1.0

    def _winner(self, counts: NDArray[np.intp], projection: NDArray[np.float64]) -> int:
        if self.vote == "frequent":
            return int(np.argmax(counts))
        return int(np.argmax(np.where(counts > 0, np.abs(projection), -1.0)))

    def _measure(self, values: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.intp]:
        qml = _quantum()
        qubits = _qubits(len(values))
        device = qml.device("default.qubit", wires=qubits, seed=int(rng.integers(1 << 31)))
        (bits,) = qml.execute([self._circuit(values)], device)
        rows = np.asarray(bits, dtype=np.intp).reshape(self.shots, qubits) @ (1 << np.arange(qubits)[::-1])
        return np.bincount(rows, minlength=len(values))

    def _circuit(self, values: NDArray[np.float64]) -> Any:
        qml = _quantum()
        wires = range(_qubits(len(values)))
        if self.preparation == "gates":
            operations = _rotations(values)
        else:
            operations = [qml.StatePrep(_amplitudes(values), wires=wires)]
        return qml.tape.QuantumScript(operations, [qml.sample(wires=wires)], shots=self.shots)

    def _count(self, k: int) -> int:
        _quantum()
        return super()._count(k)

    def _certificate(self, k: int, s: int, candidates: int, votes: NDArray[np.float64]) -> Certificate:
        return Certificate(
            "none",
            f"{s} states measured {self.shots} times each voted for {candidates} rows; nothing is proved, because the "
            "most frequent outcome need not be the largest projection",
            {"projections": s, "shots": self.shots, "candidates": candidates, "votes": votes},
        )


def _quantum() -> Any:
    """PennyLane, imported when first needed."""
    try:
        import pennylane
    except ImportError as error:
        raise MissingExtraError("QDCA runs on PennyLane: pip install 'fastanchors[quantum]'") from error
    return pennylane


def _qubits(m: int) -> int:
    """⌈log₂ m⌉, at least one; raises if that is too many for the simulator."""
    qubits = max(1, (m - 1).bit_length())
    if qubits > _MAX_QUBITS:
        raise TooLargeError(
            f"{m} rows need a state of {qubits} qubits, the limit of the simulator is {_MAX_QUBITS} "
            f"({1 << _MAX_QUBITS} rows); use DCA or FAS"
        )
    return qubits


def _amplitudes(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """The values as a unit vector of length 2^q, padded with zeros."""
    state = np.zeros(1 << _qubits(len(values)))
    largest = np.abs(values).max()
    if not largest > 0:
        raise InvalidInputError("A·beta is zero: there is no state to prepare")
    state[: len(values)] = values / largest  # squares must not over- or underflow
    return np.asarray(state / np.linalg.norm(state))


def _angles(state: NDArray[np.float64]) -> list[NDArray[np.float64]]:
    """Rotation angles, one array for each qubit, from the tree of partial sums of the squared amplitudes.

    An angle splits the weight of a node between its two children; the angles of the last level also encode the signs.
    This is the tree of the vector sample model (Lemma 1 of the paper), with rotations instead of random choices.
    """
    norms, levels = state, []
    while len(norms) > 1:
        left, right = norms[0::2], norms[1::2]
        levels.append(2.0 * np.arctan2(right, left))
        norms = np.hypot(left, right)
    return levels[::-1]


def _rotations(values: NDArray[np.float64]) -> list[Any]:
    """Gates that take ``|0…0⟩`` to the state of ``values``: for qubit q, a Y rotation chosen by the q qubits above it.

    A rotation by one of 2^q angles takes 2^q plain rotations with a CNOT after each, in the order of the Gray code
    (Möttönen, Vartiainen, Bergholm and Salomaa 2005).
    """
    qubits = _qubits(len(values))
    if qubits > _MAX_GATE_QUBITS:
        raise TooLargeError(
            f"preparing {len(values)} amplitudes takes 2^{qubits + 1} gates, more than 2^{_MAX_GATE_QUBITS + 1}; "
            "use preparation='state'"
        )
    qml = _quantum()
    gates: list[Any] = []
    for target, angles in enumerate(_angles(_amplitudes(values))):
        turned = _walsh_hadamard(angles) / len(angles)
        for step in range(len(angles)):
            gates.append(qml.RY(turned[step ^ (step >> 1)], wires=target))
            if target:
                changed = min(((step + 1) & -(step + 1)).bit_length(), target)  # bit of the Gray code, from the right
                gates.append(qml.CNOT(wires=[target - changed, target]))
    return gates


def _walsh_hadamard(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """Σ_j (−1)^(i·j) x_j for every i, by butterflies."""
    y = x.copy()
    half = 1
    while half < len(y):
        pairs = y.reshape(-1, 2, half)
        y = np.stack([pairs[:, 0] + pairs[:, 1], pairs[:, 0] - pairs[:, 1]], axis=1).ravel()
        half *= 2
    return y
