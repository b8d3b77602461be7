"""Read scenes and masks from files: ``.mat``, ENVI, GeoTIFF, netCDF, HDF5 and NumPy files."""

from __future__ import annotations

import math
import os
import weakref
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from .._tables import is_named_array
from .._validate import as_array, check_choice
from ..errors import InvalidInputError, InvalidTypeError
from ..io.addresses import exists, local_path
from ..io.arrays import dense_source
from ..io.decoding import missing
from ..io.matlab import MatFile, choose_variable, is_wavelengths, open_mat, wavelengths_in
from ..io.numpy_files import NpzFile, map_npy
from ..io.open import open_source
from ..io.row_source import Source, reading
from ..io.scene import BAND_AXES, CHECKED_ENTRIES, SceneInfo, check_pixels, cube_source, doubt
from ..io.scene_objects import is_turned_mask
from ..matrix.contract import dense
from ._cube import Cube, as_cube, check_order, check_shape, matrix_cube

__all__ = ["read_cube", "read_mask"]

# Names of scalars that give the size of the image in scene files.
_HEIGHTS = ("height", "nrow", "nrows", "rows", "lines", "h", "m")
_WIDTHS = ("width", "ncol", "ncols", "cols", "columns", "samples", "w", "n")

_Bands = Literal["first", "middle", "last"]
_Order = Literal["C", "F"]


@dataclass(frozen=True)
class _Asked:
    """What the caller says about the scene in a file; the attributes are options of :func:`read_cube`."""

    variable: str | None
    shape: tuple[int, int] | None
    bands: _Bands | None
    order: _Order | None


def read_cube(
    path: str | os.PathLike[str],
    *,
    variable: str | None = None,
    shape: tuple[int, int] | None = None,
    bands: _Bands | None = None,
    order: _Order | None = None,
) -> Cube:
    """Open the scene in a file; only its header is read at first.

    Parameters
    ----------
    path
        A ``.mat`` file, an ENVI image (its ``.hdr`` or the file beside it), a GeoTIFF, netCDF or HDF5 file, a ``.npy``
        or ``.npz`` array, or a pixels × bands matrix in any format that :func:`fastanchors.io.open_source` reads.
    variable
        The variable of a ``.mat``, ``.npz``, netCDF or HDF5 file; by default the numeric one with the most entries.
    shape
        (height, width) of the image if the file holds a matrix. In a ``.mat`` or ``.npz`` file other variables often
        give it: a cube with as many pixels (true abundances), or scalars such as ``nRow`` and ``nCol``.
    bands
        Whether bands come first (bands × height × width, bands × pixels), in the middle (height × bands × width) or
        last. The default is the axis given in the header. Without one it is the last axis for cubes, with a
        ``GuessWarning`` if another axis looks more like the bands. For matrices it is the axis that does not match the
        number of pixels, or the shorter one if the shape is unknown.
    order
        The order of the pixels of a matrix, ``"C"`` along rows or ``"F"`` down columns; by default ``"F"`` for
        ``.mat``, otherwise ``"C"``. Another order than that of an image in the file is refused.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> import fastanchors as fa
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.save(folder + "/scene.npy", np.ones((6, 5, 30)))
    ...     print(fa.apps.read_cube(folder + "/scene.npy", bands="last").shape)
    (6, 5)
    """
    check_choice(bands, (None, *BAND_AXES), name="bands")
    check_choice(order, (None, "C", "F"), name="order")
    return _open(local_path(path), _Asked(variable, check_shape(shape), bands, order))


def _open(path: Path, asked: _Asked) -> Cube:
    if not exists(path):
        raise missing(path)
    cube = check_order(_opened(path, asked), asked.order)
    return replace(cube, again=partial(_open, path.absolute(), asked))


def _opened(path: Path, asked: _Asked) -> Cube:
    suffix = path.suffix.lower()
    if suffix == ".mat":
        return _mat_cube(path, asked)
    if suffix == ".npy":
        return _npy_cube(path, asked)
    if suffix == ".npz" and (file := NpzFile(path)).has_arrays:  # a sparse matrix is stored as lists
        return _npz_cube(path, file, asked)
    given = {"variable": asked.variable, "bands": asked.bands}
    source = open_source(path, **{name: value for name, value in given.items() if value is not None})
    if source.shape[0] is None:  # the number of rows of a table is known only after reading it
        source = dense_source(str(path), np.concatenate([dense(block) for block in source.blocks()]))
    if source.scene is None or source.scene.shape is None:
        if source.axes is not None and asked.bands is None:
            check_pixels(source.axes, source.name)
        sure = source.is_library or asked.bands is not None
        return matrix_cube(source, asked.shape, asked.order or "C", str(path), sure=sure)
    return _image(path, source, asked)


