"""``fastanchors completion``: print the completion script of a shell."""

from __future__ import annotations

import os
from pathlib import Path

import click
from click.shell_completion import get_completion_class

from ..errors import InvalidInputError
from .app import app, emit, json_option

__all__ = ["completion"]

_SHELLS = ("bash", "zsh", "fish")


@click.command()
@click.argument("shell", type=click.Choice(_SHELLS), required=False)
@json_option
def completion(shell: str | None, as_json: bool) -> None:
    """Print the completion script of SHELL (bash, zsh or fish; by default the one in use)."""
    shell = shell or Path(os.environ.get("SHELL", "")).name
    kind = get_completion_class(shell) if shell in _SHELLS else None
    if kind is None:
        raise InvalidInputError(f"cannot determine the shell in use; pass one of {', '.join(_SHELLS)}")
    script = kind(app, {}, "fastanchors", "_FASTANCHORS_COMPLETE").source()
    if as_json:
        emit({"shell": shell, "script": script})
    else:
        click.echo(script)
