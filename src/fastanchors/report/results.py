"""Write reports on the results of applications: the topics of a corpus, the materials of a scene."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._rng import as_generator
from .._validate import check_finite, check_text
from ..anchors import Anchors, Certificate
from ..apps import Corpus, Topics, Unmixing, unmix
from ..apps import topics as find_topics
from ..apps._corpus import is_path, is_texts
from ..apps._documents import read_documents
from ..apps._topic_update import check_fitted
from ..apps._unmix import check_unmixing
from ..errors import FastAnchorsError, InvalidInputError
from ..io.addresses import path_to_write
from ..matrix.array import ArrayMatrix
from ..matrix.columns import check_columns
from ..matrix.contract import RowMatrix, Rows
from ..matrix.cost import Cost
from ..matrix.door import open_matrix
from .facts import gather
from .page_html import page
from .pool import numbers_up_to
from .repeated import Known
from .saving import save

__all__ = ["write_topics", "write_unmixing"]

_SOUGHT_IN = 20_000  # documents or pixels from which fewer topics or materials are computed


def write_topics(
    path: str | os.PathLike[str],
    topics: Topics,
    counts: Any,
    *,
    title: str = "topics",
    documents: Sequence[str] | None = None,
    texts: Sequence[str] | None = None,
    seed: int | None = 0,
) -> Path:
    """Write the report on the topics of a corpus: documents as mixtures of topics.

    Parameters
    ----------
    path
        The file to write; it is replaced atomically.
    topics
        The result of :func:`fastanchors.apps.topics`.
    counts
        The counts that the model was fitted to, documents × words. Or its texts, their path, or a
        :class:`~fastanchors.apps.Corpus`, whose words are matched to those of the model. Texts are split as
        :func:`~fastanchors.apps.read_corpus` does by default; pass its result if the model was made with other options.
    title
        Name of the corpus.
    documents
        A name for each document; by default those that the documents have.
    texts
        The text of each document, or its beginning; by default as read.
    seed
        Seed of all random draws.

    Examples
    --------
    >>> import tempfile
    >>> import fastanchors as fa
    >>> counts = fa.datasets.topics(300, 80, 3, rng=0).A
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     print(fa.report.write_topics(folder + "/page.html", fa.apps.topics(counts, 3), counts).name)
    page.html
    """
    check_fitted(topics, "topics")
    path = path_to_write(path)
    check_text(title, name="title")
    if is_texts(counts) or is_path(counts) or isinstance(counts, Corpus):
        ngrams = 1 + max((word.count(" ") for word in topics.vocabulary or ()), default=0)
        found = read_documents(counts, topics, ngrams=ngrams)
        counts = found.counts
        documents = found.names if documents is None else documents
        texts = found.texts if texts is None else texts
    matrix = open_matrix(counts, normalize="l1", name="counts")
    if matrix.shape != (len(topics.mixtures), topics.topics.shape[1]):
        raise InvalidInputError(
            f"the topics are of {len(topics.mixtures)} documents × {topics.topics.shape[1]} words, "
            f"the counts are {matrix.shape[0]} × {matrix.shape[1]}"
        )
    check_columns(topics.vocabulary, matrix.column_names, "the topics", "the counts")
    if matrix.normalize is None:  # a store or a matrix with sample access, which may be signed
        for start, block in matrix.blocks():
            check_finite(block, name="counts", first_row=start)
    again = _RecomputedTopics(open_matrix(counts, name="counts"), topics.vocabulary, as_generator(seed))
    anchors = _topic_anchors(
        topics, _most_typical(topics.mixtures), "topics are estimates from the words that occur together"
    )
    facts = gather(
        matrix,
        anchors,
        title=title,
        kind="words",
        row_names=documents,
        column_names=topics.vocabulary,
        texts=texts,
        named_anchors=True,
        steps=[*again.steps(len(anchors)), anchors],
        again=again,
        searched=False,
        noun="topic",
        seed=seed,
    )
    return save(path, page(facts))


def _topic_anchors(topics: Topics, rows: NDArray[np.intp], how: str) -> Anchors:
    """Topics as anchors: the points are their word distributions, the rows the most typical documents."""
    certificate = Certificate("none", how)
    names = tuple(topics.anchor_words)
    return Anchors(rows, "topics", Cost(), topics.seconds, certificate, names=names, points=topics.topics)


_Found = TypeVar("_Found", Topics, Unmixing)


class _RecomputedResult(ABC, Generic[_Found]):
    """Computes the result of an application again: from some of the rows, and for smaller numbers."""

    noun: ClassVar[str]  # of the rows

    def __init__(self, rows: NDArray[np.intp], rng: np.random.Generator) -> None:
        self._some = np.sort(rng.choice(rows, min(len(rows), _SOUGHT_IN), replace=False))

    @abstractmethod
    def _computed(self, some: NDArray[np.intp], k: int) -> _Found:
        """The result for ``k`` from those rows."""

    @abstractmethod
    def _points(self, found: _Found) -> NDArray[np.float64]:
        """The points of a result."""

    @abstractmethod
    def _anchors(self, found: _Found, how: str) -> Anchors:
        """A result computed from the sampled rows as anchors."""

    def _found(self, some: NDArray[np.intp], k: int) -> _Found | None:
        try:
            return self._computed(some, k)
        except FastAnchorsError:  # too few rows for so many, or too few words
            return None

    def rows(self, k: int) -> NDArray[np.intp]:
        return self._some

    def known(self, indices: NDArray[np.intp]) -> Known:
        return Known()

    def likeness(self, some: NDArray[np.intp], points: NDArray[np.float64]) -> NDArray[np.float64]:
        raise NotImplementedError  # their noise is not known

    def seek(self, some: NDArray[np.intp], ks: Sequence[int]) -> list[NDArray[np.float64] | None]:
        results = [self._found(some, k) for k in ks]
        return [None if found is None else self._points(found) for found in results]

    def steps(self, most: int) -> Iterator[Anchors]:
        """The results for smaller numbers than ``most``."""
        how = f"computed for this number from {len(self._some):,} {self.noun}"
        for k in numbers_up_to(most)[:-1]:
            found = self._found(self._some, k)
            if found is not None and len(self._points(found)) == k:
                yield self._anchors(found, how)


class _RecomputedTopics(_RecomputedResult[Topics]):
    noun = "documents"

    def __init__(self, counts: RowMatrix, vocabulary: Sequence[str] | None, rng: np.random.Generator) -> None:
        super().__init__(np.arange(counts.shape[0]), rng)
        self._counts, self._vocabulary = counts, vocabulary

    def _computed(self, some: NDArray[np.intp], k: int) -> Topics:
        return find_topics(self._counts.rows(some), k, vocabulary=self._vocabulary)

    def _points(self, found: Topics) -> NDArray[np.float64]:
        return found.topics

    def _anchors(self, found: Topics, how: str) -> Anchors:
        return _topic_anchors(found, self._some[_most_typical(found.mixtures)], how)


def _most_typical(mixtures: NDArray[np.float64]) -> NDArray[np.intp]:
    """For each topic the document with the largest share of it, without duplicates."""
    rows: list[int] = []
    for share in mixtures.T:
        order = np.argsort(-share, kind="stable")[: len(rows) + 1]
        rows.append(next(int(i) for i in order if int(i) not in rows))
    return np.array(rows, dtype=np.intp)


_HOW = {
    "groups": "materials are medians of the pixels chosen for them",
    "refined": "materials are medians of the pixels chosen for them, refined once by least squares over all pixels",
    "vertices": "materials are the spectra that explain all pixels best as mixtures with noise",
}


class _Pixels(ArrayMatrix):
    """The pixels of a scene with zeros for missing data; read in blocks, without a copy of the scene."""

    def __init__(self, pixels: NDArray[Any], empty: NDArray[np.intp], wavelengths: ArrayLike | None) -> None:
        names = None if wavelengths is None else [f"{wave:g}" for wave in np.asarray(wavelengths).tolist()]
        super().__init__(pixels, column_names=names)
        self._held = np.ones(len(pixels), dtype=bool)
        self._held[empty] = False

    def rows(self, indices: ArrayLike) -> Rows:
        at = np.asarray(indices, dtype=np.intp)
        return _without_gaps(super().rows(at), self._held[at])

    def blocks(self, block_rows: int | None = None) -> Iterator[tuple[int, Rows]]:
        for start, block in super().blocks(block_rows):
            yield start, _without_gaps(block, self._held[start : start + block.shape[0]])


def _without_gaps(block: NDArray[Any], held: NDArray[np.bool_]) -> NDArray[np.float64]:
    values = np.nan_to_num(block.astype(np.float64), nan=0.0, posinf=0.0, neginf=0.0)
    return np.where(held[:, None], np.maximum(values, 0.0), 0.0)


def write_unmixing(
    path: str | os.PathLike[str], result: Unmixing, *, title: str | None = None, seed: int | None = 0
) -> Path:
    """Write the report on the materials of a scene: spectra, maps, and the residual.

    Parameters
    ----------
    path
        The file to write; it is replaced atomically.
    result
        The result of :func:`fastanchors.apps.unmix`.
    title
        Name of the scene.
    seed
        Seed of all random draws.

    Examples
    --------
    >>> import tempfile
    >>> import fastanchors as fa
    >>> scene = fa.datasets.hyperspectral(12, 10, 30, 3, rng=0)
    >>> result = fa.apps.unmix(scene.A, 3, shape=(12, 10))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     print(fa.report.write_unmixing(folder + "/page.html", result).name)
    page.html
    """
    check_unmixing(result)
    path = path_to_write(path)
    check_text(title, name="title", none=True)
    cube = result.cube
    pixels = _Pixels(cube.pixels, result.left_out, cube.wavelengths)
    again = _RecomputedMaterials(pixels, result, as_generator(seed))
    anchors = _materials(result, result.anchors, _HOW[result.method])
    facts = gather(
        pixels,
        anchors,
        title=cube.name if title is None else title,
        kind="spectra" if cube.shape is None else "scene",
        image=cube.shape,
        order=cube.order,
        named_anchors=True,
        steps=[*again.steps(len(anchors)), anchors],
        again=again,
        searched=False,
        noun="material",
        seed=seed,
    )
    return save(path, page(facts))


def _materials(result: Unmixing, rows: NDArray[np.intp], how: str) -> Anchors:
    """Materials as anchors: the points are their spectra."""
    names = tuple(f"material {j + 1}" for j in range(len(result.endmembers)))
    certificate = Certificate("none", how)
    return Anchors(rows, "unmix", Cost(), result.seconds, certificate, names=names, points=result.endmembers)


class _RecomputedMaterials(_RecomputedResult[Unmixing]):
    noun = "pixels"

    def __init__(self, pixels: RowMatrix, result: Unmixing, rng: np.random.Generator) -> None:
        super().__init__(np.setdiff1d(np.arange(pixels.shape[0]), result.left_out), rng)
        self._pixels, self._dropped = pixels, result.dropped_bands

    def _computed(self, some: NDArray[np.intp], k: int) -> Unmixing:
        return unmix(self._pixels.rows(some), k, drop_bands=self._dropped)

    def _points(self, found: Unmixing) -> NDArray[np.float64]:
        return found.endmembers

    def _anchors(self, found: Unmixing, how: str) -> Anchors:
        return _materials(found, self._some[found.anchors], how)
