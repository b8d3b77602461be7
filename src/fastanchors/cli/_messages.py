"""Rewrite messages of the library for the command line: options in place of keyword arguments."""

from __future__ import annotations

import re

import click

__all__ = ["in_options", "shown_source"]

_COPIES = (  # temporary files
    (r"\S*fastanchors-pipe-\S*?pipe(\.[a-z]\w*)*", "the pipe"),
    (r"\S*fastanchors-standard-input-\S*?standard-input(\.[a-z]\w*)*", "standard input"),
)
_CALLS = (
    (r"\bfa\.build\(…, directions=(\d+)\)", r"fastanchors build --directions \1 SOURCE STORE"),
    (r"\bfa\.build\([^)]*\)", "fastanchors build SOURCE STORE"),
    (r"\bfa\.verify\([^)]*\)", "fastanchors verify STORE"),
    (r"\berrors='replace'", "--replace-errors"),
    *_COPIES,
)
# Advice to pass an argument that the command has no option for.
_ADVICE = (
    ("allow_fewer", r", or (pass )?allow_fewer=True", ""),
    ("vectorizer", r", or to count only these words pass vectorizer=.* with texts", ""),
    ("format", r"pass format=…, one of", "give its name the suffix of one of"),
)
_TABLES = (  # options with other names than in the library
    (r"\brow_names=False\b", "--names-column none"),
    (r"\brow_names=('[^']*')", r"--names-column \1"),
    (r"\bheader=True\b", "--header"),
    (r"\bheader=False\b", "--no-header"),
)


def shown_source(name: str) -> str:
    """The name of a source in output: standard input or the pipe, not its temporary copy."""
    for pattern, replacement in _COPIES:
        name = re.sub(pattern, replacement, name)
    return name


def in_options(message: str, command: click.Command | None) -> str:
    """The message with ``overwrite=True`` as ``--overwrite``, ``format=…`` as ``--format``, if these options exist."""
    options = [] if command is None else [each for each in command.params if isinstance(each, click.Option)]
    known = {name.lstrip("-").replace("-", "_"): name for option in options for name in option.opts}
    known |= {name: known[f"{name}_column"] for name in ("user", "item", "rating") if f"{name}_column" in known}
    if "vocab" not in known and "column_names" in known:
        known["vocab"] = known["column_names"]
    known |= {"errors": known["replace_errors"]} if "replace_errors" in known else {}
    known |= {"vocabulary": known["vocab"]} if "vocab" in known else {}
    for pattern, replacement in _CALLS + (_TABLES if "names_column" in known else ()):
        message = re.sub(pattern, replacement, message)
    for name, advice, instead in _ADVICE:
        if command is not None and name not in known:
            message = re.sub(advice, instead, message)
    if "k" in known:
        message = re.sub(r"\bk ≤ (\d+)", r"-k \1 or fewer", message)

    def as_option(found: re.Match[str]) -> str:
        name, value = found.groups()
        if name not in known:
            return found.group()
        return known[name] if value in ("True", "…") else f"{known[name]} {value}"

    message = re.sub(r"(?<![\w.-])([a-z]\w*)=('[^']*'|[\w.…-]+)", as_option, message)
    return re.sub(r"(?<=option )'(\w+)'", lambda found: known.get(found.group(1), found.group()), message)
