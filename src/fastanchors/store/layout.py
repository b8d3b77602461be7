"""Validate a manifest: plain file names, known types, and arrays with the lengths that the shape of the store requires.

A manifest with a valid checksum can still be wrong: written by a faulty program, or forged. The files it refers to are
read, mapped and truncated, so everything is checked first. It costs microseconds per shard and reads no files.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import json
import math
import os
import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from ..sampling.segment_trees import LEAF

__all__ = ["ALIGN", "check_description", "check_json", "check_manifest", "check_shard"]

ALIGN = 64  # bytes at whose multiples arrays begin
_TYPE = re.compile(r"[|<][biufcSUV]\d{1,9}")
_ENTRIES = {"|i1", "|u1", "<i2", "<u2", "<i4", "<u4", "<i8", "<u8", "<f4", "<f8"}
_INDICES = {"<i4", "<i8"}
_SUMS = {"<f8"}
_NAMES = {"names.ends", "names.bytes"}
_NUMBERED = re.compile(r"shard-(\d{1,18})")
_DEEPEST = 64  # levels of metadata
_LARGEST = 1 << 62
_LONGEST = 255  # bytes of the name of a file
_NOT_OURS = ("", ".", "..", "lock", "manifest.json")


def check_manifest(content: Mapping[str, Any]) -> None:
    """Raise ``ValueError``, ``KeyError`` or ``TypeError`` if the contents of a manifest are not valid."""
    _whole(content["generation"], "generation", 1)
    _whole(content["columns"], "columns", 1)
    _whole(content["next_shard"], "next_shard")
    _one_of(content["dtype"], _ENTRIES, "dtype")
    _one_of(content["normalize"], ("l1", None), "normalize")
    for key in ("sparse", "column_side"):
        _is(content[key], bool, key)
    _plain(content["journal"], "journal")
    if not content["shards"]:
        raise ValueError("it has no shards")
    for shard in _is(content["shards"], list, "shards"):
        check_shard(_is(shard, dict, "a shard"), content)
    if content["rows"] != sum(shard["rows"] for shard in content["shards"]):
        raise ValueError(f"its shards do not have {content['rows']!r} rows in total")
    if content.get("names") is not None:
        _check_names(check_description(content["names"]), content["columns"], content["names"]["file"])
    for description in _is(content.get("extras", {}), dict, "extras").values():
        check_description(description)
        _whole(description.get("commit", 0), "commit")
    check_json(_is(content.get("metadata", {}), dict, "metadata"))
    _check_numbers(content)


def check_json(metadata: Any) -> None:
    """Raise ``ValueError`` or ``TypeError`` if it cannot be written to a manifest."""
    with contextlib.suppress(RecursionError):
        json.dumps(metadata, allow_nan=False)
        level = [metadata]
        for _ in range(_DEEPEST):
            parts = [item.values() if isinstance(item, dict) else item for item in level]
            level = [item for part in parts for item in part if isinstance(item, dict | list | tuple)]
            if not level:
                return
    raise ValueError(f"it is nested more than {_DEEPEST} deep")


def _check_numbers(content: Mapping[str, Any]) -> None:
    """Raise if the next shard would get the name of an existing file, or if a file is referred to twice."""
    described = [item for shard in content["shards"] for item in (shard["data"], *shard.get("extras", {}).values())]
    described += [*content.get("extras", {}).values(), *([content["names"]] if content.get("names") else [])]
    files = [item["file"] for item in described] + [content["journal"]]
    if len(set(files)) < len(files):
        raise ValueError("two of its parts refer to the same file")
    for match in filter(None, map(_NUMBERED.match, files)):
        if int(match[1]) >= content["next_shard"]:
            raise ValueError(f"next_shard is {content['next_shard']}, but {match[0]}… is in use")


def check_shard(shard: Mapping[str, Any], manifest: Mapping[str, Any]) -> None:
    """Raise if arrays of a shard are missing or have wrong types or lengths (see docs/format.md)."""
    if not set(shard) <= {"rows", "data", "extras"}:
        raise ValueError(f"a shard has unknown keys {sorted(set(shard) - {'rows', 'data', 'extras'})}")
    m, n = _whole(shard["rows"], "rows of a shard", 1), manifest["columns"]
    place, arrays = shard["data"]["file"], check_description(shard["data"])
    for description in _is(shard.get("extras", {}), dict, "extras").values():
        check_description(description)
    wanted = _arrays(m, n, arrays, manifest)
    if others := arrays.keys() - wanted.keys() - _NAMES:  # such as those of the l1 view, which would then be shown
        raise ValueError(f"{place} has an array {min(others)!r}, which does not belong to such a store")
    for name, (kinds, lengths) in wanted.items():
        if name not in arrays:
            if 0 in lengths and name.endswith("nodes"):
                continue
            raise ValueError(f"{place} has no array {name!r}")
        entry = arrays[name]
        if entry["dtype"] not in kinds or len(entry["shape"]) != 1 or entry["shape"][0] not in lengths:
            found = f"{entry['dtype']} of shape {entry['shape']}"
            raise ValueError(f"array {name!r} of {place} is {found} and does not fit {m} rows and {n} columns")
    _check_names(arrays, m, place)


def _arrays(
    m: int, n: int, arrays: Mapping[str, Any], manifest: Mapping[str, Any]
) -> dict[str, tuple[set[str], tuple[int, ...]]]:
    """Name -> (types, lengths it may have) of the arrays of a shard."""
    values, sparse = {manifest["dtype"]}, manifest["sparse"]
    entries = math.prod(arrays["data"]["shape"]) if sparse else m * n
    # Nodes may be missing if no segment is long enough for a tree; for sparse shards that depends on their indptr.
    row_nodes = (entries >> 4, 0) if sparse or n <= LEAF else (entries >> 4,)
    column_nodes = (entries >> 4, 0) if sparse or m <= LEAF else (entries >> 4,)
    wanted: dict[str, tuple[set[str], tuple[int, ...]]] = {
        "data": (values, (entries,)),
        "row_nodes": (_SUMS, row_nodes),
        "row_sums": (_SUMS, (m,)),
        "weight_nodes": (_SUMS, (m >> 4,)),
        "weight_total": (_SUMS, (1,)),
        "counters": ({"<i8"}, (2,)),
    }
    if sparse:
        wanted |= {"indptr": (_INDICES, (m + 1,)), "indices": (_INDICES, (entries,))}
    if manifest["normalize"] == "l1":
        wanted |= {"l1_nodes": (_SUMS, row_nodes)}
        wanted |= dict.fromkeys(("l1_sums", "scale", "weights"), (_SUMS, (m,)))
    if manifest["column_side"]:
        wanted |= {"column_nodes": (_SUMS, column_nodes), "column_sums": (_SUMS, (n,))}
        wanted |= {"total_nodes": (_SUMS, (n >> 4,)), "total": (_SUMS, (1,))}
        if sparse:
            wanted |= {"column_indptr": (_INDICES, (n + 1,))}
            wanted |= {"column_indices": (_INDICES, (entries,)), "column_data": (values, (entries,))}
    return wanted


def _check_names(arrays: Mapping[str, Any], count: int, place: str) -> None:
    if "names.ends" in arrays:
        ends, text = arrays["names.ends"], arrays["names.bytes"]
        if ends["shape"] != [count] or ends["dtype"] != "<i8" or text["dtype"] != "|u1" or len(text["shape"]) != 1:
            raise ValueError(f"the names in {place} do not fit {count} rows or columns")


def check_description(description: Any) -> dict[str, Any]:
    """Raise if the description of a file of arrays is not valid; returns its arrays."""
    _is(description, dict, "a description of a file")
    file, size = _plain(description["file"], "file"), _whole(description["bytes"], "bytes")
    arrays: dict[str, Any] = _is(description["arrays"], dict, "arrays")
    taken = []
    for name, entry in arrays.items():  # for every array of every shard, so without function calls
        shape, offset = entry["shape"], entry["offset"]
        plain = type(shape) is list and type(offset) is int and type(entry["crc32"]) is int and offset >= 0
        count = 1
        for length in shape if plain else ():
            plain = plain and type(length) is int and length >= 0
            count *= length
        if not plain or offset + count * _itemsize(entry["dtype"]) > size:
            raise ValueError(f"array {name!r} of {file}, {entry!r}, is not valid or beyond the end of the file")
        if offset % ALIGN:
            raise ValueError(f"array {name!r} of {file} begins at byte {offset}, which is no multiple of {ALIGN}")
        if count:
            taken.append((offset, offset + count * _itemsize(entry["dtype"])))
    taken.sort()
    if any(end > start for (_, end), (start, _) in itertools.pairwise(taken)):  # a write to one would change another
        raise ValueError(f"arrays of {file} overlap")
    return arrays


@functools.lru_cache(maxsize=64)
def _itemsize(text: Any) -> int:
    if not isinstance(text, str) or not _TYPE.fullmatch(text):
        raise ValueError(f"{text!r} is not a known type")
    return np.dtype(text).itemsize


def _plain(name: Any, what: str) -> str:
    """Check the name of a file inside the store."""
    if not isinstance(name, str) or os.path.basename(name) != name or name in _NOT_OURS or _no_file(name):
        raise ValueError(f"{what} {name!r} is not a plain file name")
    name.encode()  # raises on lone surrogates
    return name


def _whole(number: Any, what: str, least: int = 0) -> int:
    if type(number) is not int or not least <= number <= _LARGEST:
        raise ValueError(f"{what} {number!r} is not an integer of at least {least}")
    return number


def _one_of(value: Any, known: Any, what: str) -> None:
    if value not in known:
        raise ValueError(f"{what} {value!r} is not known")


def _is(value: Any, kind: Any, what: str) -> Any:
    if not isinstance(value, kind):
        raise ValueError(f"{what} {value!r} has the wrong type")
    return value


def _no_file(name: str) -> bool:
    """Whether no file can have that name."""
    return "\0" in name or len(name.encode("utf-8", "surrogatepass")) > _LONGEST
