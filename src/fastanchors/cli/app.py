"""The application: its commands, and the output of results and errors.

With ``--json`` a command prints one JSON object on standard output and nothing else, also when it fails. Messages and
progress go to standard error. The exit code is 0, or 1 with one line of error message, or 2 for wrong usage; there is
never a traceback.
"""

from __future__ import annotations

import difflib
import importlib
import json
import os
import signal
import sys
import warnings
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, NoReturn

import click

from .._version import __version__
from ..errors import FastAnchorsError, GuessWarning, one_line
from . import _quit, ending
from ._examples import EXAMPLES
from ._files import as_json_text
from ._messages import in_options
from ._terminal import Printable, encodable, is_utf8, printable

__all__ = ["app", "emit", "json_option", "run", "say"]

# Command -> the module of this package with the click command of that name; imported on use.
_COMMANDS = {
    "demo": "demo",
    "build": "store",
    "info": "store",
    "verify": "store",
    "update": "store",
    "append": "store",
    "seek": "seek",
    "encode": "encode",
    "report": "report",
    "explore": "explore",
    "topics": "topics",
    "unmix": "unmix",
    "representatives": "representatives",
    "recommend": "recommend",
    "bench": "bench",
    "completion": "completion",
}


class _LazyGroup(click.Group):
    """Imports commands on use, so that ``--help`` and completion are fast."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        command: click.Command = getattr(importlib.import_module(f".{_COMMANDS[cmd_name]}", __package__), cmd_name)
        if signal.getsignal(signal.SIGINT) is _quit:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        command.epilog = "\b\n" + "\n".join(["Example:", *(f"  {line}" for line in EXAMPLES[cmd_name])])
        return command

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        if args and not args[0].startswith("-") and args[0] not in _COMMANDS:
            near = difflib.get_close_matches(args[0], _COMMANDS, n=1)
            hint = f" Did you mean {near[0]!r}?" if near else ""
            ctx.fail(f"No such command {args[0]!r}.{hint}")
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; messages of the library are rewritten in terms of options, and guesses are shown once."""
        shown: set[str] = set()
        with warnings.catch_warnings():
            warnings.simplefilter("always", GuessWarning)
            usual = warnings.showwarning

            def show(message: Warning | str, category: type[Warning], *rest: Any, **named: Any) -> None:
                text = str(message)
                if not issubclass(category, GuessWarning):
                    usual(message, category, *rest, **named)
                elif text not in shown:  # a file may be opened more than once
                    shown.add(text)
                    say(f"note: {in_options(text, self._invoked(ctx))}")

            warnings.showwarning = show
            try:
                return super().invoke(ctx)
            except FastAnchorsError as error:
                error.args = (in_options(str(error), self._invoked(ctx)),)
                raise

    def _invoked(self, ctx: click.Context) -> click.Command | None:
        name = ctx.invoked_subcommand
        return None if name is None else self.get_command(ctx, name)


@click.group(cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, message="fastanchors %(version)s")
def app() -> None:
    """Find the anchor rows of a huge non-negative matrix, and write every row as a mixture of them."""


json_option = click.option(
    "--json", "as_json", is_flag=True, help="Print one JSON object on standard output and nothing else."
)


def say(message: str) -> None:
    """Print a message on standard error; the work goes on if that cannot be written: a full disk, a closed pipe."""
    with suppress(OSError):
        print(encodable(printable(message), sys.stderr), file=sys.stderr, flush=True)


def emit(result: Mapping[str, Any]) -> None:
    """Print the result as one JSON object on standard output."""
    print(as_json_text(result) if is_utf8() else json.dumps(result, allow_nan=False))


def run() -> None:
    """Run the command line and turn every expected failure into one line and an exit code.

    SIGTERM, as sent by batch systems and ``timeout``, and SIGHUP, of a terminal that is closed, are handled like
    Ctrl-C: temporary files are removed.
    """
    _open_streams()
    signals = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
    # A signal that is ignored stays so: ``nohup``.
    before = {number: signal.signal(number, _end) for number in signals if signal.getsignal(number) != signal.SIG_IGN}
    sys.stdout = Printable(sys.stdout)
    try:
        _run()
    finally:
        sys.stdout = sys.stdout._stream
        _drop_output()
        for number, handler in before.items():
            signal.signal(number, handler)


def _open_streams() -> None:
    """Open standard streams that the caller has closed on the null device, so that no file gets their numbers."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115 - open until the end


def _drop_output() -> None:
    """Discard output that cannot be written (a full disk): Python would try again at its end, with a traceback."""
    try:
        sys.stdout.flush()
    except OSError:
        with suppress(OSError, ValueError):
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null, sys.stdout.fileno())
            os.close(null)


class _Ended(SystemExit):
    """A signal ends the command; the code is 128 + its number."""


def _end(number: int, frame: Any) -> None:
    if signal.getsignal(signal.SIGINT) is _quit:  # the command is being imported
        _quit(number, frame)
    raise _Ended(128 + number)


def _run() -> None:
    try:
        code = app(prog_name="fastanchors", standalone_mode=False)
        sys.stdout.flush()
    except click.ClickException as error:
        with suppress(OSError):  # standard error cannot be written; a StoreError is an OSError too
            error.show(file=Printable(sys.stderr))  # type: ignore[arg-type]
        _fail(error.format_message(), error.exit_code)
    except (KeyboardInterrupt, click.Abort, _Ended) as error:
        _fail_by_signal(error)
    except BrokenPipeError:  # the reader of the output has exited
        sys.stderr.close()
        raise SystemExit(1) from None
    except (FastAnchorsError, OSError, ImportError) as error:
        if isinstance(error, ImportError) and (signalled := _signalled(error)) is not None:
            _fail_by_signal(signalled)
        if not isinstance(error, FastAnchorsError | OSError):
            raise
        say(f"fastanchors: {one_line(str(error))}")
        _fail(one_line(str(error)), 1)
    except MemoryError as error:
        message = f"out of memory{': ' if str(error) else ''}{one_line(str(error), 200)}"
        say(f"fastanchors: {message}")
        _fail(message, 1)
    raise SystemExit(code if isinstance(code, int) else 0)


def _signalled(error: BaseException | None) -> BaseException | None:
    """The exception of a signal that caused the error: compiled modules turn it into an ``ImportError``."""
    while error is not None and not isinstance(error, KeyboardInterrupt | _Ended):
        error = error.__cause__ or error.__context__
    return error


def _fail_by_signal(error: BaseException) -> NoReturn:
    code = int(error.code or 0) if isinstance(error, _Ended) else 128 + signal.SIGINT
    message = ending(code - 128)
    say(f"fastanchors: {message}")
    _fail(message, code)


def _fail(message: str, code: int) -> NoReturn:
    """Exit with ``code``; with ``--json`` also print the message as an object, unless one has been printed."""
    if "--json" in sys.argv[1:] and not getattr(sys.stdout, "written", False):
        with suppress(OSError):  # standard output may be what failed
            emit({"error": message, "exit_code": code})
    raise SystemExit(code) from None
