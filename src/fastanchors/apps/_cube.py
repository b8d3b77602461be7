"""Scenes: pixels with their spectra, and where they lie in the image. Read from ``.mat``, ENVI and ``.npy`` files."""

from __future__ import annotations

import warnings
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from .._validate import as_matrix
from ..errors import GuessWarning, InvalidInputError, InvalidTypeError, StoreError
from ..io.words import missing

__all__ = ["Cube", "as_cube", "read_cube"]

# Scalars by which scene files tell the size of the image.
_HEIGHTS = ("height", "nrow", "nrows", "rows", "lines", "h", "m")
_WIDTHS = ("width", "ncol", "ncols", "cols", "columns", "samples", "w", "n")

_AXES = ("first", "middle", "last")
_MATERIALS = 5  # spectra that nearly make up the pixels of any scene
_CLEARLY = 3.0  # so many times better must another axis serve as the bands before it is named


@dataclass(frozen=True)
class Cube:
    """A scene.

    Attributes
    ----------
    pixels : pixels × bands.
    shape : (height, width) of the image, or None if it is not known.
    order : ``"C"`` when pixels run along the rows of the image, ``"F"`` when they run down its columns.
    wavelengths : one for each band, or None.
    ignore : the value that marks missing data, or None.
    name : what messages call it.
    """

    pixels: NDArray[Any]
    shape: tuple[int, int] | None = None
    order: Literal["C", "F"] = "C"
    wavelengths: NDArray[np.float64] | None = None
    ignore: float | None = None
    name: str = "the scene"

    def image(self, values: NDArray[Any]) -> NDArray[Any]:
        """Values of the pixels (pixels × …) as height × width × …"""
        if self.shape is None:
            raise InvalidInputError(f"the size of the image of {self.name} is not known; give shape=(height, width)")
        return values.reshape(*self.shape, *values.shape[1:], order=self.order)

    def place(self, pixel: int) -> str:
        """A pixel for messages."""
        if self.shape is None:
            return f"pixel {pixel}"
        row, column = np.unravel_index(pixel, self.shape, order=self.order)
        return f"pixel {pixel} (row {row}, column {column})"


def as_cube(
    scene: Any, *, shape: tuple[int, int] | None = None, order: str = "C", name: str = "the scene", sure: bool = False
) -> Cube:
    """A :class:`Cube` from one, from a height × width × bands array, or from a pixels × bands array.

    Unless the caller is ``sure`` of the axes, a ``GuessWarning`` says so when others look more like them.
    """
    if order not in ("C", "F"):
        raise InvalidInputError(f"order must be 'C' or 'F', got {order!r}")
    if isinstance(scene, Cube):
        if shape is not None and shape != scene.shape:
            raise InvalidInputError(f"{scene.name} already has the shape {scene.shape}, got {shape}")
        return scene
    array = np.asarray(scene)
    if array.dtype.kind not in "iufb":
        raise InvalidTypeError(f"the scene must hold real numbers, got dtype {array.dtype}")
    if array.ndim == 3:
        if shape is not None and tuple(shape) != array.shape[:2]:
            raise InvalidInputError(f"the cube is {array.shape[0]}×{array.shape[1]} pixels, not {shape[0]}×{shape[1]}")
        if not sure:
            _doubt(array, name)
        shape, order = (array.shape[0], array.shape[1]), "C"
        array = array.reshape(-1, array.shape[2])
    elif array.ndim != 2:
        raise InvalidInputError(
            f"a scene is height × width × bands or pixels × bands, got {array.ndim} dimension(s): shape {array.shape}"
        )
    pixels = as_matrix(array, signed=True, finite=False, name="the scene")
    if shape is not None and shape[0] * shape[1] != pixels.shape[0]:
        raise InvalidInputError(f"an image of {shape[0]}×{shape[1]} does not hold {pixels.shape[0]} pixels")
    if not sure and shape is None and pixels.shape[0] <= pixels.shape[1]:
        warnings.warn(
            f"{name} is a matrix: {pixels.shape[0]} pixels with {pixels.shape[1]} bands each. If it is an image of a "
            "single band, there is nothing to unmix",
            GuessWarning,
            stacklevel=3,
        )
    size = None if shape is None else (int(shape[0]), int(shape[1]))
    return Cube(pixels, size, "F" if order == "F" else "C", name=name)


def _doubt(array: NDArray[Any], name: str) -> None:
    """Warn when another axis looks like the bands.

    Spectra are mixtures of a few, whatever the pixel; the rows and columns of an image are not. So the pixels over the
    right axis have far less energy outside their leading directions. Some 50 × 50 × 250 of the entries are looked at.
    """
    missed = [_outside(array, axis) for axis in range(3)]
    best = int(np.argmin(missed))
    if min(array.shape) > _MATERIALS and missed[best] * _CLEARLY < missed[2]:
        height, width, bands = array.shape
        warnings.warn(
            f"{name} is taken as {height}×{width} pixels with {bands} bands, but the {_AXES[best]} axis looks like the "
            f"bands; if it is, give bands={_AXES[best]!r}, or move it to the end of an array",
            GuessWarning,
            stacklevel=4,
        )


