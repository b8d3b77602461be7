"""The command line ``fastanchors COMMAND``: one module per group of commands; this one has the entry point."""

from __future__ import annotations

import os
import signal
import sys
from typing import Any, NoReturn

__all__ = ["main"]


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
    os.write(2, b"fastanchors: interrupted\n")
    os._exit(130)