def _image(path: Path, source: Source, asked: _Asked) -> Cube:
    """The scene of a source that knows the size of its image; raises if the caller gives another one."""
    if asked.shape is not None and asked.shape != source.scene.shape:
        raise InvalidInputError(f"{path} is an image of {source.scene.shape}, not {asked.shape}")
    return Cube(source, source.scene, str(path))


def read_mask(path: str | os.PathLike[str], cube: Cube) -> NDArray[np.bool_]:
    """Read which pixels of the scene to use: those where the one-band image (or list) in the file is not 0.

    Parameters
    ----------
    path
        The file of the mask.
    cube
        The scene it belongs to.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> import fastanchors as fa
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.save(folder + "/scene.npy", np.ones((6, 5, 30)))
    ...     np.save(folder + "/mask.npy", np.eye(6, 5))
    ...     cube = fa.apps.read_cube(folder + "/scene.npy", bands="last")
    ...     print(int(fa.apps.read_mask(folder + "/mask.npy", cube).sum()))
    5
    """
    if not isinstance(cube, Cube):
        raise InvalidTypeError(f"cube must be a scene that read_cube opened, got {type(cube).__name__}")
    path = local_path(path)
    if path.suffix.lower() == ".npy" and exists(path):
        values = np.asarray(map_npy(path))
    else:
        source = open_source(path)
        values = np.concatenate([np.asarray(block) for block in source.blocks()])
        if source.scene is not None and source.scene.shape is not None and values.shape[1] == 1:
            values = values[:, 0].reshape(source.scene.shape, order=source.scene.order)
        elif source.is_turned:
            values = values.T
    return fit_mask(values, cube, str(path))


def fit_mask(mask: Any, cube: Cube, name: str = "the mask") -> NDArray[np.bool_]:
    """Convert a mask of the image, or of the list of its pixels, to the order of the pixels."""
    values = as_array(mask.to_numpy() if is_named_array(mask) else mask, name)  # fill values are no gaps of a mask
    values = values.T if is_turned_mask(mask) else values
    if values.dtype.kind not in "biuf":
        raise InvalidTypeError(f"{name} must hold truth values or numbers, got dtype {values.dtype}; use astype(bool)")
    values = values[..., 0] if values.ndim == 3 and values.shape[2] == 1 else values
    if cube.shape is not None and values.shape == cube.shape:
        values = cube.flat(values)
    if values.size != cube.size[0] or values.squeeze().ndim != 1:
        expected = f"{cube.size[0]} pixels" if cube.shape is None else f"an image of {cube.shape[0]}×{cube.shape[1]}"
        hint = "; transpose it" if cube.shape is not None and values.shape == cube.shape[::-1] else ""
        raise InvalidInputError(f"{name} has the shape {values.shape}; {cube.name} is {expected}{hint}")
    return np.asarray((values != 0) & (values == values)).ravel()


def _npy_cube(path: Path, asked: _Asked) -> Cube:
    if asked.variable is not None:
        raise InvalidInputError(f"{path} holds one array, which has no name; remove variable=…")
    array = map_npy(path)
    if array.ndim != 3:
        return _matrix(path, array, asked)
    if asked.bands is None:
        doubt(array, str(path))
    return _image(path, open_source(path, bands=asked.bands or "last"), asked)


def _npz_cube(path: Path, file: NpzFile, asked: _Asked) -> Cube:
    """An array of an archive, with the size of the image and the wavelengths if other arrays give them."""
    key = choose_variable(file.shapes, asked.variable, path)
    array = file.mapped(key)
    if array.ndim == 3:
        if asked.bands is None:
            doubt(array, str(path))
        cube = _image(path, cube_source(str(path), lambda: array, asked.bands or "last"), asked)
    else:
        found = _image_size({name: (size, file.whole) for name, size in file.shapes.items()}, key)
        cube = _matrix(path, array, _with_size(asked, found, array.shape))
    for name, size in file.shapes.items():
        if is_wavelengths(name) and math.prod(size) == cube.size[1]:
            waves = file.whole(name).astype(np.float64).ravel()
            return replace(cube, info=replace(cube.info, wavelengths=waves))
    return cube


