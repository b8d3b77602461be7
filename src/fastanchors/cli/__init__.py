"""The command line ``fastanchors COMMAND``: one module per group of commands; this one has the entry point."""

from __future__ import annotations

import os
import signal
import sys
from contextlib import suppress
from typing import Any, NoReturn

__all__ = ["ending", "main"]


def main() -> None:
    """Entry point of the ``fastanchors`` command."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _quit)  # until the command is imported
    try:
        _start()
    finally:
        if signal.getsignal(signal.SIGINT) is _quit:
            signal.signal(signal.SIGINT, signal.default_int_handler)


def _start() -> None:
    try:
        import click  # noqa: F401
        import rich  # noqa: F401
    except ImportError:
        print("fastanchors: the command line needs the extra 'cli': pip install 'fastanchors[cli]'", file=sys.stderr)
        raise SystemExit(1) from None
    from .app import run

    run()


def _quit(number: int, frame: Any) -> NoReturn:
    """End the process at once: an exception would be lost in, or changed by, some modules while they are imported."""
    message, code = ending(number), 128 + number
    with suppress(OSError):
        os.write(2, f"fastanchors: {message}\n".encode())
    if "--json" in sys.argv[1:] and sys.stdout is not None:
        with suppress(OSError):
            os.write(1, f'{{"error": "{message}", "exit_code": {code}}}\n'.encode())
    os._exit(code)


def ending(number: int) -> str:
    """What is said of a signal that ends a command."""
    return "interrupted" if number == signal.SIGINT else f"ended by {signal.Signals(number).name}"
