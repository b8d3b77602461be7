"""MATLAB files of every version: what MATLAB and SciPy write is read, and nothing else that such a file contains."""

from __future__ import annotations

import io
import struct
from pathlib import Path

import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp

from fastanchors.errors import InvalidInputError, StoreError, TooLargeError
from fastanchors.io import open_source
from fastanchors.io.matlab import open_mat

h5py = pytest.importorskip("h5py", reason="extra io")

SPARSE = sp.random_array((53, 19), density=0.3, rng=np.random.default_rng(0), format="csr")
X = np.arange(1.0, 21.0).reshape(5, 4)


def whole(source, max_bytes=1 << 20):
    blocks = list(source.blocks(max_bytes))
    return sp.vstack(blocks).toarray() if source.is_sparse else np.concatenate(blocks)


def element(kind: int, content: bytes) -> bytes:
    """An element of a file of version 5 to 7: type, size and content, filled up to eight bytes."""
    return struct.pack("<II", kind, len(content)) + content + bytes(-len(content) % 8)


def matrix(number: int, name: str, shape: tuple[int, ...], *content: bytes, flags: int = 0) -> bytes:
    """A variable of class ``number``."""
    head = element(6, struct.pack("<II", number | flags, 0)) + element(5, struct.pack(f"<{len(shape)}i", *shape))
    return element(14, head + element(1, name.encode()) + b"".join(content))


def write_header(path: Path, text: bytes) -> None:
    """Write the header of MATLAB before the content of an HDF5 file."""
    with path.open("r+b") as file:
        file.write(text.ljust(124) + b"\x00\x02IM")


def saved(*variables: bytes) -> bytes:
    """A file of ``X`` and the ``variables``."""
    file = io.BytesIO()
    scipy.io.savemat(file, {"X": X})
    return file.getvalue() + b"".join(variables)


def test_mat(tmp_path):
    path = tmp_path / "a.mat"
    cube = np.random.default_rng(0).random((4, 5, 3))
    scipy.io.savemat(path, {"cube": cube, "S": SPARSE, "names": "text", "Y": cube.reshape(20, 3, order="F").T})
    with pytest.raises(InvalidInputError, match=r"no matrix or cube 'Z'; it has: .*cube 4×5×3"):
        open_source(path, variable="Z")
    np.testing.assert_array_equal(whole(open_source(path)), SPARSE.toarray())  # the largest
    pixels = cube.reshape(20, 3, order="F")
    np.testing.assert_array_equal(whole(open_source(path, variable="cube")), pixels)
    np.testing.assert_array_equal(whole(open_source(path, variable="Y", transpose=True)), pixels)
    scipy.io.savemat(path, {"A": cube, "B": cube})
    with pytest.raises(InvalidInputError, match="choose a variable"):
        open_source(path)


@pytest.mark.parametrize("max_bytes", [60, 150, 1 << 20])
def test_mat_73(tmp_path, max_bytes):
    path = tmp_path / "a.mat"
    cube = np.random.default_rng(0).random((4, 5, 3))
    with h5py.File(path, "w") as file:
        file["cube"], file["M"] = cube.T, cube[0].T
    pixels = cube.reshape(20, 3, order="F")
    np.testing.assert_array_equal(whole(open_source(path), max_bytes), pixels)
    np.testing.assert_array_equal(whole(open_source(path, transpose=True), max_bytes), pixels.T)
    np.testing.assert_array_equal(whole(open_source(path, variable="M"), max_bytes), cube[0])
    np.testing.assert_array_equal(whole(open_source(path, variable="M", transpose=True), max_bytes), cube[0].T)


@pytest.mark.parametrize("packed", [True, False])
def test_mat_files_are_read_as_scipy_reads_them(tmp_path, packed):
    rng = np.random.default_rng(0)
    path = tmp_path / "a.mat"
    sparse = sp.random_array((9, 4), density=0.5, rng=rng, format="csc")
    arrays = {
        "doubles": rng.random((7, 5)),
        "bytes": rng.integers(0, 255, (7, 5)).astype(np.uint8),
        "whole": rng.integers(0, 200, (7, 5)).astype(np.float64),  # MATLAB keeps these in fewer bytes
        "cube": rng.random((4, 3, 6)),
        "flags": rng.random((3, 2)) < 0.5,
        "longs": rng.integers(0, 2**40, (2, 3)),
        "one": np.array([[4.0]]),
    }
    others = {"name": "text", "cells": np.array([1, "a"], dtype=object), "z": np.array([[1j]])}
    nested = {"x": arrays["doubles"], "inner": {"y": arrays["bytes"], "name": "deep", "empty": np.empty((0, 0))}}
    scipy.io.savemat(path, {**arrays, "sparse": sparse, **others, "s": nested}, do_compression=packed)
    for key, expected in (arrays | {"s.x": arrays["doubles"], "s.inner.y": arrays["bytes"]}).items():
        flat = expected.reshape(-1, expected.shape[-1], order="F")
        for max_bytes in (64, 1 << 20):
            source = open_source(path, variable=key)
            assert np.array_equal(whole(source, max_bytes), flat)
            assert source.dtype == (np.uint8 if expected.dtype == bool else expected.dtype)
            assert np.array_equal(whole(open_source(path, variable=key, transpose=True), max_bytes), flat.T)
    assert np.array_equal(whole(open_source(path, variable="sparse"), 256), sparse.toarray())
    assert np.array_equal(whole(open_source(path, variable="sparse", transpose=True), 256), sparse.T.toarray())
    with open_mat(path) as file:
        assert (file.texts["name"], file.texts["s.inner.name"]) == ("text", "deep")
        assert set(file.arrays) == {*arrays, "sparse", "s.x", "s.inner.y", "s.inner.empty"}
        assert np.array_equal(file.arrays["cube"].whole(), arrays["cube"])
        assert np.array_equal(file.arrays["sparse"].whole(), sparse.toarray())


