"""Sample files of every supported format, and ways to damage them that keep their structure and checksums valid.

``SAMPLES`` maps the name of a sample to a function that writes a good file into a folder and returns its path;
:func:`damage` damages such a file in place; :func:`attempt` reads it with the library and classifies the outcome.
Used by ``test_fuzz_io.py`` and, for long runs, by ``benchmarks/siege_io.py``.
"""

from __future__ import annotations

import gzip
import io
import json
import math
import re
import struct
import time
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.io
import scipy.sparse as sp

from fastanchors._validate import check_finite
from fastanchors.errors import FastAnchorsError, GuessWarning
from fastanchors.io import open_source
from fastanchors.io.text import read_texts

WORDS = [
    b"0", b"-1", b"1", b"2", b"7", b"255", b"256", b"65536", b"2147483647", b"2147483648", b"4294967296",
    b"9007199254740993", b"9223372036854775807", b"18446744073709551616", b"99999999999999999999", b"1e400", b"-1e400",
    b"nan", b"inf", b"-inf", b"0x10", b"1_000", b"1e-400", b"", b"x", b"\xff\xfe", b"'", b'"', b'""', b"{", b"}", b"[",
    b"null", b"true", b"\x1b[31m", b"\0", b"\xed\xb2\x80", b"1:", b":1", b"%", b"=1+1",
]  # fmt: skip
SIZES = [0, 1, 2, 3, 5, 127, 128, 255, 256, 2**15, 2**16, 2**31 - 1, 2**31, 2**32 - 1, 2**40, 2**62, 2**63 - 1]


def _dense() -> np.ndarray:
    return np.round(np.random.default_rng(0).random((23, 5)) * 9, 2)


def _sparse() -> sp.csr_array:
    A = sp.random_array((23, 7), density=0.4, rng=np.random.default_rng(1), format="csr")
    A.data = np.ceil(A.data * 9)
    return A


# --- samples ---------------------------------------------------------------------------------------------------------


def _write(path: Path, data: bytes | str) -> Path:
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return path


def _market(folder: Path, layout: str = "coordinate", packed: bool = False) -> Path:
    file = io.BytesIO()
    scipy.io.mmwrite(file, _sparse() if layout == "coordinate" else _dense())
    data = file.getvalue()
    return _write(folder / ("a.mtx.gz" if packed else "a.mtx"), gzip.compress(data) if packed else data)


def _symmetric(folder: Path) -> Path:
    lines = "".join(f"{i} {j} {i + j}\n" for i in range(1, 6) for j in range(1, i + 1))
    return _write(folder / "a.mtx", f"%%MatrixMarket matrix coordinate integer symmetric\n5 5 15\n{lines}")


def _triangle(folder: Path) -> Path:
    return _write(folder / "a.mtx", "%%MatrixMarket matrix array real symmetric\n3 3\n1\n2\n3\n4\n5\n6\n")


def _table(folder: Path, quoted: bool = False, suffix: str = "csv") -> Path:
    mark = "\t" if suffix.startswith("tsv") else ","
    quote = '"' if quoted else ""
    rows = [f"{quote}row {i}{quote}{mark}" + mark.join(map(str, row)) for i, row in enumerate(_dense().tolist())]
    text = mark.join([f"{quote}name{quote}", *"abcde"]) + "\n" + "\n".join(rows) + "\n"
    data = gzip.compress(text.encode()) if suffix.endswith("gz") else text.encode()
    return _write(folder / f"a.{suffix}", data)


def _ldac(folder: Path) -> Path:
    A = _sparse()
    lines = []
    for i in range(A.shape[0]):
        part = slice(*A.indptr[i : i + 2])
        pairs = [f"{j}:{int(v)}" for j, v in zip(A.indices[part], A.data[part], strict=True)]
        lines.append(" ".join([str(len(pairs)), *pairs]))
    (folder / "a.vocab").write_text("\n".join("abcdefg") + "\n")
    return _write(folder / "a.ldac", "\n".join(lines) + "\n")


