"""Read ratings from text files in the layouts of MovieLens and similar data sets, or from data frames."""

from __future__ import annotations

import contextlib
import csv
import math
import re
from array import array
from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence, Set
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from .._tables import as_frame
from .._validate import (
    as_array,
    as_matrix,
    as_numbers,
    check_draws,
    check_frame,
    check_index,
    check_list,
    check_text,
    computed,
)
from ..errors import InvalidInputError, InvalidTypeError, StoreError, one_line
from ..io.addresses import local_path
from ..io.decoding import did_you_mean
from ..io.numbers import open_bytes
from ..io.records import records, split_fields
from ..matrix.contract import Rows

__all__ = ["RatingsTable", "read_ratings"]

_SEPARATORS = ("::", "\t", ",", ";")  # tried in this order; otherwise whitespace


class RatingsTable:
    """Ratings with the ids of users and items.

    Parameters
    ----------
    A
        Ratings, users × items; zero means no rating.
    users, items
        Their ids, in the order of rows and columns.

    Attributes
    ----------
    A
        CSR matrix, users × items
    users, items : list
        The ids of its rows and columns.

    Examples
    --------
    >>> import numpy as np
    >>> import fastanchors as fa
    >>> table = fa.apps.RatingsTable(np.array([[5.0, 0.0], [3.0, 1.0]]), ["ann", "bob"], ["film", "book"])
    >>> table.rows_of(["bob"]).tolist()
    [1]
    """

    def __init__(self, A: Rows, users: list[Any], items: list[Any]) -> None:
        A = sp.csr_array(as_matrix(A, signed=True))
        if not A.data.all():  # stored zeros are no ratings either
            A = A.copy()
            A.eliminate_zeros()
        for what, ids, count in (("users", users, A.shape[0]), ("items", items, A.shape[1])):
            if isinstance(ids, Set | Mapping):
                raise InvalidTypeError(f"{what} are a {type(ids).__name__}; pass a list of ids in the order of A")
            check_list(ids, name=what)
            if len(ids) != count:
                raise InvalidInputError(f"there are {len(ids)} ids of {what}, but {count} {what} in A")
        places = _places(users)
        if len(places) < len(users):
            twice = next(user for at, user in enumerate(users) if places[user] != at)
            raise InvalidInputError(f"two rows have the user {twice!r}; give each its own id, or add up their ratings")
        self.A = A
        self.users = users
        self.items = items

    @classmethod
    def from_frame(cls, frame: Any, *, user: str = "user", item: str = "item", rating: str = "rating") -> RatingsTable:
        """Make a table from a long frame (pandas, polars, Arrow, Dask): one rating per row, columns given by name.

        Users and items keep their ids and are numbered in order of appearance. The last of repeated ratings is used.
        """
        frame = as_frame(computed(frame, "the frame"), "the frame")
        columns = Counter(getattr(frame, "columns", ()))
        for name in (user, item, rating):
            if not isinstance(name, Hashable):
                raise InvalidTypeError(f"a column is given by its name, got {one_line(repr(name), 60)}")
            if columns[name] > 1:
                raise InvalidInputError(f"the frame has {columns[name]} columns {name!r}; keep one of them")
            if name not in columns:
                raise InvalidInputError(
                    f"the frame has no column {name!r}{did_you_mean(name, [str(column) for column in columns])}; name "
                    "its columns with user=…, item=…, rating=…"
                )
        rows, users = _numbered(frame[user])
        places, items = _numbered(frame[item])
        check_frame(frame[rating].to_frame(), "the frame")
        values = as_numbers(frame[rating].to_numpy(), f"column {rating!r}").astype(np.float64)
        if not len(values):
            raise InvalidInputError("the frame holds no ratings")
        bad = np.flatnonzero(~np.isfinite(values) | (values == 0))
        if bad.size:
            raise InvalidInputError(
                f"row {bad[0]} of the frame has the rating {values[bad[0]]}; a rating is finite and not 0, which could "
                "not be distinguished from no rating: leave such rows out, or shift the scale"
            )
        return cls(_last_of_each(rows, places, values, (len(users), len(items))), users, items)

    def rows_of(self, users: Any) -> NDArray[np.intp]:
        """The row numbers of users given by their ids."""
        places = _places(self.users)
        try:
            return np.array([places[user] for user in users], dtype=np.intp)
        except KeyError as error:
            raise InvalidInputError(f"there are no ratings of a user {error.args[0]!r}") from None
        except TypeError:
            raise InvalidTypeError(f"users must be a list of ids, got {one_line(repr(users), 60)}") from None

    def named(self, found: NDArray[np.intp]) -> NDArray[Any]:
        """The ids of items given by their numbers; None for −1."""
        ids = np.empty(len(self.items) + 1, dtype=object)
        ids[:-1] = self.items
        at = as_array(found, "found")
        check_index(at[at != -1] if at.dtype.kind in "iu" else at, len(self.items), name="item")
        return ids[at.astype(np.intp, copy=False)]

    def popular(self, users: Any, n: int = 10) -> NDArray[Any]:
        """The n most-rated items that each user has not rated, most ratings first: a strong baseline."""
        order = np.argsort(-np.bincount(self.A.indices, minlength=len(self.items)), kind="stable")
        rows = self.rows_of(users)
        n = check_draws(n, name="n", minimum=1, each=max(1, len(rows)))
        found = np.full((len(rows), n), -1, dtype=np.intp)
        for place, row in enumerate(rows):
            seen = self.A.indices[self.A.indptr[row] : self.A.indptr[row + 1]]
            fresh = order[~np.isin(order, seen)][:n]
            found[place, : len(fresh)] = fresh
        return self.named(found)


