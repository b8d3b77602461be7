"""Entries inserted into a sparse block after it was built: the second tier of the block.

The compressed arrays of a block never grow. A new non-zero gets a *slot*, which a hash table finds from (row, column),
and a place in a *pool* of its row and in one of its column. Pools are segments with spare room, which move to twice the
room when full, with sum trees as in :mod:`.segment_trees`. Pools store the entries in double precision, from which
weights are computed; the slot stores the entry in the type of the matrix. When the tier exceeds a fraction of the
block, the block is rebuilt and the tier is emptied (amortised O(1) per new non-zero).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from .._distinct import distinct
from .._jit import jit
from .segment_trees import LEAF, LEAF_BITS, NO_SCALE, Array, Forest, Int, fresh_nodes, renew

__all__ = ["InsertedEntries", "Pools"]

_ROOM = 64
_MIX = np.uint64(0x9E3779B97F4A7C15)
_HALF = np.uint64(32)


class _New(NamedTuple):
    """Entries to append: the segment, the other index and the slot of each, and whether its pool had to move."""

    s: Array
    other: Array
    slots: Array
    moved: Array


class Pools:
    """Growing segments with sum trees, for one side of the block; ``slot`` is the slot of the entry at each place."""

    def __init__(self, segments: int, index: np.dtype[Any], *, l1: bool) -> None:
        kept = segments if l1 else 0
        self.forest = Forest(
            begin=np.zeros(segments, np.int32),
            end=np.zeros(segments, np.int32),
            other=np.zeros(_ROOM, index),
            data=np.zeros(_ROOM),
            nodes=fresh_nodes(_ROOM),
            sums=np.zeros(segments),
            l1_nodes=fresh_nodes(_ROOM if l1 else 0),
            l1_sums=np.zeros(kept),
        )
        self.length = np.zeros(segments, np.int32)
        self.slot = np.zeros(_ROOM, np.int32)
        self.place = np.zeros(0, np.int32)  # of each slot
        self.used = np.zeros(1, np.int64)  # places used, including those that moved pools have left

    def append(self, s: Array, other: Array, slots: Array, scale: Array) -> None:
        """Add places (of weight zero) for new slots, which continue the numbering."""
        self.place = _longer(self.place, int(slots[-1]) + 1)
        moved = np.zeros(len(s), np.bool_)
        new = _New(s, other, slots, moved)
        done = 0
        while done < len(s):
            done = _append(self.forest, self.length, self.slot, self.place, self.used, new, done)
            if done < len(s):
                self._grow(int(self.used[0]) + 2 * int(self.length[s[done]]) + 1)
        if moved.any():  # rebuild the trees of moved pools
            which = distinct(s[moved])
            leaves = ((self.forest.end[which] - self.forest.begin[which] - 1) // LEAF + 1).astype(np.int64)
            number = np.arange(leaves.sum()) - np.repeat(np.cumsum(leaves) - leaves, leaves)
            renew(self.forest, scale, np.repeat(which, leaves), number)

    def _grow(self, room: int) -> None:
        f = self.forest
        self.slot = _longer(self.slot, room)
        self.forest = f._replace(
            other=_longer(f.other, room),
            data=_longer(f.data, room),
            nodes=_longer(f.nodes, len(self.slot) >> 4),
            l1_nodes=_longer(f.l1_nodes, len(self.slot) >> 4) if f.l1_sums.size else f.l1_nodes,
        )

    def renew(self, scale: Array, s: Array, slots: Array) -> None:
        """Update every sum above the entries of these slots, in segments ``s``."""
        renew(self.forest, scale, s, (self.place[slots] - self.forest.begin[s]) >> LEAF_BITS)

    def arrays(self) -> list[Array]:
        return [*self.forest[:8], self.length, self.slot, self.place]


class InsertedEntries:
    """The inserted entries of a block with ``rows`` rows and ``columns`` columns (0: no column side)."""

    def __init__(self, rows: Forest, columns: Forest, n: int) -> None:
        self._n = n
        self.keys = np.full(_ROOM, -1, np.int64)
        self.slots = np.zeros(_ROOM, np.int32)
        self.values = np.zeros(0, rows.data.dtype)
        self.count = 0  # slots used
        self.rows = Pools(len(rows.sums), rows.other.dtype, l1=rows.l1_sums.size > 0)
        self.columns = Pools(len(columns.sums), rows.other.dtype, l1=False)

    def find(self, i: Array, j: Array) -> Array:
        """The slots of entries; -1 for entries without one."""
        out = np.empty(len(i), np.int64)
        _find(self.keys, self.slots, i * self._n + j, out)
        return out

    def enter(self, i: Array, j: Array, x: Array, scale: Array) -> Array:
        """The slots of entries; non-zeros without a slot get a new one, zeros without a slot -1."""
        while 4 * (self.count + len(i)) > 3 * len(self.keys):
            self._rehash(2 * len(self.keys))
        out, fresh = np.empty(len(i), np.int64), np.empty(len(i), np.bool_)
        count = _enter(self.keys, self.slots, i * self._n + j, x != 0, self.count, out, fresh)
        if count > self.count:
            self.count = count
            self.values = _longer(self.values, count)
            self.rows.append(i[fresh], j[fresh], out[fresh], NO_SCALE)
            if self.columns.length.size:
                self.columns.append(j[fresh], i[fresh], out[fresh], scale)
        return out

    def _rehash(self, size: int) -> None:
        held = self.keys >= 0
        keys, slots = self.keys[held], self.slots[held]
        self.keys, self.slots = np.full(size, -1, np.int64), np.zeros(size, np.int32)
        _refill(self.keys, self.slots, keys, slots)

    def arrays(self) -> list[Array]:
        return [self.keys, self.slots, self.values, *self.rows.arrays(), *self.columns.arrays()]


def _longer(array: Array, length: int) -> Array:
    """The array, or if it is too short a copy with a quarter more than needed, padded with zeros."""
    if length <= len(array):
        return array
    wider = np.zeros(length + (length >> 2), array.dtype)
    wider[: len(array)] = array
    return wider


@jit
def _place(keys: Array, key: Int) -> Any:
    """The position of ``key`` in the table, or the free position for it."""
    mask = keys.size - 1
    at = np.int64((np.uint64(key) * _MIX) >> _HALF) & mask
    while keys[at] != key and keys[at] != -1:
        at = (at + 1) & mask
    return at


@jit
def _find(keys: Array, slots: Array, key: Array, out: Array) -> None:
    for k in range(key.size):
        at = _place(keys, key[k])
        out[k] = slots[at] if keys[at] == key[k] else -1


@jit
def _enter(keys: Array, slots: Array, key: Array, wanted: Array, count: Int, out: Array, fresh: Array) -> Any:
    """Slots as in :func:`_find`; new keys that are ``wanted`` get the next free ones. Returns the number used."""
    for k in range(key.size):
        at = _place(keys, key[k])
        fresh[k] = False
        out[k] = -1
        if keys[at] == key[k]:
            out[k] = slots[at]
        elif wanted[k]:
            keys[at] = key[k]
            slots[at] = count
            out[k] = count
            fresh[k] = True
            count += 1
    return count


@jit
def _refill(keys: Array, slots: Array, old_keys: Array, old_slots: Array) -> None:
    for k in range(old_keys.size):
        at = _place(keys, old_keys[k])
        keys[at] = old_keys[k]
        slots[at] = old_slots[k]


@jit
def _append(forest: Forest, length: Array, slot: Array, place: Array, used: Array, new: _New, start: Int) -> Any:
    """Append new entries to their pools, from ``start`` on; a full pool moves. Returns the first that did not fit."""
    begin, end, other, data = forest.begin, forest.end, forest.other, forest.data
    s, sought, slots, moved = new
    for k in range(start, s.size):
        pool = s[k]
        first = np.int64(begin[pool])
        count = np.int64(length[pool])
        if first + count == end[pool]:
            room = max(np.int64(1), 2 * count)
            free = used[0]
            if free + room > data.size:
                return k
            for t in range(count):
                other[free + t] = other[first + t]
                data[free + t] = data[first + t]
                slot[free + t] = slot[first + t]
                place[slot[free + t]] = free + t
            first = free
            begin[pool] = first
            end[pool] = first + room
            used[0] += room
            moved[k] = room > LEAF  # a single leaf block has no tree
        other[first + count] = sought[k]
        slot[first + count] = slots[k]
        place[slots[k]] = first + count
        length[pool] = count + 1
    return s.size
