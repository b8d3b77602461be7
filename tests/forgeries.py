"""Make forged stores: invalid contents under valid checksums, as from a faulty or malicious program.

A sample is a small store with all features of the format: names, several shards, sidecars, a journal with entries,
rows and a shard. :func:`forge` makes one or two random semantic changes: hostile numbers in an array, another value in
a field of the manifest or of a record, another offset, shape or dtype of an array. :func:`use` then performs typical
user operations; any exception must be one of the library's own.
"""

from __future__ import annotations

import contextlib
import copy
import json
import struct
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

import fastanchors as fa
import fastanchors.store.store as store_module
from fastanchors.errors import FastAnchorsError
from fastanchors.fas import seek as fas_seek
from fastanchors.fas import sidecar as fas_sidecar
from fastanchors.fas.noise_aware import CoordinatesSidecar
from fastanchors.fas.sidecar import FasSidecar
from fastanchors.store.journal import FRAME, HEAD, SLOT, SLOTS, START
from fastanchors.store.manifest import MANIFEST, _stamp
from fastanchors.store.operations import _OPERATION

ROWS, COLUMNS = 90, 40
KINDS = ["sparse", "sparse raw", "sparse rows only", "dense", "dense raw", "sparse sketches"]
INDEXED = {"sparse", "sparse raw", "dense", "sparse sketches"}  # get an index of the whole store although small
HOSTILE = [0, 1, -1, 2, 31, 32, 33, 40, 41, 90, 91, 2**31 - 1, 2**31, -(2**31), 2**40, 2**62, 2**63 - 1, -(2**63)]
HOSTILE_FLOATS = [0.0, -0.0, 1.0, -1.0, np.nan, np.inf, -np.inf, 1e308, -1e308, 5e-324, 1e-160, 0.5, 2.0]
OTHER_VALUES = [*HOSTILE, 0.5, None, True, False, "", "x", "../x", "<f8", "<i8", "|u1", "|O", [], [0], [10**9], {}]


class KeptSketches(FasSidecar):
    """The index with sketches stored beside every shard, although small stores need none."""

    def begin(self, block: Any) -> Any:
        self.rows_at_hand, self.shares = False, {True: 1e9, False: 1e9}
        return super().begin(block)

    def keep_shards(self, store: Any) -> bool:
        return True


@contextlib.contextmanager
def _small(smallest: int) -> Iterator[None]:
    """Inside, matrices of at least ``smallest`` entries get an index, and seeks use it."""
    modules: list[Any] = [fas_seek, fas_sidecar]
    before = [module.SMALL for module in modules]
    try:
        for module in modules:
            module.SMALL = smallest
        yield
    finally:
        for module, value in zip(modules, before, strict=True):
            module.SMALL = value


def make(path: Path, kind: str) -> None:
    """Write a sample of the given kind."""
    with _small(0 if kind in INDEXED else fas_seek.SMALL):
        _make(path, kind)


def _make(path: Path, kind: str) -> None:
    rng = np.random.default_rng(5)
    A = rng.integers(1, 9, (ROWS, COLUMNS)) * (rng.random((ROWS, COLUMNS)) < 0.4)
    A[3], A[4], A[50] = 5, 0, 7  # full rows, which have trees, and an empty row
    A = A.astype(float)
    if "raw" in kind:
        A *= rng.choice([-1, 1], A.shape)
    blocks = [sp.csr_array(part) if "sparse" in kind else part for part in (A[:45], A[45:])]
    options: dict[str, Any] = {"normalize": None if "raw" in kind else "l1", "columns": "rows only" not in kind}
    if kind == "sparse sketches":
        options["sidecars"] = [KeptSketches(), CoordinatesSidecar(5)]
    names = {"row_names": [f"row {i}" for i in range(ROWS)], "column_names": [f"word {j}" for j in range(COLUMNS)]}
    limit = 1 << 30 if kind == "sparse sketches" else 1 << 22  # a small limit leaves no room for coordinates
    fa.build(iter(blocks), path, memory_limit=limit, **options, **names).close()
    inline, store_module._INLINE_ROWS = store_module._INLINE_ROWS, 2000
    try:
        with fa.open(path, mode="r+") as S:
            S.append(blocks[0], row_names=[f"more {i}" for i in range(45)])
            S[2, 3] = 4.0
            S.commit()
            S.update([1, 3, 5], [0, 7, 2], [0.0, 2.0, 30.0])
            S.append(abs(blocks[1][:2]))
    finally:
        store_module._INLINE_ROWS = inline


