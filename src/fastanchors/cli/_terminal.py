"""Progress bars on standard error, printable text, and sizes in bytes."""

from __future__ import annotations

import codecs
import contextlib
import datetime
import sys
from collections.abc import Callable, Iterator
from typing import Any

import click

from .._replacing import full_disk_errors

__all__ = [
    "BYTES",
    "Printable",
    "encodable",
    "is_utf8",
    "name_in_table",
    "printable",
    "progress_bar",
    "shown_bytes",
    "working",
]

# What is shown for the punctuation of our own texts if an encoding lacks it.
_PLAIN = {
    "×": "x", "…": "...", "▪": "#", "–": "-", "−": "-", "±": "+-", "·": "*", "µ": "u", "√": "sqrt ", "‖": "||",
    "→": "->", "≤": "<=", "≥": ">=", "\N{NO-BREAK SPACE}": " ", "\N{NARROW NO-BREAK SPACE}": " ",
}  # fmt: skip


def _plainer(error: UnicodeError) -> tuple[str, int]:
    """A handler of codecs: punctuation becomes plain, all other characters that an encoding lacks are escaped."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    lacking = error.object[error.start : error.end]
    return "".join(_PLAIN.get(c) or c.encode("ascii", "backslashreplace").decode() for c in lacking), error.end


codecs.register_error("fastanchors.plainer", _plainer)


def _encoding(stream: Any) -> str:
    """The encoding of standard output or of another stream."""
    stream = sys.stdout if stream is None else stream
    return getattr(getattr(stream, "_stream", stream), "encoding", None) or "utf-8"


def is_utf8(stream: Any = None) -> bool:
    """Whether standard output, or another stream, takes every text."""
    return codecs.lookup(_encoding(stream)).name == "utf-8"


def encodable(text: str, stream: Any = None) -> str:
    """The text; what the encoding of standard output, or of another stream, lacks is plain punctuation or escaped."""
    if is_utf8(stream):
        return text
    encoding = _encoding(stream)
    return text.encode(encoding, "fastanchors.plainer").decode(encoding)


def name_in_table(name: object, width: int) -> str:
    """A name as it appears on standard output, at most ``width`` long: columns are aligned by what is shown."""
    from .._text import clean, short

    return short(encodable(clean(name)), width, encodable("…"))


def printable(text: str) -> str:
    """The text with control characters (except line breaks) and lone surrogates escaped: names come from files."""
    plain = text.replace("\n", "")
    if plain.isprintable():
        return text
    spaces = "\n\N{NO-BREAK SPACE}\N{NARROW NO-BREAK SPACE}"
    return "".join(c if c.isprintable() or c in spaces else c.encode("unicode_escape").decode() for c in text)


class Printable:
    """Standard output on which all text is :func:`printable` and :func:`encodable`."""

    encoding = "utf-8"  # it takes every text: click writes past a stream in ASCII

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self.written = False

    def write(self, text: str) -> int:
        with full_disk_errors("standard output"):
            count = int(self._stream.write(encodable(printable(text), self._stream)))
        self.written = True
        return count

    def flush(self) -> None:
        with full_disk_errors("standard output"):
            self._stream.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def _shows_progress() -> bool:
    """Whether standard error is a terminal and ``--json`` is not set."""
    context = click.get_current_context(silent=True)
    return sys.stderr.isatty() and not (context is not None and context.params.get("as_json"))


def _label(what: str) -> str:
    """The label of a bar, without control characters and rich markup."""
    from rich.markup import escape

    return escape(printable(what))


@contextlib.contextmanager
def working(what: str) -> Iterator[None]:
    """A spinner with the elapsed time, for work of unknown length; removed at the end."""
    if not _shows_progress():
        yield
        return
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}"), _clock())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(_label(what), total=None)
        with _show_compiling(progress, task, what):
            yield


@contextlib.contextmanager
def progress_bar(what: str, unit: str) -> Iterator[Callable[[float, float | None], None]]:
    """A progress bar with rate and remaining time on standard error, if that is a terminal and not under ``--json``.

    Yields a function to call with (done, total or None).
    """
    if not _shows_progress():
        yield lambda done, total: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, ProgressColumn, TextColumn, TimeRemainingColumn
    from rich.text import Text

    class Rate(ProgressColumn):
        def render(self, task: Any) -> Text:
            return Text(f"{task.speed:,.0f} {unit}/s" if task.speed else "")

    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.completed:,.0f} " + unit), Rate())
    with Progress(*columns, _clock(), TimeRemainingColumn(), console=Console(stderr=True)) as progress:
        task = progress.add_task(_label(what), total=None)
        with _show_compiling(progress, task, what):
            yield lambda done, total: progress.update(task, completed=done, total=total)


def _clock() -> Any:
    """A column with the elapsed time, which continues when the bar is full."""
    from rich.progress import ProgressColumn
    from rich.text import Text

    class Clock(ProgressColumn):
        def render(self, task: Any) -> Text:
            return Text(str(datetime.timedelta(seconds=int(task.elapsed or 0))), style="progress.elapsed")

    return Clock()


@contextlib.contextmanager
def _show_compiling(progress: Any, task: Any, what: str) -> Iterator[None]:
    """Add a note to the task while kernels are compiled, which takes seconds on first use."""
    from .._jit import watch_compiling

    def notify(compiling: bool) -> None:
        note = ": compiling kernels (once per machine)" if compiling else ""
        progress.update(task, description=_label(what + note))

    with watch_compiling(notify):
        yield


class _Bytes(click.ParamType):  # type: ignore[type-arg]
    """A size such as ``512M``, ``1.5GiB``, ``1000000``; K, M, G and T are powers of 1024."""

    name = "size"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        number = value.strip().upper().removesuffix("B").removesuffix("I")
        factor = 1
        for power, letter in enumerate("KMGT", start=1):
            if number.endswith(letter):
                number, factor = number[:-1], 1024**power
        try:
            return int(float(number) * factor)
        except (ValueError, OverflowError):
            self.fail(f"{value!r} is not a size such as 512M or 2G", param, ctx)


BYTES = _Bytes()


def shown_bytes(count: float) -> str:
    """``"1.2 GB"``."""
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} TB"
