"""Determine the layout of a table from its first lines: the header, and the column of row names.

Options override these rules. A guess that could be wrong gives a :class:`GuessWarning`.

Header: the first line has column names if any of its cells, except the first, is not a number, or if the first cell is
empty (a guess, unless numbers on a scale follow) or a usual heading of names, such as ``id`` or ``sample``, before
numbers (a guess). A line of numbers is data, unless it has three or more numbers on a
scale and the next line has not: then it has column names (a guess). A scale is a sequence of integers in even steps,
such as 0, 1, 2 or 2019, 2020, 2021, or six or more numbers that only increase or only decrease, such as wavelengths.

Row names: the first column, if its first cell is not a number (a guess if all others are, or if all are numbers with
signs such as ``5%`` or ``1,000``; missing values, alone or among numbers, are not names), if it has no heading (as
pandas and R write an index), or (a guess) if it has unique integers under a heading such as ``id``, ``index``, ``row``,
``name``. Integers under a heading such as ``year`` or ``patient_id``, or unique integers in even steps, are data, with
a warning; also, in other columns than the first, years and numbers under a heading that ends in ``_id``. A column
``__index_level_0__`` is an index that pandas has written elsewhere: it has the row names, wherever it is.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from .._tables import is_index_level
from ..errors import GuessWarning, InvalidInputError, one_line
from .addresses import is_address
from .decoding import did_you_mean
from .numbers import malformed

__all__ = ["Layout", "layout"]

_KEYS = frozenset({"id", "ids", "index", "key", "name", "no", "nr", "number", "row", "rows", "unnamed: 0"})
_LABELS = frozenset({"code", "date", "day", "fips", "hour", "month", "postcode", "time", "week", "year", "zip"})
_CORNERS = _KEYS | {"band", "cell", "country", "document", "gene", "pixel", "sample", "spectrum", "user", "wavelength"}
_MISSING = frozenset(
    {"", "#n/a", "-", ".", "?", "missing", "n.a.", "n.d.", "n/a", "na", "none", "null"}
)  # nan is a number
_FEWEST = 3  # smallest length of a scale with even steps
_FEWEST_UNEVEN = 6  # the same for numbers that only increase or decrease: one random row in 360 does


class Layout(NamedTuple):
    """Whether line 1 is a header, the column of row names (or None), the number of values per row, the column names."""

    header: bool
    names_at: int | None
    width: int
    column_names: list[str] | None


def layout(name: str, lines: Sequence[tuple[int, list[str]]], header: bool | None, row_names: Any) -> Layout:
    """The layout of the table ``name``, given its first lines (number, cells) that are not blank."""
    first = lines[0][1]
    if header is None:
        header = _has_header(name, first, lines[1][1] if len(lines) > 1 else [])
    rows = lines[1:] if header else lines
    if not rows:
        raise InvalidInputError(f"{name} is empty: a header but no rows")
    if header and row_names is None and len(first) > 2 and first[:2] == ["", ""]:
        raise malformed(
            name,
            1,
            "the first two columns have no heading, as in an index of several levels; name the rows by one column",
        )
    if header:
        row_names = _index_level(name, first, row_names)
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
            cure = f"remove the column, or pass row_names={column!r} to use it as the row names"
            raise malformed(name, number, f"{cell!r} in column {column!r} is not a number; {cure}")
    return Layout(True, at, width, cells)


def _index_level(name: str, heading: list[str], row_names: Any) -> Any:
    """The row names: the column that pandas has written as its index, which is never data, if there is one."""
    places = [at for at, word in enumerate(heading) if is_index_level(word)]
    if not places:
        return row_names
    level = heading[places[-1]]
    named = row_names == level if isinstance(row_names, str) else row_names is True and places == [0]
    if len(places) > 1 or not (row_names is None or named):
        raise InvalidInputError(f"{name}: column {level!r} is an index that pandas has written, not data; remove it")
    return level


def _has_header(name: str, first: list[str], second: list[str]) -> bool:
    labels = first if is_number(first[0]) or len(first) == 1 else first[1:]  # the first cell may be a row's name
    if not all(map(is_number, labels)) or any(map(is_index_level, first)):
        return True
    rest = second[len(second) - len(labels) :]
    scale, unheaded = bool(second) and _is_scale(labels) and not _is_scale(rest), not first[0]
    if scale and unheaded:
        return True
    corner = bool(second) and len(first) > 1 and first[0].lower() in _CORNERS
    if not (scale or unheaded or corner):
        return False
    header = unheaded or corner or len(labels) >= _FEWEST
    shown = ", ".join(labels[:3]) + (", …" if len(labels) > 3 else "")
    taken, other = ("column names", "row of data") if header else ("row of data", "line of column names")
    _guessed(f"{name}: the first line ({shown}) is read as {taken}; if it is a {other}, pass header={not header}")
    return header


def _is_scale(cells: Sequence[str]) -> bool:
    """Whether the cells are a scale: integers in even steps, or many numbers that only increase or decrease."""
    if len(cells) < 2 or not all(map(is_number, cells)):
        return False
    values = [float(cell) for cell in cells]
    steps = [b - a for a, b in pairwise(values)]
    if all(is_whole(cell) for cell in cells) and steps[0] != 0 and len(set(steps)) == 1:
        return len(cells) >= _FEWEST or abs(steps[0]) == 1
    return len(cells) >= _FEWEST_UNEVEN and (all(step > 0 for step in steps) or all(step < 0 for step in steps))


def _names_at(name: str, heading: list[str], rows: Sequence[list[str]], row_names: Any) -> int | None:
    """The column of row names, or None."""
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
    if len(sample) > 1 and len(heading) == len(sample) - 1:
        if len(sample) == 2 and all(is_whole(cell) for cells in rows for cell in cells):
            _guessed(
                f"{name}: the first number of each line is read as the name of a row, because the header has one "
                "field; if these are numbers with decimal commas, replace the commas by points"
            )
        return 0
    if not is_number(sample[0]):
        return _text_at(name, heading, rows)
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
            f"{name}: the integers in column {heading[0]!r} are read as row names; "
            "if they are data, pass row_names=False"
        )
        return 0
    else:
        _note_labels(name, heading, rows)
    return None


def _text_at(name: str, heading: list[str], rows: Sequence[list[str]]) -> int | None:
    """The first column, whose first cell is no number; None if that is a missing value and the others are numbers."""
    cell, others = rows[0][0], [cells[0] for cells in rows[1:]]
    if heading[:1] != [""] and others and all(map(_is_written_number, [cell, *others])):
        _guessed(
            f"{name}: the first column is read as row names, because {one_line(repr(cell), 40)} is not a plain number; "
            "if it is data, remove signs such as those of currency, percent, thousands and limits"
        )
        return 0
    if heading[:1] == [""] or not others:
        return 0
    absent = [word.lower() in _MISSING for word in (cell, *others)]
    if heading and absent[0] and all(gone or is_number(word) for gone, word in zip(absent[1:], others, strict=True)):
        return None
    if not all(map(is_number, others)):
        return 0
    if absent[0]:
        return None
    _guessed(
        f"{name}: the first column is read as row names because of {one_line(repr(cell), 40)}, though its other cells "
        "are numbers; if they are data, correct that cell"
    )
    return 0


def _is_written_number(cell: str) -> bool:
    """Whether the cell is a truth value, or a number with signs such as ``5%``, ``1,000``, ``$5`` or ``<0.1``."""
    bare = cell.strip().strip("$€£%<>≤≥~").replace(",", "").replace(" ", "")
    return not is_number(cell) and (is_number(bare) or cell.lower() in ("true", "false"))


def _note_labels(name: str, heading: list[str], rows: Sequence[list[str]]) -> None:
    """Warn if a later column has years or ids, which are probably not data."""
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
        f"{name}: the integers in column {column!r} are read as data; if they are row names, pass row_names={column!r}"
    )


def _guessed(message: str) -> None:
    warnings.warn(message, GuessWarning, stacklevel=6)


def is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return "_" not in cell  # Python's float accepts 1_000; in a table it is a name


def is_whole(cell: str) -> bool:
    """Whether the cell is written as an integer: ``7``, not ``7.0``."""
    digits = cell.removeprefix("-")
    return digits.isascii() and digits.isdigit()
