"""Keep the data of FAS in a store: a sketch beside each shard, made during the build, and the index of the whole store.

The sketch of a shard describes its file. The index describes the whole store as it was when its manifest was written.
Rows changed or appended since are in the store's write log, and the first seek reads them. So opening a store and
seeking costs the same whatever its size. If the sketches are small compared to the shards, they are kept, and a broken
proof is renewed from them. Otherwise they are removed after the build, and renewing takes a pass over the rows.
"""

from __future__ import annotations

import sys
import warnings
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import singledispatch
from typing import Any, TypeVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from .._distinct import distinct, left_out
from .._maps import release_freed
from .._parallel import SharedLock
from ..errors import CorruptStoreError
from ..matrix.contract import Mutable, Rows
from ..matrix.metered import MeteredMatrix
from ..matrix.norm_draws import draw_by_weight
from ..sampling.row_block import Block
from ..sampling.sparse_block import SparseBlock
from ..store.sidecars import Arrays, Sidecar, SidecarHost
from .bounds import Sketch, row_space
from .changes import absorb
from .check_index import check_index
from .coreset import Coreset, squared_norms_of
from .index import NARROW, PILOT, SPARE, Index, index_of_sketch, pilot_rows
from .index_arrays import decode_index, encode_index
from .lazy_index import lazy_index
from .read_once import ReadOnce
from .sketch import Part, basis_from, compare_part, empty_part, padded, part_from, sketch_rows

__all__ = ["SMALL", "STEPS", "FasSidecar", "Kept", "keep", "noisy", "recall", "renew_index", "some_rows"]

STEPS = 20  # number of anchors that a build prepares for
_SEED = 20  # of the pilot, so that a build gives the same files each time
_PIECE_BYTES = 1 << 19  # rows in double precision and their coordinates stay in the cache
SMALL = 1 << 16  # entries of a matrix that is faster to read whole than through an index
_SPARSE_SHARE, _DENSE_SHARE = 0.02, 0.1  # largest size of the sketches, as a fraction of the bytes of the shards
_WHOLE_SHARE, _WHOLE_FREE = 0.1, 1 << 22  # the same for the index, and bytes that are always allowed
_FEW = 200  # rows from which the noise is estimated
_Read = TypeVar("_Read")
_CROWD_SHARE = 16  # one part in this many of the memory limit is for the coreset, which is copied when it grows
_PILOT_SHARE = 16  # the same for rows from which a space is computed, of which there are a few copies
_BLOCK_SHARE = 64  # the same for a block of rows in a pass, of which each thread has a few
_ROWS_SHARE = 8  # the same for all rows of an index while it is made
_LAZY_BYTES = 64  # half of the bytes per row of an index without sketches: norms, residuals, and copies of them
_MANY_ROWS = 1 << 16  # changed rows whose list is worth giving back memory for
_MANY_CHANGED = 1 << 25  # bytes of changed rows above which a fresh pass is better than holding them all


