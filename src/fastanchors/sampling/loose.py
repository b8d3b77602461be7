"""Entries that a sparse block did not have when it was built: the loose tier.

The compressed arrays of a block never move. A new non-zero goes into a *pool* of its row and one of its column:
segments with room to grow, which move to twice the room when full, each with a sum tree as in :mod:`.forest`. A hash
table from (row, column) to the two places finds it again. When the tier has grown to a fraction of the block, the block
is rebuilt and the tier starts empty (amortised O(1) per new non-zero).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from .._jit import jit
from .forest import LEAF, Array, Forest, Int, forest_path, fresh_nodes

__all__ = ["ENTRIES", "Loose", "find_loose", "fresh_loose", "grow_loose", "insert", "no_loose"]

ROW_ROOM, COLUMN_ROOM, ENTRIES = 0, 1, 2  # places in ``used``


class Loose(NamedTuple):
    """Pools by row and by column, their lengths, and the hash table ``keys`` → places in the pools.

    ``used`` counts the pool places taken (rows, columns) and the entries.
    """

    rows: Forest
    columns: Forest
    row_length: Array
    column_length: Array
    keys: Array
    row_place: Array
    column_place: Array
    used: Array


def no_loose(base_rows: Forest, base_columns: Forest) -> Loose:
    """The empty tier of a block: no memory, and the types that the kernels expect."""
    return _empty(base_rows, base_columns, 0, 0, 0, 0)


def fresh_loose(base_rows: Forest, base_columns: Forest) -> Loose:
    """A tier with room for a few entries."""
    return _empty(base_rows, base_columns, len(base_rows.sums), len(base_columns.sums), 64, 64)


def _empty(rows: Forest, columns: Forest, m: int, n: int, room: int, table: int) -> Loose:
    keys = np.full(table, -1, np.int64)
    return Loose(
        _pools(rows, m, room),
        _pools(columns, n, room),
        np.zeros(m, np.int32),
        np.zeros(n, np.int32),
        keys,
        np.zeros(table, rows.begin.dtype),
        np.zeros(table, rows.begin.dtype),
        np.zeros(3, np.int64),
    )


def _pools(base: Forest, segments: int, room: int) -> Forest:
    l1 = base.l1_sums.size > 0
    return Forest(
        begin=np.zeros(segments, base.begin.dtype),
        end=np.zeros(segments, base.begin.dtype),
        other=np.zeros(room, base.other.dtype),
        data=np.zeros(room, base.data.dtype),
        nodes=fresh_nodes(room),
        sums=np.zeros(segments),
        l1_nodes=fresh_nodes(room if l1 else 0),
        l1_sums=np.zeros(segments if l1 else 0),
    )


def grow_loose(loose: Loose) -> Loose:
    """The same tier with half as much room again where :func:`insert` found none."""
    keys, row_place, column_place = loose.keys, loose.row_place, loose.column_place
    if 3 * (loose.used[ENTRIES] + 1) > 2 * len(keys):
        keys = np.full(2 * len(keys), -1, np.int64)
        row_place, column_place = (np.zeros(len(keys), places.dtype) for places in (row_place, column_place))
        _rehash(loose.keys, loose.row_place, loose.column_place, keys, row_place, column_place)
    return loose._replace(
        rows=_roomier(loose.rows, int(loose.used[ROW_ROOM]), loose.row_length),
        columns=_roomier(loose.columns, int(loose.used[COLUMN_ROOM]), loose.column_length),
        keys=keys,
        row_place=row_place,
        column_place=column_place,
    )


def _roomier(pools: Forest, used: int, length: Array) -> Forest:
    if length.size == 0:
        return pools
    # Any pool may be the next to move, to at most twice the longest pool's length.
    room = used + 2 * int(length.max()) + 2
    if room <= len(pools.data):
        return pools
    room += room >> 1
    wider = {}
    for name, size in (("other", room), ("data", room), ("nodes", room >> 4), ("l1_nodes", room >> 4)):
        old = getattr(pools, name)
        if name == "l1_nodes" and pools.l1_sums.size == 0:
            continue
        wider[name] = np.zeros(size, old.dtype)
        wider[name][: len(old)] = old
    return pools._replace(**wider)


@jit
def place_of(keys: Array, key: Any) -> Any:
    """Where ``key`` is in the table, or the free place where it belongs."""
    mask = keys.size - 1
    h = np.uint64(key) * np.uint64(0x9E3779B97F4A7C15)
    at = np.int64(h >> np.uint64(32)) & mask
    while keys[at] != key and keys[at] != -1:
        at = (at + 1) & mask
    return at


@jit
def find_loose(loose: Loose, key: Int) -> Any:
    """The table's place of an entry, or -1."""
    if loose.keys.size == 0:
        return -1
    at = place_of(loose.keys, key)
    return at if loose.keys[at] == key else -1


@jit
def _rehash(
    keys: Array, row_place: Array, column_place: Array, new_keys: Array, new_row: Array, new_column: Array
) -> None:
    for k in range(keys.size):
        if keys[k] >= 0:
            at = place_of(new_keys, keys[k])
            new_keys[at] = keys[k]
            new_row[at] = row_place[k]
            new_column[at] = column_place[k]


@jit
def _make_place(
    pools: Forest,
    length: Array,
    s: Int,
    other: Int,
    free: Int,
    scale: Array,
    keys: Array,
    places: Array,
    own: Int,
    across: Int,
) -> Any:
    """Append a zero to pool ``s``, moving it to ``free`` when it is full; returns the places newly used.

    The key of an entry of the pool is ``s * own + other * across``.
    """
    begin: Int = np.int64(pools.begin[s])
    count = np.int64(length[s])
    room = np.int64(0)
    if begin + count == pools.end[s]:
        room = max(np.int64(1), 2 * count)
        for t in range(count):
            pools.other[free + t] = pools.other[begin + t]
            pools.data[free + t] = pools.data[begin + t]
            places[place_of(keys, s * own + np.int64(pools.other[begin + t]) * across)] = free + t
        begin = free
        pools.begin[s] = begin
        pools.end[s] = begin + room
        for t in range(0, room, LEAF):
            forest_path(pools, scale, s, t)
    pools.other[begin + count] = other
    places[place_of(keys, s * own + other * across)] = begin + count
    length[s] = count + 1
    return room


@jit
def insert(loose: Loose, no_scale: Array, scale: Array, n: Int, i: Int, j: Int) -> Any:
    """Make places for a new entry, zero so far; returns the table's place or, where the tier must grow first, -1."""
    used = loose.used
    if loose.keys.size == 0 or 3 * (used[ENTRIES] + 1) > 2 * loose.keys.size:
        return -1
    has_columns = loose.column_length.size > 0
    if used[ROW_ROOM] + 2 * loose.row_length[i] + 1 > loose.rows.data.size:
        return -1
    if has_columns and used[COLUMN_ROOM] + 2 * loose.column_length[j] + 1 > loose.columns.data.size:
        return -1
    key = i * n + j
    at = place_of(loose.keys, key)
    loose.keys[at] = key
    used[ENTRIES] += 1
    used[ROW_ROOM] += _make_place(
        loose.rows, loose.row_length, i, j, used[ROW_ROOM], no_scale, loose.keys, loose.row_place, n, np.int64(1)
    )
    if has_columns:
        used[COLUMN_ROOM] += _make_place(
            loose.columns,
            loose.column_length,
            j,
            i,
            used[COLUMN_ROOM],
            scale,
            loose.keys,
            loose.column_place,
            np.int64(1),
            n,
        )
    return at
