"""Run FAS() on noisy rows: the noise-aware selection, its certificate, and the summary kept between seeks."""

from __future__ import annotations

import warnings
import weakref
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from .._parallel import SharedLock, one_blas_thread
from ..anchors import Certificate, Selection
from ..errors import CorruptStoreError, InvalidInputError, RankError
from ..greedy.anchoring import ALL
from ..greedy.coordinates import DIRECTIONS, Weights, block_coordinates
from ..greedy.noise import can_estimate
from ..greedy.summary import Evidence, Summary, summarise
from ..matrix import MeteredMatrix, Mutable, RowMatrix
from ..sampling.row_block import Block
from ..store.sidecars import Arrays, Sidecar, SidecarHost, check_types
from ..store.store import Store
from .following import Watched, too_many, with_changes
from .read_once import ReadOnce

__all__ = [
    "CoordinatesSidecar",
    "carry_over",
    "check_many",
    "directions_for",
    "explain_no_noise",
    "explain_plain",
    "noise_aware",
    "prepare_for",
    "summaries_of",
    "summary_of",
    "why_plain",
]

_MOST_ANCHORS = 256  # the cost of the rules grows with k³ to k⁴: seconds for this many, minutes for a thousand
_SPARE = 4  # directions beyond those that k needs
_IN_FLIGHT = 192 << 20  # bytes of blocks that threads process at a time, for any matrix
_PILOT_ROWS = 2048
_PER_ENTRY = 128  # bytes of the limit for an entry of the pilot: with the usual limit it is that of an array
_PER_DRAW = 256  # the same for the number of a sampled row, of which a few copies are sorted
_PER_ROW = 512  # the same for a row, which has coordinates in up to 32 directions
_FREE, _SHARE = 1 << 18, 0.08  # size allowed for the arrays: bytes in any store, or fraction of the bytes of the rows
_SLACK = 1.5  # larger size allowed for arrays that replace others
_ROUNDING, _ENTRIES = 1e-4, 1 << 22  # tolerance between kept and new coordinates; entries checked at a time
_MADE_AGAIN = 0.5  # fraction of the rows that may change before a writer makes the coordinates again in a pass
_STORE_FOLLOWED = 0.6  # the same for a seek of a store, if the writer has not done it

Kept: TypeAlias = tuple[Summary, int]  # a summary, and the cursor of the write log that it is of
_STORED = 0  # the key of the coordinates that a store keeps in its files; of others it is their number of directions
_KEPT: weakref.WeakKeyDictionary[Any, dict[int, Kept]] = weakref.WeakKeyDictionary()
_KEEPING = SharedLock()


def why_plain(shape: tuple[int, int], k: int) -> str | None:
    """Why ``"auto"`` leaves k anchors to plain SPA whatever the rows are; None if it does not."""
    if k >= shape[0]:
        return "every row is an anchor, so nothing shows the noise of the rows"
    if not can_estimate(shape[1], k - 1):
        return f"the noise of rows with {shape[1]} columns can be estimated for k < {shape[1]} only"
    return f"k is above {_MOST_ANCHORS}, the limit of the noise-aware rules" if k > _MOST_ANCHORS else None


def check_many(k: int, rule: str) -> None:
    """Raise if a rule that was asked for by name would take minutes."""
    if k > _MOST_ANCHORS:
        raise InvalidInputError(
            f"selection={rule!r} finds at most {_MOST_ANCHORS} anchors, because its cost grows with k³, got k = {k}; "
            f"use k ≤ {_MOST_ANCHORS}, or selection='spa'"
        )


