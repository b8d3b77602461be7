"""Determine the kind of data: spectra, words, cells or a plain table. It determines how anchors are shown."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from .._text import clean
from .._validate import check_choice
from ..matrix.contract import Rows, dense

__all__ = ["KINDS", "check_kind", "heaviest_columns", "names_of_rows", "recognised", "sizes_of"]

KINDS = ("spectra", "scene", "words", "cells", "features")
_TOP = 8  # heaviest features shown for an anchor
_SMOOTH = 0.9  # correlation of neighbouring columns from which rows resemble spectra


def check_kind(kind: str) -> None:
    """Raise an error if this is not a valid kind."""
    check_choice(kind, ("auto", *KINDS), name="kind")


def recognised(sample: Rows, column_names: Sequence[str] | None) -> str:
    """The kind that some rows resemble: spectra, words or features."""
    if _looks_spectral(sample, column_names):
        return "spectra"
    return "words" if _looks_like_words(sample, column_names) else "features"


def _looks_spectral(sample: Rows, names: Sequence[str] | None) -> bool:
    """Whether the columns are points of a scale: dense rows that change little from one column to the next.

    Column names that are increasing numbers are also a sign of this.
    """
    n = sample.shape[1]
    if sp.issparse(sample) or n < 20:
        return False
    if names is not None:
        try:
            scale = np.array([float(name) for name in names])
        except ValueError:
            return False
        return bool((np.diff(scale) > 0).all())
    block = dense(sample) - dense(sample).mean(axis=0)
    size = np.sqrt(np.einsum("ij,ij->j", block, block))
    pair = np.einsum("ij,ij->j", block[:, 1:], block[:, :-1])
    scale = size[1:] * size[:-1]
    near = np.divide(pair, scale, out=np.zeros_like(pair), where=scale > 0)
    return bool(np.median(near) > _SMOOTH)


def _looks_like_words(sample: Rows, names: Sequence[str] | None) -> bool:
    """Whether the columns are words of a language: sparse rows, and names of letters only, mostly lower case."""
    if names is None or not sp.issparse(sample) or len(names) < 50:
        return False
    some = [str(names[j]) for j in np.linspace(0, len(names) - 1, min(len(names), 500)).astype(int)]
    plain = sum(name.replace("'", "").replace("-", "").isalpha() and name == name.lower() for name in some)
    return plain >= 0.9 * len(some)


def names_of_rows(names: Sequence[str] | None, indices: Sequence[int] | NDArray[np.intp]) -> list[str]:
    """Names, or ``"row 7"`` if there is none or it is only the number of the row."""
    found = ["" if names is None else clean(names[int(i)]) for i in indices]
    return [f"row {int(i):,}" if name in ("", str(int(i))) else name for i, name in zip(indices, found, strict=True)]


def sizes_of(points: NDArray[np.float64], kind: str) -> NDArray[np.float64]:
    """The factors that turn the weights of a row into the shares shown.

    They are the l1 norms, so that a share is the contribution of an anchor; for rows of unit sum they are one. In a
    scene they are also one: the share of a material is its share of the area, not of the light.
    """
    return np.ones(len(points)) if kind == "scene" else np.abs(points).sum(axis=1)


def heaviest_columns(
    points: NDArray[np.float64], names: Sequence[str] | None, count: int = _TOP
) -> list[list[tuple[str, float]]]:
    """The heaviest columns of each anchor: name and share of the row's total."""
    features = []
    for row in points:
        total = float(np.abs(row).sum()) or 1.0
        top = np.argsort(-row, kind="stable")[:count]
        features.append(
            [
                (f"column {int(j):,}" if names is None else clean(names[int(j)], 28), float(row[j]) / total)
                for j in top
                if row[j] > 0
            ]
        )
    return features
