"""What the first lines of a table show: whether they start with column names, and which column names the rows.

The rules, in order; an option settles any of them, and a guess that could be wrong is told in a :class:`GuessWarning`.

Header: the first line is column names if any of its cells is not a number (the first cell aside, which may be the name
of a row) or if the first cell is empty (by a guess, unless numbers on a scale follow it). A line of numbers is a row of
data, unless there are three or more on a scale (whole numbers in even steps such as 0, 1, 2 or 2019, 2020, 2021; or
six and more that only rise or only fall, such as wavelengths) and the next line is not: then it is column names, by a
guess.

Names of rows: the first column, if its cells are not numbers, if it has no heading (as pandas and R write an index),
or, by a guess, if it holds whole numbers without repeats under a heading such as ``id``, ``index``, ``row``, ``name``.
Whole numbers under a heading such as ``year`` or ``patient_id``, or without repeats in even steps, are data, and a note
says so; in other columns than the first so do years and numbers under a heading that ends in ``_id``.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from ..errors import GuessWarning, InvalidInputError
from .addresses import is_address
from .numbers import malformed
from .words import did_you_mean

__all__ = ["Layout", "layout"]

_KEYS = frozenset({"id", "ids", "index", "key", "name", "no", "nr", "number", "row", "rows", "unnamed: 0"})
_LABELS = frozenset({"code", "date", "day", "fips", "hour", "month", "postcode", "time", "week", "year", "zip"})
_FEWEST = 3  # numbers in even steps that are taken for column names
_FEWEST_UNEVEN = 6  # the same for numbers that only rise or fall: by chance one row in 360 does


class Layout(NamedTuple):
    """Whether line 1 is a header, where the names of the rows stand (or None), how many values a row has, and names."""

    header: bool
    names_at: int | None
    width: int
    column_names: list[str] | None


def layout(name: str, lines: Sequence[tuple[int, list[str]]], header: bool | None, row_names: Any) -> Layout:
    """The layout of the table ``name``, of which ``lines`` (number, cells) are the first that are not blank."""
    first = lines[0][1]
    if header is None:
        header = _has_header(name, first, lines[1][1] if len(lines) > 1 else [])
    rows = lines[1:] if header else lines
    if not rows:
        raise InvalidInputError(f"{name} is empty: a header but no rows")
    number, sample = rows[0]
    at = _names_at(name, first if header else [], [cells for _, cells in rows], row_names)
    width = len(sample) - (at is not None)
    if not header:
        return Layout(False, at, width, None)
    cells = first if at is None or len(first) == width else first[:at] + first[at + 1 :]
    if len(cells) != width:
        raise malformed(name, 1, f"the header has {len(first)} fields, the next line {len(sample)}")
    for column, cell in zip(cells, sample[:at] + sample[at + 1 :] if at is not None else sample, strict=True):
        if cell and not is_number(cell):
            cure = f"leave the column out, or give row_names={column!r} to make it the names of the rows"
            raise malformed(name, number, f"{cell!r} in column {column!r} is not a number; {cure}")
    return Layout(True, at, width, cells)


def _has_header(name: str, first: list[str], second: list[str]) -> bool:
    labels = first if is_number(first[0]) or len(first) == 1 else first[1:]  # the first cell may be a row's name
    if not all(map(is_number, labels)):
        return True
    rest = second[len(second) - len(labels) :]
    scale, unheaded = _is_scale(labels) and not _is_scale(rest), not first[0]
    if scale and unheaded:
        return True
    if not scale and not unheaded:
        return False
    header = unheaded or len(labels) >= _FEWEST
    shown = ", ".join(labels[:3]) + (", …" if len(labels) > 3 else "")
    taken, other = ("column names", "row of data") if header else ("row of data", "line of column names")
    _guessed(f"{name}: the first line ({shown}) is taken as {taken}; if it is a {other}, give header={not header}")
    return header


def _is_scale(cells: Sequence[str]) -> bool:
    """Whether the cells look like the marks of a scale: whole numbers in even steps, or many that rise or fall."""
    if len(cells) < 2 or not all(map(is_number, cells)):
        return False
    values = [float(cell) for cell in cells]
    steps = [b - a for a, b in pairwise(values)]
    if all(is_whole(cell) for cell in cells) and steps[0] != 0 and len(set(steps)) == 1:
        return len(cells) >= _FEWEST or abs(steps[0]) == 1
    return len(cells) >= _FEWEST_UNEVEN and (all(step > 0 for step in steps) or all(step < 0 for step in steps))


def _names_at(name: str, heading: list[str], rows: Sequence[list[str]], row_names: Any) -> int | None:
    """Which column holds the names of the rows."""
    sample = rows[0]
    if row_names is True:
        return 0
    if isinstance(row_names, str) and row_names in heading:
        return heading.index(row_names) + len(sample) - len(heading)
    if isinstance(row_names, str) and not is_address(row_names) and not Path(row_names).is_file():
        listed = ", ".join(map(repr, heading[:8])) + (", …" if len(heading) > 8 else "") if heading else "no header"
        raise InvalidInputError(
            f"{name} has no column {row_names!r}, nor is that a file of names (it has {listed})"
            f"{did_you_mean(row_names, heading)}"
        )
    if row_names is not None:  # a file, a sequence, or False for none
        return None
    if not is_number(sample[0]) or (len(sample) > 1 and len(heading) == len(sample) - 1):
        return 0
    if len(sample) < 2 or len(heading) != len(sample):
        return None
    if not heading[0]:
        return 0
    keys, word = [cells[0] for cells in rows], heading[0].lower()
    if not all(map(is_whole, keys)):
        _note_labels(name, heading, rows)
        return None
    unique = len(set(keys)) == len(keys)
    if word in _LABELS or _is_id(word) or (unique and word not in _KEYS and len(keys) >= 3 and _is_scale(keys)):
        _taken_as_data(name, heading[0])
    elif unique and word in _KEYS:
        _guessed(
            f"{name}: the whole numbers of column {heading[0]!r} are taken as the names of the rows; "
            "if they are data, give row_names=False"
        )
        return 0
    else:
        _note_labels(name, heading, rows)
    return None


def _note_labels(name: str, heading: list[str], rows: Sequence[list[str]]) -> None:
    """Say so where a later column holds years or ids, which are hardly amounts of anything."""
    for place, word in enumerate(heading[1:], start=1):
        cells = [row[place] for row in rows if len(row) > place]
        years = word.lower() == "year" and all(len(cell) == 4 for cell in cells)
        if (years or _is_id(word.lower())) and all(map(is_whole, cells)):
            _taken_as_data(name, word)
            return


def _is_id(word: str) -> bool:
    return word.endswith(("_id", " id"))


def _taken_as_data(name: str, column: str) -> None:
    _guessed(
        f"{name}: the whole numbers of column {column!r} are taken as data; "
        f"if they name the rows, give row_names={column!r}"
    )


def _guessed(message: str) -> None:
    warnings.warn(message, GuessWarning, stacklevel=6)


def is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return "_" not in cell  # Python takes 1_000 for a number; in a table it is a name


def is_whole(cell: str) -> bool:
    """Whether the cell is written as a whole number: ``7``, not ``7.0``."""
    digits = cell.removeprefix("-")
    return digits.isascii() and digits.isdigit()