def _docword(folder: Path) -> Path:
    A = _sparse().tocoo()
    lines = "".join(f"{i + 1} {j + 1} {int(v)}\n" for i, j, v in zip(A.row, A.col, A.data, strict=True))
    return _write(folder / "docword.a.txt", f"23\n7\n{A.nnz}\n{lines}")


def _npy(folder: Path, order: str = "C") -> Path:
    np.save(folder / "a.npy", np.asarray(_dense(), order=order))
    return folder / "a.npy"


def _npz(folder: Path, kind: str) -> Path:
    path = folder / "a.npz"
    if kind == "dense":
        np.savez_compressed(path, X=_dense(), y=np.arange(3))
    else:
        sp.save_npz(path, _sparse().asformat(kind), compressed=kind != "csc")
    return path


def _mat5(folder: Path, what: str) -> Path:
    value = {"dense": _dense(), "sparse": sp.csc_array(_sparse()), "cube": np.ones((4, 3, 5))}[what]
    extra = {"name": "text", "s": {"x": _dense(), "n": 3}, "nRow": 4}
    scipy.io.savemat(folder / "a.mat", {"A": value, **extra}, do_compression=what != "sparse")
    return folder / "a.mat"


def _mat4(folder: Path) -> Path:
    scipy.io.savemat(folder / "a.mat", {"A": _sparse().tocsc()}, format="4")
    return folder / "a.mat"


def _mat73(folder: Path, what: str) -> Path:
    import h5py

    with h5py.File(folder / "a.mat", "w", userblock_size=512) as file:
        if what == "dense":
            file.create_dataset("A", data=_dense().T, chunks=(2, 5), compression="gzip")
        elif what == "cube":
            file.create_dataset("A", data=np.ones((5, 4, 3)))
        else:
            csc = sp.csc_array(_sparse())
            group = file.create_group("A")
            group.attrs["MATLAB_sparse"] = csc.shape[0]
            for key, part in (("jc", csc.indptr.astype("u8")), ("ir", csc.indices.astype("u8")), ("data", csc.data)):
                group.create_dataset(key, data=part)
    head = b"MATLAB 7.3 MAT-file, Platform: GLNXA64".ljust(124) + b"\x00\x02IM"
    raw = bytearray((folder / "a.mat").read_bytes())
    raw[: len(head)] = head
    return _write(folder / "a.mat", bytes(raw))


def _h5ad(folder: Path, what: str) -> Path:
    import h5py

    with h5py.File(folder / "a.h5ad", "w") as file:
        if what == "dense":
            file.create_dataset("X", data=_dense(), chunks=(4, 5), compression="gzip")
        else:
            A = _sparse().asformat(what)
            group = file.create_group("X")
            group.attrs.update({"encoding-type": f"{what}_matrix", "shape": A.shape})
            for key in ("indptr", "indices", "data"):
                group.create_dataset(key, data=getattr(A, key))
        for axis, count in (("obs", 23), ("var", 5 if what == "dense" else 7)):
            table = file.create_group(axis)
            table.attrs["_index"] = "_index"
            table.create_dataset("_index", data=[f"{axis} {i}" for i in range(count)])
    return folder / "a.h5ad"


def _parquet(folder: Path, what: str) -> Path:
    import pyarrow as pa
    import pyarrow.parquet as pq

    if what == "dense":
        table = {"name": [f"row {i}" for i in range(23)]} | {f"c{j}": column for j, column in enumerate(_dense().T)}
    else:
        A = _sparse().tocoo()
        table = {"row": A.row.astype("i8"), "column": A.col.astype("i8"), "value": A.data}
    pq.write_table(pa.table(table), folder / "a.parquet", row_group_size=9, write_page_checksum=what == "dense")
    return folder / "a.parquet"


