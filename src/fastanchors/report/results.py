"""Reports on the results of applications: the topics of a corpus, the materials of a scene."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..anchors import Anchors, Certificate
from ..apps import Topics, Unmixing
from ..errors import InvalidInputError
from ..matrix.array import ArrayMatrix
from ..matrix.contract import Rows
from ..matrix.cost import Cost
from ..matrix.door import open_matrix
from .facts import gather
from .page import page
from .saving import save

__all__ = ["write_topics", "write_unmixing"]


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
        The file to write; it is replaced whole.
    topics
        The result of :func:`fastanchors.apps.topics`.
    counts
        The counts it was made of, documents × words.
    title
        What to call the corpus.
    documents
        A name for each document.
    texts
        The text of each document, or its beginning.
    seed
        Of all that is drawn at random.

    Examples
    --------
    >>> import tempfile
    >>> import fastanchors as fa
    >>> counts = fa.datasets.topics(300, 80, 3, rng=0).A
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     print(fa.report.write_topics(folder + "/page.html", fa.apps.topics(counts, 3), counts).name)
    page.html
    """
    matrix = open_matrix(counts, normalize="l1", name="counts")
    if matrix.shape != (len(topics.mixtures), topics.topics.shape[1]):
        raise InvalidInputError(
            f"the topics are of {len(topics.mixtures)} documents × {topics.topics.shape[1]} words, "
            f"the counts are {matrix.shape[0]} × {matrix.shape[1]}"
        )
    rows = _most_typical(topics.mixtures)
    certificate = Certificate("none", "topics are estimates from the words that occur together")
    anchors = Anchors(rows, "topics", Cost(), topics.seconds, certificate, points=topics.topics)
    facts = gather(
        matrix,
        anchors,
        title=title,
        kind="words",
        row_names=documents,
        column_names=topics.vocabulary,
        texts=texts,
        anchor_names=dict(zip(rows.tolist(), topics.anchor_words, strict=True)),
        searched=False,
        noun="topic",
        seed=seed,
    )
    return save(path, page(facts))


def _most_typical(mixtures: NDArray[np.float64]) -> NDArray[np.intp]:
    """For each topic the document that has most of it, none twice."""
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
    """The pixels of a scene with zeros where there is no data; a block at a time, without a copy of the scene."""

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
    """Write the report on the materials of a scene: spectra, maps, and what is not explained.

    Parameters
    ----------
    path
        The file to write; it is replaced whole.
    result
        The result of :func:`fastanchors.apps.unmix`.
    title
        What to call the scene.
    seed
        Of all that is drawn at random.

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
    cube, k = result.cube, len(result.endmembers)
    certificate = Certificate("none", _HOW[result.method])
    anchors = Anchors(result.anchors, "unmix", Cost(), result.seconds, certificate, points=result.endmembers)
    facts = gather(
        _Pixels(cube.pixels, result.left_out, cube.wavelengths),
        anchors,
        title=cube.name if title is None else title,
        kind="spectra" if cube.shape is None else "scene",
        image=cube.shape,
        order=cube.order,
        anchor_names={int(row): f"material {j + 1}" for j, row in zip(range(k), result.anchors, strict=True)},
        searched=False,
        noun="material",
        seed=seed,
    )
    return save(path, page(facts))
