"""Determine how the rows and columns of a matrix are shown: kind, names, image, embedding and texts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._text import clean
from .._validate import as_reals, is_anndata, name_list
from ..anchors import Anchors
from ..errors import InvalidInputError
from ..io.hdf5 import open_hdf5
from ..io.scene import SceneInfo
from ..matrix.contract import RowMatrix
from .arguments import check_display
from .kinds import check_kind, names_of_rows

__all__ = ["Display", "PixelNames", "display_of", "display_options_of_file", "names_of_anchors"]

_EMBEDDINGS = ("X_umap", "X_tsne", "X_draw_graph_fa", "X_phate", "X_pca")  # of AnnData, best first


@dataclass(frozen=True)
class Display:
    """What is known about the rows and columns besides their values.

    Attributes
    ----------
    kind
        One of ``KINDS``, or ``"auto"``.
    row_names, column_names
        Names or None.
    image
        (height, width) if the rows are the pixels of an image.
    order
        ``"C"`` if the pixels run along the rows of the image, ``"F"`` if they run down its columns.
    embedding
        Rows × 2, the position of each row in a plane, or None.
    texts
        A text for each row, or None.
    named_anchors
        Whether the names of a result are names of its anchors, not of their rows.
    """

    kind: str = "auto"
    row_names: Sequence[str] | None = None
    column_names: Sequence[str] | None = None
    image: tuple[int, int] | None = None
    order: Literal["C", "F"] = "C"
    embedding: NDArray[np.float64] | None = None
    texts: Sequence[str] | None = None
    named_anchors: bool = False


class PixelNames(Sequence[str]):
    """``pixel (line, column)`` for every pixel of an image, created on request."""

    def __init__(self, image: tuple[int, int], order: Literal["C", "F"]) -> None:
        self._image, self._order = image, order

    def __len__(self) -> int:
        return self._image[0] * self._image[1]

    def __getitem__(self, index: Any) -> Any:
        line, column = np.unravel_index(int(index), self._image, order=self._order)
        return f"pixel ({line}, {column})"

    def __iter__(self) -> Iterator[str]:
        height, width = self._image
        if self._order == "C":
            return (f"pixel ({line}, {column})" for line in range(height) for column in range(width))
        return (f"pixel ({line}, {column})" for column in range(width) for line in range(height))


def display_of(
    source: Any,
    matrix: RowMatrix,
    *,
    kind: str = "auto",
    row_names: Sequence[str] | None = None,
    column_names: Sequence[str] | None = None,
    image: tuple[int, int] | None = None,
    order: Literal["C", "F"] = "C",
    embedding: ArrayLike | None = None,
    texts: Sequence[str] | None = None,
    named_anchors: bool = False,
) -> Display:
    """The given options, completed from the source: names, and the embedding of an AnnData object."""
    check_kind(kind)
    check_display(image=image, order=order, texts=texts, row_names=row_names, column_names=column_names)
    m, n = matrix.shape
    row_names, column_names = _listed(row_names, "row_names"), _listed(column_names, "column_names")
    texts = _by_position(texts)
    if image is not None and image[0] * image[1] != m:
        raise InvalidInputError(f"an image of {image[0]}×{image[1]} does not hold {m} pixels")
    if texts is not None and len(texts) != m:
        raise InvalidInputError(f"there are {len(texts)} texts for {m} rows")
    if row_names is not None and len(row_names) != m:
        raise InvalidInputError(f"there are {len(row_names)} names for {m} rows")
    if column_names is not None and len(column_names) != n:
        raise InvalidInputError(f"there are {len(column_names)} names for {n} columns")
    if is_anndata(source):
        kind = "cells" if kind == "auto" else kind
        embedding = _embedding(source.obsm) if embedding is None else embedding
    if kind == "scene" and image is None:
        raise InvalidInputError("kind='scene' needs image=(height, width)")
    if kind == "auto" and image is not None:
        kind = "scene"
    names = matrix.row_names if row_names is None else row_names
    return Display(
        kind=kind,
        row_names=PixelNames(image, order) if names is None and image is not None else names,
        column_names=matrix.column_names if column_names is None else column_names,
        image=image,
        order=order,
        embedding=None if embedding is None else _plane(embedding, m),
        texts=texts,
        named_anchors=named_anchors,
    )


def _listed(names: Any, what: str) -> Any:
    """Names as they are, decoded on access; a mapping as a list in the order of its numbers, and a set is refused."""
    return name_list(names, what) if isinstance(names, Mapping | Set) else _by_position(names)


def _by_position(values: Any) -> Any:
    """Values that are looked up by their position, as those of a column of a data frame are not."""
    return values if values is None or isinstance(values, Sequence | np.ndarray) else list(values)


def names_of_anchors(anchors: Anchors, display: Display) -> list[str]:
    """The names of the anchors if they have any, else those of their rows."""
    if anchors.names is not None and (display.named_anchors or display.row_names is None):
        return [clean(name) or f"row {i:,}" for i, name in zip(anchors, anchors.names, strict=True)]
    return names_of_rows(display.row_names, anchors.indices)


def display_options_of_file(path: Path, scene: SceneInfo | None, rows: int) -> dict[str, Any]:
    """Display options stored in a file: the shape of the image whose pixels are its rows, or the embedding of cells."""
    if scene is not None and scene.shape is not None and scene.shape[0] * scene.shape[1] == rows:
        return {"kind": "scene", "image": scene.shape, "order": scene.order}
    if path.suffix.lower() != ".h5ad":
        return {}
    with open_hdf5(path) as file:
        places = _embedding(file["obsm"]) if "obsm" in file else None
    fits = places is not None and places.shape == (rows, 2) and np.isfinite(places).all()
    return {"kind": "cells", "embedding": places if fits else None}


def _embedding(obsm: Any) -> NDArray[np.float64] | None:
    """The first two columns of the preferred embedding."""
    for name in _EMBEDDINGS:
        if name in obsm and len(getattr(obsm[name], "shape", ())) == 2:  # a data frame has columns in a group
            return np.asarray(obsm[name][:, :2], dtype=np.float64)
    return None


def _plane(embedding: ArrayLike, m: int) -> NDArray[np.float64]:
    places = as_reals(embedding, "the embedding")
    if places.shape != (m, 2):
        raise InvalidInputError(f"the embedding must have shape ({m}, 2), got {places.shape}")
    return places
