"""Synthetic ratings: few per user, with popular items, and users as mixtures of tastes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from .._distinct import distinct
from .._equality import ComparedByValue
from .._rng import RngLike, as_generator, spawn
from .._validate import check_memory, check_number, check_size
from ..matrix.contract import Rows

__all__ = ["Ratings", "ratings"]

_BLOCK_USERS = 1 << 12


@dataclass(frozen=True, eq=False)
class Ratings(ComparedByValue):
    """Ratings from known tastes.

    Attributes
    ----------
    A
        Users × items, CSR of ratings 0.5 … 5 in half steps; absent means not rated.
    components
        k × items, the rating of every item by each taste.
    weights
        Users × k, each user's mixture of tastes.

    Examples
    --------
    >>> import fastanchors as fa
    >>> made = fa.datasets.ratings(30, 20, 3, per_user=5, rng=0)
    >>> made.A.shape, made.components.shape
    ((30, 20), (3, 20))
    """

    A: Rows
    components: NDArray[np.float64]
    weights: NDArray[np.float64]


def ratings(
    users: int,
    items: int,
    k: int,
    *,
    per_user: float = 50.0,
    alpha: float = 0.3,
    noise: float = 0.5,
    popularity: float = 0.8,
    rng: RngLike = None,
) -> Ratings:
    """A sparse table of ratings: user u rates item i with (F·A_R)_ui plus Gaussian noise, rounded to half stars.

    Costs O(k) for each rating.

    Parameters
    ----------
    users, items, k
        Numbers of users, items and tastes.
    per_user
        Mean number of ratings of a user (geometric distribution, at least one).
    alpha
        Parameter of the Dirichlet distribution of a user's tastes.
    noise
        Standard deviation of the noise, in stars.
    popularity
        Exponent of the Zipf law of the items.
    rng
        A ``numpy.random.Generator``, an int seed or None.

    Examples
    --------
    >>> import fastanchors as fa
    >>> fa.datasets.ratings(30, 20, 3, per_user=5, rng=0).A.shape
    (30, 20)
    """
    users, items, k = (check_size(value, name=name) for value, name in ((users, "users"), (items, "items"), (k, "k")))
    per_user = check_number(per_user, name="per_user", minimum=1.0)
    noise = check_number(noise, name="noise", minimum=0.0, maximum=1e30)
    size = 8 * (k + 3) * (users + items) + int(32 * users * min(per_user, items))
    check_memory(size, f"the ratings of {users:,} users and {items:,} items", "use fewer")
    rng = as_generator(rng)
    components = np.clip(3.2 + 1.2 * rng.standard_normal((k, items)), 0.5, 5.0)
    law = np.cumsum((np.arange(items) + 1.0) ** -check_number(popularity, name="popularity", minimum=0.0, maximum=20.0))
    law /= law[-1]
    order = rng.permutation(items)
    weights = rng.dirichlet(np.full(k, check_number(alpha, name="alpha", minimum=1e-300, maximum=1e30)), users)
    blocks = []
    starts = range(0, users, _BLOCK_USERS)
    for start, child in zip(starts, spawn(rng, len(starts))):
        stop = min(start + _BLOCK_USERS, users)
        number = np.minimum(child.geometric(1.0 / per_user, stop - start), items)
        user = np.repeat(np.arange(start, stop), number)
        item = order[np.searchsorted(law, child.random(user.size), side="right")]
        pairs = distinct(user * np.int64(items) + item)  # a user rates an item once
        user, item = pairs // items, pairs % items
        liking = np.einsum("ij,ji->i", weights[user], components[:, item])
        stars = np.clip(np.round(2 * (liking + noise * child.standard_normal(user.size))) / 2, 0.5, 5.0)
        blocks.append(sp.csr_array((stars, (user - start, item)), shape=(stop - start, items)))
    return Ratings(sp.csr_array(sp.vstack(blocks, format="csr")), components, weights)