def _outside(array: NDArray[Any], axis: int) -> float:
    steps = [-(-size // (250 if i == axis else 50)) for i, size in enumerate(array.shape)]
    some = np.nan_to_num(array[tuple(slice(None, None, step) for step in steps)].astype(np.float64), posinf=0, neginf=0)
    rows = np.moveaxis(some, axis, -1).reshape(-1, some.shape[axis])
    values = np.linalg.eigvalsh(rows.T @ rows)
    return float(values[:-_MATERIALS].clip(0).sum() / values.sum()) if values.sum() > 0 else 0.0


def read_cube(
    path: str | Path,
    *,
    variable: str | None = None,
    shape: tuple[int, int] | None = None,
    bands: Literal["first", "middle", "last"] | None = None,
    order: Literal["C", "F"] | None = None,
) -> Cube:
    """The scene in a ``.mat`` file, an ENVI image (its ``.hdr``) or a ``.npy`` array.

    Parameters
    ----------
    variable : which one of a ``.mat`` file; by default the numeric one with the most entries.
    shape : (height, width) of the image where the file holds a matrix. A ``.mat`` file often tells by other
        variables: a cube of as many pixels (true abundances), or scalars such as ``nRow`` and ``nCol``.
    bands : whether bands come first (bands × height × width, bands × pixels), in the middle (height × bands × width)
        or last. By default last for cubes, with a ``GuessWarning`` where another axis looks more like them; for
        matrices the axis that is not the pixels, and where the shape is unknown the shorter one.
    order : of the pixels of a matrix, ``"C"`` along rows or ``"F"`` down columns; by default ``"F"`` for ``.mat``.
    """
    path = Path(path)
    if not path.exists():
        raise missing(path)
    suffix = path.suffix.lower()
    if suffix == ".hdr":
        from ..io.envi import open_envi

        image = open_envi(path)
        cube = as_cube(image.cube, sure=True)
        return Cube(cube.pixels, cube.shape, "C", image.wavelengths, image.ignore, str(path))
    if suffix == ".mat":
        array, found = _read_mat(path, variable)
    elif suffix == ".npy":
        try:
            array, found = np.load(path, mmap_mode="r", allow_pickle=False), None
        except (ValueError, EOFError, OSError) as error:
            raise StoreError(f"cannot read {path}: {error}") from error
    else:
        raise StoreError(f"{path}: a scene is a .mat file, an ENVI header (.hdr) or a .npy array")
    if array.ndim == 3:
        array = np.moveaxis(array, 2 if bands is None else _AXES.index(bands), -1)
        return as_cube(array, shape=shape, name=str(path), sure=bands is not None)
    if bands == "middle" and array.ndim == 2:
        raise InvalidInputError(f"{path} holds a matrix, which has no middle axis; give bands='first' or 'last'")
    shape = shape or (found if found is not None and found[0] * found[1] in array.shape else None)
    if array.ndim == 2 and _bands_first(array.shape, shape, bands):
        array = array.T
    order = order or ("F" if suffix == ".mat" else "C")
    return as_cube(array, shape=shape, order=order, name=str(path), sure=bands is not None)


def _bands_first(size: tuple[int, ...], shape: tuple[int, int] | None, bands: str | None) -> bool:
    if bands is not None:
        return bands == "first"
    if shape is not None and shape[0] * shape[1] in size:
        return size[0] != shape[0] * shape[1]
    return size[0] < size[1]


def _read_mat(path: Path, variable: str | None) -> tuple[NDArray[Any], tuple[int, int] | None]:
    """The variable, and the size of the image as far as the others tell it."""
    from ..io.matlab import choose_variable

    with open(path, "rb") as file:
        head = file.read(128)
    if head.startswith(b"\x89HDF") or b"MATLAB 7.3" in head:
        from ..io.hdf5 import open_hdf5

        with open_hdf5(path) as stored:
            items = {key: item for key, item in stored.items() if hasattr(item, "dtype") and item.dtype.kind in "iufb"}
            sizes = {key: tuple(item.shape[::-1]) for key, item in items.items()}
            key = choose_variable(sizes, variable, path)
            scalars = {name: items[name][()].T for name in items if np.prod(sizes[name]) == 1}
            return np.asarray(items[key][()].T), _image_size(sizes, scalars, key)
    from scipy.io.matlab import MatReadError, loadmat, whosmat

    try:
        sizes = {name: size for name, size, kind in whosmat(path) if kind not in ("cell", "struct", "char", "object")}
        key = choose_variable(sizes, variable, path)
        small = [name for name, size in sizes.items() if np.prod(size) == 1]
        values = loadmat(path, variable_names=[key, *small])
    except (MatReadError, TypeError, OSError, EOFError, NotImplementedError, zlib.error) as error:
        raise StoreError(f"cannot read {path}: {error}") from error
    array = values[key].toarray() if hasattr(values[key], "toarray") else np.asarray(values[key])
    return array, _image_size(sizes, {name: values[name] for name in small}, key)


def _image_size(sizes: dict[str, tuple[int, ...]], scalars: dict[str, Any], key: str) -> tuple[int, int] | None:
    for size in sizes.values():
        if len(size) == 3 and size[0] * size[1] in sizes[key]:
            return size[0], size[1]
    small = {name.lower(): int(np.ravel(value)[0]) for name, value in scalars.items()}
    height = next((small[name] for name in _HEIGHTS if name in small), None)
    width = next((small[name] for name in _WIDTHS if name in small), None)
    return None if height is None or width is None else (height, width)
