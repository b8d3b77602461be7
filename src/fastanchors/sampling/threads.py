"""Work by ranges in threads: kernels release the GIL, and what they compute does not depend on the ranges."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any

from .._threads import threads_allowed

__all__ = ["THREADS", "in_chunks", "in_threads"]

THREADS = 2
_CHUNK = 1 << 13  # items worked on in one go: what they need in between stays in the cache
_WORTH_THREADS = 100_000


def in_threads(work: Callable[[int, int], Any], bounds: list[int]) -> list[Any]:
    """``work(low, high)`` over consecutive bounds, in threads."""
    pairs = [(low, high) for low, high in pairwise(bounds) if low < high]
    if len(pairs) == 1 or not threads_allowed():
        return [work(*pair) for pair in pairs]
    with ThreadPoolExecutor(THREADS) as pool:
        return list(pool.map(lambda pair: work(*pair), pairs))


def in_chunks(work: Callable[[int, int], Any], count: int) -> None:
    """``work(low, high)`` over chunks of ``count`` items; many items are shared among threads."""
    if count <= _CHUNK:
        if count:
            work(0, count)
        return

    def share(low: int, high: int) -> None:
        for start in range(low, high, _CHUNK):
            work(start, min(start + _CHUNK, high))

    parts = THREADS if count > _WORTH_THREADS else 1
    in_threads(share, [count * part // parts for part in range(parts + 1)])