def _zarr(folder: Path, version: int) -> Path:
    import zarr

    array = zarr.create_array(str(folder / "a.zarr"), data=_dense(), chunks=(6, 3), zarr_format=version)
    assert array.shape == (23, 5)
    return folder / "a.zarr"


def _envi(folder: Path, interleave: str) -> Path:
    (folder / "a.img").write_bytes(np.arange(60, dtype="<u2").tobytes())
    text = f"""ENVI
description = {{a cube,
 made up}}
samples = 4
lines = 3
bands = 5
header offset = 0
data type = 12
interleave = {interleave}
byte order = 0
data ignore value = 9
bbl = {{1, 1, 0, 1, 1}}
band names = {{a, b, c, d, e}}
wavelength = {{400, 500, 600, 700, 800}}
"""
    return _write(folder / "a.hdr", text)


def _netcdf(folder: Path) -> Path:
    import h5py

    with h5py.File(folder / "a.nc", "w") as file:
        file.create_dataset("reflectance", data=np.arange(60, dtype="f4").reshape(4, 3, 5), chunks=(2, 3, 5))
        file["reflectance"].attrs["_FillValue"] = np.float32(-9999)
        file["sensor_band_parameters/wavelengths"] = np.arange(400.0, 900, 100)
        file["sensor_band_parameters/good_wavelengths"] = np.ones(5)
    return folder / "a.nc"


def _geotiff(folder: Path) -> Path:
    import rasterio

    profile = {"driver": "GTiff", "height": 9, "width": 7, "count": 5, "dtype": "uint16", "compress": "deflate"}
    with rasterio.open(folder / "a.tif", "w", transform=rasterio.Affine(2, 0, 5, 0, -2, 5), **profile) as image:
        image.write(np.arange(315, dtype="u2").reshape(5, 9, 7))
    return folder / "a.tif"


def _texts(folder: Path, suffix: str) -> Path:
    texts = [f"the {word} of text {i}" for i, word in enumerate(["first", "second", "third"] * 5)]
    path = folder / f"texts{suffix}"
    if suffix == "":
        path.mkdir()
        for i, text in enumerate(texts):
            (path / f"{i}.txt").write_text(text)
        return path
    if suffix == ".parquet":
        import pyarrow as pa
        import pyarrow.parquet as pq

        pq.write_table(pa.table({"text": texts, "n": list(range(15))}), path)
        return path
    lines = {
        ".txt": texts,
        ".csv": ["text,n", *(f'"{text}",{i}' for i, text in enumerate(texts))],
        ".jsonl": [json.dumps({"text": text, "n": i}) for i, text in enumerate(texts)],
        ".json": [json.dumps([{"text": text, "n": i} for i, text in enumerate(texts)])],
    }
    data = "\n".join(lines[suffix.removesuffix(".gz")]).encode()
    return _write(path, gzip.compress(data) if suffix.endswith(".gz") else data)