def _places(users: list[Any]) -> dict[Any, int]:
    """The row of each user."""
    try:
        return {user: place for place, user in enumerate(users)}
    except TypeError:
        raise InvalidTypeError("ids of users must be hashable, such as strings or integers") from None


def _numbered(column: Any) -> tuple[NDArray[np.int64], list[Any]]:
    """A number for each entry, in order of appearance, and the distinct entries."""
    numbers: dict[Any, int] = {}
    entries = column.to_list()
    if any(entry is None or entry != entry for entry in entries):
        raise InvalidInputError(f"column {column.name!r} has rows without a value; drop them first")
    return np.array([numbers.setdefault(entry, len(numbers)) for entry in entries], dtype=np.int64), list(numbers)


def read_ratings(
    path: str | Path, *, user: str | None = None, item: str | None = None, rating: str | None = None
) -> RatingsTable:
    """Read ratings from text, one per line: user, item, rating; further fields are ignored.

    Supports the layouts of MovieLens, ``u.data`` (tabs), ``ratings.csv`` (commas and a header) and ``ratings.dat``
    (``::``), and similar ones with semicolons or blanks; gzipped or not, in UTF-8. A first line of three or more
    words, none of them a number, is a header; without names given, it must not name another order of columns. Users
    and items are numbered in order of appearance. The last of repeated ratings is used. Empty lines are skipped. Any
    other line that is not a rating is an error that names the line. So is a rating of zero, which could not be
    distinguished from a missing one.

    One pass; 24 bytes per line in addition to the table itself.

    Parameters
    ----------
    path : str or Path
        The file.
    user, item, rating : str or None
        The heading of the column of users, items and ratings; None for the first, second and third column.

    Returns
    -------
    RatingsTable
        The ratings, with the ids of users and items.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import fastanchors as fa
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "ratings.csv"
    ...     _ = path.write_text("user,item,rating\\nann,film,5\\nbob,film,3\\nbob,book,1\\n")
    ...     print(fa.apps.read_ratings(path).items)
    ['film', 'book']
    """
    wanted = (user, item, rating)
    for name, word in zip(("user", "item", "rating"), wanted, strict=True):
        check_text(word, name=name, none=True)
    places: tuple[int, ...] = (0, 1, 2)
    users: dict[str, int] = {}
    items: dict[str, int] = {}
    rows, columns, values = array("q"), array("q"), array("d")
    path = local_path(path)
    separator = _separator(path)
    first = True
    for number, fields in _lines(path, separator):
        if first and wanted != (None, None, None):
            places, first = _find_columns(fields, wanted, str(path)), False
            continue
        if wanted != (None, None, None):
            fields = [fields[place] if place < len(fields) else "" for place in places]
        if first and _is_header(fields):
            if wanted == (None, None, None):
                _check_order(fields, str(path))
        else:
            values.append(_rating(fields, f"{path}, line {number}", first))
            rows.append(users.setdefault(fields[0], len(users)))
            columns.append(items.setdefault(fields[1], len(items)))
        first = False
    if not values:
        raise InvalidInputError(f"{path} holds no ratings")
    A = _last_of_each(np.array(rows), np.array(columns), np.array(values), (len(users), len(items)))
    return RatingsTable(A, list(users), list(items))