class Sample:
    """The bytes of a store, to be restored after each forgery."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.files = {file.name: file.read_bytes() for file in path.iterdir() if file.name != "lock"}
        self.manifest = json.loads(self.files[MANIFEST])
        self.journal = self.manifest["journal"]
        self.records = records(self.files[self.journal])

    def restore(self) -> None:
        for file in self.path.iterdir():
            if file.name not in self.files and file.name != "lock":
                file.unlink()
        for name, content in self.files.items():
            file = self.path / name
            if not file.is_file() or file.stat().st_size != len(content) or file.read_bytes() != content:
                file.unlink(missing_ok=True)
                file.write_bytes(content)


def records(journal: bytes) -> list[list[tuple[int, Any, bytes]]]:
    """The operations of every record: kind, head, arrays."""
    found, at = [], START
    while at < len(journal):
        _, length, _, _ = FRAME.unpack_from(journal, at)
        at += FRAME.size
        end, operations = at + length, []
        while at < end:
            kind, head, size = _OPERATION.unpack_from(journal, at)
            at += _OPERATION.size
            operations.append((kind, json.loads(journal[at : at + head]), journal[at + head : at + head + size]))
            at += head + size
        found.append(operations)
    return found


def journal_of(generation: int, content: list[list[tuple[int, Any, bytes]]]) -> bytes:
    """A journal of those records, with valid checksums."""
    body = b""
    for number, operations in enumerate(content, 1):
        payload = b""
        for kind, head, arrays in operations:
            text = json.dumps(head).encode()
            payload += _OPERATION.pack(kind, len(text), len(arrays)) + text + arrays
        frame = struct.pack("<QQI", number, len(payload), zlib.crc32(payload))
        body += frame + struct.pack("<I", zlib.crc32(frame)) + payload
    start = bytearray(START)
    start[: HEAD.size - 4] = struct.pack("<8sIQ", b"FASTANCH", 1, generation)
    start[HEAD.size - 4 : HEAD.size] = struct.pack("<I", zlib.crc32(start[: HEAD.size - 4]))
    for at in SLOTS:
        slot = struct.pack("<QQ", len(content), START + len(body))
        start[at : at + SLOT.size] = slot + struct.pack("<I", zlib.crc32(slot))
    return bytes(start) + body


def forge(sample: Sample, rng: np.random.Generator) -> str:
    """Change the store on disk; returns a description of the changes."""
    manifest, content = copy.deepcopy(sample.manifest), copy.deepcopy(sample.records)
    changed: dict[str, bytearray] = {}
    done = []
    for _ in range(int(rng.choice([1, 1, 1, 2]))):
        ways: list[Callable[..., str]] = [_array, _array, _array, _array, _field, _description, _record, _record_body]
        done.append(ways[int(rng.integers(len(ways)))](sample, manifest, content, changed, rng))
    for name, raw in changed.items():
        (sample.path / name).write_bytes(raw)
    try:
        for description in _descriptions(manifest, content):
            raw = changed.get(description["file"], sample.files.get(description["file"], b""))
            entries = sorted(description["arrays"].values(), key=lambda entry: entry["offset"])
            for entry, end in zip(entries, [e["offset"] for e in entries[1:]] + [len(raw)], strict=True):
                entry["crc32"] = zlib.crc32(bytes(raw[entry["offset"] : end]))
    except (TypeError, KeyError, ValueError, AttributeError):
        pass  # a description is no longer valid
    if content != sample.records:
        generation = manifest.get("generation") if type(manifest.get("generation")) is int else 1
        (sample.path / sample.journal).write_bytes(journal_of(abs(generation) % 2**63, content))
    manifest["crc32"] = "0" * 8
    text = json.dumps(manifest, indent=1) + "\n"
    (sample.path / MANIFEST).write_text(_stamp(text.encode()))
    return "; ".join(done)


def _descriptions(manifest: Any, content: Any) -> Iterator[Any]:
    """Every description of a file of arrays, in the manifest and in the journal."""
    shards = [*manifest["shards"], *(head for record in content for kind, head, _ in record if kind == 3)]
    for shard in shards:
        yield shard["data"]
        yield from shard.get("extras", {}).values()
    yield from manifest["extras"].values()
    if manifest.get("names"):
        yield manifest["names"]


def _pick(rng: np.random.Generator, things: Any) -> Any:
    things = list(things)
    return things[int(rng.integers(len(things)))]


def _array(sample: Sample, manifest: Any, content: Any, changed: dict[str, bytearray], rng: Any) -> str:
    """Change numbers of an array."""
    try:
        description = _pick(rng, _descriptions(manifest, content))
        name = _pick(rng, [name for name, entry in description["arrays"].items() if 0 not in entry["shape"]])
        entry = description["arrays"][name]
        raw = changed.setdefault(description["file"], bytearray(sample.files[description["file"]]))
        array = np.frombuffer(raw, entry["dtype"], int(np.prod(entry["shape"])), entry["offset"])
    except (TypeError, KeyError, ValueError, AttributeError, IndexError):
        return "nothing"
    return f"{description['file']}/{name} {_spoil(array, rng)}"


def _spoil(array: np.ndarray, rng: np.random.Generator) -> str:
    """Change numbers of an array in place."""
    way = _pick(rng, ["one", "one", "few", "all", "swap", "reverse", "shift", "step"])
    at = rng.integers(array.size, size={"one": 1, "few": 5}.get(way, 2))
    with np.errstate(all="ignore"):
        if way in ("one", "few", "all"):
            values = HOSTILE_FLOATS if array.dtype.kind == "f" else HOSTILE
            value = np.array([_pick(rng, values)]).astype(array.dtype)[0]
            array[at if way != "all" else slice(None)] = value
            return f"{way} = {value!r} at {at[:5].tolist()}"
        if way == "swap":
            array[at] = array[at[::-1]]
        elif way == "reverse":
            array[:] = array[::-1].copy()
        elif way == "shift":
            array[:] = np.roll(array, 1)
        else:
            array[at[0] :] += np.array(_pick(rng, [1, -1, 2, 5])).astype(array.dtype)
    return f"{way} at {at.tolist()}"


def _leaves(thing: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    items: Any = thing.items() if isinstance(thing, dict) else enumerate(thing) if isinstance(thing, list) else ()
    for key, value in items:
        yield (*path, key)
        yield from _leaves(value, (*path, key))


def _alter(thing: Any, rng: np.random.Generator) -> str:
    """Replace or remove one field."""
    leaves = list(_leaves(thing))
    if not leaves:
        return "nothing"
    *path, last = _pick(rng, leaves)
    for key in path:
        thing = thing[key]
    value = thing[last]
    if rng.random() < 0.1:
        del thing[last]
        return f"{(*path, last)} removed"
    if type(value) is int and rng.random() < 0.5:
        thing[last] = value + int(rng.choice([-64, -8, -1, 1, 8, 64]))
    else:
        thing[last] = copy.deepcopy(_pick(rng, OTHER_VALUES))
    return f"{(*path, last)} = {thing[last]!r}"


def _field(sample: Sample, manifest: Any, content: Any, changed: Any, rng: Any) -> str:
    return _alter(manifest, rng)


def _description(sample: Sample, manifest: Any, content: Any, changed: Any, rng: Any) -> str:
    """Change the shape, offset or dtype of an array."""
    try:
        entry = _pick(rng, _pick(rng, _descriptions(manifest, content))["arrays"].values())
        way = _pick(rng, ["shape", "offset", "dtype"])
        if way == "shape":
            entry["shape"] = _pick(rng, _other_shapes(entry["shape"], rng))
        elif way == "offset":
            entry["offset"] = int(rng.integers(0, entry["offset"] + 65))
        else:
            entry["dtype"] = _pick(rng, ["<f8", "<f4", "<i8", "<i4", "|u1", "<u8", "<i2"])
    except (TypeError, KeyError, ValueError, AttributeError, IndexError):
        return "nothing"
    return f"an array's {way} = {entry[way]!r}"


def _other_shapes(shape: list[int], rng: np.random.Generator) -> list[list[int]]:
    first, rest = shape[0], shape[1:]
    shapes = [[max(0, first + int(rng.choice([-1, 1, -8, 8, -(10**6)]))), *rest] for _ in range(2)]
    if rest:
        shapes += [[*rest, first], [first * rest[0]], [first, rest[0] - 1], [rest[0]], [1, first, *rest]]
    return shapes


def _record(sample: Sample, manifest: Any, content: Any, changed: Any, rng: Any) -> str:
    """Change the head of an operation, or repeat or reorder records."""
    record = _pick(rng, content)
    if not record or rng.random() < 0.1:
        content.append(copy.deepcopy(record))
        return "a record twice"
    if rng.random() < 0.1:
        content.reverse()
        return "records in another order"
    return "record: " + _alter(_pick(rng, record)[1], rng)


def _record_body(sample: Sample, manifest: Any, content: Any, changed: Any, rng: Any) -> str:
    """Change the arrays of an operation."""
    record = _pick(rng, content)
    if not record:
        return "nothing"
    at = int(rng.integers(len(record)))
    kind, head, body = record[at]
    if len(body) < 8:
        return "nothing"
    raw = bytearray(body)
    size = len(raw) // 8
    array = np.frombuffer(raw, _pick(rng, ["<i8", "<f8"]), size)
    start = int(rng.integers(size))
    said = _spoil(array[start : start + 8], rng)
    record[at] = (kind, head, bytes(raw[: len(raw) - (8 if rng.random() < 0.05 else 0)]))
    return f"record: arrays from {start} on: {said}"


def use(path: Path, seed: int) -> dict[str, str]:
    """Use a store as users do, some steps only at random. Returns the error of each step; foreign errors propagate."""
    with using_index(path):
        return _use(path, seed)


def using_index(path: Path) -> contextlib.AbstractContextManager[None]:
    """Inside, seeks use the index of the store, if it has one."""
    return _small(0 if any(path.glob("whole-*.fas.bin")) else fas_seek.SMALL)


def _use(path: Path, seed: int) -> dict[str, str]:
    said: dict[str, str] = {}

    def step(name: str, do: Callable[[], Any]) -> Any:
        try:
            return do()
        except FastAnchorsError as error:
            text = str(error)
            assert "\n" not in text, f"an error of several lines: {text[:200]!r}"
            assert len(text) < 700, f"an error of {len(text)} characters: {text[:200]!r}"
            said[name] = text
            return None

    step("verify", lambda: fa.verify(path))
    reader = step("open", lambda: fa.open(path))
    if reader is not None:
        for name, do in _reading(reader, seed):
            step(name, do)
    writer = step("open r+", lambda: fa.open(path, mode="r+"))
    if writer is not None:
        for name, do in _writing(writer, seed):
            step(name, do)
        step("close", lambda: writer.close(commit=False))
        if "commit" not in said and seed % 4 == 1:
            step("again", lambda: fa.open(path).rows([0]))
    return said


def _reading(S: fa.Store, seed: int) -> Iterator[tuple[str, Callable[[], Any]]]:
    m, n = S.shape
    i, j = np.arange(min(m, 200)), np.arange(min(n, 200))
    yield "rows", lambda: S.rows(i)
    yield "seek", lambda: fa.FAS(selection="spa").seek(S, 4)
    if seed % 4:
        return
    yield "raw", lambda: S.raw(i[:, None], j)
    yield "norms", lambda: (S.row_norm(i), S.frobenius_norm, S.nnz)
    yield "draw rows", lambda: S.sample_in_row(S.sample_rows(20, rng=seed), rng=seed)
    yield "draw in rows", lambda: [S.sample_in_row(r, 3, rng=seed) for r in (0, 3, 50)]
    yield "draw in an empty row", lambda: S.sample_in_row(4, rng=seed)
    yield "draw columns", lambda: S.sample_in_column(S.sample_columns(20, rng=seed), rng=seed)
    yield "column norms", lambda: S.column_norm(j)
    yield "names", lambda: (S.row_names and list(S.row_names[:200]), S.column_names and list(S.column_names[:200]))
    if seed % 12 == 0:
        yield "seek by noise", lambda: fa.FAS().seek(S, 3, rng=0)


def _writing(S: fa.Store, seed: int) -> Iterator[tuple[str, Callable[[], Any]]]:
    m, n = S.shape
    rng = np.random.default_rng(seed)
    i, j = rng.integers(0, min(m, 200), 12), rng.integers(0, min(n, 200), 12)
    if seed % 4 == 1:
        yield "set", lambda: S.__setitem__((int(i[0]), int(j[0])), 3)
    yield "update", lambda: S.update(i, j, rng.integers(0, 4, 12))
    if seed % 4 == 2:
        yield from _more_writing(S, i, j, seed)
    yield "commit", S.commit
    if seed % 6 == 0:
        yield "compact", S.compact
        yield "seek after", lambda: fa.FAS(selection="spa").seek(S, 3)


def _more_writing(S: fa.Store, i: Any, j: Any, seed: int) -> Iterator[tuple[str, Callable[[], Any]]]:
    n = S.shape[1]
    yield "add", lambda: S.add(i, j[::-1], np.ones(12))
    yield "full row", lambda: S.update(np.full(min(n, 200), 3), np.arange(min(n, 200)), np.full(min(n, 200), 6))
    yield "append", lambda: S.append(np.ones((2, n)) if n < 1000 else S.rows([0]))
    yield "draw", lambda: (S.sample_rows(5, rng=seed), S.sample_columns(5, rng=seed))