def _with_size(asked: _Asked, found: tuple[int, int] | None, size: tuple[int, ...]) -> _Asked:
    """With the size of the image that other variables give, if the caller gives none and it fits."""
    fits = found is not None and found[0] * found[1] in size
    return replace(asked, shape=asked.shape or (found if fits else None))


def _check_axes(path: Path, asked: _Asked) -> None:
    if asked.bands == "middle":
        raise InvalidInputError(f"{path} holds a matrix, which has no middle axis; pass bands='first' or 'last'")


def _matrix(path: Path, array: Any, asked: _Asked) -> Cube:
    if array.ndim == 2:
        _check_axes(path, asked)
        array = array.T if _bands_first(array.shape, asked.shape, asked.bands) else array
    sure = asked.bands is not None
    return as_cube(array, shape=asked.shape, order=asked.order or "C", name=str(path), sure=sure)


def _bands_first(size: tuple[int, ...], shape: tuple[int, int] | None, bands: str | None) -> bool:
    if bands is not None:
        return bands == "first"
    if shape is not None and shape[0] * shape[1] in size:
        return size[0] != shape[0] * shape[1]
    return size[0] < size[1]


def _mat_cube(path: Path, asked: _Asked) -> Cube:
    """A variable of a ``.mat`` file, with the size of the image if other variables give it."""
    file = open_mat(path)
    try:
        with reading(path):
            key = choose_variable({name: array.shape for name, array in file.arrays.items()}, asked.variable, path)
            stored, name = file.arrays[key], f"{path}:{key}"
            if len(stored.shape) == 3 and asked.bands in (None, "last"):
                if asked.bands is None and math.prod(stored.shape) <= CHECKED_ENTRIES:
                    doubt(stored.whole(), str(path))
                height, width, count = stored.shape
                if asked.shape is not None and asked.shape != (height, width):
                    wanted = "×".join(map(str, asked.shape))
                    raise InvalidInputError(f"the cube is {height}×{width} pixels, not {wanted}")
                info = SceneInfo((height, width), "F", *wavelengths_in(file, count))
                cube = Cube(stored.source(name, False, {}), info, str(path))
            elif len(stored.shape) == 3:
                whole = np.moveaxis(stored.whole(), BAND_AXES[asked.bands or "last"], -1)
                info = SceneInfo(whole.shape[:2], "C", *wavelengths_in(file, whole.shape[2]))
                cube = Cube(dense_source(name, whole.reshape(-1, whole.shape[2])), info, str(path))
            else:
                cube = _mat_matrix(file, key, asked, path)
    except BaseException:
        file.close()
        raise
    weakref.finalize(cube.source, file.close)
    return cube


def _mat_matrix(file: MatFile, key: str, asked: _Asked, path: Path) -> Cube:
    stored = file.arrays[key]
    _check_axes(path, asked)
    arrays = {name: (array.shape, lambda name: file.arrays[name].whole()) for name, array in file.arrays.items()}
    asked = _with_size(asked, _image_size(arrays, key), stored.shape)
    source = stored.source(f"{path}:{key}", _bands_first(stored.shape, asked.shape, asked.bands), {})
    waves, units = wavelengths_in(file, source.shape[1])
    source.scene = SceneInfo(None, wavelengths=waves, units=units)
    return matrix_cube(source, asked.shape, asked.order or "F", str(path), sure=asked.bands is not None)


def _image_size(arrays: dict[str, tuple[tuple[int, ...], Callable[[str], Any]]], key: str) -> tuple[int, int] | None:
    """(height, width) from other variables (shapes and readers): a cube with as many pixels, or two scalars."""
    for size, _ in arrays.values():
        if len(size) == 3 and size[0] * size[1] in arrays[key][0]:
            return size[0], size[1]
    small = {
        name.lower(): float(np.ravel(read(name))[0])
        for name, (size, read) in arrays.items()
        if name.lower() in _HEIGHTS + _WIDTHS and math.prod(size) == 1
    }
    height = next((small[name] for name in _HEIGHTS if name in small), float("nan"))
    width = next((small[name] for name in _WIDTHS if name in small), float("nan"))
    return (int(height), int(width)) if np.isfinite([height, width]).all() else None
