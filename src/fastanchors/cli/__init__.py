"""The command line ``fastanchors COMMAND``: one module per group of commands; this one has the entry point."""

from __future__ import annotations

import sys

__all__ = ["main"]


def main() -> None:
    """Entry point of the ``fastanchors`` command."""
    try:
        import click  # noqa: F401
        import rich  # noqa: F401
    except ImportError:
        print("fastanchors: the command line needs the extra 'cli': pip install 'fastanchors[cli]'", file=sys.stderr)
        raise SystemExit(1) from None
    from .app import run

    run()
