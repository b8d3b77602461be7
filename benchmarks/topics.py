"""Topics of Reuters and AP: anchor words beside scikit-learn's NMF and LatentDirichletAllocation, in one table.

``python benchmarks/topics.py [--data DIR]``: Reuters comes with the package ``lda``, AP from ``DIR/text/ap``.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp

import fastanchors as fa
from _table import Report, arguments


def corpora(options: Any) -> dict[str, tuple[Any, list[str]]]:
    found = {}
    try:
        import lda.datasets

        found["Reuters"] = (sp.csr_array(lda.datasets.load_reuters()), list(lda.datasets.load_reuters_vocab()))
    except ImportError:
        print("Reuters is absent: pip install lda")
    file = None if options.data is None else options.data / "text" / "ap" / "ap.dat"
    if file is not None and file.exists():
        read = fa.apps.read_corpus(file)
        found["AP"] = (read.counts, read.vocabulary or [])
    else:
        print("AP is absent: give --data DIR with text/ap/ap.dat")
    return found


def nmf(counts: Any, k: int) -> np.ndarray:
    """NMF on tf-idf, as scikit-learn's own example of topic extraction does it."""
    from sklearn.decomposition import NMF
    from sklearn.feature_extraction.text import TfidfTransformer

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return NMF(k, init="nndsvd", random_state=0).fit(TfidfTransformer().fit_transform(counts)).components_


def lda_model(counts: Any, k: int) -> np.ndarray:
    """Online variational Bayes, ten passes."""
    from sklearn.decomposition import LatentDirichletAllocation

    model = LatentDirichletAllocation(k, learning_method="online", max_iter=10, random_state=0)
    return model.fit(counts).components_


def main() -> None:
    options = arguments(__doc__)
    k = 5 if options.quick else 20
    report = Report("topics", "Topics of real corpora", options, packages=["lda"])
    fa.apps.topics(fa.datasets.topics(60, 80, 3, rng=0).A, 3, recovery="kl")  # compile before the clock runs
    methods: dict[str, Callable[[Any], np.ndarray]] = {
        "anchor words (l2)": lambda counts: fa.apps.topics(counts, k).topics,
        "anchor words (l2), single words": lambda counts: fa.apps.topics(counts, k, support=1).topics,
        "anchor words (kl)": lambda counts: fa.apps.topics(counts, k, recovery="kl").topics,
        "scikit-learn NMF, tf-idf": lambda counts: nmf(counts, k),
        "scikit-learn LDA": lambda counts: lda_model(counts, k),
    }
    for name, (counts, words) in corpora(options).items():
        rows, shown = [], {}
        for method, run in methods.items():
            start = time.perf_counter()
            weights = run(counts)
            seconds = time.perf_counter() - start
            umass = fa.metrics.topic_coherence(weights, counts)
            npmi = fa.metrics.topic_coherence(weights, counts, measure="npmi")
            unique = fa.metrics.topic_uniqueness(weights)
            rows.append((method, float(umass.mean()), float(npmi.mean()), unique, seconds))
            shown[method] = weights
        report.text(f"## {name}: {counts.shape[0]} documents, {counts.shape[1]} words, {k} topics")
        report.table(["method", "coherence (UMass)", "coherence (NPMI)", "uniqueness", "seconds"], rows)
        model = fa.apps.topics(counts, k, vocabulary=words)
        order = np.argsort(-model.share, kind="stable")
        report.text("Topics by anchor words (l2):")
        table = [(f"{model.share[t]:.1%}", model.anchor_words[t], " ".join(model.words()[t])) for t in order]
        report.table(["share", "anchor", "top words"], table)
    report.text(
        "Coherence of the ten top words of each topic from the same documents; higher is better. Uniqueness: 1 when no "
        "top word is shared by topics."
    )
    report.save()


if __name__ == "__main__":
    main()
