"""The rows stored in the page: an even sample, or a grid of pixels; the anchors; and the rows that fit worst."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..matrix.array import ArrayMatrix
from ..matrix.contract import RowMatrix
from .display import Display
from .held_back import explained_shares
from .pool import Pool

__all__ = ["PageRows", "choose_page_rows"]

_NUMBERS = 160_000  # coordinates of rows in the page, 4 bytes each
_WEIGHTS = 200_000  # weights that the page computes for one number of anchors
_ROWS, _PIXELS = 1500, 10_000  # rows kept at most
_FEWEST = 300
_ANCHORS = 100  # rows of anchors kept
_WORST, _SEARCHED, _ENTRIES = 30, 20_000, 1 << 23  # rows kept; rows read, and the limit of their entries if dense

_Array = NDArray[np.float64]


@dataclass(frozen=True)
class PageRows:
    """Rows stored in the page.

    Attributes
    ----------
    indices
        Which rows: first the even sample, then the anchors and the rows that fit worst.
    rows
        Those rows.
    even
        Size of the even sample.
    grid
        Height and width of the sample, if it is a grid of the pixels of an image.
    searched
        Number of rows among which the worst were searched; 0 if they were not.
    """

    indices: NDArray[np.intp]
    rows: ArrayMatrix
    even: int
    grid: tuple[int, int] | None
    searched: int = 0

    @property
    def sample(self) -> ArrayMatrix:
        """The even sample."""
        return ArrayMatrix(self.rows.rows(np.arange(self.even)))


def choose_page_rows(
    matrix: RowMatrix, display: Display, pool: Pool, rng: np.random.Generator, *, worst: bool = True
) -> PageRows:
    """Choose the rows: the more directions the basis has, the fewer rows fit into the page.

    Parameters
    ----------
    worst
        Whether to search for the rows that fit worst, and to add them and the rows of the anchors.
    """
    m = matrix.shape[0]
    room = max(_FEWEST, min(_NUMBERS // len(pool.basis), _WEIGHTS // max(pool.chosen)))
    grid = None
    if display.image is None:
        indices = np.sort(rng.choice(m, min(m, _ROWS, room), replace=False))
    else:
        ys, xs = _grid(display.image, min(_PIXELS, room))
        indices = np.ravel_multi_index(np.meshgrid(ys, xs, indexing="ij"), display.image, order=display.order).ravel()
        grid = len(ys), len(xs)
    if not worst or len(indices) == m:
        return PageRows(indices, ArrayMatrix(matrix.rows(indices)), len(indices), grid)
    k = max(pool.chosen)
    far, searched = _worst(matrix, pool.points[pool.chosen[k]], rng)
    others = [*pool.results[k].indices[:_ANCHORS].tolist(), *far.tolist()]
    more = np.setdiff1d(others, indices).astype(np.intp)
    every = np.concatenate([indices, more])
    return PageRows(every, ArrayMatrix(matrix.rows(every)), len(indices), grid, searched)


def _grid(image: tuple[int, int], room: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Lines and columns that are spread evenly over an image, with at most ``room`` pixels."""
    shrink = min(1.0, np.sqrt(room / (image[0] * image[1])))
    sizes = [min(max(1, int(size * shrink)), room) for size in image]
    ys, xs = (((np.arange(few) + 0.5) * size / few).astype(np.intp) for size, few in zip(image, sizes, strict=True))
    return ys, xs


def _worst(matrix: RowMatrix, points: _Array, rng: np.random.Generator) -> tuple[NDArray[Any], int]:
    """The rows with the largest unexplained share among rows drawn evenly, and how many were drawn."""
    m, n = matrix.shape
    count = min(m, _SEARCHED if matrix.is_sparse else max(2000, _ENTRIES // n), _SEARCHED)
    some = np.sort(rng.choice(m, count, replace=False))
    shares = [
        explained_shares(ArrayMatrix(matrix.rows(part)), points) for part in np.array_split(some, -(-count // 4096))
    ]
    return some[np.argsort(np.concatenate(shares), kind="stable")[:_WORST]], count
