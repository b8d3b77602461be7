"""``manifest.json``: the list of the files of a store. Replacing it by ``rename`` makes every step atomic."""

from __future__ import annotations

import dataclasses
import json
import zlib
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from ..errors import CorruptStoreError, StoreError
from .files import disk_error, disk_errors, read_file, replace_file
from .layout import check_manifest

__all__ = ["FORMAT_VERSION", "MANIFEST", "Manifest", "Shard"]

FORMAT = "fastanchors store"
FORMAT_VERSION = 1
MANIFEST = "manifest.json"
_BLANK = "0" * 8


@dataclass
class Shard:
    """One block of rows: its file, and its sidecar files.

    Attributes
    ----------
    rows
        Number of rows.
    data
        Description of the file of arrays (those of the block, and ``names.*`` for row names).
    extras
        Descriptions of the sidecar files by name; a reader ignores unknown ones.
    """

    rows: int
    data: dict[str, Any]
    extras: dict[str, dict[str, Any]] = field(default_factory=dict)

    def files(self) -> list[dict[str, Any]]:
        """Descriptions of all files of the shard."""
        return [self.data, *self.extras.values()]


@dataclass
class Manifest:
    """The contents of ``manifest.json``.

    Attributes
    ----------
    generation
        Number of this manifest; the journal belongs to one generation.
    columns
        Number of columns.
    dtype
        Type of the entries.
    sparse, normalize, column_side
        The layout of every shard.
    shards
        Row blocks in order.
    journal
        Name of the journal file of this generation.
    next_shard
        Number of the next shard file; numbers are never reused.
    names
        Description of the file of column names, or None.
    extras
        Descriptions of sidecar files that are not per shard, by name.
    metadata
        Metadata of the user (JSON).
    """

    generation: int
    columns: int
    dtype: str
    sparse: bool
    normalize: str | None
    column_side: bool
    shards: list[Shard]
    journal: str
    next_shard: int
    names: dict[str, Any] | None = None
    extras: dict[str, dict[str, Any]] = field(default_factory=dict)
    metadata: dict[str, Any] = field(default_factory=dict)

    @property
    def rows(self) -> int:
        return sum(shard.rows for shard in self.shards)

    @property
    def shard_bytes(self) -> int:
        """Bytes of the shards, without sidecars."""
        return sum(shard.data["bytes"] for shard in self.shards)

    def files(self) -> set[str]:
        """Names of all files that the manifest refers to."""
        return {description["file"] for description in self.descriptions()} | {self.journal}

    def descriptions(self) -> list[dict[str, Any]]:
        """Descriptions of all files of arrays."""
        shards = [description for shard in self.shards for description in shard.files()]
        return shards + list(self.extras.values()) + ([self.names] if self.names else [])

    def encode(self) -> bytes:
        content = {"format": FORMAT, "version": FORMAT_VERSION, "rows": self.rows, **asdict(self), "crc32": _BLANK}
        text = json.dumps(content, indent=1, ensure_ascii=True, allow_nan=False) + "\n"
        return _stamp(text.encode()).encode()

    def write(self, folder: Path) -> None:
        path = folder / MANIFEST
        with disk_errors(path, "write"):
            replace_file(path, self.encode())

    @classmethod
    def read(cls, folder: Path) -> Manifest:
        """Read the manifest of a store; raises if ``folder`` is not a store."""
        path = folder / MANIFEST
        try:
            if not folder.is_dir():
                what = "is a file, not a store" if folder.exists() else "does not exist"
                raise StoreError(f"{folder} {what}; build a store with fa.build(source, path)")
            raw = read_file(path)
        except FileNotFoundError:
            raise StoreError(f"{folder} is not a store: it has no {MANIFEST}") from None
        except StoreError:
            raise
        except OSError as error:
            raise disk_error(path, "read", error) from error
        return cls._decode(raw, path)

    @classmethod
    def _decode(cls, raw: bytes, path: Path) -> Manifest:
        try:
            content = json.loads(raw, parse_constant=_no_number)
            known = content["format"] == FORMAT
            version = content["version"]
        except (ValueError, KeyError, TypeError, RecursionError):
            known = b'"' + FORMAT.encode() + b'"' in raw
            if known:
                raise CorruptStoreError(f"{path} is truncated or damaged; restore it from a copy") from None
            version = None
        if not known:
            raise StoreError(f"{path.parent} is not a store: its {path.name} belongs to something else")
        if not _stamped(raw):
            raise CorruptStoreError(f"{path}: its checksum does not match; restore it from a copy")
        if type(version) is int and version > FORMAT_VERSION:
            raise StoreError(
                f"{path.parent} has format version {version}, this release reads up to {FORMAT_VERSION}; "
                "upgrade fastanchors"
            )
        try:
            if type(version) is not int or version < 1:
                raise ValueError(f"there is no version {version!r}")
            check_manifest(content)
        except (ValueError, KeyError, TypeError) as error:
            what = f"{error} is missing" if isinstance(error, KeyError) else error
            raise CorruptStoreError(f"{path} is not a manifest of version {FORMAT_VERSION}: {what}") from None
        content["shards"] = [Shard(**shard) for shard in content["shards"]]
        return cls(**{key: content[key] for key in _KEYS if key in content})


def _no_number(text: str) -> Any:
    raise ValueError(f"{text} is not JSON")


_KEYS = [part.name for part in dataclasses.fields(Manifest)]  # other keys, of later releases, are ignored


def _stamp(raw: bytes) -> str:
    """The text with its blank checksum filled in: the CRC-32 of all bytes with the checksum as zeros."""
    blank = raw.rfind(_BLANK.encode())
    return (raw[:blank] + f"{zlib.crc32(raw):08x}".encode() + raw[blank + 8 :]).decode()


def _stamped(raw: bytes) -> bool:
    mark = b'"crc32": "'
    at = raw.rfind(mark) + len(mark)
    stamp = raw[at : at + 8]
    return stamp == f"{zlib.crc32(raw[:at] + _BLANK.encode() + raw[at + 8 :]):08x}".encode()
