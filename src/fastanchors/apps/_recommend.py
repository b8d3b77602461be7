"""Recommend items by sampling from a user's row of the low-rank approximation, which is never formed.

E. Tang, "A quantum-inspired classical algorithm for recommendation systems", STOC 2019 (arXiv 2018); the quantum
algorithm it dequantises is that of I. Kerenidis and A. Prakash, ITCS 2017.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from .._parallel import one_blas_thread
from .._rng import RngLike, as_generator
from .._tables import is_arrow
from .._validate import (
    check_draws,
    check_flag,
    check_index,
    check_number,
    check_size,
    check_unmasked,
    computed,
    is_dask,
    package,
)
from ..errors import InvalidInputError, RankError
from ..lowrank._lines import as_access
from ..lowrank.rejection import draw_combination
from ..lowrank.sampled_svd import fkv
from ..matrix.contract import Mutable, Rows
from ..sampling.matrix import SampleMatrix
from ._ratings import RatingsTable

__all__ = ["Recommender", "recommend"]

_TASTES = 20
_BATCH_SCORES = 1 << 22  # number of scores held at a time for a batch of users


class Recommender:
    """Recommend items from A·V·Vᵀ, the ratings projected on k tastes that FKV finds in a sample of users (Tang 2018).

    Row i of the approximation is V·y with y = Vᵀ·A_(i): k numbers per user, computed from the user's current ratings.
    Drawing an item with probability (V·y)_j²/‖V·y‖² then uses Algorithm 2 on the k columns of V. It takes at most k
    trials on average, as the columns are orthonormal.

    Parameters
    ----------
    S
        Ratings, users × items: an object with sample access (``SampleMatrix(A, normalize=None)``, a store); an array or
        sparse matrix is wrapped in one. Missing ratings are zero.
    k
        Number of tastes.
    rows, columns
        Number of users and items FKV draws; by default 20·k of each.
    passes
        Passes over all ratings that refine the tastes, V ← orth(AᵀA·V); 0 is Tang's algorithm, 2 is close to the
        truncated SVD.
    refresh
        Tastes are computed again when users holding more than this share of ‖A‖_F² have changed. Until then a new
        rating affects its user at once, but not the tastes.
    rng
        A ``numpy.random.Generator``, an int seed or None.

    Notes
    -----
    Cost: FKV and its p rows, for any number of users; O(n·k) memory for V with sample access. A user costs
    O(nnz(row)·k), and a draw O(k²) on average, independent of the number of users and items. :meth:`top_n` over all
    items costs O(n·k).

    Examples
    --------
    >>> import fastanchors as fa
    >>> ratings = fa.datasets.ratings(60, 40, 3, per_user=15, rng=0).A
    >>> model = fa.apps.Recommender(ratings, 3, rng=0)
    >>> model.top_n([0, 1], 5).shape
    (2, 5)
    """

    def __init__(
        self,
        S: Any,
        k: int,
        *,
        rows: int | None = None,
        columns: int | None = None,
        passes: int = 0,
        refresh: float = 0.05,
        rng: RngLike = None,
    ) -> None:
        self.S: Any = as_access(S)
        self.k = k
        self.passes = check_size(passes, name="passes", minimum=0)
        self.refresh_share = check_number(refresh, name="refresh", minimum=0.0)
        self._sizes = rows, columns
        self._rng = as_generator(rng)
        self.refresh()

    @one_blas_thread()  # the order of summation must not depend on the number of threads
    def refresh(self) -> None:
        """Compute the tastes again from the current ratings."""
        rows, columns = self._sizes
        self._cursor = self.S.cursor if isinstance(self.S, Mutable) else None
        vectors = fkv(self.S, self.k, rows=rows, columns=columns, rng=self._rng)
        V = np.linalg.qr(vectors._lines.combine(vectors.coefficients))[0]
        for _ in range(self.passes):
            Z = np.zeros_like(V)
            for _, block in self.S.blocks():
                Z += block.T @ (block @ V)
            V = np.linalg.qr(Z)[0]
        self.tastes: NDArray[np.float64] = V
        self._items = SampleMatrix(V, normalize=None)

    def rate(self, users: ArrayLike, items: ArrayLike, ratings: ArrayLike) -> None:
        """Set ratings (``S.update``) for all later recommendations. O(log) each, and occasionally a refresh."""
        self.S.update(users, items, ratings)
        self._follow()

    def _follow(self) -> None:
        """Refresh if the changed users hold a large enough share of the squared norm."""
        changed = self.S.changes_since(self._cursor) if self._cursor is not None else ()
        if len(changed):
            share = float((np.asarray(self.S.row_norm(changed)) ** 2).sum())
            if share > self.refresh_share * self.S.frobenius_norm**2:
                self.refresh()

    def coordinates(self, users: ArrayLike) -> NDArray[np.float64]:
        """y = Vᵀ·A_(i) of each user: their coordinates in the tastes."""
        return np.asarray(self._rows(users)[1] @ self.tastes)

    def scores(self, users: ArrayLike) -> NDArray[np.float64]:
        """The full rows of A·V·Vᵀ for the users: len(users) × items."""
        return self.coordinates(users) @ self.tastes.T

    def sample(self, user: int, size: int | None = None, *, exclude_seen: bool = True, rng: RngLike = None) -> Any:
        """Draw items with probability (V·y)_j²/‖V·y‖², with repetition; by default only among items not yet rated.

        A user without ratings gets items drawn by squared column norm, a measure of popularity.
        """
        count = 1 if size is None else check_draws(size)
        exclude_seen = check_flag(exclude_seen, name="exclude_seen")
        chosen, row = self._rows(user)
        if len(chosen) != 1:
            raise InvalidInputError(f"sample takes one user, got {len(chosen)}; top_n takes many")
        seen = _seen(row)[0] if exclude_seen else np.empty(0, np.intp)
        drawn = self._draw((row @ self.tastes)[0], seen, count, as_generator(rng))[0]
        return int(drawn[0]) if size is None else drawn

    def _draw(
        self, y: NDArray[np.float64], seen: NDArray[np.intp], count: int, rng: np.random.Generator, few: bool = False
    ) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
        """Draw items not in ``seen``, by rejection, and their scores; with ``few``, possibly fewer than ``count``."""
        kept: list[NDArray[np.intp]] = []
        values: list[NDArray[np.float64]] = []
        have, tries = 0, 0
        while have < count:
            if y.any():
                draws = draw_combination(self._items, y, count, rng=rng)
                items, scores = draws.indices, draws.values
            else:
                items = np.asarray(self.S.sample_columns(count, rng=rng), dtype=np.intp)
                scores = np.asarray(self.S.column_norm(items), dtype=np.float64)
            fresh = ~np.isin(items, seen)
            kept.append(items[fresh])
            values.append(scores[fresh])
            have += int(fresh.sum())
            tries += 1
            if tries >= 1000 and have < tries * count // 1000:
                if few:
                    break
                raise InvalidInputError(
                    "nearly all the weight of this user's row lies on items already rated; pass exclude_seen=False, "
                    "or use top_n"
                )
        empty = np.empty(0)
        return (
            np.concatenate([empty.astype(np.intp), *kept])[:count],
            np.concatenate([empty, *values])[:count],
        )

    def top_n(
        self,
        users: ArrayLike,
        n: int = 10,
        *,
        exclude_seen: bool = True,
        draws: int | None = None,
        rng: RngLike = None,
    ) -> NDArray[np.intp]:
        """The n best items of each user, best first: an array len(users) × n (of length n for a single user).

        ``draws=None`` scores every item, O(items·k) for a user. A number ranks only the distinct items among that
        many draws of :meth:`sample`, at a cost that does not grow with the number of items. If fewer than n items are
        left, the row ends in −1. Users without ratings get the most popular items.
        """
        draws = None if draws is None else check_draws(draws, name="draws", minimum=1)
        exclude_seen = check_flag(exclude_seen, name="exclude_seen")
        chosen, rows = self._rows(users)
        n = check_draws(n, name="n", minimum=1, each=max(1, len(chosen)))
        result = np.full((len(chosen), n), -1, dtype=np.intp)
        if draws is None:
            self._best(rows, exclude_seen, result)
        else:
            generator = as_generator(rng)
            seen = _seen(rows) if exclude_seen else [np.empty(0, np.intp)] * len(chosen)
            coordinates = rows @ self.tastes
            for place, child in enumerate(generator.spawn(len(chosen))):
                drawn = self._draw(coordinates[place], seen[place], draws, child, few=True)
                items, first = np.unique(drawn[0], return_index=True)
                best = items[np.argsort(-drawn[1][first], kind="stable")][:n]
                result[place, : len(best)] = best
        return result[0] if np.ndim(users) == 0 else result

    def _best(self, rows: Rows, exclude_seen: bool, result: NDArray[np.intp]) -> None:
        items = self.S.shape[1]
        step = max(1, _BATCH_SCORES // items)
        for start in range(0, len(result), step):
            block = rows[start : start + step]
            coordinates = np.asarray(block @ self.tastes)
            scores = coordinates @ self.tastes.T
            cold = ~coordinates.any(axis=1)
            if cold.any():
                scores[cold] = self.S.column_norm(np.arange(items))
            if exclude_seen:
                for place, seen in enumerate(_seen(block)):
                    scores[place, seen] = -np.inf
            for place, score in enumerate(scores):
                best = _largest(score, result.shape[1])
                result[start + place, : len(best)] = best

    def _rows(self, users: ArrayLike) -> tuple[NDArray[np.intp], Rows]:
        self._follow()
        chosen = np.atleast_1d(check_index(users, self.S.shape[0], name="user"))
        if chosen.ndim != 1:
            raise InvalidInputError(f"users must be an int or a one-dimensional array, got shape {chosen.shape}")
        return chosen, self.S.rows(chosen).astype(np.float64, copy=False)


def recommend(
    S: Any,
    users: ArrayLike,
    n: int = 10,
    *,
    k: int | None = None,
    exclude_seen: bool = True,
    draws: int | None = None,
    user: str = "user",
    item: str = "item",
    rating: str = "rating",
    rng: RngLike = None,
    **options: Any,
) -> NDArray[Any]:
    """Recommend the n best unseen items to each of ``users``: :meth:`Recommender.top_n` in one call.

    ``S`` is a matrix of ratings, a :class:`RatingsTable`, or a long frame whose columns are named by ``user``, ``item``
    and ``rating``. With a table or a frame, users and items are identified by their ids (None if there are fewer than
    n items). Compare with :meth:`RatingsTable.popular`, a strong baseline, before you rely on it.

    ``k`` is the number of tastes: by default 20, or as many as a smaller table allows. ``draws`` ranks only that many
    draws from the low-rank row of each user (Tang 2018), without forming it. The other ``options`` are those of
    :class:`Recommender`. For more than one query, or if new ratings keep arriving, create the :class:`Recommender`
    once.

    Parameters
    ----------
    S
        Ratings: a matrix, a :class:`RatingsTable`, or a long frame.
    users
        Rows of the matrix, or ids of users.
    n
        Number of items for each user.
    k
        Number of tastes; by default 20, or as many as a smaller table allows.
    exclude_seen
        Exclude items that a user has rated.
    draws
        Rank only this many draws from the low-rank row of each user.
    user, item, rating
        Names of the columns of a frame.
    rng
        A ``numpy.random.Generator``, an int seed or None.
    **options
        Options of :class:`Recommender`.

    Examples
    --------
    >>> import fastanchors as fa
    >>> ratings = fa.datasets.ratings(60, 40, 3, per_user=15, rng=0).A
    >>> fa.apps.recommend(ratings, [0, 1], 5, k=3, rng=0).shape
    (2, 5)
    """
    if package(S) in ("pandas", "polars") or is_arrow(S) or (is_dask(S) and hasattr(S, "columns")):
        S = RatingsTable.from_frame(S, user=user, item=item, rating=rating)
    if isinstance(S, RatingsTable):
        users = computed(users, "users")
        check_unmasked(users, "users")
        rows = S.rows_of(np.atleast_1d(np.asarray(users, dtype=object)))
        found = recommend(S.A, rows, n, k=k, exclude_seen=exclude_seen, draws=draws, rng=rng, **options)
        return S.named(found)
    generator = as_generator(rng)
    access = as_access(S)
    tastes = min(_TASTES, *access.shape) if k is None else k
    while True:
        try:
            model = Recommender(access, tastes, rng=generator, **options)
            break
        except RankError as error:  # of the users and items that were drawn
            if k is not None or not 1 <= error.rank < tastes:
                raise
            tastes = error.rank
    return model.top_n(users, n, exclude_seen=exclude_seen, draws=draws, rng=generator)


def _seen(rows: Rows) -> list[NDArray[np.intp]]:
    """The rated items of each row."""
    if sp.issparse(rows):
        return [rows.indices[low:high][rows.data[low:high] != 0] for low, high in zip(rows.indptr, rows.indptr[1:])]
    return [np.flatnonzero(row) for row in rows]


def _largest(score: NDArray[np.float64], n: int) -> NDArray[np.intp]:
    """Indices of the n largest finite scores, largest first; ties in order of index."""
    if n < len(score):
        bar = np.partition(score, len(score) - n)[len(score) - n]
        places = np.flatnonzero(score >= bar)
    else:
        places = np.arange(len(score))
    places = places[np.isfinite(score[places])]
    return places[np.argsort(-score[places], kind="stable")][:n]
