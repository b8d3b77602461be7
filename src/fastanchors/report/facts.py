"""Compute all the facts of a report once; the page only draws them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from .._equality import ComparedByValue
from .._rng import as_generator
from .._text import GIVEN, clean
from .._validate import check_index, check_text
from ..anchors import Anchors
from ..encoder import encode
from ..matrix.array import ArrayMatrix
from ..matrix.contract import RowMatrix, Rows
from ..matrix.door import open_matrix
from ..matrix.norm_draws import draw_rows, squared_frobenius_norm
from ..rank import RankCurve, rank_curve
from .arguments import check_report
from .display import Display, display_of
from .explorer import explorer_data
from .held_back import HeldBack, explained_shares, hold_back
from .kinds import heaviest_columns, names_of_rows, recognised, sizes_of
from .pool import pool_of, results_for_every_k
from .repeated import NestedRecomputed, Recomputed, stability_statements
from .shares import Shares, rows_by_norm, shares_of

__all__ = ["Facts", "HeldBack", "Picture", "anchor_points", "curve_of", "gather"]

_PICTURED = 600  # rows drawn in the simplex picture
_JUDGED = 2000  # rows that the curve and the held-back test use

_Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Picture(ComparedByValue):
    """Rows drawn evenly: their weights (each row sums to one), the explained share of each, and their names."""

    weights: _Array
    explained: _Array
    names: list[str]
    leads: _Array  # fraction of these rows in which each anchor has the largest share


@dataclass(frozen=True, eq=False)
class Facts(ComparedByValue):
    """Everything on the page.

    Examples
    --------
    >>> import fastanchors as fa
    >>> X = fa.datasets.separable(100, 8, 3, rng=0).A
    >>> facts = fa.report.gather(X, fa.SPA().seek(X, 3), title="made")
    >>> facts.shape, len(facts.components)
    ((100, 8), 3)
    """

    title: str
    shape: tuple[int, int]
    normalize: str | None
    density: float  # share of the entries that are not zero
    anchors: Anchors
    seed: int | None
    names: list[str]
    named: bool  # whether the rows have names
    kind: str
    components: _Array
    features: list[list[tuple[str, float]]]
    column_names: list[str] | None
    shares: Shares
    own: float  # share of the squared norm of the data that is in the anchors themselves
    picture: Picture
    searched: bool  # whether a solver selected the anchors among the rows
    noun: str  # what an anchor is called
    curve: RankCurve | None
    held_back: HeldBack | None
    explorer: dict[str, Any]  # data for the page's script

    @property
    def k(self) -> int:
        return len(self.anchors)

    @property
    def spa_rows(self) -> int:
        """Rows that full SPA reads: one pass for the norms and one for each anchor."""
        return (self.k + 1) * self.shape[0]


def gather(
    A: Any,
    anchors: Anchors,
    *,
    title: str,
    normalize: str | None = None,
    curve: RankCurve | None = None,
    solver: Any = None,
    steps: Sequence[Anchors] | None = None,
    searched: bool = True,
    noun: str = "anchor",
    again: Recomputed | None = None,
    seed: int | None = None,
    **shown: Any,
) -> Facts:
    """Gather the facts about ``A`` (anything :func:`fastanchors.open_matrix` opens) and its ``anchors``.

    Reads a few thousand rows for any size of ``A``, besides the norms of the rows of a plain matrix. See
    :func:`fastanchors.report.write` for the parameters; ``shown`` are those of :func:`~.display.display_of`. If no
    solver ``searched`` the rows for the anchors, as with topics, the search is not repeated. ``noun`` names an anchor.

    Parameters
    ----------
    A
        Anything :func:`fastanchors.open_matrix` opens.
    anchors
        The result of a solver's ``seek``.
    title
        Name of the data.
    normalize, curve, solver, steps
        As in :func:`write`.
    searched
        Whether anchors are selected among the rows, so that some rows can be held back.
    noun
        What to call an anchor.
    again
        Computes anchors again from some of the rows; by default ``solver``, or plain SPA.
    seed
        Seed of all random draws.
    **shown
        How rows and columns are shown: the other options of :func:`write`.

    Examples
    --------
    >>> import fastanchors as fa
    >>> X = fa.datasets.separable(100, 8, 3, rng=0).A
    >>> fa.report.gather(X, fa.SPA().seek(X, 3), title="made").title
    'made'
    """
    checked = {"normalize": normalize, "steps": steps, "curve": curve, "solver": solver, "again": again}
    check_report(anchors, **checked, searched=searched)
    check_text(title, name="title")
    check_text(noun, name="noun")
    matrix = open_matrix(A, signed=True)
    display = display_of(A, matrix, **shown)
    m = matrix.shape[0]
    check_index(anchors.indices, m, name="anchor")
    rng = as_generator(seed)
    anchors, steps = _in_order(matrix, anchors), None if not steps else [_in_order(matrix, step) for step in steps]
    components = anchor_points(matrix, anchors)
    some = np.sort(rng.choice(m, min(m, _JUDGED), replace=False))
    sample = ArrayMatrix(matrix.rows(some))
    if display.kind == "auto":
        display = replace(display, kind=recognised(sample.data, display.column_names))
    names, columns = display.row_names, display.column_names
    lines = display.kind in ("spectra", "scene")
    judged = rows_by_norm(matrix, _JUDGED, rng)
    pool = pool_of(matrix, steps or results_for_every_k(matrix, anchors, seed))
    if again is None and searched and anchors.solver != GIVEN:
        again = NestedRecomputed(matrix, solver, rng)
    stability = stability_statements(pool, again, rng)
    explored = explorer_data(matrix, pool, judged, display, noun=noun, stability=stability, rng=rng)
    return Facts(
        title=clean(title),
        shape=matrix.shape,
        normalize=matrix.normalize if normalize is None else normalize,
        density=_density(matrix, sample.data),
        anchors=anchors,
        seed=seed,
        names=[explored["anchors"][j]["name"] for j in pool.chosen[len(anchors)]],
        named=names is not None,
        kind=display.kind,
        components=components,
        features=heaviest_columns(components, columns),
        column_names=[clean(name, 40) for name in columns] if columns is not None and lines else None,
        shares=shares_of(*judged, components, sampled=m > _JUDGED),
        own=_own(matrix, anchors),
        picture=_picture(sample, some, components, display, rng),
        searched=searched,
        noun=noun,
        curve=_curve(matrix, anchors, rng) if curve is None and searched else curve,
        held_back=hold_back(matrix, some, anchors, solver, rng) if searched else None,
        explorer=explored,
    )


def _in_order(matrix: RowMatrix, anchors: Anchors) -> Anchors:
    """The anchors with the columns of their points in the order of the matrix; raises if its rows are other ones."""
    anchors.check_rows(matrix, "pass the data that they were found in")
    return anchors if anchors.points is None else replace(anchors, points=anchors.points_in(matrix), column_names=None)


def anchor_points(matrix: RowMatrix, anchors: Anchors) -> _Array:
    """The point of each anchor, or its row if it has no point."""
    return np.asarray(anchors.points_in(matrix))


def _density(matrix: RowMatrix, sample: Rows) -> float:
    """Share of entries that are not zero; estimated from the sample unless a sparse matrix knows their number."""
    size = matrix.shape[0] * matrix.shape[1]
    if matrix.is_sparse and matrix.nnz < size:
        return matrix.nnz / size
    values = sample.data if sp.issparse(sample) else sample
    return np.count_nonzero(values) / (sample.shape[0] * sample.shape[1])


def _own(matrix: RowMatrix, anchors: Anchors) -> float:
    total = squared_frobenius_norm(matrix)
    return float(ArrayMatrix(matrix.rows(anchors.indices)).squared_norms().sum()) / total if total else 0.0


def _picture(
    sample: ArrayMatrix,
    some: NDArray[np.intp],
    components: _Array,
    display: Display,
    rng: np.random.Generator,
) -> Picture:
    at = np.sort(rng.choice(len(some), min(len(some), _PICTURED), replace=False))
    rows = ArrayMatrix(sample.rows(at))
    mass = encode(rows.data, components).astype(np.float64) * sizes_of(components, display.kind)
    total = mass.sum(axis=1, keepdims=True)
    weights = np.divide(mass, total, out=np.zeros_like(mass), where=total > 0)
    shown = total.ravel() > 0
    leads = np.bincount(weights[shown].argmax(axis=1), minlength=len(components)) / max(1, int(shown.sum()))
    chosen = names_of_rows(display.row_names, some[at][shown])
    return Picture(weights[shown], explained_shares(rows, components)[shown], chosen, leads)


def _curve(matrix: RowMatrix, anchors: Anchors, rng: np.random.Generator) -> RankCurve:
    """The rank curve from rows drawn by their norms and the anchors; at most about 2000 rows are used."""
    m = matrix.shape[0]
    some = np.arange(m) if m <= _JUDGED else np.union1d(draw_rows(matrix, _JUDGED, rng)[0], anchors.indices)
    k_max = min(len(some), len(anchors) + 5)
    return rank_curve(matrix.rows(some), k_max=k_max, rows=len(some), rng=rng)


def curve_of(record: Mapping[str, Any]) -> RankCurve:
    """A :class:`RankCurve` from what its ``as_dict`` gave."""
    arrays: dict[str, Any] = {}
    for name in ("ks", "residuals", "errors", "falls", "singular_values", "anchors"):
        arrays[name] = np.asarray(record[name], dtype=np.intp if name in ("ks", "anchors") else np.float64)
    return RankCurve(k=int(record["k"]), reason=str(record["reason"]), rows=int(record["rows"]), **arrays)
