"""Scores: anchor recovery, spectral angles, abundance and reconstruction errors, topic coherence.

Scores that compare k results with k true ones in unknown order match them with the Hungarian algorithm, which costs
O(k³).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import linear_sum_assignment
from scipy.special import ndtri

from ._rng import RngLike, as_generator
from ._types import Rows
from ._validate import as_matrix, check_choice, check_index, check_number, check_size
from .anchors import Anchors
from .errors import InvalidInputError
from .matrix import RowMatrix, dense, open_matrix
from .matrix.contract import squared_norms_of
from .matrix.norm_draws import draw_rows

__all__ = [
    "Match",
    "ReconstructionError",
    "abundance_rmse",
    "anchor_labels",
    "anchor_recovery",
    "matched_spectral_angle",
    "reconstruction_error",
    "spectral_angles",
    "topic_coherence",
    "topic_uniqueness",
]

_CHUNK_ENTRIES = 1 << 22


# --- anchors -------------------------------------------------------------------------------------------------------


def anchor_recovery(found: ArrayLike, labels: ArrayLike) -> float:
    """Fraction of the true anchors among the found rows; any copy of an anchor counts as that anchor, once.

    ``labels`` gives for every row the number of the anchor it is a copy of, −1 for other rows
    (``datasets.Separable.labels``, or :func:`anchor_labels`). 1.0 is full recovery.

    Parameters
    ----------
    found
        Indices of the rows found.
    labels
        For each row the number of the anchor it is a copy of, or −1.

    Examples
    --------
    >>> import fastanchors as fa
    >>> fa.metrics.anchor_recovery([3, 1], [0, -1, 1, 0])
    0.5
    """
    label_of = np.asarray(labels)
    if label_of.ndim != 1 or label_of.dtype.kind not in "iu":
        raise InvalidInputError("labels must be a one-dimensional array of integers, one for each row")
    true = np.unique(label_of[label_of >= 0])
    if true.size == 0:
        raise InvalidInputError("labels mark no anchor: all are negative")
    hit = np.unique(label_of[check_index(found, label_of.size, name="found")])
    return float(np.count_nonzero(hit >= 0) / true.size)


def anchor_labels(A: Any, anchors: ArrayLike, *, tolerance: float = 0.0) -> NDArray[np.int32]:
    """For each row of ``A`` the nearest anchor row within ``tolerance`` (Euclidean, relative to the anchor's norm).

    Zero tolerance finds copies that are exact up to rounding. Costs O(m·n·k), in blocks.

    Parameters
    ----------
    A
        Array or sparse matrix.
    anchors
        Indices of the anchor rows.
    tolerance
        Distance up to which a row counts as a copy of its anchor; −1 marks the other rows.

    Examples
    --------
    >>> import fastanchors as fa
    >>> fa.metrics.anchor_labels([[1.0, 0.0], [0.5, 0.5], [0.0, 1.0], [1.0, 0.0]], [0, 2]).tolist()
    [0, -1, 1, 0]
    """
    matrix = as_matrix(A, signed=True)
    tolerance = check_number(tolerance, name="tolerance", minimum=0.0)
    at = check_index(anchors, matrix.shape[0], name="anchors").reshape(-1)
    W = dense(matrix[at])
    squares = np.einsum("ij,ij->i", W, W)
    limit = (max(tolerance, 1e-7) ** 2) * np.maximum(squares, np.finfo(float).tiny)
    labels = np.full(matrix.shape[0], -1, dtype=np.int32)
    for start, block in _blocks(matrix):
        own = squared_norms_of(block)
        gap = np.maximum(own[:, None] + squares - 2.0 * (block @ W.T), 0.0)
        near = np.argmin(gap / limit, axis=1)
        close = gap[np.arange(len(near)), near] <= limit[near]
        labels[start : start + len(near)][close] = near[close]
    labels[at] = np.arange(at.size)
    return labels


# --- spectra and abundances ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Match:
    """A one-to-one matching: ``found[p]`` is matched with ``true[p]`` at the score ``values[p]``.

    Examples
    --------
    >>> import fastanchors as fa
    >>> match = fa.metrics.matched_spectral_angle([[1, 0], [0, 1]], [[0, 2], [3, 0]])
    >>> match.true.tolist(), match.found.tolist()
    ([0, 1], [1, 0])
    """

    true: NDArray[np.intp]
    found: NDArray[np.intp]
    values: NDArray[np.float64]

    @property
    def mean(self) -> float:
        return float(self.values.mean())


def spectral_angles(X: ArrayLike, Y: ArrayLike) -> NDArray[np.float64]:
    """Angles in radians between every row of ``X`` and every row of ``Y``; the angle to a zero row is π/2.

    Computed from the chord between unit vectors, 2·arcsin(‖x − y‖/2), which is accurate for small angles, where the
    arc cosine loses half of the digits.

    Parameters
    ----------
    X, Y
        Spectra, one in each row.

    Examples
    --------
    >>> import fastanchors as fa
    >>> fa.metrics.spectral_angles([[1.0, 0.0]], [[2.0, 0.0], [0.0, 1.0]]).round(4).tolist()
    [[0.0, 1.5708]]
    """
    x, y = _units(X, "X"), _units(Y, "Y")
    if x.shape[1] != y.shape[1]:
        raise InvalidInputError(f"spectra differ in length: X has {x.shape[1]} columns, Y {y.shape[1]}")
    angles = np.empty((len(x), len(y)))
    for j, spectrum in enumerate(y):
        chord = np.linalg.norm(x - spectrum, axis=1)
        angles[:, j] = 2.0 * np.arcsin(np.minimum(chord / 2.0, 1.0))
    angles[~x.any(axis=1)] = np.pi / 2
    angles[:, ~y.any(axis=1)] = np.pi / 2
    return angles


def matched_spectral_angle(true: ArrayLike, found: ArrayLike) -> Match:
    """Spectral angles (radians) of the best one-to-one matching of found spectra (rows) with true ones.

    ``match.mean`` is the usual score. If the numbers differ, every spectrum of the smaller set is matched.

    Parameters
    ----------
    true, found
        Spectra, one in each row.

    Examples
    --------
    >>> import fastanchors as fa
    >>> fa.metrics.matched_spectral_angle([[1, 0], [0, 1]], [[0, 2], [3, 0]]).values.tolist()
    [0.0, 0.0]
    """
    angles = spectral_angles(true, found)
    rows, columns = linear_sum_assignment(angles)
    return Match(rows.astype(np.intp), columns.astype(np.intp), angles[rows, columns])


def abundance_rmse(true: ArrayLike, found: ArrayLike, *, match: Match | None = None) -> float:
    """Root mean square error of abundances (rows × k), after matching the materials.

    Parameters
    ----------
    true, found
        Abundances, rows × k.
    match
        Matching of the materials, from :func:`matched_spectral_angle`; by default the one with the least error.

    Examples
    --------
    >>> import fastanchors as fa
    >>> fa.metrics.abundance_rmse([[1.0, 0.0], [0.0, 1.0]], [[0.0, 1.0], [1.0, 0.0]])
    0.0
    """
    t, f = as_matrix(true, signed=True, name="true"), as_matrix(found, signed=True, name="found")
    t, f = dense(t), dense(f)
    if t.shape[0] != f.shape[0]:
        raise InvalidInputError(f"abundances differ in rows: true has {t.shape[0]}, found {f.shape[0]}")
    if match is None:
        gap = np.stack([np.mean((t - column[:, None]) ** 2, axis=0) for column in f.T], axis=1)
        rows, columns = linear_sum_assignment(gap)
    else:
        rows, columns = match.true, match.found
    return float(np.sqrt(np.mean((t[:, rows] - f[:, columns]) ** 2)))


# --- reconstruction --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ReconstructionError:
    """‖A − F·A_R‖_F, absolute and relative to ‖A‖_F; ``low`` … ``high`` is the confidence interval of ``relative``.

    Examples
    --------
    >>> import fastanchors as fa
    >>> fa.metrics.reconstruction_error([[1.0, 0.0], [0.0, 2.0]], [[1.0, 0.0]]).absolute
    2.0
    """

    absolute: float
    relative: float
    low: float
    high: float
    rows: int
    confidence: float

    def __float__(self) -> float:
        return self.relative


def reconstruction_error(
    A: Any,
    components: Any,
    weights: Any = None,
    *,
    rows: int | None = None,
    sum_to_one: bool = False,
    confidence: float = 0.95,
    rng: RngLike = None,
) -> ReconstructionError:
    """The error of writing ``A`` in its anchors: of all rows, or estimated from ``rows`` sampled rows.

    Parameters
    ----------
    A
        Anything that :func:`fastanchors.open_matrix` opens.
    components
        Anchor rows, k×n. For a solver's result these are its ``points``, or else its rows of ``A``.
    weights
        F, m×k; None encodes the rows (non-negative least squares, with ``sum_to_one`` or without).
    rows
        How many rows to draw with replacement and probability ‖A_(i)‖²/‖A‖_F²; None uses every row.
    sum_to_one
        Whether the weights of a row must sum to one.
    confidence
        Confidence level of the interval ``low`` … ``high`` when sampling.
    rng
        A ``numpy.random.Generator``, an int seed or None.

    Notes
    -----
    For rows drawn this way the mean of ‖r_i‖²/‖A_(i)‖² is an unbiased estimate of the squared relative error, and each
    term is within [0, 1] for the best weights. The interval assumes a normal distribution of the mean. Sampling reads
    ``rows`` rows only (plus one pass for the norms if the matrix has no sample access).

    Examples
    --------
    >>> import fastanchors as fa
    >>> X = fa.datasets.separable(100, 8, 3, rng=0).A
    >>> round(fa.metrics.reconstruction_error(X, fa.SPA().seek(X, 3)).relative, 6)
    0.0
    """
    confidence = check_number(confidence, name="confidence", minimum=0.0, maximum=1.0 - 1e-12)
    from .encoder import components_of, dense_components  # start-up: other scores need no kernel

    matrix = open_matrix(A, signed=True)
    W = components_of(matrix, components) if isinstance(components, Anchors) else dense_components(components)
    m, n = matrix.shape
    if W.shape[1] != n:
        raise InvalidInputError(f"components have {W.shape[1]} columns, A has {n}")
    F = None if weights is None else as_matrix(weights, signed=True, name="weights")
    if F is not None and F.shape != (m, len(W)):
        raise InvalidInputError(f"weights must be {m}×{len(W)} to go with A and components, got {F.shape}")
    if rows is None:
        lost = total = 0.0
        for start, block in matrix.blocks():
            at = None if F is None else F[start : start + block.shape[0]]
            lost += float(_lost(block, W, at, sum_to_one).sum())
            total += float(squared_norms_of(block).sum())
        relative = float(np.sqrt(lost / total)) if total else 0.0
        return ReconstructionError(float(np.sqrt(lost)), relative, relative, relative, m, 1.0)
    return _sampled_error(matrix, W, F, check_size(rows, name="rows"), sum_to_one, confidence, as_generator(rng))


def _sampled_error(
    matrix: RowMatrix,
    W: NDArray[np.float64],
    F: Any,
    size: int,
    sum_to_one: bool,
    confidence: float,
    rng: np.random.Generator,
) -> ReconstructionError:
    drawn, total = draw_rows(matrix, size, rng)
    if drawn.size == 0:
        return ReconstructionError(0.0, 0.0, 0.0, 0.0, 0, confidence)
    distinct, back = np.unique(drawn, return_inverse=True)
    block = matrix.rows(distinct)
    ratio = (_lost(block, W, None if F is None else F[distinct], sum_to_one) / squared_norms_of(block))[back]
    mean = float(ratio.mean())
    spread = float(ndtri(0.5 + confidence / 2) * ratio.std(ddof=min(1, size - 1)) / np.sqrt(size))
    low, high = np.sqrt(max(mean - spread, 0.0)), np.sqrt(mean + spread)
    relative = float(np.sqrt(mean))
    return ReconstructionError(relative * float(np.sqrt(total)), relative, float(low), float(high), size, confidence)


def _lost(block: Rows, W: NDArray[np.float64], F: Any, sum_to_one: bool) -> NDArray[np.float64]:
    """‖A_(i) − F_(i)·W‖² for the rows of a block."""
    if F is None:
        from .encoder import encode  # start-up: other scores need no kernel

        F = encode(block, W, sum_to_one=sum_to_one)
    lost = np.empty(block.shape[0])
    for start, part in _blocks(block):  # a few sparse rows at a time are made dense
        stop = start + part.shape[0]
        gap = dense(part) - F[start:stop] @ W
        lost[start:stop] = np.einsum("ij,ij->i", gap, gap)
    return lost


# --- topics ----------------------------------------------------------------------------------------------------------


def topic_coherence(
    topics: ArrayLike, counts: Any, *, measure: Literal["umass", "npmi"] = "umass", top: int = 10
) -> NDArray[np.float64]:
    """Coherence of each topic from the co-occurrence of its top words in documents; higher is better.

    Parameters
    ----------
    topics
        k × words, weights of the words in each topic (ties go to the lowest index); or an integer array k × t of the
        words themselves, best first.
    counts
        Documents × words, array or sparse; only whether a word occurs in a document matters.
    measure
        ``"umass"`` (Mimno et al. 2011): mean over pairs i > j of log((D(w_i, w_j) + 1)/D(w_j)); ``"npmi"`` (Bouma
        2009): mean over pairs of log(p(i,j)/(p(i)p(j)))/−log p(i,j), −1 for pairs that never co-occur.
    top
        Number of top words used in each topic.

    Examples
    --------
    >>> import fastanchors as fa
    >>> counts = [[1, 1, 0, 0], [1, 1, 0, 0], [0, 0, 1, 1], [0, 0, 1, 1]]
    >>> topics = [[0.5, 0.5, 0.0, 0.0], [0.0, 0.5, 0.5, 0.0]]
    >>> good, bad = fa.metrics.topic_coherence(topics, counts, measure="npmi", top=2)
    >>> bool(good > bad)
    True
    """
    check_choice(measure, ("umass", "npmi"), name="measure")
    matrix = as_matrix(counts, name="counts")
    words = _top_words(topics, matrix.shape[1], check_size(top, name="top", minimum=2))
    present = sp.csc_array(sp.csr_array(matrix) > 0).astype(np.float64)
    documents = matrix.shape[0]
    score = np.empty(len(words))
    for t, chosen in enumerate(words):
        columns = present[:, chosen]
        together = dense(columns.T @ columns)
        alone = np.diag(together)
        if np.any(alone == 0):
            raise InvalidInputError(f"word {chosen[np.argmin(alone)]} of topic {t} occurs in no document")
        score[t] = coherence_of(together, documents, measure)
    return score


def coherence_of(together: NDArray[np.float64], documents: int, measure: str) -> float:
    """Coherence from co-document counts of word pairs; the diagonal holds the document counts of the words."""
    alone = np.maximum(np.diag(together), 1.0)  # avoids division by zero for words that occur nowhere
    later, earlier = np.tril_indices(len(together), -1)
    pair = together[later, earlier]
    if measure == "umass":
        return float(np.mean(np.log((pair + 1.0) / alone[earlier])))
    return float(np.mean(_npmi(pair / documents, alone[later] / documents, alone[earlier] / documents)))


def _npmi(joint: NDArray[np.float64], p: NDArray[np.float64], q: NDArray[np.float64]) -> NDArray[np.float64]:
    result = np.full(joint.shape, -1.0)
    result[joint == 1.0] = 1.0  # both words in every document
    inside = (joint > 0) & (joint < 1)
    result[inside] = np.log(joint[inside] / (p[inside] * q[inside])) / -np.log(joint[inside])
    return result


def topic_uniqueness(topics: ArrayLike, *, top: int = 10) -> float:
    """Mean over topics and their top words of 1/(number of topics that have this top word): between 1/k and 1.

    Parameters
    ----------
    topics
        Topics × words.
    top
        Number of top words of a topic, those of largest weight.

    Examples
    --------
    >>> import fastanchors as fa
    >>> fa.metrics.topic_uniqueness([[0.6, 0.4, 0.0], [0.0, 0.4, 0.6]], top=2)
    0.75
    """
    array = np.asarray(topics)
    words = _top_words(topics, array.shape[-1] if array.dtype.kind == "f" else None, check_size(top, name="top"))
    _, back, shared = np.unique(words, return_inverse=True, return_counts=True)
    return float(np.mean(1.0 / shared[back]))


def _top_words(topics: ArrayLike, vocabulary: int | None, top: int) -> NDArray[np.intp]:
    """k × top words: an integer array as it is, weights sorted by decreasing weight, then by index."""
    array = np.asarray(topics)
    if array.ndim != 2 or 0 in array.shape:
        raise InvalidInputError(f"topics must be two-dimensional and not empty, got shape {array.shape}")
    if array.dtype.kind in "iu":
        limit = int(array.max()) + 1 if vocabulary is None else vocabulary
        words = check_index(array[:, :top], limit, name="topics")
        if any(len(set(row)) < len(row) for row in words.tolist()):
            raise InvalidInputError("topics name a word twice in one topic")
        return words
    if vocabulary is not None and array.shape[1] != vocabulary:
        raise InvalidInputError(f"topics have {array.shape[1]} words, counts {vocabulary}")
    return np.argsort(-array.astype(np.float64), axis=1, kind="stable")[:, :top]


# --- shared ----------------------------------------------------------------------------------------------------------


def _units(X: ArrayLike, name: str) -> NDArray[np.float64]:
    x = dense(as_matrix(X, signed=True, name=name))
    length = np.linalg.norm(x, axis=1, keepdims=True)
    return np.divide(x, length, out=np.zeros_like(x), where=length > 0)


def _blocks(matrix: Rows) -> Iterator[tuple[int, Rows]]:
    step = max(1, _CHUNK_ENTRIES // matrix.shape[1])
    for start in range(0, matrix.shape[0], step):
        yield start, matrix[start : start + step]