@one_blas_thread()  # many small products
def noise_aware(matrix: RowMatrix, k: int, rule: str, summary: Summary) -> Selection | None:
    """Select anchors by a rule on the coordinates; None if ``"auto"`` leaves the selection to plain SPA.

    That is if no noise is detected, if there are too few columns or rows to detect it, or if the rows span fewer
    directions than k anchors need.
    """
    if k - 1 > summary.coordinates.frame.rank:
        if rule == "auto":
            return None
        raise _too_few(summary.coordinates.frame.rank + 1, k)
    try:
        found = summary.find(k, rule)
    except (RankError, np.linalg.LinAlgError) as error:
        if rule == "auto":
            return None
        if isinstance(error, RankError):
            raise _too_few(error.rank, k) from None
        raise
    if found is None:
        return None
    scale = np.ones(k) if matrix.normalize == "l1" else summary.scale(found)
    evidence = Evidence(summary, found, rule, scale, found.support)
    details = {"selection": rule, "coordinates": summary.coordinates.shape[1], **found.details()}
    kind, words = _statement(summary, rule)
    noise = f"noise is {found.noise.relative:.2g} of the spread of the rows" if found.noise.seen else "no noise is seen"
    if not can_estimate(matrix.shape[1], k - 1) or k >= summary.total:
        noise = f"too few {'rows' if k >= summary.total else 'columns'} to estimate the noise"
    if k == 1:
        words += " (a single anchor is the centre of the rows without outliers; it is a point, not a row)"
    else:
        words += f" ({noise}; anchors are points, not rows)"
    return Selection(
        found.indices,
        Certificate(kind, words, details, evidence),
        points=found.profiles * scale[:, None],
        support=found.support,
    )


def _too_few(rank: int, k: int) -> RankError:
    return RankError(f"the rows support at most {rank} anchors, not {k}; use k ≤ {rank}", rank)


def _statement(summary: Summary, rule: str) -> tuple[Literal["exact", "sampled"], str]:
    """The kind and wording of a certificate.

    On large matrices the rule searches all rows for the extreme ones and draws a sample with a fixed seed, so the
    answer is determined by all rows. After changes the sample is stale.
    """
    if summary.changed:
        return "sampled", (
            f"the rule {rule!r} was applied with directions and a sample that were chosen before {summary.changed:,} "
            "rows changed; these were added to the candidates"
        )
    if summary.complete:
        return "exact", f"the rule {rule!r} was applied to all rows"
    return "exact", (
        f"the rule {rule!r} was applied to all rows: it uses the {len(summary.candidates):,} most extreme and a "
        f"sample of {len(summary.sample):,}, drawn by a fixed seed"
    )


def explain_plain(selection: Selection, why: str) -> Selection:
    """SPA's answer to ``"auto"`` with the reason why the noise was not estimated."""
    given = selection.certificate
    certificate = replace(given, details={**given.details, "plain": why})
    return replace(selection, certificate=certificate)


def explain_no_noise(matrix: RowMatrix, summary: Summary, selection: Selection) -> Selection:
    """SPA's answer with its support and a noise of zero, if no noise was detected; else unchanged."""
    indices = np.asarray(selection.indices, dtype=np.intp)
    if len(indices) - 1 > summary.coordinates.shape[1] or summary.noise(len(indices)).seen:
        return selection
    places, sums = summary.places(indices) or summary.places_of(matrix.rows(indices))
    given, support = selection.certificate, np.maximum(summary.copies(places), 1)
    evidence = Evidence(summary, None, "auto", None if matrix.normalize == "l1" else sums, support, places)
    certificate = Certificate(given.kind, given.statement, {**given.details, "noise": 0.0}, evidence)
    return Selection(indices, certificate, selection.residuals, selection.points, support)


def directions_for(k: int) -> int:
    """How many directions an answer for k anchors uses: by k alone, so that nothing asked before changes the answer."""
    if k <= DIRECTIONS + 1:
        return DIRECTIONS
    return min(1 << (k + _SPARE - 1).bit_length(), _MOST_ANCHORS + _SPARE)


def summaries_of(matrix: RowMatrix, sizes: Sequence[int], weights: Weights = "auto") -> dict[int, Summary]:
    """The summary for each number of anchors, made or recalled once for all that use as many directions."""
    largest = {directions_for(k): k for k in sorted(sizes)}
    found = {directions: summary_of(matrix, k, weights) for directions, k in largest.items()}
    return {k: found[directions_for(k)] for k in sizes}