class FasSidecar(Sidecar):
    """See :class:`fastanchors.store.sidecars.Sidecar`."""

    name = "fas"

    def __init__(self, V: NDArray[np.float64] | None = None) -> None:
        self.V = V
        self._wide: NDArray[np.float64] | None = None  # V for products with sparse rows
        self.shares = {True: _SPARSE_SHARE, False: _DENSE_SHARE}

    @classmethod
    def load(cls, shared: Arrays) -> FasSidecar:
        """The sidecar of a store, from the arrays that its shards share, if any."""
        if "V" not in shared:
            return cls()
        try:
            return cls(basis_from(shared))
        except ValueError as error:
            raise CorruptStoreError(f"the sketches are wrong: {error}; run fa.verify, and rebuild the store") from None

    def row_bytes(self, columns: int) -> int:
        """The size of the sketch of a row."""
        return 4 * (min(STEPS + SPARE, columns) + 1) + 8

    def wanted(self, shape: tuple[int | None, int]) -> bool:
        """False for a matrix that is faster to read whole than through an index."""
        return shape[0] is None or shape[0] * shape[1] > SMALL

    @classmethod
    def check(cls, store: Any) -> None:
        """Raise if the sketches do not match the shards, or the index does not match the rows."""
        shared = store.shared_arrays(cls.name)
        if shared is not None and "V" in shared:
            sidecar = cls(basis_from(shared, store.shape[1]))
            for block, (start, stop, arrays) in zip(store._blocks, store.shard_arrays(cls.name), strict=True):
                if arrays is not None:
                    compare_part(part_from(arrays, start, stop, sidecar.V), sidecar.add_block(block, start))
        written = store.sidecar_arrays(cls.name)
        if written is not None:
            check_index(store, decode_index(written[0], store.shape))

    def begin(self, block: Block) -> dict[str, NDArray[Any]]:
        """The sketched space, from rows of the first block; empty if :meth:`finish` needs no sketches.

        Sketches are for matrices too large to read again, and for the hull of rows that are nearly mixtures. There
        are none of rows so wide that their basis, like an index, would exceed the memory limit.
        """
        m = block.shape[0]
        if 2 * _index_bytes((0, block.shape[1])) > self.memory_limit:
            return {"columns": np.array([block.shape[1]], dtype=np.int64)}  # a writer with more memory makes an index
        if self.rows_at_hand and noisy(block.shape, lambda: self._some_of(block, _FEW)):
            self.temporary = True
            return {}
        self.V = row_space(
            self._some_of(block, PILOT), min(STEPS + SPARE, block.shape[1]), np.random.default_rng(_SEED)
        )
        share = self.shares[isinstance(block, SparseBlock)]
        self.temporary = sum(x.nbytes for x in empty_part(m, self.V.shape[1])[1:]) > share * block.nbytes
        return {"V": self.V}

    def add_block(self, block: Block, first_row: int) -> dict[str, NDArray[Any]]:
        """The sketch of a block: a pass over its rows in memory, in their stored form."""
        if self.V is None:
            return {}
        m, n = block.shape
        if len(self.V) != n:
            raise CorruptStoreError(
                "the basis of its sketches is not one of this store; run fa.verify, and rebuild the store"
            )
        part = empty_part(m, self.V.shape[1])
        arrays = block.arrays()
        l1 = arrays.get("l1_sums", np.zeros(0))
        sparse = isinstance(block, SparseBlock)
        if sparse and self._wide is None:
            self._wide = padded(self.V)
        V = self._wide if sparse and self._wide is not None else self.V
        few = 64 if sparse else max(1, min(64, self.memory_limit // (_PILOT_SHARE * 8 * n)))
        step = max(few, _PIECE_BYTES // (8 * (max(1, block.nnz // m) if sparse else n)))
        for start in range(0, m, step):
            stop = min(m, start + step)
            sketch_rows(_stored(arrays, (m, n), start, stop), V, part, start, l1[start:stop])
        return {"coordinates": part.coordinates, "left": part.left, "norms": part.norms}

    def _some_of(self, block: Block, count: int) -> Rows:
        """Rows of a block; fewer than ``count`` if these, in double precision, exceed a part of the memory limit."""
        room = self.memory_limit // _PILOT_SHARE
        while True:
            rows = some_rows(block.shape[0], count)
            entries = block.row_entries(rows) if isinstance(block, SparseBlock) else len(rows) * block.shape[1]
            if len(rows) <= STEPS + SPARE or (16 if block.is_sparse else 8) * int(np.sum(entries)) <= room:
                return block.rows(rows, view=True)
            count = max(STEPS + SPARE, len(rows) // 2)

    def finish(self, store: Any) -> dict[str, NDArray[Any]] | None:
        """The index of the whole store as it is now; None if it would prove nothing or be large compared to the store.

        The directions of the anchors are dense, so an index of very wide and sparse rows would be larger than the rows.
        """
        return self._whole(store)

    def extend(self, store: Any) -> dict[str, NDArray[Any]] | None:
        """The index with the appended rows, which are read. It is made again if they break its proof."""
        before = recall(store)
        return None if before is None else self._whole(store, before.index.proved)

    def _whole(self, store: Any, enough: int = sys.maxsize) -> dict[str, NDArray[Any]] | None:
        """The kept index with all changes; a new one if there is none, or if not ``enough`` of its steps are proved."""
        allowed = max(_WHOLE_FREE, _WHOLE_SHARE * store.manifest.shard_bytes)
        if store.shape[0] * store.shape[1] <= SMALL or 8 * STEPS * store.shape[1] > allowed:
            return None
        limit = store.memory_limit
        marked = min(store.shape[0], store.rows_marked)
        if not _enough(limit, 2 * _index_bytes((marked, store.shape[1]))):
            return None
        m, per_row = store.shape[0], _row_bytes(store)
        most = max(STEPS, limit // (4 * per_row))  # rows held in memory
        a_block = limit // _BLOCK_SHARE
        data = ReadOnce(store, max(1, a_block // per_row), block_bytes=a_block, room=limit // _ROWS_SHARE)
        kept = recall(store)
        if kept is not None:  # changed pages may take half of the limit
            kept = keep(store, kept.current(data, crowded=max(2 * STEPS, limit // (_CROWD_SHARE * per_row))))
        index = None if kept is None else kept.index
        if index is None or index.proved < min(enough, len(index.run)):
            allowance = min(most, 4096 + m // 64)
            renewed = renew_index(data, STEPS, np.random.default_rng(_SEED), allowance=allowance)
            lazily = (renewed is None or not renewed.proved) and (self.rows_at_hand or store.at_hand)
            if lazily and _enough(limit, 2 * _index_bytes(store.shape, _LAZY_BYTES)):
                renewed = lazy_index(data, STEPS)
            index = index if renewed is None else renewed
        if index is None or index.proved == 0:
            return None
        arrays = encode_index(index)
        return arrays if sum(array.nbytes for array in arrays.values()) <= allowed else None

    def keep_shards(self, store: Any) -> bool:
        """Whether the sketches are small compared to the shards; if not, only the build uses them."""
        if self.temporary:
            return False
        parts = [0 if self.V is None else self.V.nbytes]
        parts += [shard.extras[self.name]["bytes"] for shard in store.manifest.shards if self.name in shard.extras]
        return sum(parts) <= self.shares[store.is_sparse] * store.manifest.shard_bytes


def noisy(shape: tuple[int, int], some: Callable[[], Rows]) -> bool:
    """Whether a sample of rows is too far from any space of a few anchors for a useful hull.

    The eigenvalues of the Gram matrix of the rows, scaled to unit length, give the mean squared distance. If there are
    only a few columns, they are such a space, and no row is read.
    """
    if shape[1] <= STEPS + SPARE:
        return False
    rows = some()
    squares = squared_norms_of(rows)
    full = squares > 0
    if not full.any():
        return False
    scaled = sp.diags_array(1 / np.sqrt(squares[full])) @ rows[full].astype(np.float64)
    gram = scaled @ scaled.T
    values = np.linalg.eigvalsh(gram.toarray() if sp.issparse(gram) else gram)
    return bool(values[: -(STEPS + SPARE)].sum() > NARROW**2 * len(values))


def some_rows(m: int, count: int = _FEW) -> NDArray[np.int64]:
    """The sorted indices of ``count`` rows, drawn with a fixed seed."""
    return np.sort(np.random.default_rng(_SEED).choice(m, min(m, count), replace=False))


def _stored(arrays: Arrays, shape: tuple[int, int], start: int, stop: int) -> Rows:
    """Some rows of a block in their stored form, without a copy."""
    if "indptr" not in arrays:
        return arrays["data"].reshape(shape)[start:stop]
    ends = arrays["indptr"][start : stop + 1]
    entries = slice(ends[0], ends[-1])
    parts = (arrays["data"][entries], arrays["indices"][entries], ends - ends[0])
    return sp.csr_array(parts, shape=(stop - start, shape[1]))


def _row_bytes(store: Any) -> int:
    """Bytes of a row in memory, on average."""
    m, n = store.shape
    return 16 * (1 + store.nnz // m) if store.is_sparse else 8 * n


def _index_bytes(shape: tuple[int, int], per_row: int = 12) -> int:
    """Bytes held while making an index, besides rows: marks of a few bytes per row, and bases of the anchors."""
    return per_row * shape[0] + 64 * STEPS * shape[1]


def _enough(limit: int, needed: int) -> bool:
    """Whether the limit is enough for an index; warns if it is not."""
    if needed > limit:
        warnings.warn(
            f"the index of FAS() is left out, so that seeks read all rows: a memory_limit of {limit} bytes is too "
            f"small for it; {needed} would do",
            stacklevel=2,
        )
    return needed <= limit


@singledispatch
def kept_sketch_elsewhere(store: Any, V: NDArray[np.float64]) -> Sketch | None:
    """The sketch kept beside shards held by other processes; store types of such shards register an implementation."""
    return None


@dataclass(frozen=True)
class Kept:
    """The data kept with a matrix with sample access: an index, and the state of the rows for which it is valid.

    Never changed, only replaced as a whole, so that every thread sees an index together with its unread changes.

    Attributes
    ----------
    index
        The index.
    cursor
        Every change up to this position is in the index, except those of ``unread``.
    tol
        The tolerance of the index.
    unread
        Rows that had changed and were not read.
    answers
        By k, for the same rows, answers that only full SPA could determine.
    """

    index: Index
    cursor: int
    tol: float | None = None
    unread: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    answers: dict[int, Any] = field(default_factory=dict)

    def pending(self, data: MeteredMatrix) -> NDArray[np.int64]:
        """Rows changed or appended that are not yet in the index."""
        changed: NDArray[np.int64] = mutable(data).changes_since(self.cursor)
        return distinct(np.concatenate([self.unread, changed])) if self.unread.size else changed

    def current(self, data: MeteredMatrix, *, crowded: int = sys.maxsize) -> Kept:
        """The same with every change included.

        The coreset is thinned if it has more than ``crowded`` rows, or more than is useful.
        """
        now, rows = mutable(data).cursor, self.pending(data)
        if rows.size == 0:
            return self
        if rows.size >= _MANY_ROWS:
            release_freed()  # what listing them took
        return Kept(absorb(data, self.index, rows, tol=self.tol, crowded=crowded), now, self.tol)

    def take_in(self, data: MeteredMatrix, rows: NDArray[np.int64]) -> Kept:
        """The same with the changes of some rows included, as if the others had not changed yet."""
        if rows.size == 0:
            return self
        now = mutable(data).cursor
        rest = left_out(self.pending(data), rows)
        return Kept(absorb(data, self.index, rows, tol=self.tol), now, self.tol, rest)


def mutable(data: MeteredMatrix) -> Any:
    """The underlying matrix, which keeps a log of its changes and has sample access."""
    assert isinstance(data.matrix, Mutable)
    return data.matrix


# For each matrix: the data kept for the default tolerance, and for the last other tolerance requested.
_KEPT: weakref.WeakKeyDictionary[Any, dict[float | None, Kept]] = weakref.WeakKeyDictionary()
_KEEPING = SharedLock()


def recall(source: Any, tol: float | None = None) -> Kept | None:
    """The data kept from an earlier seek with that tolerance, or stored in a store; None if there is none."""
    with _KEEPING:
        kept = _KEPT.get(source, {}).get(tol)
        if kept is None and tol is None and isinstance(source, SidecarHost):
            written = source.sidecar_arrays(FasSidecar.name)
            if written is not None:
                arrays, cursor = written
                kept = keep(source, Kept(_read(arrays, source), cursor))
        return kept


def keep(source: Any, kept: Kept) -> Kept:
    """Keep an index with its matrix, for later seeks."""
    with _KEEPING:
        others = {t: k for t, k in _KEPT.get(source, {}).items() if t is None or kept.tol is None}
        _KEPT[source] = others | {kept.tol: kept}
    return kept


def renew_index(
    data: MeteredMatrix,
    steps: int,
    rng: np.random.Generator,
    *,
    tol: float | None = None,
    allowance: int | None = None,
) -> Index | None:
    """Make the index of a store from its sketches, without a pass over its rows; None if they do not cover it."""
    store: Any = data.matrix
    shared = store.shared_arrays(FasSidecar.name) if isinstance(store, SidecarHost) else None
    if shared is None or "V" not in shared:
        return None
    V = _sound(store, basis_from, shared, store.shape[1])
    if steps + SPARE > max(STEPS + SPARE, V.shape[1]):
        return None
    changed = store.changed_rows
    if changed.size * 8 * store.shape[1] > _MANY_CHANGED:
        return None
    if changed.size * _row_bytes(store) > store.memory_limit // _CROWD_SHARE or data.fitting(changed) < changed.size:
        return None
    pilot = min(store.shape[0], PILOT if allowance is None else min(PILOT, allowance), (data.left - changed.size) // 2)
    if pilot < min(store.shape[0], steps):  # beyond the budget
        return None
    if not data.in_process:  # then nothing has changed
        sketch = _sound(store, kept_sketch_elsewhere, store, V)
        first = pilot_rows(data, pilot, rng)
        return None if sketch is None else index_of_sketch(data, sketch, first, steps, tol=tol, allowance=allowance)
    parts = []
    for start, stop, arrays in store.shard_arrays(FasSidecar.name):
        if arrays is not None:
            parts.append(_sound(store, part_from, arrays, start, stop, V))
        elif np.searchsorted(changed, stop) - np.searchsorted(changed, start) == stop - start:
            parts.append(empty_part(stop - start, V.shape[1], start))  # all of it is read with the changed rows
        else:
            return None
    drawn = distinct(_pilot(parts, pilot, rng))
    least = min(drawn.size, steps)
    while data.fitting(drawn) < drawn.size:
        drawn = drawn[::2]
        if drawn.size < least:  # there is no memory for as many rows as anchors
            return None
    first = Coreset.read(data, drawn)
    fresh = Coreset.read(data, changed) if changed.size else None
    sketch = Sketch(V, parts)
    return index_of_sketch(data, sketch, first, steps, tol=tol, allowance=allowance, changed=fresh)


def _pilot(parts: Sequence[Part], size: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Rows drawn by the squared norms in the sketches, because the kernels of the sum trees are slow to compile."""
    norms = np.concatenate([part.norms for part in parts], dtype=np.float64)
    if not norms.max() > 0:
        return rng.choice(len(norms), size, replace=False)
    norms /= norms.max()
    norms *= norms
    return draw_by_weight(norms, size, rng, overwrite=True)


def _read(arrays: Arrays, source: SidecarHost) -> Index:
    """The index of a store; a clear error if its arrays are invalid although their checksums are right."""
    return _sound(source, decode_index, arrays, source.shape)


def _sound(source: SidecarHost, read: Callable[..., _Read], *arguments: Any) -> _Read:
    """The result of ``read`` on arrays of a store; a clear error if they are invalid."""
    try:
        return read(*arguments)
    except (ValueError, KeyError, TypeError, IndexError, OverflowError) as error:
        raise CorruptStoreError(
            f"the index of {source} is wrong: {error}; run fa.verify, and rebuild the store"
        ) from None
