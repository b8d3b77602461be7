"""Result files: written by ``seek --out``, and read by ``encode`` and ``report``."""

from __future__ import annotations

import csv
import math
import os
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from .._signals import from_handler
from ..anchors import CertificateKind
from ..errors import FastAnchorsError, InvalidInputError, StoreError, one_line
from ..io.decoding import json_value, missing, texts_of
from ..matrix.columns import column_order
from ._files import TableWriter, as_json_text, replacing, unescaped

__all__ = ["SUFFIXES", "Found", "check_rows", "fingerprints", "is_result", "json_ready", "load", "save"]

SUFFIXES = (".json", ".npz", ".csv")
_COLUMNS = ("order", "row", "name", "share", "support")
_TYPES = {"shape": list, "source": str, "solver": str, "reader": dict, "options": dict, "cost": dict}
_NEEDED = {"shape", "certificate", "cost", "seconds", "normalize"}
_DIGITS = 20  # digits of a row number that are read
_SIGNS = 8  # numbers in the fingerprint of a row
_LARGEST_MARK = 1e9  # each is far smaller; squares of what a damaged file says must not overflow
_OTHER = 0.05  # rows whose directions differ by more are other rows; by less, they may have been rounded


@dataclass(frozen=True)
class Found:
    """Anchors from a file: as rows of the data, as points, or both; ``record`` is the stored record of the seek.

    ``order`` is set by :meth:`in_order_of`: for each column of the data of the seek the column of the data with that
    name, or None if these are in the same order.
    """

    indices: NDArray[np.intp] | None
    components: NDArray[np.float64] | None = None
    record: Mapping[str, Any] = field(default_factory=dict)
    order: NDArray[np.intp] | None = None

    def in_order_of(self, column_names: Sequence[str] | None, given: Any, path: Any) -> Found:
        """The anchors with their columns in the order of the data at ``path``, matched by name.

        Raises if the data have other columns; results of earlier versions have no names of columns. The caller checks
        the number of columns.
        """
        known = self.record.get("column_names")
        if known is None or column_names is None or len(known) != len(column_names):
            return self
        at = column_order(known, column_names, str(given), str(path))
        if at is None:
            return self
        components = None if self.components is None else self.components[:, at]
        return replace(self, components=components, order=np.argsort(at))


def save(record: Mapping[str, Any], components: NDArray[np.float64], path: Path, *, escape: bool = False) -> None:
    """Write the record of a seek; an ``.npz`` file also has the anchor rows, so that it can encode other data."""
    with replacing(path) as partial:
        suffix = path.suffix.lower()
        if suffix == ".json":
            partial.write_text(as_json_text(record, indent=1) + "\n", encoding="utf-8")
        elif suffix == ".npz":
            arrays = {"anchors": np.asarray(record["anchors"]), "components": components}
            with partial.open("wb") as file:
                rest = {key: value for key, value in record.items() if key != "points"}  # they are the components
                np.savez_compressed(file, allow_pickle=False, **arrays, record=np.array(as_json_text(rest)))
        else:
            blank = [""] * len(record["anchors"])
            names, shares, support = (record.get(key) or blank for key in ("anchor_names", "shares", "support"))
            with partial.open("w", encoding="utf-8", errors="backslashreplace", newline="") as text:
                table = TableWriter(text, escape=escape)
                table.write([_COLUMNS])
                table.write(zip(range(1, len(names) + 1), record["anchors"], names, shares, support, strict=True))


def fingerprints(rows: NDArray[np.float64]) -> list[list[float]]:
    """For each row a few numbers that tell it from other rows: products of its direction with fixed signs.

    The mean square difference of two fingerprints is about that of the directions. So they hardly depend on rounding
    (decimals of a table, single precision), and not on the scaling of rows.
    """
    mixed = np.arange(1, rows.shape[1] + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)  # splitmix64
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB), (31, 1)):
        mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
    signs = ((mixed[:, None] >> np.arange(_SIGNS, dtype=np.uint64)) & np.uint64(1)) * 2.0 - 1.0
    for order in (np.inf, 2):  # divided by the largest entry first, squares neither over- nor underflow
        sizes = np.linalg.norm(rows, order, axis=1, keepdims=True)
        rows = rows / np.where(sizes > 0, sizes, 1.0)
    return [[round(value, 4) for value in row] for row in (rows @ signs).tolist()]


