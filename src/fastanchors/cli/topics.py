"""``fastanchors topics``: what a corpus is about, by anchor words."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import numpy as np

from ._count import Count
from ._options import FORMAT, check_output
from ._terminal import working
from .app import emit, json_option

__all__ = ["topics"]

_ADVICE = "it sets how fine the topics are; try 10, 20, 50 and compare the coherence"


@click.command()
@click.argument("corpus", type=click.Path(path_type=Path))
@click.option("-k", "k", type=Count(2, "topics", _ADVICE), default=20, show_default=True, help="Number of topics.")
@click.option("--column", help="Column of a .csv or .tsv file that holds the text.")
@click.option("--vocab", type=click.Path(path_type=Path), help="Words of a file of counts, one per line.")
@click.option(
    "--format", "kind", type=FORMAT, help="Format of a file of counts where its name does not tell: ldac, docword, …"
)
@click.option("--encoding", default="utf-8", show_default=True, help="Of texts and tables: latin-1, cp1252, …")
@click.option("--stop-words", default="english", show_default=True, help="'english', 'none', or a file of words.")
@click.option(
    "--min-df", type=click.IntRange(1), default=1, show_default=True, help="Leave out words in fewer documents."
)
@click.option("--max-df", type=click.FloatRange(0, 1), default=1.0, help="Leave out words in more than this share.")
@click.option(
    "--min-documents",
    type=click.IntRange(1),
    help="Documents a word needs to be an anchor; else by its noise.",
)
@click.option("--support", type=click.IntRange(1), default=3, show_default=True, help="Words behind each anchor.")
@click.option("--recovery", type=click.Choice(["l2", "kl"]), default="l2", show_default=True, help="Fit of the topics.")
@click.option("--words", "top", type=click.IntRange(1), default=10, show_default=True, help="Words shown of a topic.")
@click.option(
    "--relevance",
    type=click.FloatRange(0, 1),
    default=1 / 3,
    help="1 shows a topic's most probable words, 0 those found in it alone; 1/3 unless given.",
)
@click.option("--compare", is_flag=True, help="A table beside scikit-learn's NMF and LDA on the same counts.")
@click.option("-o", "--out", type=click.Path(path_type=Path), help="Write topics and document mixtures to this .npz.")
@json_option
def topics(
    corpus: Path,
    k: int,
    column: str | None,
    vocab: Path | None,
    kind: str | None,
    encoding: str,
    stop_words: str,
    min_df: int,
    max_df: float,
    min_documents: int | None,
    support: int,
    recovery: Any,
    top: int,
    relevance: float,
    compare: bool,
    out: Path | None,
    as_json: bool,
) -> None:
    """Find the topics of a corpus by their anchor words.

    CORPUS is a folder of text files, a .txt file with a document on each line, a .csv or .tsv file with a --column of
    text, or a file of word counts (LDA-C, docword, Matrix Market) with its vocabulary.
    """
    from ..apps import compare_topics, read_corpus
    from ..apps import topics as run

    check_output(out, (".npz",), "--out", corpus, vocab)
    with working(f"finding topics in {corpus.name}"):
        stop = None if stop_words == "none" else stop_words
        read = read_corpus(
            corpus,
            column=column,
            vocab=vocab,
            format=kind,
            encoding=encoding,
            min_df=min_df,
            max_df=max_df,
            stop_words=stop,
        )
        model = run(
            read.counts, k, vocabulary=read.vocabulary, min_documents=min_documents, support=support, recovery=recovery
        )
    if out is not None:
        names = np.array(read.vocabulary if read.vocabulary is not None else [], dtype=str)
        np.savez_compressed(
            out,
            topics=model.topics,
            mixtures=model.mixtures,
            anchors=model.anchors,
            share=model.share,
            vocabulary=names,
        )
    table = None
    if compare:
        with working("fitting scikit-learn's NMF and LDA"):
            table = compare_topics(model, read.counts)
    words = model.words(top, relevance)
    if as_json:
        beside = None if table is None else [row.as_dict() for row in table]
        emit(_as_dict(model, words, read.counts.shape, out) | {"notes": list(read.notes), "comparison": beside})
    else:
        _tell(model, words, read, out)
        if table is not None:
            _tell_scores(table)


def _as_dict(model: Any, top: list[list[str]], shape: tuple[int, int], out: Path | None) -> dict[str, Any]:
    listed = [
        {
            "anchor": model.name(anchor),
            "words": words,
            "share": float(share),
            "coherence": float(coherence),
            "npmi": float(npmi),
            "anchor_group": [model.name(word) for word in group],
        }
        for anchor, words, share, coherence, npmi, group in zip(
            model.anchors, top, model.share, model.coherence, model.npmi, model.groups
        )
    ]
    return {
        "topics": listed,
        "documents": shape[0],
        "vocabulary": shape[1],
        "min_documents": model.min_documents,
        "candidates": model.candidates,
        "coherence": float(model.coherence.mean()),
        "npmi": float(model.npmi.mean()),
        "uniqueness": model.uniqueness,
        "out": None if out is None else str(out),
        "seconds": model.seconds,
    }


def _tell(model: Any, top: list[list[str]], read: Any, out: Path | None) -> None:
    documents, words = read.counts.shape
    print(f"{read.name}: {documents} documents, {words} words, {len(model.anchors)} topics in {model.seconds:.1f} s")
    for note in read.notes:
        print(note)
    width = max(len(word) for word in model.anchor_words)
    for t in np.argsort(-model.share, kind="stable"):
        print(f"  {model.share[t]:5.1%}  {model.anchor_words[t]:<{width}}  {' '.join(top[t])}")
    coherence = f"{model.coherence.mean():.2f} (UMass), {model.npmi.mean():.2f} (NPMI)"
    print(f"Coherence {coherence}; uniqueness {model.uniqueness:.2f}.")
    if out is not None:
        print(f"Written to {out}: topics, mixtures of the documents, anchors, share, vocabulary.")


def _tell_scores(table: list[Any]) -> None:
    width = max(len(row.method) for row in table)
    print(f"\n{'':<{width}}  coherence    NPMI  uniqueness  seconds")
    for row in table:
        scores = f"{row.coherence:9.2f}  {row.npmi:6.2f}  {row.uniqueness:10.2f}  {row.seconds:7.1f}"
        print(f"{row.method:<{width}}  {scores}")
    print("Means over the ten top words of each topic, from the same documents; higher is better.")