@one_blas_thread()
def summary_of(matrix: RowMatrix, k: int, weights: Weights = "auto") -> Summary:
    """The summary kept of the matrix, brought up to date, or made now in one pass; with weights other than "auto"
    always made now."""
    source = matrix.matrix if isinstance(matrix, MeteredMatrix) else matrix
    if not isinstance(source, Mutable) or not isinstance(weights, str) or weights != "auto":
        return summarise(matrix, directions_for(k), weights=weights)
    with _KEEPING:
        cursor = source.cursor
        stored = _stored(source)
        kept, key = (stored, _STORED) if _is_enough(stored, source, k) else (None, directions_for(k))
        if kept is None:
            kept = _KEPT.get(source, {}).get(key)
            if kept is None and stored is not None:
                held = stored[0].coordinates.shape[1]
                raise InvalidInputError(
                    f"k = {k} needs {k - 1} directions and the store keeps {held}; use k ≤ {held + 1}, rebuild it with "
                    f"fa.build(…, directions={k - 1}), or use selection='spa'"
                )
        if kept is not None:
            summary = _current(source, *kept)
            if summary is not None and not _stale(summary, k):
                _keep(source, key, summary, cursor)
                return summary
        summary = summarise(source, _directions_again(stored, k) if key == _STORED else key)
        _keep(source, key, summary, cursor)
        return summary


def _is_enough(stored: Kept | None, source: RowMatrix, k: int) -> bool:
    """Whether the coordinates of a store have the directions for k anchors, or all that its rows have."""
    if stored is None:
        return False
    summary = stored[0]
    return summary.cramped or summary.coordinates.shape[1] >= min(k - 1, min(source.shape) - 1)


def _directions_again(stored: Kept | None, k: int) -> int:
    """As many as the store kept, unless its rows had no more."""
    if stored is None or stored[0].cramped:
        return directions_for(k)
    return stored[0].coordinates.shape[1]


def _keep(source: RowMatrix, key: int, summary: Summary, cursor: int) -> None:
    _KEPT[source] = _KEPT.get(source, {}) | {key: (summary, cursor)}


@one_blas_thread()
def prepare_for(source: RowMatrix, k: int, most: int) -> None:
    """If a store keeps too few directions for ``k`` noise-aware anchors, make those for ``k`` to ``most`` in passes.

    They are kept as long as the store is open.
    """
    if not isinstance(source, SidecarHost) or not isinstance(source, Mutable) or why_plain(source.shape, k):
        return
    with _KEEPING:
        stored = _stored(source)
        if stored is None or _is_enough(stored, source, k):
            return
        for directions in sorted({directions_for(each) for each in range(k, max(k, most) + 1)}):
            if directions not in _KEPT.get(source, {}):
                cursor = source.cursor
                _keep(source, directions, summarise(source, directions), cursor)


@one_blas_thread()
def carry_over(old: RowMatrix, new: RowMatrix) -> None:
    """Let a reopened store use the summaries in memory from before: only rows that changed are read.

    Both must be of the same generation, whose journal lists the rows that may have changed.
    """
    if not isinstance(old, Store) or not isinstance(new, Store):
        return
    with _KEEPING:
        if (old.path, old.generation) != (new.path, new.generation):
            return
        for key, kept in _KEPT.get(old, {}).items():
            summary = _followed(new, replace(kept[0], changed=0, answers={}), new.changed_rows)
            if summary is not None:
                _keep(new, key, summary, new.cursor)


def _stale(summary: Summary, k: int) -> bool:
    """Whether changed rows could be treated better: a pass over few rows is cheap, and k anchors may need directions
    that the rows did not have before."""
    return summary.changed > 0 and (summary.height <= ALL or k - 1 > summary.coordinates.frame.rank)


def _stored(source: Any) -> Kept | None:
    """The coordinates in the files of a store, as far as they were brought up to date; None if there are none."""
    if not isinstance(source, SidecarHost):
        return None
    kept = _KEPT.get(source, {}).get(_STORED)
    if kept is None or kept[0].changed:  # compaction makes it again
        written = source.sidecar_arrays(CoordinatesSidecar.name)
        if written is not None and (kept is None or written[1] >= kept[1]):
            summary = _loaded(written[0], source)
            if kept is None or summary.changed < kept[0].changed:
                kept = (summary, written[1])
    return kept


