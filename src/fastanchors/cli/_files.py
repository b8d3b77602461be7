"""Files that commands write: whole or not at all, and tables that a spreadsheet may open."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterable
from typing import Any, TextIO

import click

from .._replacing import replacing

__all__ = ["TableWriter", "as_json_text", "escape_option", "replacing", "unescaped"]

_FORMULA = ("=", "+", "-", "@", "\t", "\r")  # how a cell begins that a spreadsheet may take for a formula

escape_option = click.option(
    "--escape-formulas",
    is_flag=True,
    help="In .csv output put ' before names that a spreadsheet may run as a formula (=, +, -, @).",
)


class TableWriter:
    """Rows of a ``.csv`` file; text is escaped on request, numbers never."""

    def __init__(self, file: TextIO, *, escape: bool = False) -> None:
        self._writer = csv.writer(file)
        self._cell: Callable[[Any], Any] = _escaped if escape else _same

    def write(self, rows: Iterable[Iterable[Any]]) -> None:
        """Write some rows."""
        self._writer.writerows([self._cell(cell) for cell in row] for row in rows)


def _same(cell: Any) -> Any:
    return cell


def _escaped(cell: Any) -> Any:
    return f"'{cell}" if isinstance(cell, str) and cell.startswith(_FORMULA) else cell


def unescaped(text: str) -> str:
    """The name that :class:`TableWriter` was given."""
    return text[1:] if text.startswith("'") and text[1:].startswith(_FORMULA) else text


def as_json_text(record: Any, indent: int | None = None) -> str:
    """JSON as people write it, or in plain ASCII where a name holds control characters or half characters."""
    text = json.dumps(record, ensure_ascii=False, allow_nan=False, indent=indent)
    return text if text.replace("\n", "").isprintable() else json.dumps(record, allow_nan=False, indent=indent)