SAMPLES: dict[str, Callable[[Path], Path]] = {
    "mtx": _market,
    "mtx array": lambda folder: _market(folder, "array"),
    "mtx.gz": lambda folder: _market(folder, packed=True),
    "mtx symmetric": _symmetric,
    "mtx triangle": _triangle,
    "csv": _table,
    "csv quoted": lambda folder: _table(folder, quoted=True),
    "csv.gz": lambda folder: _table(folder, suffix="csv.gz"),
    "tsv": lambda folder: _table(folder, suffix="tsv"),
    "ldac": _ldac,
    "docword": _docword,
    "npy": _npy,
    "npy by column": lambda folder: _npy(folder, "F"),
    "npz dense": lambda folder: _npz(folder, "dense"),
    "npz csr": lambda folder: _npz(folder, "csr"),
    "npz csc": lambda folder: _npz(folder, "csc"),
    "npz coo": lambda folder: _npz(folder, "coo"),
    "npz bsr": lambda folder: _npz(folder, "bsr"),
    "mat 4 sparse": lambda folder: _mat4(folder),
    "mat 5": lambda folder: _mat5(folder, "dense"),
    "mat 5 sparse": lambda folder: _mat5(folder, "sparse"),
    "mat 5 cube": lambda folder: _mat5(folder, "cube"),
    "mat 7.3": lambda folder: _mat73(folder, "dense"),
    "mat 7.3 sparse": lambda folder: _mat73(folder, "sparse"),
    "mat 7.3 cube": lambda folder: _mat73(folder, "cube"),
    "h5ad": lambda folder: _h5ad(folder, "dense"),
    "h5ad csr": lambda folder: _h5ad(folder, "csr"),
    "h5ad csc": lambda folder: _h5ad(folder, "csc"),
    "parquet": lambda folder: _parquet(folder, "dense"),
    "parquet triplets": lambda folder: _parquet(folder, "triplets"),
    "zarr 2": lambda folder: _zarr(folder, 2),
    "zarr 3": lambda folder: _zarr(folder, 3),
    "netcdf": _netcdf,
    "geotiff": _geotiff,
    "envi bsq": lambda folder: _envi(folder, "bsq"),
    "envi bip": lambda folder: _envi(folder, "bip"),
    "texts folder": lambda folder: _texts(folder, ""),
    "texts txt": lambda folder: _texts(folder, ".txt"),
    "texts csv": lambda folder: _texts(folder, ".csv"),
    "texts jsonl": lambda folder: _texts(folder, ".jsonl"),
    "texts json.gz": lambda folder: _texts(folder, ".json.gz"),
    "texts parquet": lambda folder: _texts(folder, ".parquet"),
}


# --- damage ----------------------------------------------------------------------------------------------------------


def damage(path: Path, rng: np.random.Generator) -> None:
    """Damage a good file in place, in one to three ways."""
    for _ in range(int(rng.integers(1, 4))):
        try:
            _damage_once(path, rng)
        except Exception:  # its structure is already lost
            return


def _damage_once(path: Path, rng: np.random.Generator) -> None:
    if path.is_dir():
        files = sorted(file for file in path.rglob("*") if file.is_file())
        file = files[rng.integers(len(files))]
        if rng.random() < 0.1:
            file.unlink()
        else:
            file.write_bytes((_text if "z" in file.name and rng.random() < 0.8 else _bytes)(file.read_bytes(), rng))
        return
    if path.suffix == ".hdr" and rng.random() < 0.15:
        path = path.with_suffix(".img")
    elif path.suffix == ".ldac" and rng.random() < 0.1:
        path = path.with_suffix(".vocab")
    data = path.read_bytes()
    structured = rng.random() < 0.7
    if data[:2] == b"\x1f\x8b" and structured:
        data = gzip.compress(_text(gzip.decompress(data), rng), mtime=0)
    elif path.suffix == ".npz" and structured:
        data = _archive(data, rng)
    elif path.suffix == ".npy" and structured:
        data = _array(data, rng)
    elif path.suffix in (".h5ad", ".mat", ".nc") and b"\x89HDF" in data[:520] and structured:
        _hdf5(path, rng)
        return
    elif path.suffix == ".mat" and structured:
        data = _elements(data, rng)
    elif path.suffix == ".parquet" and structured:
        data = _columns(path, rng)
    elif path.suffix in (".mtx", ".csv", ".tsv", ".ldac", ".txt", ".hdr", ".vocab", ".json", ".jsonl") and structured:
        data = _text(data, rng)
    else:
        data = _bytes(data, rng)
    path.write_bytes(data)


