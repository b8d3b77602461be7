"""``fastanchors demo``: a tour of the library on Reuters news stories (from the package ``lda``)."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import click
import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from .._replacing import make_folder
from ..anchors import Anchors
from ..errors import InvalidInputError, MissingExtraError
from ._options import PATH, check_outside_stores
from ._terminal import shown_bytes, working
from ._weights import WeightsFile
from .app import emit, json_option

if TYPE_CHECKING:
    from ..store.store import Store

__all__ = ["demo"]

_K = 10
_LATE = 40  # stories that arrive after the store is built
_SEEN_IN = 20  # number of stories in which a word must occur to be a row

_Show: TypeAlias = Callable[[str], object]


@click.command()
@click.option("-o", "--out", type=PATH, default=Path("demo-output"), show_default=True, help="Output folder.")
@json_option
def demo(out: Path, as_json: bool) -> None:
    """Show the library at work on 395 Reuters stories: build a store, seek, encode, update it, seek again, report."""
    start = time.perf_counter()
    check_outside_stores(out, "--out")
    corpus = _corpus()
    _make_place(out)
    show = _silent if as_json else click.echo
    show(
        f"Reuters, 1996-97: {len(corpus.titles)} stories, {len(corpus.words):,} different words.\n"
        f"There is a row for each of the {len(corpus.rows)} words that occur in {_SEEN_IN} stories or more; it has\n"
        "the co-occurrence counts of the word. An anchor is a word that is typical of one subject.\n"
    )
    with _build(corpus, out / "words.store", show) as S:
        before = _seek(S)
        show(f"2. seek    {_K} anchors: {', '.join(before.names or ())}\n{_certainty(before)}")
        _update(S, corpus, show)
        after = _seek(S)
        show(f"4. seek    again: {_change(before, after)}\n{_certainty(after)}")
        _encode(S, corpus, after, out / "stories.csv", show)
        page = _report(S, after, out / "report.html", show)
    seconds = time.perf_counter() - start
    show(
        f"\nThe demo took {seconds:.0f} s. To use your own file:\n\n"
        "  fastanchors seek YOUR-FILE -k 10\n"
        "  fastanchors report YOUR-FILE -k 10 -o report.html\n"
        "  fastanchors build YOUR-FILE your.store"
    )
    if as_json:
        files = {"store": str(out / "words.store"), "report": str(page), "weights": str(out / "stories.csv")}
        emit({**files, "before": before.as_dict(), "after": after.as_dict(), "seconds": seconds})


def _silent(text: str) -> None:
    """Print nothing (with ``--json``)."""


def _build(corpus: _Corpus, path: Path, show: _Show) -> Store:
    """The store of all stories but the last ones."""
    from ..fas.stores import build

    first = corpus.counts[:-_LATE]
    with working("building the store"):
        names = [corpus.words[i] for i in corpus.rows]
        S = build(corpus.together(first), path, row_names=names, column_names=corpus.words, overwrite=True)
    size = shown_bytes(sum(file.stat().st_size for file in path.iterdir()))
    show(f"1. build   {first.shape[0]} stories into {path}: {S.shape[0]} × {S.shape[1]:,}, {size}")
    return S


def _seek(S: Store) -> Anchors:
    from ..solvers.fas import FAS

    with working("seeking anchors"):
        return FAS().seek(S, _K, rng=0)


def _certainty(anchors: Anchors) -> str:
    blank = " " * 11
    cost = f"{anchors.cost.rows_read:,} rows read, {anchors.seconds:.2g} s"
    return f"{blank}{anchors.certificate.kind}: {anchors.certificate.statement}\n{blank}{cost}\n"


def _update(S: Store, corpus: _Corpus, show: _Show) -> None:
    """Add the co-occurrences of the last stories to the entries."""
    with working("adding the new stories"):
        added = corpus.together(corpus.counts[-_LATE:]).tocoo()
        S.add(added.coords[0], added.coords[1], added.data)
        S.commit()
    show(f"3. update  {_LATE} more stories arrive: {added.nnz:,} entries changed in place and committed")


def _change(before: Anchors, after: Anchors) -> str:
    old, new = before.names or (), after.names or ()
    added, removed = [name for name in new if name not in old], [name for name in old if name not in new]
    return f"{', '.join(added)} in place of {', '.join(removed)}" if added else "the same anchors"


def _encode(S: Store, corpus: _Corpus, anchors: Anchors, path: Path, show: _Show) -> None:
    """Encode each story's words as a mixture of the anchor rows, all scaled to unit sum."""
    from ..encoder import encode

    names = anchors.names or ()
    with working("encoding the stories"):
        lengths = np.asarray(corpus.counts.sum(axis=1)).ravel()
        stories = sp.csr_array(corpus.counts.multiply(1.0 / lengths[:, None]))
        weights = encode(stories, S.rows(anchors.indices))
        with WeightsFile(path, np.float64, names) as file:
            file.write(weights, corpus.titles)
    show(f"5. encode  every story as a mixture of the anchors in {path}; the story nearest to each anchor:\n")
    for name, story in zip(names, weights.argmax(axis=0), strict=True):
        show(f"           {name:<10} {corpus.headline(int(story))}")


def _report(S: Store, anchors: Anchors, path: Path, show: _Show) -> Path:
    from ..report import write

    with working("writing the report"):
        write(path, S, anchors, title="Reuters words", kind="words", seed=0)
    show(f"\n6. report  {path} ({shown_bytes(path.stat().st_size)}): open it in a browser")
    return path


@dataclass(frozen=True)
class _Corpus:
    counts: sp.csr_array  # stories × words
    words: list[str]
    titles: list[str]
    rows: NDArray[np.intp]  # the words that are rows

    def together(self, counts: sp.csr_array) -> sp.csr_array:
        """Co-occurrence counts of each word of ``rows`` with all words, over pairs of tokens in a story."""
        pairs = sp.csr_array(counts[:, self.rows].T @ counts)
        own = np.asarray(counts.sum(axis=0)).ravel()
        places = np.arange(self.rows.size)
        pairs -= sp.csr_array((own[self.rows], (places, self.rows)), shape=pairs.shape)
        pairs.eliminate_zeros()
        return pairs

    def headline(self, story: int) -> str:
        """The title without its number, place and date."""
        return re.sub(r"^\d+ |\. [A-Z]{3}.*", "", self.titles[story])


def _corpus() -> _Corpus:
    try:
        from lda import datasets
    except ImportError:
        raise MissingExtraError("the demo needs the extra 'demo': pip install 'fastanchors[demo]'") from None
    counts = sp.csr_array(datasets.load_reuters().astype(np.float64))
    seen = np.asarray((counts > 0).sum(axis=0)).ravel()
    rows = np.flatnonzero(seen >= _SEEN_IN)
    return _Corpus(counts, list(datasets.load_reuters_vocab()), list(datasets.load_reuters_titles()), rows)


def _make_place(out: Path) -> None:
    """Make the output folder."""
    if out.exists() and not out.is_dir():
        raise InvalidInputError(f"{out} is a file; pass a folder with --out")
    make_folder(out)
