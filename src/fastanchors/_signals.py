"""Delay signal handlers while a structure is changed in several steps.

A handler may raise: Ctrl-C does, and so do timeouts made with ``signal.alarm``. Python runs handlers between any two
steps of the main thread, so an exception of a handler could leave memory and disk in a state between two states.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

try:
    from _signal import getsignal  # type: ignore[import-not-found]  # ten times as fast
    from _signal import signal as set_signal
except ImportError:  # not CPython
    from signal import getsignal
    from signal import signal as set_signal

__all__ = ["deferred_signals", "from_handler", "ignored_errors", "pass_on"]

_NAMES = ["INT", "TERM", "ALRM", "HUP", "QUIT", "USR1", "USR2", "VTALRM", "PROF", "XCPU", "BREAK"]
_SIGNALS = [getattr(signal, f"SIG{name}") for name in _NAMES if hasattr(signal, f"SIG{name}")]
_ENDING = {getattr(signal, f"SIG{name}") for name in ("INT", "TERM", "HUP", "QUIT") if hasattr(signal, f"SIG{name}")}


class deferred_signals:
    """A context in which the Python handlers of the usual signals wait until its end. It costs a few microseconds.

    Python calls handlers in the main thread only, so the context has no effect in other threads. Contexts may be
    nested. If several handlers raise, the exception of a signal that ends a process, such as Ctrl-C, comes out; that of
    a timeout is its context.
    """

    __slots__ = ("_active", "_handlers", "_received")

    def __enter__(self) -> None:
        self._active, self._handlers, self._received = True, dict[int, Any](), list[int]()
        if threading.current_thread() is not threading.main_thread():
            return
        try:
            for number in _SIGNALS:
                handler = getsignal(number)
                if callable(handler):  # not the default, not ignored, not a handler in C
                    self._handlers[number] = handler
                    set_signal(number, self._receive)
        except BaseException:
            self._restore()
            raise

    def _receive(self, number: int, frame: FrameType | None) -> None:
        """Stands for the handler; after the end it only passes calls on, should restoring the handler have failed."""
        if self._active:
            self._received.append(number)
        else:
            self._handlers[number](number, frame)

    def __exit__(self, *_: object) -> None:
        try:
            self._restore()
        finally:  # also if a handler raises meanwhile
            self._received.sort(key=_ENDING.__contains__)  # the last exception is the one that is seen
            self._deliver()

    def _restore(self) -> None:
        self._active = False
        for number, handler in self._handlers.items():
            set_signal(number, handler)

    def _deliver(self) -> None:
        if self._received:
            try:
                signal.raise_signal(self._received.pop(0))
            finally:
                self._deliver()


def from_handler(error: BaseException) -> bool:
    """Whether a handler of a signal raised it, such as a timeout of the caller: not what was being done has failed."""
    handlers = [getsignal(number) for number in _SIGNALS]
    functions = [*handlers, *(vars(type(each)).get("__call__") for each in handlers)]
    codes = [getattr(getattr(each, "func", each), "__code__", None) for each in functions]
    place = error.__traceback__
    while place is not None and place.tb_frame.f_code not in codes:
        place = place.tb_next
    return place is not None


def pass_on(error: BaseException) -> None:
    """Raise ``error`` as it is if a handler of a signal raised it: then nothing that was done or asked has failed."""
    if from_handler(error):
        raise error


@contextmanager
def ignored_errors() -> Iterator[None]:
    """Ignore errors, but not what a handler raises."""
    try:
        yield
    except Exception as error:
        pass_on(error)