def _bytes(data: bytes, rng: np.random.Generator) -> bytes:
    """Flip bits, overwrite numbers, cut or repeat bytes; for any file."""
    raw = bytearray(data)
    if not raw:
        return bytes(rng.integers(0, 256, 9, dtype=np.uint8))
    at = int(rng.integers(len(raw)))
    kind = rng.integers(6)
    if kind == 0:
        raw[at] ^= 1 << int(rng.integers(8))
    elif kind == 1:
        size = SIZES[rng.integers(len(SIZES))]
        raw[at : at + 4] = struct.pack(rng.choice(["<I", ">I"]), size & 0xFFFFFFFF)
    elif kind == 2:
        raw[at : at + 8] = struct.pack(rng.choice(["<q", "<d"]), SIZES[rng.integers(len(SIZES))])
    elif kind == 3:
        del raw[at:]
    elif kind == 4:
        del raw[at : at + int(rng.integers(1, 40))]
    else:
        raw[at:at] = raw[at : at + int(rng.integers(1, 80))]
    return bytes(raw)


def _text(data: bytes, rng: np.random.Generator) -> bytes:
    """Replace words; drop, double or join lines; change line endings."""
    kind = rng.integers(8)
    words = list(re.finditer(rb"[^\s,;:={}]+", data))
    if kind < 4 and words:
        word = words[int(rng.integers(min(len(words), 12 if rng.random() < 0.5 else len(words))))]
        return data[: word.start()] + WORDS[rng.integers(len(WORDS))] + data[word.end() :]
    lines = data.split(b"\n")
    at = int(rng.integers(len(lines)))
    if kind == 4:
        del lines[at]
    elif kind == 5:
        lines[at:at] = [lines[at]] * int(rng.integers(1, 4))
    elif kind == 6:
        lines[at] = lines[at] + WORDS[rng.integers(len(WORDS))] * int(rng.integers(1, 2000))
    else:
        return data.replace(b"\n", [b"\r", b"\r\n", b"\n\n", b" "][rng.integers(4)])
    return b"\n".join(lines)


