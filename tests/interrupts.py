"""Raise an exception from a signal handler at a chosen line of the library, as Ctrl-C and ``signal.alarm`` do.

A trace function counts the lines of the library that the main thread runs, and raises the signal at the chosen one.
Python itself runs handlers at fewer places: after calls, at the start of functions, and where loops begin again. At the
end of a ``with`` statement it does not, so with a lock of several threads only the starts of functions are counted.
Afterwards the same work goes on, on the same object if that is still open, as in an interactive session.
"""

from __future__ import annotations

import os
import signal
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

import fastanchors as fa
import fastanchors.store.store as store_module
from store_trials import COMPACT, STEPS, contents, states

LIBRARY = os.path.dirname(fa.__file__)
POOL = os.path.join(LIBRARY, "_parallel.py")  # its lock is of several threads


class Interrupted(Exception):
    """Raised by the handler of SIGALRM."""


class Lines:
    """Counts lines of the library; at line ``chosen`` the signal is raised. ``place`` is that line, None before it.

    With ``event="call"`` it counts starts of functions instead; with ``files``, only lines of files with these endings.
    """

    def __init__(self, chosen: int, event: str = "line", files: tuple[str, ...] = ("",)) -> None:
        self.chosen, self.event, self.files, self.count, self.place = chosen, event, files, 0, None

    def __call__(self, frame: Any, event: str, argument: Any) -> Any:
        name = frame.f_code.co_filename
        counted = name.startswith(LIBRARY) and name.endswith(self.files) and name != POOL
        return self._line(frame, event, argument) if counted else None

    def _line(self, frame: Any, event: str, argument: Any) -> Any:
        if event == self.event:
            self.count += 1
            if self.count == self.chosen + 1:
                name = os.path.relpath(frame.f_code.co_filename, LIBRARY)
                self.place = f"{name}:{frame.f_lineno} ({frame.f_code.co_name})"
                sys.settrace(None)
                signal.raise_signal(signal.SIGALRM)
        return self._line


@contextmanager
def interrupted_at(chosen: int, event: str = "line", files: tuple[str, ...] = ("",)) -> Iterator[Lines]:
    """Raise the signal at that line of the library inside this context."""
    lines, before, traced = Lines(chosen, event, files), signal.signal(signal.SIGALRM, _raise), sys.gettrace()
    sys.settrace(lines)
    try:
        yield lines
    finally:
        sys.settrace(traced)
        signal.signal(signal.SIGALRM, before)


def _raise(*_: Any) -> None:
    raise Interrupted


def work(path: Path, chosen: int) -> Lines:
    """The steps of ``store_trials``, one of them interrupted; what was interrupted is done again."""
    inline, store_module._INLINE_ROWS = store_module._INLINE_ROWS, 2000  # so that both ways of appending occur
    try:
        with warnings.catch_warnings(), interrupted_at(chosen) as lines:
            warnings.filterwarnings("ignore", "committed, but not (compacted|renewed its sidecars)")
            _work(path)
        return lines
    finally:
        store_module._INLINE_ROWS = inline


def _work(path: Path) -> None:
    wanted, S, number = states(), None, 0
    while number < len(STEPS):
        step = STEPS[number]
        try:
            if S is None:
                S = fa.open(path, mode="r+")
            if step == COMPACT:
                S.compact()
            elif not np.array_equal(contents(S), wanted[number + 1]):
                more = step(S)
                if more is not None:
                    S.append(more)
            S.commit()
            number += 1
        except Interrupted:
            S = None if S is None or S._closed else S
            if S is not None:
                S.check()
                assert len(contents(S)) in [len(state) for state in wanted[number : number + 2]], "half of an append"
    sys.settrace(None)  # the work is done
    assert np.array_equal(contents(S), wanted[-1]), "the store in memory is in no state"
    S.close()
