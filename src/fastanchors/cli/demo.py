"""``fastanchors demo``: what the library does, on data that ships with it."""

from __future__ import annotations

import click


@click.command()
def demo() -> None:
    """Show the library at work."""
