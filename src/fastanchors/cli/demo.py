"""``fastanchors demo``: what the library does, on news stories that a small package carries."""

from __future__ import annotations

import shutil
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ..errors import InvalidInputError, MissingExtraError
from ._input import PATH
from ._terminal import shown_bytes, working
from .app import emit, json_option

__all__ = ["demo"]

_K = 10
_LATE = 40  # stories that arrive after the store is built
_SEEN_IN = 20  # stories a word must occur in to be a row


@click.command()
@click.option("-o", "--out", type=PATH, default=Path("demo-output"), show_default=True, help="Where the files go.")
@json_option
def demo(out: Path, as_json: bool) -> None:
    """Show the library at work on 395 Reuters stories: build a store, seek, encode, update it, seek again, report."""
    from .. import report, store
    from ..solvers.fas import FAS

    start = time.perf_counter()
    tell = (lambda text="": None) if as_json else click.echo
    corpus = _corpus()
    _make_place(out)

    first = corpus.counts[:-_LATE]
    tell(f"Reuters, 1996–97: {len(corpus.titles)} stories, {len(corpus.words):,} different words.")
    tell(
        f"A row for each of the {len(corpus.rows)} words found in {_SEEN_IN} stories or more; it counts the words it\n"
        "shares stories with. An anchor is a word that stands for a subject of its own.\n"
    )
    with working("building the store"):
        S = store.build(
            corpus.together(first),
            out / "words.store",
            row_names=[corpus.words[i] for i in corpus.rows],
            column_names=corpus.words,
            overwrite=True,
        )
        size = sum(file.stat().st_size for file in (out / "words.store").iterdir())
    tell(f"1. build   {first.shape[0]} stories → {S.path}: {S.shape[0]} × {S.shape[1]:,}, {shown_bytes(size)}")

    with S:
        with working("seeking anchors"):
            before = FAS().seek(S, _K, rng=0)
        tell(f"2. seek    {_K} anchors: {', '.join(before.names or ())}")
        tell(_sure(before))

        with working("adding the new stories"):
            added = corpus.together(corpus.counts[-_LATE:]).tocoo()
            S.add(added.coords[0], added.coords[1], added.data)
            S.commit()
        tell(f"3. update  {_LATE} more stories arrive: {added.nnz:,} entries changed in place, and committed")

        with working("seeking again"):
            after = FAS().seek(S, _K, rng=0)
        new = [name for name in after.names or () if name not in (before.names or ())]
        gone = [name for name in before.names or () if name not in (after.names or ())]
        change = f"{', '.join(new)} in place of {', '.join(gone)}" if new else "the same anchors"
        tell(f"4. seek    again: {change}")
        tell(_sure(after))

        with working("encoding the stories"):
            weights = _encode(corpus, S.rows(after.indices))
            _write_weights(out / "stories.csv", corpus.titles, after.names or (), weights)
        tell(
            f"5. encode  every story as a mixture of the anchors → {out / 'stories.csv'}; the story nearest to each:\n"
        )
        nearest = weights.argmax(axis=0)
        for name, story in zip(after.names or (), nearest, strict=True):
            tell(f"     {name:<10} {corpus.headline(int(story))}")

        with working("writing the report"):
            page = report.write(out / "report.html", S, after, title="Reuters words", kind="features", seed=0)
    seconds = time.perf_counter() - start
    tell(f"\n6. report  {page} ({shown_bytes(page.stat().st_size)}): open it in a browser")
    tell(f"\nAll this took {seconds:.1f} s. Next: fastanchors seek YOUR-FILE -k 10, or fastanchors --help.")
    if as_json:
        emit(
            {
                "store": str(out / "words.store"),
                "report": str(page),
                "weights": str(out / "stories.csv"),
                "before": before.as_dict(),
                "after": after.as_dict(),
                "seconds": seconds,
            }
        )


@dataclass(frozen=True)
class _Corpus:
    counts: sp.csr_array  # stories × words
    words: list[str]
    titles: list[str]
    rows: NDArray[np.intp]  # the words that are rows

    def together(self, counts: sp.csr_array) -> sp.csr_array:
        """How often each word of ``rows`` meets each word, over pairs of different places in a story."""
        pairs = sp.csr_array(counts[:, self.rows].T @ counts)
        own = np.asarray(counts.sum(axis=0)).ravel()
        places = np.arange(self.rows.size)
        pairs -= sp.csr_array((own[self.rows], (places, self.rows)), shape=pairs.shape)
        pairs.eliminate_zeros()
        return pairs

    def headline(self, story: int) -> str:
        """The title without its number, its place and its date."""
        text = self.titles[story].split(" ", 1)[-1].split(". ")[0]
        return text if len(text) <= 76 else text[:75] + "…"


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
    """An empty place; what an earlier demo left there is removed, anything else is left alone."""
    if out.exists() and not out.is_dir():
        raise InvalidInputError(f"{out} is a file; name a folder with --out")
    out.mkdir(parents=True, exist_ok=True)
    if (out / "words.store" / "manifest.json").exists():
        shutil.rmtree(out / "words.store")


def _sure(anchors: Any) -> str:
    cost = f"{anchors.cost.rows_read:,} rows read, {1e3 * anchors.seconds:.3g} ms"
    return f"           {anchors.certificate.kind}: {anchors.certificate.statement}\n           {cost}\n"


def _encode(corpus: _Corpus, anchors: Any) -> NDArray[np.float64]:
    """Each story's own words as a mixture of the anchors' company, all scaled to sum one."""
    from ..encoder import encode

    lengths = np.asarray(corpus.counts.sum(axis=1)).ravel()
    stories = sp.csr_array(corpus.counts.multiply(1.0 / lengths[:, None]))
    return np.asarray(encode(stories, anchors), dtype=np.float64)


def _write_weights(path: Path, titles: list[str], names: tuple[str, ...], weights: NDArray[np.float64]) -> None:
    from ._weights import WeightsFile

    with WeightsFile(path, np.float64, names) as file:
        file.write(weights, titles)