def check_rows(found: Found, rows: NDArray[np.float64], given: Any, path: Any) -> None:
    """Raise if the anchor rows of a result are now other rows; results of earlier versions have no fingerprint."""
    theirs = found.record.get("fingerprint")
    if theirs is None or found.indices is None:
        return
    rows = rows if found.order is None else rows[:, found.order]
    marks = np.clip(np.asarray(theirs, dtype=np.float64), -_LARGEST_MARK, _LARGEST_MARK)
    apart = np.sqrt(np.mean((marks - fingerprints(rows)) ** 2, axis=1))
    if apart.max() > _OTHER:
        raise InvalidInputError(
            f"row {found.indices[apart.argmax()]} of {path} is not the row that was an anchor in {given}: "
            "the data have changed, or these are other data; run seek again"
        )


def is_result(path: Path) -> bool:
    """Whether the file is one that :func:`save` wrote."""
    if path.suffix.lower() == ".json":
        return True
    if path.suffix.lower() == ".csv":
        with path.open("rb") as file:
            line = file.readline(1024).strip()
            return line in (",".join(_COLUMNS).encode(), ",".join(_COLUMNS[:-1]).encode())  # without the support before
    try:
        with zipfile.ZipFile(path) as archive:
            return path.suffix.lower() == ".npz" and "record.npy" in archive.namelist()
    except (OSError, zipfile.BadZipFile):
        return False


def load(given: str) -> Found:
    """Anchors from a result, an array in a file (row numbers, or k × n points), or numbers such as ``"3,17,5"``."""
    path = Path(given)
    if not os.path.exists(path):  # row numbers may be too long for a name: pathlib would raise
        parts = given.replace(",", " ").split()
        if parts and all(part.isascii() and part.isdigit() for part in parts):
            return Found(_distinct(_row_numbers([int(part[:_DIGITS]) for part in parts], "ANCHORS"), given))
        raise missing(path, "; ANCHORS is a result of seek --out, an array, or row numbers such as 3,17,5")
    try:
        found = _read(path)
        _check_record(found)
    except Exception as error:  # NumPy raises many kinds, also those of Python's tokenizer
        if isinstance(error, FastAnchorsError) or from_handler(error):
            raise
        raise StoreError(f"cannot read anchors from {path}: {one_line(str(error), 200)}") from None
    return found if found.indices is None else replace(found, indices=_distinct(found.indices, given))


def _check_record(found: Found) -> None:
    """Raise ``ValueError`` if arrays or record are not as :func:`save` writes them."""
    columns = found.record.get("column_names", [])
    if not isinstance(columns, list) or not all(isinstance(name, str) for name in columns):
        raise ValueError("'column_names' is not a list of names")
    if columns and len(columns) != found.record["shape"][1]:
        raise ValueError(f"{len(columns)} 'column_names' for the shape {found.record['shape']}")
    if found.components is not None and not np.isfinite(found.components).all():
        raise ValueError("the anchor rows are not finite")
    if found.record and found.indices is None:
        raise ValueError("it has no 'anchors'")
    if found.components is not None and found.indices is not None and len(found.components) != len(found.indices):
        raise ValueError(f"{len(found.components)} anchor rows for {len(found.indices)} anchors")
    for name, kind in _TYPES.items():
        if not isinstance(found.record.get(name, kind()), kind):
            raise ValueError(f"{name!r} is not a {'text' if kind is str else kind.__name__}")
    shape, names = found.record.get("shape", [1, 1]), found.record.get("anchor_names")
    if len(shape) != 2 or not all(isinstance(size, int) for size in shape):
        raise ValueError("'shape' is not a pair of numbers")
    if names is not None and (not isinstance(names, list) or len(names) != len(found.record["anchors"])):
        raise ValueError("'anchor_names' is not a list with a name for each anchor")
    if "fingerprint" in found.record and found.indices is not None:
        marks = _numbers(found.record["fingerprint"], "fingerprint")
        if marks.shape != (len(found.indices), _SIGNS) or not np.isfinite(marks).all():
            raise ValueError("'fingerprint' is not a list of numbers for each anchor")
    if "solver" in found.record:
        _check_seek(found.record)