def _loaded(arrays: Arrays, source: SidecarHost) -> Summary:
    """The summary of a store; a clear error if its arrays are invalid although their checksums are right."""
    try:
        return _decode(arrays, source.shape)
    except (ValueError, KeyError, TypeError, IndexError, OverflowError) as error:
        raise CorruptStoreError(
            f"the coordinates of {source} are wrong: {error}; run fa.verify, and rebuild the store"
        ) from None


def _decode(arrays: Arrays, shape: tuple[int, int]) -> Summary:
    check_types(arrays, {"rows", "candidates", "sample", "numbers"})
    summary = Summary.load(arrays)
    if summary.height > shape[0] or len(summary.coordinates.frame.centre) != shape[1]:
        raise ValueError(f"they are not those of {shape[0]} rows and {shape[1]} columns")
    return summary


def _current(source: Any, summary: Summary, cursor: int) -> Summary | None:
    """The summary with the rows that have changed since; None if it has to be made again."""
    written = source.changes_since(cursor)
    return None if written is None else _followed(source, summary, np.asarray(written, dtype=np.intp))


def _followed(source: Any, summary: Summary, changed: NDArray[np.intp]) -> Summary | None:
    if changed.size == 0:
        return summary
    if summary.cramped:  # the changed rows may have more directions
        return None
    most = _STORE_FOLLOWED if isinstance(source, SidecarHost) else None  # its writer makes them again before that
    far = too_many(summary.changed + changed.size, source.shape[0], most)
    return None if far or too_many(changed.size, source.shape[0]) else with_changes(source, summary, changed)


