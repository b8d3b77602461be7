"""Encode and decode the operations of a commit: entries set, and rows appended (in the journal or as a shard file)."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from .._validate import csr_of, is_canonical
from ..errors import CorruptStoreError
from ..matrix.contract import Rows
from ..sampling.entries import LARGEST, SMALLEST
from ..sampling.write_log import Entries
from .layout import check_shard
from .manifest import Manifest, Shard

__all__ = ["AppendRows", "AppendShard", "Operation", "check_operation", "decode", "encode"]

_OPERATION = struct.Struct("<IIQ")  # kind, length of the JSON head, length of the arrays
_SET, _ROWS, _SHARD = 1, 2, 3
_NAME = 57  # bytes of a text besides its letters, and of a reference to it


@dataclass
class AppendRows:
    """Appended rows that are stored in the journal."""

    rows: Rows
    names: Sequence[str] | None

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays, and about those of the names."""
        rows, names = self.rows, self.names or ()
        arrays = (rows.data, rows.indices, rows.indptr) if sp.issparse(rows) else (rows,)
        return sum(array.nbytes for array in arrays) + sum(_NAME + len(name) for name in names)


@dataclass
class AppendShard:
    """Appended rows that are stored in a shard file."""

    shard: Shard


Operation: TypeAlias = Entries | AppendRows | AppendShard


def encode(operations: Sequence[Operation]) -> list[Any]:
    """The payload of one commit, as pieces of bytes."""
    pieces: list[Any] = []
    for operation in operations:
        if isinstance(operation, Entries):
            arrays = [operation.rows, operation.columns, operation.values]
            pieces += _pack(_SET, {"dtype": arrays[2].dtype.newbyteorder("<").str, "count": len(arrays[0])}, arrays)
        elif isinstance(operation, AppendShard):
            pieces += _pack(_SHARD, asdict(operation.shard), [])
        else:
            pieces += _encode_rows(operation)
    return pieces


def _encode_rows(operation: AppendRows) -> list[Any]:
    rows = operation.rows
    head: dict[str, Any] = {"shape": list(rows.shape), "dtype": rows.dtype.newbyteorder("<").str, "entries": None}
    if operation.names is not None:
        head["names"] = list(operation.names)
    if not sp.issparse(rows):
        return _pack(_ROWS, head, [rows.reshape(-1)])
    head["entries"] = int(rows.nnz)
    return _pack(_ROWS, head, [rows.indptr.astype(np.int64), rows.indices.astype(np.int64), rows.data])


def _pack(kind: int, head: dict[str, Any], arrays: list[NDArray[Any]]) -> list[Any]:
    text = json.dumps(head).encode()
    plain = [np.ascontiguousarray(array.astype(array.dtype.newbyteorder("<"), copy=False)) for array in arrays]
    body = [array.data.cast("B") for array in plain if array.size]
    return [_OPERATION.pack(kind, len(text), sum(part.nbytes for part in body)), text, *body]


def decode(payload: memoryview, place: str) -> Iterator[Operation]:
    """The operations of one commit, in order."""
    at = 0
    while at < len(payload):
        try:
            kind, head_length, length = _OPERATION.unpack_from(payload, at)
            at += _OPERATION.size
            head = json.loads(bytes(payload[at : at + head_length]))
            at += head_length
            operation = _decode(kind, head, payload[at : at + length])
        except (ValueError, KeyError, TypeError, struct.error, RecursionError) as error:
            raise CorruptStoreError(f"{place}: an operation cannot be read: {error}; restore it from a copy") from None
        if operation is None:
            raise CorruptStoreError(f"{place}: operation of unknown kind {kind}; upgrade fastanchors")
        yield operation
        at += length


def _decode(kind: int, head: dict[str, Any], body: memoryview) -> Operation | None:
    """One operation with its arrays; None if the kind is unknown."""
    if kind == _SET:
        count = _count(head["count"])
        return Entries(*_arrays(body, [("<i8", count), ("<i8", count), (head["dtype"], count)]))
    if kind == _ROWS:
        return _decode_rows(body, head)
    return AppendShard(Shard(**head)) if kind == _SHARD else None


def _decode_rows(body: memoryview, head: dict[str, Any]) -> AppendRows:
    (m, n), entries, dtype = head["shape"], head["entries"], head["dtype"]
    m, n, names = _count(m), _count(n), head.get("names")
    if entries is None:
        return AppendRows(_arrays(body, [(dtype, m * n)])[0].reshape(m, n), names)
    entries = _count(entries)
    indptr, indices, data = _arrays(body, [("<i8", m + 1), ("<i8", entries), (dtype, entries)])
    rows = csr_of((data, indices, indptr), (m, n))
    if not is_canonical(rows):
        raise ValueError("the columns of a row do not increase")
    return AppendRows(rows, names)


def _arrays(body: memoryview, parts: list[tuple[str, int]]) -> list[NDArray[Any]]:
    """The arrays of a body; raises if their total size differs from the body."""
    found, at = [], 0
    for kind, count in parts:
        dtype = np.dtype(kind)
        if dtype.kind not in "iuf" or at + count * dtype.itemsize > len(body):
            raise ValueError(f"it does not have {count} numbers of type {kind!r}")
        # Copies, because kernels are compiled for writable arrays.
        found.append(np.frombuffer(body, dtype, count, at).copy() if count else np.empty(0, dtype))
        at += count * dtype.itemsize
    if at != len(body):
        raise ValueError(f"it has {len(body)} bytes instead of {at}")
    return found


def _count(number: Any) -> int:
    if type(number) is not int or number < 0:
        raise ValueError(f"{number!r} is not a count")
    return number


def check_operation(operation: Operation, manifest: Manifest, rows: int) -> None:
    """Raise ``ValueError``, ``KeyError`` or ``TypeError`` if an operation does not fit a store with ``rows`` rows."""
    if isinstance(operation, AppendShard):
        check_shard(vars(operation.shard), vars(manifest))
        return
    if isinstance(operation, Entries):
        for index, length in ((operation.rows, rows), (operation.columns, manifest.columns)):
            if index.size and not 0 <= index.min() <= index.max() < length:
                raise ValueError(f"it changes entries beyond {rows} rows and {manifest.columns} columns")
        dtype = operation.values.dtype
    else:
        new, dtype = operation.rows, operation.rows.dtype
        if new.shape[0] < 1 or new.shape[1] != manifest.columns or sp.issparse(new) != manifest.sparse:
            raise ValueError(f"it appends rows that do not fit {manifest.columns} columns")
        if operation.names is not None and len(operation.names) != new.shape[0]:
            raise ValueError("it appends rows with the wrong number of names")
        if operation.names is not None and not all(isinstance(name, str) for name in operation.names):
            raise ValueError("it appends rows with names that are not text")
    if dtype != np.dtype(manifest.dtype):
        raise ValueError(f"its entries are {dtype}, those of the store {manifest.dtype}")
    content: Any = operation.values if isinstance(operation, Entries) else operation.rows
    _check_values(content.data if sp.issparse(content) else content.reshape(-1), manifest)


def _check_values(values: NDArray[Any], manifest: Manifest) -> None:
    """Raise on values that a writer refuses."""
    if manifest.normalize is not None and values.dtype.kind != "u" and (values < 0).any():
        raise ValueError("it has negative entries")
    if values.dtype.kind == "f":
        size = np.abs(values.astype(np.float64, copy=False))
        if not ((size == 0) | ((size >= SMALLEST) & (size <= LARGEST))).all():
            raise ValueError("it has entries that are not finite or out of range")
