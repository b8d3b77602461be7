"""Topics of Reuters and AP: anchor words beside scikit-learn's NMF and LatentDirichletAllocation, in one table.

``python benchmarks/topics.py [--data DIR]``: Reuters comes with the package ``lda``, AP from ``DIR/text/ap``.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import scipy.sparse as sp

import fastanchors as fa
from _table import Report, arguments

OTHERS: dict[str, dict[str, Any]] = {
    "anchor words, kl": {"recovery": "kl"},
    "anchor words, single words as anchors": {"support": 1},
}


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


def main() -> None:
    options = arguments(__doc__)
    k = 5 if options.quick else 20
    report = Report("topics", "Topics of real corpora", options, packages=["lda"])
    fa.apps.topics(fa.datasets.topics(60, 80, 3, rng=0).A, 3, recovery="kl")  # compile before the clock runs
    for name, (counts, words) in corpora(options).items():
        model = fa.apps.topics(counts, k, vocabulary=words)
        scores = fa.apps.compare_topics(model, counts)
        for method, choices in OTHERS.items():
            start = time.perf_counter()
            other = fa.apps.topics(counts, k, **choices)
            seconds = time.perf_counter() - start
            means = float(other.coherence.mean()), float(other.npmi.mean()), other.uniqueness
            scores.append(fa.apps.TopicScores(method, *means, seconds))
        report.text(f"## {name}: {counts.shape[0]} documents, {counts.shape[1]} words, {k} topics")
        columns = ["method", "coherence (UMass)", "coherence (NPMI)", "uniqueness", "seconds"]
        report.table(columns, [tuple(row.as_dict().values()) for row in scores])
        order = np.argsort(-model.share, kind="stable")
        report.text("Topics by anchor words:")
        table = [(f"{model.share[t]:.1%}", model.anchor_words[t], " ".join(model.words()[t])) for t in order]
        report.table(["share", "anchor", "top words"], table)
    report.text(
        "Coherence of the ten top words of each topic from the same documents; higher is better. Uniqueness: 1 when no "
        "top word is shared by topics. Top words are the most relevant ones (Sievert and Shirley 2014, λ = 0.6) of "
        "anchor words and LDA, the heaviest ones of NMF, whose tf-idf weights favour telling words already."
    )
    report.save()


if __name__ == "__main__":
    main()