def _check_seek(record: Mapping[str, Any]) -> None:
    """Raise ``ValueError`` if the record of a seek lacks what a report shows, or has it in another form."""
    if lacking := _NEEDED - record.keys():
        raise ValueError(f"it has no {min(lacking)!r}")
    certificate, seconds = record["certificate"], record["seconds"]
    if not isinstance(certificate, dict) or certificate.get("kind") not in get_args(CertificateKind):
        raise ValueError("'certificate' is not one of a kind that solvers give")
    if not isinstance(certificate.get("statement"), str) or not isinstance(certificate.get("details"), dict):
        raise ValueError("'certificate' has no 'statement' or 'details'")
    counts = record["cost"].values()
    if not all(isinstance(count, int) and count >= 0 for count in counts):
        raise ValueError("'cost' has a value that is not a count")
    if not isinstance(seconds, int | float) or not 0 <= seconds < math.inf:
        raise ValueError("'seconds' is not a number of seconds")
    if record["normalize"] not in (None, "l1"):
        raise ValueError("'normalize' is neither 'l1' nor null")


def _row_numbers(values: Any, where: Any) -> NDArray[np.intp]:
    """Row numbers, validated: anything but a non-negative integer is an error."""
    listed = values.tolist() if isinstance(values, np.ndarray) else values
    if not isinstance(listed, list) or not listed:
        raise InvalidInputError(f"{where} has no anchors; row numbers are needed")
    for value in listed:
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 1 << 62:
            raise InvalidInputError(f"{where}: {one_line(repr(value), 40)} is not a row number; they are 0, 1, 2, …")
    return np.array(listed, dtype=np.intp)


def _numbers(values: Any, name: str) -> NDArray[np.float64]:
    try:
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"{name!r} is not a table of numbers") from None


def _distinct(indices: NDArray[np.intp], given: str) -> NDArray[np.intp]:
    values, counts = np.unique(indices, return_counts=True)
    if (counts > 1).any():
        raise InvalidInputError(f"row {values[counts > 1][0]} is an anchor more than once in {given}")
    return indices


def _read(path: Path) -> Found:
    suffix = path.suffix.lower()
    if suffix == ".json":
        record = json_value(path.read_text(encoding="utf-8"))
        if not isinstance(record, dict) or "anchors" not in record:
            raise InvalidInputError(f"{path} is not a result of seek --out: it has no 'anchors'")
        points = record.pop("points", None)
        return Found(
            _row_numbers(record["anchors"], path),
            None if points is None else np.atleast_2d(_numbers(points, "points")),
            record,
        )
    if suffix == ".csv":
        return _read_csv(path)
    with path.open("rb") as file:
        if not file.read(6).startswith((b"\x93NUMPY", b"PK")):
            raise InvalidInputError(f"{path} is neither a result of seek --out (.json, .csv, .npz) nor a .npy array")
    loaded = np.load(path, allow_pickle=False)
    if isinstance(loaded, np.ndarray):
        if loaded.ndim == 1 and loaded.dtype.kind in "iu":
            return Found(_row_numbers(loaded, path))
        if loaded.ndim == 2 and loaded.dtype.kind in "iuf":
            return Found(None, loaded.astype(np.float64))
        raise InvalidInputError(f"{path} has neither row numbers nor k × n anchors: shape {loaded.shape}")
    with loaded:
        record = json_value(texts_of(loaded["record"])[0]) if "record" in loaded.files else {}
        indices = _row_numbers(loaded["anchors"], path) if "anchors" in loaded.files else None
        if "components" not in loaded.files or loaded["components"].ndim != 2:
            raise InvalidInputError(f"{path} is not a result of seek --out: it has no k × n array 'components'")
        return Found(indices, loaded["components"].astype(np.float64), record)


def _read_csv(path: Path) -> Found:
    """Row numbers and names; a table does not have the source of the data."""
    with path.open(encoding="utf-8", newline="") as file:
        reader = csv.DictReader(file)
        if "row" not in (reader.fieldnames or ()):
            raise InvalidInputError(
                f"{path} is not a result of seek --out: it has no column 'row' with the numbers of the anchor rows"
            )
        lines = list(reader)
    rows = [int(line["row"]) for line in lines]
    names = [unescaped(line.get("name") or "") for line in lines]
    record = {"anchors": rows} | ({"anchor_names": names} if all(names) and names else {})
    return Found(_row_numbers(rows, path), None, record)


def json_ready(value: Any) -> Any:
    """The same value with NaN and infinities, which JSON does not have, as null."""
    if isinstance(value, Mapping):
        return {str(key): json_ready(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [json_ready(item) for item in value]
    if isinstance(value, np.generic):
        value = value.item()
    return None if isinstance(value, float) and not math.isfinite(value) else value
