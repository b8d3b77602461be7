"""What a commit is made of: entries set, rows appended (in the journal itself, or as a shard file of their own)."""

from __future__ import annotations

import itertools
import json
import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ..errors import CorruptStoreError
from ..sampling.access import Rows
from .manifest import Shard

__all__ = ["AppendRows", "AppendShard", "Operation", "SetEntries", "decode", "encode", "joined"]

_OPERATION = struct.Struct("<IIQ")  # kind, length of the JSON head, length of the arrays
_SET, _ROWS, _SHARD = 1, 2, 3


@dataclass
class SetEntries:
    """Stored entries become these values; of several for one entry the last counts."""

    rows: NDArray[np.int64]
    columns: NDArray[np.int64]
    values: NDArray[Any]


@dataclass
class AppendRows:
    """New rows at the end, few enough to be kept in the journal."""

    rows: Rows
    names: Sequence[str] | None


@dataclass
class AppendShard:
    """New rows at the end, already in a shard file."""

    shard: Shard


Operation: TypeAlias = SetEntries | AppendRows | AppendShard


def joined(operations: Iterable[Operation]) -> Iterator[Operation]:
    """The same operations with neighbouring changes of entries as one."""
    for kind, group in itertools.groupby(operations, type):
        if kind is not SetEntries:
            yield from group
            continue
        parts = zip(*((part.rows, part.columns, part.values) for part in group))  # type: ignore[union-attr]
        yield SetEntries(*(np.concatenate(part) for part in parts))


def encode(operations: Sequence[Operation]) -> list[Any]:
    """The payload of one commit, as pieces of bytes."""
    pieces: list[Any] = []
    for operation in joined(operations):
        if isinstance(operation, SetEntries):
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


def decode(payload: bytes, place: str) -> Iterator[Operation]:
    """The operations of one commit, in order."""
    at = 0
    while at < len(payload):
        kind, head_length, length = _OPERATION.unpack_from(payload, at)
        at += _OPERATION.size
        head = json.loads(payload[at : at + head_length])
        at += head_length
        if kind == _SET:
            count = head["count"]
            # Copies, because kernels are compiled for arrays that can be written.
            rows, columns = (np.frombuffer(payload, "<i8", count, at + 8 * count * part).copy() for part in (0, 1))
            values = np.frombuffer(payload, head["dtype"], count, at + 16 * count).copy()
            yield SetEntries(rows, columns, values)
        elif kind == _ROWS:
            yield _decode_rows(payload, at, head)
        elif kind == _SHARD:
            yield AppendShard(Shard(**head))
        else:
            raise CorruptStoreError(f"{place}: operation of unknown kind {kind}; upgrade fastanchors")
        at += length


def _decode_rows(payload: bytes, at: int, head: dict[str, Any]) -> AppendRows:
    (m, n), entries, dtype = head["shape"], head["entries"], np.dtype(head["dtype"])
    names = head.get("names")
    if entries is None:
        return AppendRows(np.frombuffer(payload, dtype, m * n, at).reshape(m, n).copy(), names)
    indptr = np.frombuffer(payload, "<i8", m + 1, at)
    indices = np.frombuffer(payload, "<i8", entries, at + 8 * (m + 1))
    data = np.frombuffer(payload, dtype, entries, at + 8 * (m + 1 + entries)).copy()
    return AppendRows(sp.csr_array((data, indices.copy(), indptr.copy()), shape=(m, n)), names)