def test_mat_files_of_version_4(tmp_path):
    path = tmp_path / "a.mat"
    A, B = np.arange(12.0).reshape(4, 3), np.arange(6, dtype=np.int16).reshape(2, 3)
    scipy.io.savemat(path, {"A": A, "B": B, "t": "text"}, format="4")
    assert np.array_equal(whole(open_source(path)), A)
    assert np.array_equal(whole(open_source(path, variable="B")), B)


def test_sparse_matrices_of_version_4(tmp_path):
    """A line (row, column, value) for each entry, counted from 1, and the shape at the end."""
    path = tmp_path / "a.mat"
    A = sp.random_array((30, 7), density=0.3, rng=np.random.default_rng(0), format="csc")
    scipy.io.savemat(path, {"A": A, "B": np.ones((2, 2))}, format="4")
    assert np.array_equal(whole(open_source(path)), A.toarray())
    assert np.array_equal(whole(open_source(path, transpose=True)), A.toarray().T)
    assert open_source(path).is_sparse
    raw = path.read_bytes()
    for bad, message in ((1.5, "not a whole number"), (0.0, "row index -1"), (31.0, "row index 30"), (np.nan, "whole")):
        first = np.frombuffer(raw, "<f8", 1, raw.index(b"A\0") + 2)[0]
        path.write_bytes(raw.replace(np.float64(first).tobytes(), np.float64(bad).tobytes(), 1))
        with pytest.raises(StoreError, match=message):
            whole(open_source(path))
    path.write_bytes(raw[:22] + raw[22:].replace(np.float64(7).tobytes(), np.float64(1e12).tobytes()))
    with pytest.raises(TooLargeError, match="claims 1,000,000,000,000 columns"):
        whole(open_source(path))


def test_structures_in_mat_files_of_version_7_3(tmp_path):
    A = np.arange(12.0).reshape(4, 3)
    with h5py.File(tmp_path / "a.mat", "w") as file:
        group = file.create_group("scene")
        group.create_dataset("data", data=A.T)
        text = group.create_dataset("unit", data=np.array([[ord(c)] for c in "nm"], dtype="u2"))
        text.attrs["MATLAB_class"] = np.bytes_("char")
        file.create_dataset("n", data=np.array([[3.0]]))
    assert np.array_equal(whole(open_source(tmp_path / "a.mat")), A)
    with open_mat(tmp_path / "a.mat") as found:
        assert found.texts == {"scene.unit": "nm"}
        assert set(found.arrays) == {"scene.data", "n"}


def test_the_storage_of_functions_is_no_variable(tmp_path):
    """MATLAB writes the variables of anonymous functions as one array without a name, which was read as the data."""
    workspace = matrix(9, "", (1, 1408), element(2, bytes(range(1, 129)) * 11))
    (tmp_path / "a.mat").write_bytes(saved(workspace))
    np.testing.assert_array_equal(whole(open_source(tmp_path / "a.mat")), X)
    (tmp_path / "b.mat").write_bytes(saved()[:128] + workspace)
    with pytest.raises(InvalidInputError, match="no matrix or cube of real numbers"):
        open_source(tmp_path / "b.mat")


def test_objects_beside_a_matrix(tmp_path):
    """A file that also had a string in double quotes, a table or a date was refused as a whole."""
    references = element(6, struct.pack("<6I", 0xDD000000, 2, 1, 1, 1, 1))
    content = matrix(13, "", (6, 1), references)
    names = element(1, b"T") + element(1, b"MCOS") + element(1, b"string")
    (tmp_path / "a.mat").write_bytes(saved(element(14, element(6, struct.pack("<II", 17, 0)) + names + content)))
    np.testing.assert_array_equal(whole(open_source(tmp_path / "a.mat")), X)
    with pytest.raises(InvalidInputError, match=r"no matrix or cube 'T'; it has: X 5×4"):
        open_source(tmp_path / "a.mat", variable="T")


