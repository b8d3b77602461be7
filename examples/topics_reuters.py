"""Find topics of 395 Reuters stories by anchor words, and show the topics of the first stories.

Run: python examples/topics_reuters.py [--data CORPUS] [-k K]
Without --data the corpus is the one in the package ``lda`` (extra 'demo'); CORPUS is anything that
``fastanchors topics`` reads.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

import fastanchors as fa


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, help="a corpus of your own")
    parser.add_argument("-k", type=int, default=20, help="number of topics")
    options = parser.parse_args()
    if options.data is not None:
        corpus = fa.apps.read_corpus(options.data)
        counts, vocabulary, titles = corpus.counts, corpus.vocabulary, corpus.documents
    else:
        try:
            import lda.datasets
        except ImportError:
            raise SystemExit("Reuters comes with the package lda: pip install 'fastanchors[demo]'") from None
        counts, vocabulary = lda.datasets.load_reuters(), lda.datasets.load_reuters_vocab()
        titles = list(lda.datasets.load_reuters_titles())
    model = fa.apps.topics(counts, options.k, vocabulary=vocabulary)
    print(f"{len(model.mixtures)} documents, {model.topics.shape[1]} words, {model.seconds:.1f} s")
    for t in np.argsort(-model.share):
        print(f"{model.share[t]:6.1%}  {model.anchor_words[t]:<12}  {' '.join(model.words(8)[t])}")
    print(f"coherence {model.coherence.mean():.2f}, uniqueness {model.uniqueness:.2f}\n")
    for document in range(3):
        title = document if titles is None else titles[document]
        parts = [t for t in np.argsort(-model.mixtures[document])[:2] if model.mixtures[document, t] > 0.1]
        mixture = ", ".join(f"{model.mixtures[document, t]:.0%} {model.anchor_words[t]}" for t in parts)
        print(f"{title}: {mixture}")


if __name__ == "__main__":
    main()