def _values(array: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """A replacement for the array, with hostile values, dtype, length or number of axes."""
    kind = rng.integers(5)
    if kind == 0 and array.size:
        array = array.copy()
        flat = array.reshape(-1)
        flat[rng.integers(flat.size)] = np.array(SIZES)[rng.integers(len(SIZES))].astype(array.dtype, casting="unsafe")
    elif kind == 1 and array.size:
        array = -array if array.dtype.kind in "if" else array
    elif kind == 2:
        array = array.astype(rng.choice(["f4", "i1", "u8", "S3", "c16", "f8", "?", ">i4", "M8[s]"]))
    elif kind == 3:
        array = array[: int(rng.integers(len(array) + 1))] if array.ndim else array
    else:
        array = array[None] if rng.random() < 0.5 else np.concatenate([np.ravel(array)] * 2)
    return array


def _array(data: bytes, rng: np.random.Generator) -> bytes:
    if rng.random() < 0.5:
        end = 10 + int.from_bytes(data[8:10], "little")
        header = _text(data[10:end], rng)
        return data[:8] + struct.pack("<H", len(header) & 0xFFFF) + header + data[end:]
    out = io.BytesIO()
    np.save(out, _values(np.load(io.BytesIO(data), allow_pickle=False), rng))
    return out.getvalue()


def _archive(data: bytes, rng: np.random.Generator) -> bytes:
    """A .npz with one member changed, removed or renamed; checksums stay valid."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as new:
        names = old.namelist()
        chosen = names[rng.integers(len(names))]
        for name in names:
            content = old.read(name)
            if name == chosen:
                kind = rng.random()
                if kind < 0.1:
                    continue
                if kind < 0.15:
                    name = "other.npy"
                content = _array(content, rng) if kind < 0.85 else _bytes(content, rng)
            new.writestr(name, content)
    return out.getvalue()


def _hdf5(path: Path, rng: np.random.Generator) -> None:
    import h5py

    with h5py.File(path, "r+") as file:
        items: list[Any] = [file]
        file.visititems(lambda _, item: items.append(item))
        item = items[rng.integers(len(items))]
        keys = list(item.attrs)
        if keys and rng.random() < 0.5:
            key = keys[rng.integers(len(keys))]
            value = item.attrs[key]
            spoilt = _values(np.asarray(value), rng) if not isinstance(value, str) else WORDS[rng.integers(len(WORDS))]
            item.attrs[key] = spoilt
        elif isinstance(item, h5py.Dataset) and math.prod(item.shape) < 1 << 17:
            name, values = item.name, np.asarray(item[()])
            del file[name]
            if rng.random() < 0.8:
                file.create_dataset(name, data=_values(values, rng) if values.dtype.kind != "O" else b"x")
            elif rng.random() < 0.5:
                shape = tuple(int(SIZES[rng.integers(len(SIZES) - 3)]) + 1 for _ in values.shape)
                file.create_dataset(name, shape=shape, dtype="f8", chunks=tuple(min(9, n) for n in shape))
            else:
                file.create_group(name)
        elif item.name != "/":
            del file[item.name]


def _elements(data: bytes, rng: np.random.Generator) -> bytes:
    """A version 5 .mat file with one compressed element changed."""
    at, parts = 128, [data[:128]]
    while at + 8 <= len(data):
        kind, size = struct.unpack("<II", data[at : at + 8])
        body = data[at + 8 : at + 8 + size]
        if rng.random() < 0.4:
            if kind == 15:
                body = zlib.compress(_bytes(zlib.decompress(body), rng))
            else:
                body = _bytes(body, rng)
        parts.append(struct.pack("<II", kind, len(body)) + body)
        at += 8 + size
    return b"".join(parts)


def _columns(path: Path, rng: np.random.Generator) -> bytes:
    """A Parquet file with a column of other values, of another type, or with missing values."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pq.read_table(path)
    at = int(rng.integers(table.num_columns))
    name = table.column_names[at]
    kind = rng.integers(6)
    rows = table.num_rows
    if kind == 0:
        column = pa.array([None, *range(rows - 1)])
    elif kind == 1:
        column = pa.array([[1, 2]] * rows)
    elif kind == 2:
        column = pa.array(np.array(SIZES, dtype="i8")[rng.integers(len(SIZES), size=rows)])
    elif kind == 3:
        column = pa.array([f"\x1b[{i}m" * int(rng.integers(1, 300)) for i in range(rows)]).dictionary_encode()
    elif kind == 4:
        name = table.column_names[(at + 1) % table.num_columns]
        column = table.column(at)
    else:
        column = pa.array(rng.choice([np.nan, np.inf, -1.0, 1e308], rows), pa.float64())
    table = table.set_column(at, name, column)
    out = io.BytesIO()
    pq.write_table(table.slice(0, int(rng.integers(rows + 1))) if rng.random() < 0.2 else table, out)
    return out.getvalue()


# --- reading ---------------------------------------------------------------------------------------------------------

SLOW = 20.0  # seconds after which reading a small file counts as slow


def _read_all(path: Path) -> None:
    if path.name.startswith("texts"):
        read_texts(path, column=None if path.is_dir() or path.suffix == ".txt" else "text")
        return
    source = open_source(path)
    row = 0
    for block in source.blocks(1 << 16):
        check_finite(block, name=source.matrix_name, first_row=row)
        row += block.shape[0]


def attempt(path: Path) -> str:
    """The outcome of reading: ``"read"``, ``"refused"`` (a short error of the library), or the fault."""
    import warnings

    start = time.monotonic()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", GuessWarning)
        try:
            _read_all(path)
            outcome = "read"
        except FastAnchorsError as error:
            text = str(error)
            plain = len(text) < 500 and text.isprintable() and bool(text)
            outcome = "refused" if plain else f"an error of {len(text)} characters"
        except Exception as error:
            outcome = f"{type(error).__name__}: {error}"
    return outcome if time.monotonic() - start < SLOW else "slow"