class CoordinatesSidecar(Sidecar):
    """The coordinates of a few thousand rows of a store, for noise-aware seeks that read no row.

    Parameters
    ----------
    directions : int or None
        Number of directions to keep: enough for k ≤ directions + 1. None for as many as a store has that is copied, or
        the usual number.
    """

    name = "coordinates"
    temporary = True  # nothing is kept beside the shards

    def __init__(self, directions: int | None = None) -> None:
        self._given = directions is not None
        self.directions = DIRECTIONS if directions is None else directions
        self._watched: Watched | None = None

    @classmethod
    def load(cls, shared: Arrays) -> CoordinatesSidecar:
        return cls(int(np.asarray(shared["directions"])[0]) if "directions" in shared else DIRECTIONS)

    @classmethod
    def check(cls, store: Any) -> None:
        """Raise if the coordinates do not match the rows they belong to."""
        written = store.sidecar_arrays(cls.name)
        if written is None:
            return
        summary = _decode(written[0], store.shape)
        kept, V = summary.coordinates, summary.coordinates.frame.directions
        if not np.allclose(V.T @ V, np.eye(V.shape[1]), atol=_ROUNDING):
            raise ValueError("its directions are not orthonormal")
        step = max(1, _ENTRIES // store.shape[1])
        for start in range(0, len(summary.rows), step):
            some = slice(start, start + step)
            values, left, sums = block_coordinates(0, store.rows_once(summary.rows[some]), kept.frame)
            length = np.sqrt(left + np.einsum("ij,ij->i", values, values))
            off = np.abs(kept.values[some] - values).max(axis=1) > _ROUNDING * length
            off |= np.abs(kept.left[some] - left) > _ROUNDING * length**2
            if off.any() or not np.allclose(kept.sums[some], sums, rtol=_ROUNDING, atol=0):
                raise ValueError(f"the coordinates of row {summary.rows[some][off][0] if off.any() else start} differ")

    def wanted(self, shape: tuple[int | None, int]) -> bool:
        return shape[1] > 2

    def begin(self, block: Block) -> Arrays:
        return {"directions": np.array([self.directions], dtype=np.int64)}

    def add_block(self, block: Block, first_row: int) -> Arrays:
        return {}

    def finish(self, store: Any) -> Mapping[str, NDArray[Any]] | None:
        m, n = store.shape
        needed = 2 * (64 * min(m, _PILOT_ROWS) * n + _IN_FLIGHT)
        if needed > store.memory_limit:
            if self.remote:
                warnings.warn(
                    "the coordinates for noise-aware seeks are left out, so that FAS() reads all rows: a memory_limit "
                    f"of {store.memory_limit} bytes is too small for them; {needed} would do",
                    stacklevel=2,
                )
            return None  # the first seek makes them
        try:
            rows = ReadOnce(store, max(1, store.memory_limit // (64 * n)))
            with np.errstate(all="ignore"):  # a store may hold signed entries, which have no profiles
                limit = store.memory_limit
                size = {
                    "pilot_entries": limit // _PER_ENTRY,
                    "pilot_rows": limit // _PER_ROW,
                    "most_drawn": limit // _PER_DRAW,
                }
                arrays = summarise(rows, self.directions, **size).arrays()
        except (
            InvalidInputError,
            np.linalg.LinAlgError,
        ):  # signed, zero or extreme: no noise-aware anchors
            return None
        return arrays if self._can_be_kept(arrays, store) else None

    def compact(self, store: Any) -> Arrays | None:
        """The same number of directions as before, unless the store was too small for more."""
        self._keep_directions(store)
        return self.finish(store)

    def take_over(self, source: SidecarHost) -> None:
        if not self._given:
            with suppress(CorruptStoreError):  # a copy is the cure of damaged coordinates
                self._keep_directions(source)

    def _keep_directions(self, store: SidecarHost) -> None:
        written = store.sidecar_arrays(self.name)
        if written is not None:
            before = _loaded(written[0], store)
            held = before.coordinates.shape[1]
            self.directions = max(held, self.directions) if before.cramped else held

    @one_blas_thread()
    def extend(self, store: Any) -> Arrays | None:
        """The coordinates with the appended rows, as :meth:`renew` makes them."""
        written = store.sidecar_arrays(self.name)
        if written is None:
            return None
        arrays, cursor = written
        with np.errstate(all="ignore"):
            new = self._renewed(store, Watched(arrays, _loaded(arrays, store), cursor, cursor))
        return new if new is not None and self._can_be_kept(new, store, _SLACK) else None

    @one_blas_thread()
    def renew(self, store: Any) -> Arrays | None:
        """The coordinates with the committed changes, if many rows have changed or rows of a new kind need directions.

        Reads the changed rows only, unless so many have changed since the directions were chosen that a pass costs
        no more than reading each of them twice.
        """
        written = store.sidecar_arrays(self.name)
        if written is None:
            return None
        arrays, cursor = written
        if self._watched is None or self._watched.arrays is not arrays:
            self._watched = Watched(arrays, _loaded(arrays, store), cursor, cursor)
        watched = self._watched
        with np.errstate(all="ignore"):
            new = self._renewed(store, watched) if watched.stale(store) else None
        if new is None:
            return None
        if self._can_be_kept(new, store, _SLACK):
            return new
        watched.refused = len(store.changes_since(cursor))
        return None

    def _renewed(self, store: Any, watched: Watched) -> Arrays | None:
        since = len(store.changes_since(watched.written))
        try:
            small = store.shape[0] <= ALL  # where a pass is cheap
            changed = watched.summary.changed + since
            if small or watched.summary.cramped or too_many(changed, store.shape[0], _MADE_AGAIN):
                return self.compact(store)
            return watched.current(store).arrays()
        except (InvalidInputError, np.linalg.LinAlgError):  # negative or extreme entries
            return None

    def _can_be_kept(self, arrays: Arrays, store: Any, slack: float = 1.0) -> bool:
        """Whether the arrays are finite, and small compared to the store; in object storage, smaller than it."""
        share = 1.0 if self.remote else slack * _SHARE
        allowed = max(slack * _FREE, share * store.manifest.shard_bytes)
        finite = all(np.isfinite(array).all() for array in arrays.values() if array.dtype.kind == "f")
        return finite and sum(array.nbytes for array in arrays.values()) <= allowed
