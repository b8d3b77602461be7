"""Output files of commands: ``.csv`` tables that are safe for spreadsheets, and JSON text."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterable
from typing import Any, TextIO

import click

from .._replacing import replacing

__all__ = ["TableWriter", "as_json_text", "escape_option", "replacing", "unescaped"]

_FORMULA = ("=", "+", "-", "@", "\t", "\r")  # first characters of cells that a spreadsheet may run as a formula

escape_option = click.option(
    "--escape-formulas",
    is_flag=True,
    help="In .csv output put ' before names that a spreadsheet may run as a formula (=, +, -, @).",
)


class TableWriter:
    """Writes rows of a ``.csv`` file; with ``escape``, text that looks like a formula is escaped."""

    def __init__(self, file: TextIO, *, escape: bool = False) -> None:
        self._writer = csv.writer(file)
        self._cell: Callable[[Any], Any] = _escaped if escape else _same

    def write(self, rows: Iterable[Iterable[Any]]) -> None:
        """Write rows."""
        self._writer.writerows([self._cell(cell) for cell in row] for row in rows)


def _same(cell: Any) -> Any:
    return cell


def _escaped(cell: Any) -> Any:
    return f"'{cell}" if isinstance(cell, str) and cell.startswith(_FORMULA) else cell


def unescaped(text: str) -> str:
    """The original of a name that :class:`TableWriter` escaped."""
    return text[1:] if text.startswith("'") and text[1:].startswith(_FORMULA) else text


def as_json_text(record: Any, indent: int | None = None) -> str:
    """JSON with non-ASCII characters, or pure ASCII if a string has control characters or lone surrogates."""
    text = json.dumps(record, ensure_ascii=False, allow_nan=False, indent=indent)
    return text if text.replace("\n", "").isprintable() else json.dumps(record, allow_nan=False, indent=indent)
