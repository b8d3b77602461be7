"""The live explorer of a store or file that may change: any number of anchors, any rule, any row."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, replace
from html import escape
from typing import Any

import numpy as np

from .._rng import as_generator
from .._text import clean
from .._validate import check_choice, check_index
from ..errors import InvalidInputError, RankError
from ..fas.noise_aware import carry_over, prepare_for
from ..matrix.array import ArrayMatrix
from ..matrix.contract import RowMatrix
from ..solvers.fas import FAS
from ..store.store import Store
from .display import Display, display_of
from .explorer import explorer_data
from .kinds import names_of_rows, recognised
from .page_html import document
from .pool import Pool, pool_of
from .repeated import NestedRecomputed, stability_statements
from .script import read
from .shares import rows_by_norm

__all__ = ["MOST", "RULES", "Session"]

MOST = 50  # largest number of anchors that can be requested
_JUDGED = 1000  # rows from which shares are estimated
_REMEMBERED = 8  # cached answers
_FOUND = 20  # rows that a search returns
_PATIENCE = 5.0  # seconds that a search may take

# The selections of ``FAS``, in words for people.
RULES = {
    "auto": "auto: by the estimated noise",
    "spa": "SPA: the farthest row",
    "smoothed": "smoothed: means of extreme rows",
    "smoothed-one": "smoothed from one direction per step",
    "pseudo-points": "pseudo-points: means of near neighbours",
    "lifted": "lifted coordinates",
    "whitened": "whitened coordinates",
}
_NESTED = ("spa",)  # the anchors for 1, 2, … are the first ones


@dataclass(frozen=True)
class _Rows:
    """A snapshot of the rows, and the samples of them that all answers share."""

    matrix: RowMatrix
    display: Display
    judged: tuple[ArrayMatrix, Any]


class Session:
    """Answers the requests of the page.

    Parameters
    ----------
    open_rows : callable
        Opens the current rows and determines how they are shown (see :func:`~fastanchors.report.display.display_of`). A
        store that it returns is closed when they have changed.
    signature : callable
        Returns a value that changes if the rows change; called often.
    title : str
        Name of the data.
    seed : int
        Seed of all random draws.
    """

    def __init__(
        self,
        open_rows: Callable[[], tuple[RowMatrix, Mapping[str, Any]]],
        signature: Callable[[], Hashable],
        *,
        title: str,
        seed: int = 0,
    ) -> None:
        self.title = clean(title)
        self._open_rows, self._signature, self._seed = open_rows, signature, seed
        self._lock = threading.Lock()
        self._revision = 0
        self._seen = signature()
        self._rows: tuple[int, _Rows] | None = None
        self._answers: OrderedDict[tuple[int, str, int], tuple[dict[str, Any], Pool]] = OrderedDict()

    def close(self) -> None:
        """Close the rows; does not wait for a search in progress."""
        if self._lock.acquire(blocking=False):
            try:
                self._close_rows()
            finally:
                self._lock.release()

    def _close_rows(self) -> None:
        if self._rows is not None and isinstance(self._rows[1].matrix, Store):
            self._rows[1].matrix.close()
        self._rows = None
        self._answers.clear()

    # --- answers ----------------------------------------------------------------------------------------------------

    def revision(self) -> int:
        """The number of changes detected; checks for new ones."""
        now = self._signature()
        with self._lock:
            if now != self._seen:
                self._seen = now
                self._revision += 1
            return self._revision

    def seek(self, k: int, rule: str) -> dict[str, Any]:
        """The data of the page for ``k`` anchors by a rule."""
        self.revision()
        with self._lock:
            return self._answer(k, rule)[0]

    def stability(self, k: int, rule: str) -> dict[str, Any]:
        """For every number of anchors of an answer, how far they would move in other data.

        Takes seconds, during which other requests are answered.
        """
        with self._lock:
            _, pool = self._answer(k, rule)
            matrix = self._present().matrix
        rng = as_generator(self._seed)
        return {"steps": stability_statements(pool, NestedRecomputed(matrix, None, rng), rng)}

    def row(self, index: int, k: int, rule: str) -> dict[str, Any]:
        """One row in the format of the page: name, squared norm, coordinates."""
        self.revision()
        with self._lock:
            _, pool = self._answer(k, rule)
            rows = self._present()
            check_index([index], rows.matrix.shape[0], name="row")
            block = ArrayMatrix(rows.matrix.rows([index]))
            return {
                "index": index,
                "name": names_of_rows(rows.display.row_names, [index])[0],
                "text": None if rows.display.texts is None else clean(rows.display.texts[index], 400),
                "square": float(block.squared_norms()[0]) / pool.unit**2,
                "coordinates": pool.coordinates(block)[0].tolist(),
            }

    def find(self, words: str) -> dict[str, Any]:
        """Rows whose name contains the words, ignoring case, or whose number they are; exact matches come first.

        ``searched`` is the number of names that were searched before the time limit, or None for all.
        """
        sought = words.strip().casefold()
        exact: list[int] = []
        found: list[int] = []
        with self._lock:
            rows = self._present()
            names, m = rows.display.row_names, rows.matrix.shape[0]
            if sought.isascii() and sought.isdigit() and int(sought[:18]) < m:
                exact.append(int(sought[:18]))
            searched, end = m, time.monotonic() + _PATIENCE
            for index, name in enumerate(names if names is not None and sought else ()):
                if sought in (known := str(name).casefold()):
                    (exact if known == sought else found).append(index)
                if index % 4096 == 4095 and (time.monotonic() > end or len(exact) >= _FOUND):
                    searched = index + 1
                    break
            listed = list(dict.fromkeys([*exact, *found]))[:_FOUND]
            shown = [{"index": i, "name": name} for i, name in zip(listed, names_of_rows(names, listed), strict=True)]
        return {"rows": shown, "count": len({*exact, *found}), "searched": None if searched == m else searched}

    def page(self, k: int, rule: str) -> str:
        """The page itself."""
        data = self.seek(k, rule)
        live = {
            "rules": [[name, label] for name, label in RULES.items()],
            "rule": rule,
            "most": min(MOST, *data["shape"]),
            "revision": self._revision,
        }
        m, n = data["shape"]
        head = (
            f'<header><p class="eyebrow">fastanchors explore</p><h1>{escape(self.title)}</h1>'
            f'<p class="lead">{m:,} rows × {n:,} columns. Changes are shown when they are committed.</p></header>'
        )
        body = [head, "<main>", read("explorer.html"), "</main>"]
        return document(f"{self.title}: fastanchors", body, data | {"live": live}, live=True)

    # --- computing them ---------------------------------------------------------------------------------------------

    def _present(self) -> _Rows:
        """The current rows, opened again if they have changed."""
        if self._rows is None or self._rows[0] != self._revision:
            matrix, shown = self._open_rows()
            if self._rows is not None:
                carry_over(self._rows[1].matrix, matrix)
            self._close_rows()
            rng = as_generator(self._seed)
            display = display_of(matrix, matrix, **shown)
            if display.kind == "auto":
                some = np.sort(rng.choice(matrix.shape[0], min(matrix.shape[0], _JUDGED), replace=False))
                display = replace(display, kind=recognised(matrix.rows(some), display.column_names))
            self._rows = self._revision, _Rows(matrix, display, rows_by_norm(matrix, _JUDGED, rng))
        return self._rows[1]

    def _answer(self, k: int, rule: str) -> tuple[dict[str, Any], Pool]:
        check_choice(rule, RULES, name="rule")
        if not 1 <= k <= MOST:
            raise InvalidInputError(f"k must be from 1 to {MOST}, got {k}")
        key = (self._revision, rule, k)
        if key not in self._answers:
            self._answers[key] = self._make(self._present(), k, rule)
            while len(self._answers) > _REMEMBERED:
                self._answers.popitem(last=False)
        self._answers.move_to_end(key)
        return self._answers[key]

    def _make(self, rows: _Rows, k: int, rule: str) -> tuple[dict[str, Any], Pool]:
        matrix, most = rows.matrix, min(k, *rows.matrix.shape)
        solver = FAS(selection=rule)  # type: ignore[arg-type]
        if rule not in _NESTED:
            prepare_for(matrix, most, MOST)
        try:
            steps = solver.seek(matrix, self._sizes(most, rule), rng=self._seed)
        except RankError as error:
            if error.rank < 1:
                raise
            most = error.rank
            steps = solver.seek(matrix, self._sizes(most, rule), rng=self._seed)
        pool = pool_of(matrix, steps)
        data = explorer_data(matrix, pool, rows.judged, rows.display, rng=as_generator(self._seed))
        if most < k:
            data["note"] = f"These rows have no more than {most} independent anchors."
        return data, pool

    @staticmethod
    def _sizes(k: int, rule: str) -> range:
        return range(1 if rule in _NESTED else k, k + 1)