@pytest.mark.parametrize("claimed", [9, 2])
def test_sparse_logical_matrices(tmp_path, claimed):
    """MATLAB writes one byte for each entry, but calls them doubles."""
    A = sp.csc_array((SPARSE != 0).astype(np.uint8))
    rows, pointers = element(5, A.indices.astype("<i4").tobytes()), element(5, A.indptr.astype("<i4").tobytes())
    flags = matrix(5, "L", A.shape, rows, pointers, element(claimed, A.data.tobytes()), flags=0x0200)
    (tmp_path / "a.mat").write_bytes(saved(flags))
    np.testing.assert_array_equal(whole(open_source(tmp_path / "a.mat", variable="L")), A.toarray())
    doubles = matrix(5, "L", A.shape, rows, pointers, element(9, A.data.tobytes()))
    (tmp_path / "a.mat").write_bytes(saved(doubles))
    with pytest.raises(StoreError, match=f"'L' claims {A.nnz} entries"):
        open_source(tmp_path / "a.mat")


def test_texts_of_version_4_are_stored_as_doubles(tmp_path):
    def variable(name, values, text):
        head = struct.pack("<5i", text, *values.shape, 0, len(name) + 1)
        return head + name.encode() + b"\0" + values.astype("<f8").tobytes(order="F")

    title = np.array([[ord(letter) for letter in "Ä 1994"] + [np.nan, -1.0, 1e300]])
    (tmp_path / "a.mat").write_bytes(variable("X", X, 0) + variable("title", title, 1))
    np.testing.assert_array_equal(whole(open_source(tmp_path / "a.mat")), X)
    with open_mat(tmp_path / "a.mat") as found:
        assert found.texts == {"title": "Ä 1994"}


def test_objects_and_empty_arrays_of_version_7_3_are_no_data(tmp_path):
    """The numbers by which a table refers to its content were read as a matrix."""
    with h5py.File(tmp_path / "a.mat", "w", userblock_size=512) as file:
        for name, kind, values in (
            ("T", "table", np.array([[0xDD000000, 2, 1, 1, 1, 1]], "u4")),
            ("E", "double", np.array([[0, 0, 3]], "u8")),
            ("X", "double", X[:1, :1].T),
            ("L", "logical", np.array([[1]], "u1")),
        ):
            file[name] = values
            file[name].attrs["MATLAB_class"] = np.bytes_(kind)
        file["E"].attrs["MATLAB_empty"] = np.uint8(1)
        file["T"].attrs["MATLAB_object_decode"] = np.int32(3)
    write_header(tmp_path / "a.mat", b"MATLAB 7.3 MAT-file, Platform: GLNXA64 HDF5 schema 1.00 .")
    with open_mat(tmp_path / "a.mat") as found:
        assert set(found.arrays) == {"X", "L"}


def test_hdf5_files_of_earlier_matlab(tmp_path):
    """The header of MATLAB 7.0 to 7.2 calls itself 7.0; the number of the version tells."""
    with h5py.File(tmp_path / "a.mat", "w", userblock_size=512) as file:
        file["X"] = X.T
    write_header(tmp_path / "a.mat", b"MATLAB 7.0 MAT-file, Platform: GLNX86 HDF5 schema 0.05 .")
    np.testing.assert_array_equal(whole(open_source(tmp_path / "a.mat")), X)


@pytest.mark.parametrize("suffix", ["mat", "h5"])
def test_names_that_are_not_utf_8(tmp_path, suffix):
    """One such name, as some programs in C and Fortran write it, and the file was refused."""
    with h5py.File(tmp_path / f"a.{suffix}", "w") as file:
        file.create_dataset("Größe".encode("latin-1"), data=np.arange(6.0).reshape(2, 3))
        file["X"] = X
    name = "Größe"
    expected = np.arange(6.0).reshape(2, 3)
    found = whole(open_source(tmp_path / f"a.{suffix}", variable=name))
    np.testing.assert_array_equal(found, expected.T if suffix == "mat" else expected)


@pytest.mark.parametrize("suffix", ["mat", "h5", "nc"])
def test_types_that_are_no_numbers(tmp_path, suffix):
    """Files with a named type, or a type that NumPy lacks, were refused; categories and bit fields were the data."""
    flags, short = h5py.enum_dtype({"good": 0, "bad": 1}, basetype="u1"), h5py.h5t.STD_I32LE.copy()
    short.set_size(3)
    with h5py.File(tmp_path / f"a.{suffix}", "w") as file:
        file["flags"] = flags
        file["nothing"] = h5py.Empty("f8")
        file.create_dataset("classes", data=np.ones((5, 6, 7), np.uint8), dtype=flags)
        for name, kind in (("short", short), ("bits", h5py.h5t.STD_B8LE)):
            h5py.h5d.create(file.id, name.encode(), kind, h5py.h5s.create_simple((5, 6, 7)))
        file["X"] = X
    found = whole(open_source(tmp_path / f"a.{suffix}"))
    np.testing.assert_array_equal(found, X.T if suffix == "mat" else X)