def _find_columns(heading: list[str], wanted: Sequence[str | None], name: str) -> tuple[int, ...]:
    """The positions of the columns with these headings; None stands for the column at the default position."""
    for word in wanted:
        if word is not None and word not in heading:
            listed = ", ".join(map(repr, heading[:8]))
            raise InvalidInputError(f"{name} has no column {word!r}{did_you_mean(word, heading)} (it has {listed})")
    places = tuple(place if word is None else heading.index(word) for place, word in enumerate(wanted))
    if len(set(places)) < len(places):
        raise InvalidInputError(f"{name}: one column cannot be two of user, item and rating; name all three")
    return places


def _separator(path: Path) -> str | None:
    """The separator of the first line that is not empty; None for blanks."""
    lines = (line for _, line in _records(path, None))
    first = next(lines, b"")
    return next((mark for mark in _SEPARATORS if mark.encode() in first), None)


def _lines(path: Path, separator: str | None) -> Iterator[tuple[int, list[str]]]:
    """(number, fields) of every line that is not empty."""
    quoting = separator if separator is not None and len(separator) == 1 else None
    for number, line in _records(path, quoting):
        try:
            text = line.decode("utf-8").strip(" \r")
        except UnicodeDecodeError:
            raise InvalidInputError(f"{path}, line {number}: not UTF-8; convert the file to it first") from None
        if text:
            yield number, _cut(text, separator, quoting)


def _records(path: Path, quoting: str | None) -> Iterator[tuple[int, bytes]]:
    with open_bytes(path) as file:
        try:
            yield from records(file, str(path), quoting)
        except StoreError as error:
            raise InvalidInputError(str(error)) from None


def _cut(line: str, separator: str | None, quoting: str | None) -> list[str]:
    if quoting is None:
        return [field.strip() for field in line.split(separator)]
    fields = [field.strip() for field in split_fields(line, quoting)]
    if any(field.startswith('"') for field in fields):  # blanks before the quote
        with contextlib.suppress(csv.Error):
            fields = [field.strip() for field in next(csv.reader([line], delimiter=quoting, skipinitialspace=True))]
    return fields


def _is_header(fields: list[str]) -> bool:
    return len(fields) >= 3 and not any(map(_is_number, fields)) and all(fields[:3])


def _check_order(heading: list[str], name: str) -> None:
    """Raise if the heading says that users, items or ratings are in another column than the usual one."""
    words = [re.sub(r"s?[ _-]?(id|name)?$", "", word.lower()) for word in heading]
    if any(what in words and what != words[at] for at, what in enumerate(("user", "item", "rating"))):
        listed = ", ".join(map(repr, heading[:8]))
        raise InvalidInputError(
            f"{name} has the columns {listed}, not user, item, rating; name them with user=…, item=…, rating=…"
        )


def _is_number(field: str) -> bool:
    try:
        float(field)
    except ValueError:
        return False
    return "_" not in field  # as in Python's own literals


def _rating(fields: list[str], where: str, first: bool = False) -> float:
    if len(fields) < 3 or not all(fields[:2]) or not _is_number(fields[2]):
        cure = "; if the first line has the names of columns, give those of all three: user=…, item=…, rating=…"
        raise InvalidInputError(f"{where}: expected user, item, rating, got {fields[:4]}{cure if first else ''}")
    rating = float(fields[2])
    if not math.isfinite(rating):
        raise InvalidInputError(f"{where}: the rating {fields[2]} is not finite")
    if rating == 0:
        raise InvalidInputError(
            f"{where}: a rating of 0 could not be distinguished from no rating; leave the line out, or shift the scale"
        )
    return rating


def _last_of_each(
    rows: NDArray[np.int64], columns: NDArray[np.int64], values: NDArray[np.float64], shape: tuple[int, int]
) -> Rows:
    """The table with the last rating of each user and item."""
    _, last = np.unique((rows * shape[1] + columns)[::-1], return_index=True)
    keep = len(values) - 1 - last
    return sp.csr_array((values[keep], (rows[keep], columns[keep])), shape=shape)
