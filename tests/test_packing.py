"""The CF attributes of packed arrays: one rule for files, scenes and arrays of xarray."""

from __future__ import annotations

import numpy as np
import pytest

import fastanchors as fa
from fastanchors._packing import packing
from fastanchors._validate import as_array
from fastanchors.errors import InvalidInputError

LARGEST = 2**63 - 1


def test_fill_values_of_large_integers_are_exact():
    """They were rounded to float64: the largest was then out of range, and others were those of their neighbours."""
    facts = packing({"_FillValue": np.int64(LARGEST)}, np.int64, "a")
    np.testing.assert_array_equal(np.isnan(facts.values(np.array([1, LARGEST, LARGEST - 1]))), [False, True, False])
    facts = packing({"missing_value": [2**62, 5]}, np.int64, "a")
    np.testing.assert_array_equal(np.isnan(facts.values(np.array([5, 2**62, 2**62 + 1]))), [True, True, False])
    facts = packing({"_Unsigned": "true", "_FillValue": np.int64(-1)}, np.int64, "a")
    assert (facts.dtype, facts.missing) == (np.uint64, (2**64 - 1,))
    facts = packing({"_Unsigned": "false", "_FillValue": np.uint64(2**64 - 1)}, np.uint64, "a")
    assert (facts.dtype, facts.missing) == (np.int64, (-1,))


def test_fill_values_that_the_type_cannot_have_do_not_change_others():
    """Entries with the second fill value became the first one without its fraction, which is a valid number."""
    facts = packing({"_FillValue": 0.5, "missing_value": [7, np.inf, 1e20]}, np.int16, "a")
    assert facts.missing == (7,)
    np.testing.assert_array_equal(facts.values(np.array([0, 7, 1], np.int16)), [0, np.nan, 1])
    facts = packing({"_FillValue": -1.7976931348623157e308, "missing_value": 0.1}, np.float32, "a")
    with np.errstate(over="raise"):
        np.testing.assert_array_equal(facts.values(np.float32([0.1, 0.2])), np.float32([np.nan, 0.2]))
    largest = np.finfo(np.float32).max
    assert np.isnan(packing({"_FillValue": 3.4028235e38}, np.float32, "a").values(np.array([largest]))).all()
    assert packing({"_FillValue": [[1], [2, 3]], "missing_value": "x"}, np.int16, "a").missing == ()
    with pytest.raises(InvalidInputError, match=r"scale_factor is .* not one finite number"):
        packing({"scale_factor": [[1], [2, 3]]}, np.int16, "a")


@pytest.mark.parametrize("kind", ["zarr", "zarr array", "netcdf", "xarray", "scene"])
@pytest.mark.parametrize(
    ("attributes", "stored", "message"),
    [
        ({"_FillValue": np.int64(LARGEST)}, LARGEST, "is missing"),
        ({"missing_value": np.array([3.0, 9.0])}, 9, "is missing"),
        ({"scale_factor": "ten"}, 1, "its scale_factor is 'ten', which is not one finite number"),
        ({"scale_factor": 0.0}, 1, "its scale_factor is 0"),
        ({"add_offset": np.array([1.0, 2.0])}, 1, "its add_offset is .* not one finite number"),
    ],
)
def test_attributes_mean_the_same_in_files_and_arrays(tmp_path, kind, attributes, stored, message):
    values = np.arange(10, 22).reshape(4, 3)
    values[2, 1] = stored
    if kind.startswith("zarr"):
        zarr = pytest.importorskip("zarr", reason="extra io")
        array = zarr.open(str(tmp_path / "a.zarr"), mode="w", shape=values.shape, dtype="i8")
        array[:] = values
        plain = {key: value.tolist() if hasattr(value, "tolist") else value for key, value in attributes.items()}
        array.attrs.update(plain)
        given = tmp_path / "a.zarr" if kind == "zarr" else array
    elif kind == "netcdf":
        h5py = pytest.importorskip("h5py", reason="extra io")
        given = tmp_path / "a.nc"
        with h5py.File(given, "w") as file:
            file["A"] = values
            file["A"].attrs.update(attributes)
    else:
        xarray = pytest.importorskip("xarray", reason="optional")
        given = xarray.DataArray(values, attrs=attributes)
    if kind == "scene" and message == "is missing":  # such pixels are left out
        assert fa.apps.unmix(given, 1).incomplete.tolist() == [2]
        return
    with pytest.raises(InvalidInputError, match=message):
        fa.apps.unmix(given, 1) if kind == "scene" else fa.build(given, tmp_path / "s")


@pytest.mark.parametrize("kind", ["zarr", "h5py"])
@pytest.mark.parametrize("shape", [(4, 3), (2, 2, 3)])
def test_a_packed_array_of_zarr_or_h5py_has_the_values_of_its_file(tmp_path, kind, shape):
    """Given as an object it was read as stored, so the same data had other values by its path."""
    library = pytest.importorskip(kind, reason="extra io")
    stored = np.array([[1, 2, 3], [7, 1, 0], [4, 0, 9], [5, 5, 8]], np.int16).reshape(shape)
    values, facts = stored * 0.5 + 2, {"scale_factor": 0.5, "add_offset": 2.0, "_FillValue": -1}
    if kind == "zarr":
        array = library.open(str(tmp_path / "a.zarr"), mode="w", shape=shape, dtype="i2")
    else:
        array = library.File(tmp_path / "a.h5", "w").create_dataset("a", shape, "i2")
    array[:] = stored
    array.attrs.update(facts)
    np.testing.assert_array_equal(as_array(array, "A"), values)
    if len(shape) == 3:
        np.testing.assert_array_equal(fa.apps.unmix(array, 2).endmembers, fa.apps.unmix(values, 2).endmembers)
        return
    np.testing.assert_array_equal(fa.encode(array, values[:2]), fa.encode(values, values[:2]))
    if kind == "zarr":
        np.testing.assert_array_equal(np.concatenate(list(fa.io.open_source(array).blocks(1 << 20))), values)
    array[2:3] = -1
    with pytest.raises(InvalidInputError, match=r"X\[2, 0\] is NaN"):
        fa.encode(array, values[:2])
