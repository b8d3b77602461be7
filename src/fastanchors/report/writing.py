"""Write the report on the anchors of a matrix (``fa.report.write``)."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from numpy.typing import ArrayLike

from .._validate import check_text
from ..anchors import Anchors
from ..io.addresses import path_to_write
from ..rank import RankCurve
from ..store.store import Store
from .facts import gather
from .page_html import page
from .saving import save

__all__ = ["write"]


def write(
    path: str | os.PathLike[str],
    A: Any,
    anchors: Anchors,
    *,
    title: str | None = None,
    row_names: Sequence[str] | None = None,
    column_names: Sequence[str] | None = None,
    normalize: str | None = None,
    kind: str = "auto",
    image: tuple[int, int] | None = None,
    order: Literal["C", "F"] = "C",
    embedding: ArrayLike | None = None,
    texts: Sequence[str] | None = None,
    steps: Sequence[Anchors] | None = None,
    curve: RankCurve | None = None,
    solver: Any = None,
    seed: int | None = None,
) -> Path:
    """Write the report on the ``anchors`` of ``A`` as one HTML page without external references.

    Parameters
    ----------
    path
        The file to write; it is replaced atomically.
    A
        The data that the anchors were computed from: anything :func:`fastanchors.open_matrix` opens.
    anchors
        The result of a solver's ``seek``.
    title
        Name of the data; by default the name of the store, or "data".
    row_names, column_names
        Names, if ``A`` has none of its own.
    normalize
        ``"l1"`` if the rows have been scaled to sum one; known for a sample matrix or a store.
    kind
        ``"spectra"`` draws the anchors as lines, ``"scene"`` also draws maps of them, ``"words"`` orders their words
        by relevance, ``"cells"`` calls columns genes, ``"features"`` lists the heaviest columns. ``"auto"`` chooses a
        scene if ``image`` is given, cells for AnnData, spectra for dense rows that are smooth over the columns, and
        words for sparse rows whose columns have words as names.
    image
        (height, width), if the rows are the pixels of an image.
    order
        ``"F"`` if the pixels of the image run down its columns.
    embedding
        Rows × 2, the position of each row; by default ``.obsm["X_umap"]`` or similar for AnnData.
    texts
        A text for each row, such as documents, shown with it.
    steps
        The results for 1, 2, … anchors, ending with ``anchors``, such as ``FAS().seek(A, range(1, k + 1))``. By default
        the first 1, 2, … of ``anchors``; noise-aware anchors of ``FAS()`` depend on k and are computed again, for at
        most 50 values of k.
    curve
        The rank curve, if it is already computed.
    solver
        The solver that is run again on the rows that are not held back; by default plain SPA.
    seed
        Seed of all random draws.

    Notes
    -----
    Reads a few thousand rows and takes a few seconds; the page stays below 3 MB.

    Examples
    --------
    >>> import tempfile
    >>> import fastanchors as fa
    >>> X = fa.datasets.separable(100, 8, 3, rng=0).A
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     print(fa.report.write(folder + "/page.html", X, fa.SPA().seek(X, 3)).name)
    page.html
    """
    path = path_to_write(path)
    check_text(title, name="title", none=True)
    facts = gather(
        A,
        anchors,
        title=_title(A) if title is None else title,
        row_names=row_names,
        column_names=column_names,
        normalize=normalize,
        kind=kind,
        image=image,
        order=order,
        embedding=embedding,
        texts=texts,
        steps=steps,
        curve=curve,
        solver=solver,
        seed=seed,
    )
    return save(path, page(facts))


def _title(source: Any) -> str:
    """The name of the file or store, or "data"."""
    if isinstance(source, Store):
        return source.path.name
    return Path(source).name if isinstance(source, str | os.PathLike) else "data"
