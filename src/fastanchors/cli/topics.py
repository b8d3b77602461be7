"""``fastanchors topics``: find the topics of a corpus by anchor words."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import numpy as np

from ._messages import shown_source
from ._options import FORMAT, PATH, SELECTION, check_distinct, check_output, check_unused
from ._streams import FILE, WORD_OR_FILE, as_lines, is_copy
from ._terminal import encodable, printable, working
from .app import emit, json_option

__all__ = ["topics"]

_TABLES = (".csv", ".parquet")
_KEPT = ("ngrams", "html")  # options needed to split new texts, besides the stop words
_READ = (
    "column",
    "title",
    "header",
    "encoding",
    "replace_errors",
    "format",
)  # options needed to read the same texts again

_OF_TEXTS = ("title", "header", "encoding", "replace_errors", "ngrams", "html")  # options that counts do not need


class _Number(click.IntRange):
    """An integer of at least 2, or ``auto``."""

    def __init__(self) -> None:
        super().__init__(min=2)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        return value if value == "auto" else super().convert(value, param, ctx)


class _Sweeps(click.IntRange):
    """An integer of at least 0, or ``auto``."""

    def __init__(self) -> None:
        super().__init__(min=0)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        return value if value == "auto" else super().convert(value, param, ctx)


def text_options(command: Any) -> Any:
    """Add the options that determine how a corpus is read."""
    for option in (
        click.option(
            "--max-df",
            type=click.FloatRange(0, 1),
            default=1.0,
            help="Leave out words that are in a larger fraction of the documents.",
        ),
        click.option("--min-df", type=click.IntRange(1), help="Leave out words in fewer documents; by default 2."),
        click.option("--html", is_flag=True, help="Remove HTML tags from the texts."),
        click.option(
            "--ngrams", type=click.IntRange(1, 5), default=1, help="Also count sequences of up to this many words."
        ),
        click.option(
            "--stop-words",
            type=WORD_OR_FILE,
            default="english",
            show_default=True,
            help="A language, 'none', or a file of words.",
        ),
        click.option("--replace-errors", is_flag=True, help="Replace and count bytes that are not text."),
        click.option(
            "--encoding", default="utf-8", show_default=True, help="Encoding of texts and tables: latin-1, cp1252, …"
        ),
        click.option(
            "--format", type=FORMAT, help="Format of counts if the file name does not show it: ldac, docword, …"
        ),
        click.option("--vocab", type=FILE, help="Words of a file of counts, one per line."),
        click.option("--header/--no-header", default=None, help="Whether the first line of a table has column names."),
        click.option("--title", help="Column with names of the documents."),
        click.option("--column", help="Column of a table with the text: its name, or its number from 0."),
    ):
        command = option(command)
    return command


@click.command()
@click.argument("corpus", type=FILE)
@click.option("-k", "k", type=_Number(), help="Number of topics, or 'auto'; by default 20, or that of --since.")
@text_options
@click.option(
    "--min-documents", type=click.IntRange(1), help="Documents that an anchor word needs; by default from the noise."
)
@click.option("--support", type=click.IntRange(1), default=3, show_default=True, help="Words averaged for an anchor.")
@click.option(
    "--selection",
    type=SELECTION,
    default="auto",
    show_default=True,
    help="How anchors are selected; auto is smoothed.",
)
@click.option(
    "--recovery", type=click.Choice(["l2", "kl"]), default="l2", show_default=True, help="Loss of the topic fit."
)
@click.option("--refine", type=_Sweeps(), default=0, help="Sweeps of expectation–maximisation afterwards, or 'auto'.")
@click.option("--words", "top", type=click.IntRange(1), default=10, show_default=True, help="Words shown per topic.")
@click.option("--examples", type=click.IntRange(0), default=0, help="Documents shown per topic.")
@click.option(
    "--relevance",
    type=click.FloatRange(0, 1),
    help="Rank words by relevance: 1 by probability, 0 by specificity. By default words that occur together.",
)
@click.option("--compare", is_flag=True, help="Compare with scikit-learn's NMF and LDA on the same counts.")
@click.option("--since", type=FILE, help="An earlier model of the same corpus: faster, and reports the changes.")
@click.option("-o", "--out", type=PATH, help="Write the model to this .npz file, for encode and --since.")
@click.option("--topics-table", type=PATH, help="Write topics × words to this .csv or .parquet.")
@click.option("--documents-table", type=PATH, help="Write documents × topics to this .csv or .parquet.")
@click.option("--report", type=PATH, help="Write a page to explore the topics to this .html.")
@json_option
def topics(
    corpus: Path,
    k: int | str | None,
    min_documents: int | None,
    support: int,
    selection: str,
    recovery: Any,
    refine: Any,
    top: int,
    examples: int,
    relevance: float | None,
    compare: bool,
    since: Path | None,
    out: Path | None,
    topics_table: Path | None,
    documents_table: Path | None,
    report: Path | None,
    as_json: bool,
    **reading: Any,
) -> None:
    """Find the topics of a corpus by their anchor words.

    CORPUS is a folder of text files, a .txt file with a document on each line, a .csv, .tsv, .jsonl, .json or .parquet
    file with a --column of text, a file of word counts (LDA-C, docword, Matrix Market) with its vocabulary, or a
    store of word counts.
    """
    from .. import apps
    from ..io.addresses import exists
    from ..io.text import holds_texts

    corpus = as_lines(corpus, reading["column"])
    inputs = (corpus, reading["vocab"], reading["stop_words"])
    check_output(out, (".npz",), "--out", *inputs)  # may replace the model of --since, which is read first
    check_output(topics_table, _TABLES, "--topics-table", *inputs)
    check_output(documents_table, _TABLES, "--documents-table", *inputs)
    check_output(report, (".html", ".htm"), "--report", *inputs)
    check_distinct({"--topics-table": topics_table, "--documents-table": documents_table})
    if exists(corpus) and (reading["format"] is not None or not holds_texts(corpus, reading["column"])):
        check_unused(_OF_TEXTS, f"{corpus} has counts of words, not texts")
    before = None if since is None else apps.load_topics(since)
    curve = table = None
    with working(f"finding topics in {corpus.name}"):
        read = read_with(corpus, reading)
        if k == "auto":
            curve = apps.topic_curve(read)
        number: Any = k if curve is None else curve.chosen
        choices = {"min_documents": min_documents, "support": support, "selection": selection, "recovery": recovery}
        model = apps.topics(read, number, since=before, refine=refine, **choices)
    if out is not None:
        apps.save_topics(model, out, text_options=_kept(corpus, reading))
    if report is not None:
        with working(f"writing {report.name}"):
            model.report(report, read.counts, title=corpus.name, documents=read.documents, texts=read.texts)
    if topics_table is not None or documents_table is not None:
        _write_tables(model, topics_table, documents_table)
    if compare:
        with working("fitting scikit-learn's NMF and LDA"):
            table = apps.compare_topics(model, read.counts)
    words = model.words(top, relevance)
    changes = model.changes
    if as_json:
        emit(
            _as_dict(model, words, read, out, examples)
            | {
                "report": None if report is None else str(report),
                "comparison": None if table is None else [row.as_dict() for row in table],
                "curve": None if curve is None else _curve_dict(curve),
                "changes": None if changes is None else _changes_dict(changes),
            }
        )
        return
    if curve is not None:
        _print_curve(curve)
    _print_summary(model, words, read, out, examples)
    if changes is not None:
        _print_changes(changes, before, model)
    if report is not None:
        print(f"A page to explore them: {report}")
    if table is not None:
        _print_scores(table)


def _kept(corpus: Path, reading: dict[str, Any]) -> dict[str, Any]:
    """What a saved model records about its documents: their path and how they were read."""
    from ..apps._stop_words import stop_word_list

    stop = reading["stop_words"]
    kept: dict[str, Any] = {name: reading[name] for name in _KEPT}
    kept["stop_words"] = str(Path(stop).absolute()) if Path(stop).exists() else stop
    if is_copy(Path(stop)):
        kept["stop_words"] = sorted(stop_word_list(stop))
    kept["reading"] = {name: reading[name] for name in _READ}
    if not is_copy(corpus):
        kept["source"] = str(corpus.absolute())
    if reading["vocab"] is not None and not is_copy(reading["vocab"]):
        kept["reading"]["vocab"] = str(reading["vocab"].absolute())
    return kept


def read_with(corpus: Path, reading: dict[str, Any]) -> Any:
    """Read the corpus according to the options."""
    from ..apps import read_corpus

    options = dict(reading)
    options["errors"] = "replace" if options.pop("replace_errors") else "strict"
    options["stop_words"] = None if options["stop_words"] == "none" else options["stop_words"]
    return read_corpus(corpus, **options)


def topic_names(model: Any) -> list[str]:
    """Names of the topics in tables."""
    return [f"{number}: {word}" for number, word in enumerate(model.anchor_words)]


def _write_tables(model: Any, topics_table: Path | None, documents_table: Path | None) -> None:
    from ..apps import save_table

    names = topic_names(model)
    if topics_table is not None:
        words = [model.name(word) for word in range(model.topics.shape[1])]
        save_table(model.topics, topics_table, rows=names, columns=words, corner="topic")
    if documents_table is not None:
        documents = [model.document(number) for number in range(len(model.mixtures))]
        save_table(model.mixtures, documents_table, rows=documents, columns=names)


def _as_dict(model: Any, top: list[list[str]], read: Any, out: Path | None, examples: int) -> dict[str, Any]:
    shown = model.examples(examples)
    listed = [
        {
            "anchor": model.anchor_words[t],
            "words": words,
            "share": float(model.share[t]),
            "coherence": float(model.coherence[t]),
            "npmi": float(model.npmi[t]),
            "anchor_group": [model.name(word) for word in model.groups[t]],
            "documents": [model.document(int(document)) for document in shown[t]],
        }
        for t, words in enumerate(top)
    ]
    return {
        "topics": listed,
        "documents": read.counts.shape[0],
        "vocabulary": read.counts.shape[1],
        "min_documents": model.min_documents,
        "candidates": model.candidates,
        "coherence": float(model.coherence.mean()),
        "npmi": float(model.npmi.mean()),
        "uniqueness": model.uniqueness,
        "out": None if out is None else str(out),
        "seconds": model.seconds,
        "notes": list(read.notes),
    }


def _curve_dict(curve: Any) -> dict[str, Any]:
    return {"k": list(curve.numbers), "score": list(curve.scores), "error": list(curve.errors), "chosen": curve.chosen}


def _changes_dict(changes: Any) -> dict[str, Any]:
    pairs = {name: [list(pair) for pair in getattr(changes, name)] for name in ("same", "moved")}
    return pairs | {"new": list(changes.new), "gone": list(changes.gone)}


def _print_summary(model: Any, top: list[list[str]], read: Any, out: Path | None, examples: int) -> None:
    documents, words = read.counts.shape
    size = f"{documents} documents, {words} words, {len(model.anchors)} topics"
    print(f"{shown_source(read.name)}: {size} in {model.seconds:.1f} s")
    for note in read.notes:
        print(note)
    anchors = [encodable(printable(word)) for word in model.anchor_words]
    width = max(map(len, anchors))
    shown = model.examples(examples)
    for t in np.argsort(-model.share, kind="stable"):
        print(f"  {model.share[t]:5.1%}  {anchors[t]:<{width}}  {' '.join(top[t])}")
        for document in shown[t]:
            print(f"         {model.mixtures[document, t]:4.0%} of {model.document(int(document))}")
    coherence = f"{model.coherence.mean():.2f} (UMass), {model.npmi.mean():.2f} (NPMI)"
    print(f"Coherence {coherence}; uniqueness {model.uniqueness:.2f}.")
    if out is not None:
        print(f"Written to {out}: topics, mixtures of the documents, anchors, share, vocabulary.")


def _print_curve(curve: Any) -> None:
    print("  k  log-likelihood per word of unseen documents")
    for k, score, error in zip(curve.numbers, curve.scores, curve.errors, strict=True):
        print(f"{k:3}  {score:8.3f} ± {error:.3f}{'  chosen' if k == curve.chosen else ''}")


def _print_changes(changes: Any, before: Any, after: Any) -> None:
    moved = [f"{after.anchor_words[j]} ({changes.distances[i, j]:.2f})" for i, j in changes.moved]
    for what, names in {
        "new": [after.anchor_words[j] for j in changes.new],
        "gone": [before.anchor_words[i] for i in changes.gone],
        "moved": moved,
    }.items():
        print(f"{what}: {', '.join(names) or 'none'}")


def _print_scores(table: list[Any]) -> None:
    width = max(len(row.method) for row in table)
    print(f"\n{'':<{width}}  coherence    NPMI  uniqueness  seconds")
    for row in table:
        scores = f"{row.coherence:9.2f}  {row.npmi:6.2f}  {row.uniqueness:10.2f}  {row.seconds:7.1f}"
        print(f"{row.method:<{width}}  {scores}")
    print("Means over the ten top words of each topic, from the same documents; higher is better.")
