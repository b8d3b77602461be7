"""The sample model of a vector (Lemma 1 of Chen et al.): query, update, norm, and draws by squared entries."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from .._jit import jit
from .._rng import RngLike, as_generator
from .._validate import as_numbers, check_draws, check_index
from ..errors import InvalidInputError
from .sum_tree import (
    FANOUT,
    LANES,
    TOUCHED,
    Floats,
    Ints,
    aligned_zeros,
    build,
    choose,
    descend,
    level_offsets,
    new_scratch,
    refresh_parents,
    set_one,
)

__all__ = ["VectorSampler"]

SMALLEST, LARGEST = 2.0**-511, 2.0**500  # the square of a non-zero entry is a normal double, with all its 53 bits
LARGEST_SUM = 2.0**1023  # half of the largest double, so that rounding cannot overflow
_CHUNK = 1 << 16  # draws made at a time


class VectorSampler:
    """A vector with sample access: entry i is drawn with probability xᵢ² / ‖x‖² (Lemma 1).

    A 16-ary sum tree over the squares. Signs are kept; a zero entry is never drawn. Sums are recomputed from their
    children and never corrected by a difference, so after any number of updates they are bit for bit those of a new
    vector with the same entries.

    Costs for n entries: building O(n); drawing or setting one entry O(log n), that is 16 numbers read on each of
    ⌈log₁₆ n⌉ levels; the norm and a query O(1). Memory: 8.6 bytes per entry, for the entries as float64 and the sums.

    Parameters
    ----------
    values : array-like of shape (n,)
        Real numbers, n ≥ 1; copied. A non-zero entry must have 2⁻⁵¹¹ ≤ \\|x\\| ≤ 2⁵⁰⁰ (about 1.5e-154 and 3.3e150), so
        that its square neither underflows nor overflows; and the sum of all squares, in an update that of the old and
        the new entries together, must stay below 2¹⁰²³. Anything else, including NaN and infinity, raises
        :class:`~fastanchors.errors.InvalidInputError`, which names the entry, and changes nothing. In that case divide
        the vector by a constant: draws do not depend on it.

    Notes
    -----
    A draw inverts the cumulative sum at a uniform number of 53 bits (``Generator.random``), so probabilities are exact
    up to 2⁻⁵³ and the rounding of sums. Negative indices are refused.

    Examples
    --------
    >>> import fastanchors as fa
    >>> v = fa.VectorSampler([3.0, 0.0, -4.0])
    >>> len(v), v[2], v.norm
    (3, -4.0, 5.0)
    >>> v[0] = 0.0
    >>> v.sample(4, rng=0).tolist()
    [2, 2, 2, 2]
    """

    __slots__ = ("_entries", "_nodes", "_offsets", "_size", "node_visits")

    def __init__(self, values: ArrayLike) -> None:
        given = as_numbers(values, "values")
        if given.ndim != 1 or given.size == 0:
            raise InvalidInputError(f"values must be one-dimensional and not empty, got shape {given.shape}")
        groups = -(-given.size // FANOUT)
        entries = aligned_zeros(groups * FANOUT)
        entries[: given.size] = given
        _check_range(entries, None, 0.0)
        self._size: int = given.size
        self._entries = entries
        self._offsets = level_offsets(groups)
        self._nodes = aligned_zeros(int(self._offsets[-1]))
        #: Number of groups of 16 numbers read by draws and updates so far.
        self.node_visits: int = 0
        _build(self._entries, self._nodes, self._offsets)

    def __copy__(self) -> VectorSampler:
        """A copy of its own, as of a SampleMatrix."""
        return copy.deepcopy(self)

    def __len__(self) -> int:
        return self._size

    def __repr__(self) -> str:
        return f"VectorSampler(n={self._size}, norm={self.norm:.6g})"

    @property
    def values(self) -> NDArray[np.float64]:
        """The entries, as a read-only view that shows later updates."""
        view = self._entries[: self._size]
        view.flags.writeable = False
        return view

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> NDArray[Any]:
        if copy:
            return self.values.astype(dtype or np.float64)
        return np.asarray(self.values, dtype)

    def __iter__(self) -> Iterator[float]:
        return iter(self.values.tolist())

    @property
    def norm(self) -> float:
        """The Euclidean norm ‖x‖. O(1)."""
        return math.sqrt(self._nodes[-1])

    def __getitem__(self, index: Any) -> Any:
        """``v[i]``: a float for an int, an array of the same shape for an array of ints, a copy for a slice."""
        if type(index) is int and 0 <= index < self._size:  # fast path without array checks
            return self._entries.item(index)
        at = self._positions(index)
        return float(self._entries[at]) if at.ndim == 0 else self._entries[at]

    def __setitem__(self, index: Any, value: ArrayLike) -> None:
        """``v[i] = x``, or many at once as in :meth:`update`. O(log n) each."""
        if type(index) is int and 0 <= index < self._size and isinstance(value, float):  # fast path
            visits = _try_set_one(self._entries, self._nodes, self._offsets, index, value)
            if visits > 0:
                self.node_visits += visits
                return
        self.update(self._positions(index) if isinstance(index, slice) else index, value)

    def update(self, indices: ArrayLike, values: ArrayLike) -> None:
        """Set many entries: ``values`` (broadcast) at ``indices``; of equal indices the last wins.

        If one is refused, none is set. O(log n) each, and less if they share sums.
        """
        at = check_index(indices, self._size, name="index")
        given = as_numbers(values, "values")
        if given.shape != at.shape:
            try:
                given = np.broadcast_to(given, at.shape)
            except ValueError:
                message = f"values of shape {given.shape} do not fit indices of shape {at.shape}"
                raise InvalidInputError(message) from None
        at = np.ascontiguousarray(at).reshape(-1)
        new = np.ascontiguousarray(given, dtype=np.float64).reshape(-1)
        _check_range(new, at, float(self._nodes[-1]))
        if at.size == 1:
            self.node_visits += _set_one(self._entries, self._nodes, self._offsets, at[0], new[0])
        else:
            self.node_visits += _set_many(self._entries, self._nodes, self._offsets, at, new)

    def sample(self, size: int | None = None, *, rng: RngLike = None) -> Any:
        """Draw ``size`` indices independently, i with probability xᵢ² / ‖x‖²; one int when ``size`` is None.

        O(log n) each. The same seed gives the same draws. Raises :class:`~fastanchors.errors.InvalidInputError` if all
        entries are zero.
        """
        count = 1 if size is None else check_draws(size)
        generator = as_generator(rng)
        if self._nodes[-1] == 0.0:
            raise InvalidInputError("every entry is zero: there is nothing to sample from; set a non-zero entry first")
        drawn = np.empty(count, dtype=np.int64)
        for first in range(0, count, _CHUNK):
            part = drawn[first : first + _CHUNK]
            uniforms = generator.random(part.size)
            self.node_visits += _draw(self._entries, self._nodes, self._offsets, uniforms, part)
        return int(drawn[0]) if size is None else drawn

    def _positions(self, index: Any) -> NDArray[np.intp]:
        if isinstance(index, slice):
            return np.arange(*index.indices(self._size), dtype=np.intp)
        return check_index(index, self._size, name="index")


def _check_range(values: Floats, indices: Ints | None, total: float) -> None:
    """Raise unless every square is zero or normal, and the sum of ``total`` and all squares is finite."""
    at, squares = _first_unfit(values)
    if at >= 0:
        place = at if indices is None else int(indices[at])
        value = float(values[at])
        raise InvalidInputError(
            f"entry {place} is {value}; entries must be 0 or of size 2**-511 … 2**500 (1.5e-154 … 3.3e150), "
            + ("divide all of them by a constant" if math.isfinite(value) else "remove or replace it")
        )
    if not total + squares < LARGEST_SUM:
        raise InvalidInputError("the sum of all squares exceeds 2**1023 (9e307); divide all entries by a constant")


@jit
def _first_unfit(values: Floats) -> tuple[int, float]:
    """The position of the first value out of range (−1 if there is none), and the sum of the squares before it."""
    total = 0.0
    for k in range(values.size):
        size = abs(values[k])
        if size != 0.0 and not (SMALLEST <= size <= LARGEST):
            return k, total
        total += size * size
    return -1, total


@jit
def _square_quad(values: Floats, at: int) -> float:
    one, two, three, four = values[at], values[at + 1], values[at + 2], values[at + 3]
    return ((one * one + two * two) + three * three) + four * four


@jit
def _group_sum(values: Floats, group: int) -> float:
    """The sum of the squares of one group, in the order of :func:`~.sum_tree.parent_sum`."""
    at = group * FANOUT
    left = _square_quad(values, at) + _square_quad(values, at + 4)
    return (left + _square_quad(values, at + 8)) + _square_quad(values, at + 12)


@jit
def _build(values: Floats, nodes: Floats, offsets: Ints) -> None:
    for group in range(values.size // FANOUT):
        nodes[group] = _group_sum(values, group)
    build(nodes, offsets)


@jit
def _set_one(values: Floats, nodes: Floats, offsets: Ints, index: int, value: float) -> int:
    values[index] = value
    group = index // FANOUT
    return 1 + set_one(nodes, offsets, group, _group_sum(values, group))


@jit
def _try_set_one(values: Floats, nodes: Floats, offsets: Ints, index: int, value: float) -> int:
    """:func:`_set_one` if the value is in range; otherwise returns 0 and changes nothing."""
    in_range = value == 0.0 or SMALLEST <= abs(value) <= LARGEST
    if in_range and nodes[-1] + value * value < LARGEST_SUM:
        return _set_one(values, nodes, offsets, index, value)
    return 0


@jit
def _set_many(values: Floats, nodes: Floats, offsets: Ints, indices: Ints, new: Floats) -> int:
    """Set all entries, then recompute each sum above them once. Returns the number of sums recomputed."""
    groups = np.empty(indices.size, np.int64)
    count = 0
    for k in range(indices.size):
        values[indices[k]] = new[k]
        group = indices[k] // FANOUT
        if nodes[group] != -1.0:  # −1 marks groups that are already listed, as in mark_parents
            nodes[group] = -1.0
            groups[count] = group
            count += 1
    for k in range(count):
        nodes[groups[k]] = _group_sum(values, groups[k])
    return count + refresh_parents(nodes, offsets, groups, count)


@jit
def _draw(values: Floats, nodes: Floats, offsets: Ints, u: Floats, index: Ints) -> int:
    """Like :func:`~.sum_tree.draw`, with one more step from the group to the entry."""
    starts, scratch = new_scratch()
    squares = np.empty(LANES * FANOUT)
    visits = 0
    for first in range(0, u.size, LANES):
        lanes = slice(first, min(first + LANES, u.size))
        here, rest = index[lanes], u[lanes]
        rest *= nodes[-1]
        visits += descend(nodes, offsets, rest, here, starts, scratch)
        touched = 0.0
        for lane in range(here.size):
            touched += values[here[lane] * FANOUT] + values[here[lane] * FANOUT + FANOUT // 2]
        scratch[TOUCHED] = touched
        for lane in range(here.size):
            starts[lane] = lane * FANOUT
            for k in range(FANOUT):
                value = values[here[lane] * FANOUT + k]
                squares[lane * FANOUT + k] = value * value
        visits += choose(squares, starts, rest, here, scratch)
    return visits
