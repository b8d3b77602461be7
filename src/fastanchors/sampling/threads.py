"""Run kernels over ranges of items in the thread pool; results do not depend on the ranges."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from itertools import pairwise
from typing import Any

from .._parallel import map_ordered, thread_count, threads_allowed

__all__ = ["in_chunks", "in_pieces", "in_threads", "shares"]

_CHUNK = 1 << 13  # items processed at a time, so that temporary arrays stay in the cache
_WORTH_THREADS = 100_000  # with at most this many items one thread is faster


def in_threads(work: Callable[[int, int], Any], bounds: list[int]) -> list[Any]:
    """``work(low, high)`` over consecutive bounds, in threads."""
    pairs = [(low, high) for low, high in pairwise(bounds) if low < high]
    if len(pairs) == 1:
        return [work(*pairs[0])]
    return map_ordered(work, pairs)


def in_chunks(work: Callable[[int, int], Any], count: int) -> None:
    """``work(low, high)`` over chunks of ``count`` items, in threads if there are many."""
    if count <= _CHUNK:
        if count:
            work(0, count)
        return

    def share(low: int, high: int) -> None:
        for start in range(low, high, _CHUNK):
            work(start, min(start + _CHUNK, high))

    in_threads(share, shares(count))


def shares(count: int, worth: int = _WORTH_THREADS) -> list[int]:
    """Bounds of the ranges of ``count`` items for the threads; a single range for at most ``worth`` items."""
    parts = min(thread_count(), count) if count > worth and threads_allowed() else 1
    return [count * part // parts for part in range(parts + 1)]


def in_pieces(work: Callable[[int, int, int], Any], bounds: list[int]) -> None:
    """``work(b, low, high)`` over chunks of each range b, ``bounds[b]`` to ``bounds[b + 1]``, in threads if large."""
    pieces = [
        (b, low, min(low + _CHUNK, stop))
        for b, (start, stop) in enumerate(pairwise(bounds))
        for low in range(start, stop, _CHUNK)
    ]

    def share(first: int, last: int) -> None:
        for b, low, high in pieces[first:last]:
            work(b, low, high)

    begins = [low for _, low, _ in pieces]
    in_threads(share, [bisect_left(begins, cut) for cut in shares(bounds[-1])])
