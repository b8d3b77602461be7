"""Synthetic corpora with known topics: sparse word counts, Zipf's law for the words, anchor words for every topic."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from .._equality import ComparedByValue
from .._rng import RngLike, as_generator, spawn
from .._validate import check_memory, check_number, check_size
from ..errors import InvalidInputError
from ..matrix.contract import Rows

__all__ = ["Corpus", "topics"]

_BLOCK_DOCUMENTS = 1 << 13


@dataclass(frozen=True, eq=False)
class Corpus(ComparedByValue):
    """Word counts drawn from known topics.

    Attributes
    ----------
    A
        Documents × words, CSR of int32 counts. Words as data points are the rows of ``A.T``.
    topics
        k × words, each row a distribution over words.
    weights
        Documents × k, float32, the mixture of each document.
    labels
        For each document its topic if it is pure, −1 for a mixture.
    anchors
        For each topic its first pure document; −1 if there is none.
    anchor_words
        k × anchor words per topic, words that occur in that topic only.
    vocabulary
        A name for every word.

    Examples
    --------
    >>> import fastanchors as fa
    >>> made = fa.datasets.topics(100, 40, 3, rng=0)
    >>> made.topics.shape, made.anchor_words.shape
    ((3, 40), (3, 3))
    """

    A: Rows
    topics: NDArray[np.float64]
    weights: NDArray[np.float32]
    labels: NDArray[np.int32]
    anchors: NDArray[np.intp]
    anchor_words: NDArray[np.intp]

    @property
    def vocabulary(self) -> list[str]:
        width = len(str(self.topics.shape[1] - 1))
        names = [f"word{j:0{width}d}" for j in range(self.topics.shape[1])]
        for topic, words in enumerate(self.anchor_words):
            for number, j in enumerate(words):
                names[j] = f"anchor{topic}_{number}"
        return names


def topics(
    documents: int,
    words: int,
    k: int,
    *,
    length: float = 100.0,
    alpha: float = 0.1,
    zipf: float = 1.07,
    contrast: float = 2.0,
    anchor_words: int = 3,
    pure: int = 1,
    rng: RngLike = None,
) -> Corpus:
    """A corpus from the topic model that anchor-word methods assume.

    Parameters
    ----------
    documents, words, k
        Numbers of documents, words and topics.
    length
        Mean number of words in a document (log-normal lengths, at least one).
    alpha
        Dirichlet parameter of a document's topics.
    zipf
        Exponent of the words' frequencies, 1 / (rank + 2.7)^zipf (Mandelbrot's form).
    contrast
        Standard deviation of the logarithm of a topic's preference for a word; 0 makes all topics equal up to their
        anchor words.
    anchor_words
        Number of words of each topic that occur in no other, of medium frequency.
    pure
        Number of pure documents of each topic, at random positions.
    rng
        A ``numpy.random.Generator``, an int seed or None.

    Notes
    -----
    Costs O(tokens·log words) time, and memory for the result, the dense documents × k weights in float32, and one block
    of 8192 documents. The documents × words matrix is never dense.

    Examples
    --------
    >>> import fastanchors as fa
    >>> fa.datasets.topics(100, 40, 3, rng=0).A.shape
    (100, 40)
    """
    documents, words, k = (
        check_size(value, name=name) for value, name in ((documents, "documents"), (words, "words"), (k, "k"))
    )
    anchor_words = check_size(anchor_words, name="anchor_words", minimum=0)
    pure = check_size(pure, name="pure", minimum=0)
    length = check_number(length, name="length", minimum=1.0, maximum=1e6)
    alpha = check_number(alpha, name="alpha", minimum=1e-300, maximum=1e30)
    zipf = check_number(zipf, name="zipf", minimum=0.0, maximum=20.0)
    contrast = check_number(contrast, name="contrast", minimum=0.0, maximum=100.0)
    if k * anchor_words >= words:
        raise InvalidInputError(f"{k} topics × {anchor_words} anchor words leave no word of {words}; use fewer")
    if k * pure > documents:
        raise InvalidInputError(f"{k} topics × {pure} pure documents are more than {documents} documents")
    size = 4 * documents * (k + 1) + 24 * words * (k + 1)
    check_memory(size, f"the weights of {documents:,} documents and {words:,} words", "use fewer")
    rng = as_generator(rng)
    mixture, anchors_of = _topic_matrix(words, k, zipf, contrast, anchor_words, rng)
    labels = np.full(documents, -1, dtype=np.int32)
    labels[rng.choice(documents, k * pure, replace=False)] = np.repeat(np.arange(k, dtype=np.int32), pure)
    weights = np.empty((documents, k), dtype=np.float32)
    cumulative = np.cumsum(mixture, axis=1)
    cumulative[:, -1] = 1.0
    blocks = []
    starts = range(0, documents, _BLOCK_DOCUMENTS)
    for start, child in zip(starts, spawn(rng, len(starts))):
        at = slice(start, min(start + _BLOCK_DOCUMENTS, documents))
        theta = child.dirichlet(np.full(k, alpha), at.stop - at.start)
        is_pure = labels[at] >= 0
        theta[is_pure] = np.eye(k)[labels[at][is_pure]]
        weights[at] = theta
        blocks.append(_counts(theta, cumulative, length, child))
    first = np.array([np.argmax(labels == t) if pure else -1 for t in range(k)], dtype=np.intp)
    return Corpus(sp.csr_array(sp.vstack(blocks, format="csr")), mixture, weights, labels, first, anchors_of)


def _topic_matrix(
    words: int, k: int, zipf: float, contrast: float, anchor_words: int, rng: np.random.Generator
) -> tuple[NDArray[np.float64], NDArray[np.intp]]:
    """Topics as reweighted copies of one Zipf law, and the anchor words of each."""
    frequency = (np.arange(words) + 3.7) ** -zipf
    mixture = frequency * np.exp(contrast * rng.standard_normal((k, words)))
    # Anchor words have ranks around 2 % of the vocabulary: neither stop words nor rare words.
    first = min(words // 50, words - k * anchor_words)
    chosen = first + rng.permutation(k * anchor_words).reshape(k, anchor_words)
    mixture[:, chosen.reshape(-1)] = 0.0
    mixture /= mixture.sum(axis=1, keepdims=True)
    own = frequency[chosen] / frequency.sum() * k
    for t in range(k):
        mixture[t, chosen[t]] = own[t]
    return mixture / mixture.sum(axis=1, keepdims=True), chosen.astype(np.intp)


def _counts(
    theta: NDArray[np.float64], cumulative: NDArray[np.float64], length: float, rng: np.random.Generator
) -> Rows:
    """Counts of a block: draw the number of tokens of each topic per document, then the words of all tokens."""
    rows = len(theta)
    spread = 0.5
    lengths = np.maximum(1, rng.lognormal(np.log(length) - spread**2 / 2, spread, rows).astype(np.int64))
    per_topic = rng.multinomial(lengths, theta)
    tokens, owners = [], []
    for t, law in enumerate(cumulative):
        owner = np.repeat(np.arange(rows), per_topic[:, t])
        tokens.append(np.searchsorted(law, rng.random(owner.size), side="right"))
        owners.append(owner)
    word, document = np.concatenate(tokens), np.concatenate(owners)
    counts = sp.coo_array((np.ones(word.size, np.int32), (document, word)), shape=(rows, cumulative.shape[1]))
    return counts.tocsr()
