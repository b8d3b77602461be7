"""Represent scenes: pixels with their spectra, their positions in the image, and metadata of the bands."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from .._cached import cached
from .._equality import ComparedByValue
from .._validate import as_array, check_choice, check_no_group, check_one_index, computed, numeric
from ..errors import GuessWarning, InvalidInputError, InvalidTypeError, StoreError
from ..io.arrays import dense_source
from ..io.row_source import Source
from ..io.scene import SceneInfo, doubt
from ..io.scene_objects import is_scene_object, scene_object

__all__ = ["Cube", "as_cube", "check_order", "check_shape"]

_AXES = ("first", "middle", "last")
_BLOCK_BYTES = 1 << 24


@dataclass(frozen=True, eq=False)
class Cube(ComparedByValue):
    """A scene, read a block of pixels at a time.

    Attributes
    ----------
    source
        The pixels × bands as they are stored.
    info
        Metadata of the file: size of the image, wavelengths, bad bands, no-data value, scale factors, georeference.
    name
        The name used in messages.
    again
        Opens the same file once more, or None for a scene in memory. Copies and pickles of the cube have no open file:
        they call this when their pixels are read.

    Examples
    --------
    >>> import fastanchors as fa
    >>> result = fa.apps.unmix(fa.datasets.hyperspectral(12, 10, 30, 3, rng=0).A, 3, shape=(12, 10))
    >>> result.cube.shape
    (12, 10)
    """

    source: Source
    info: SceneInfo = field(default_factory=lambda: SceneInfo(None))
    name: str = "the scene"
    again: Callable[[], Cube] | None = field(default=None, repr=False, compare=False)

    def __getstate__(self) -> dict[str, Any]:
        state = {name: value for name, value in self.__dict__.items() if name != "pixels"}  # which are cached
        if self.again is not None:
            shape, dtype = self.source.shape, self.source.dtype
            reader = partial(_read_again, self.again, shape)
            state["source"] = Source(self.name, shape, dtype, self.source.is_sparse, reader)
        return state

    @property
    def size(self) -> tuple[int, int]:
        """The numbers of pixels and bands."""
        pixels, bands = self.source.shape
        assert pixels is not None
        return pixels, bands

    @property
    def shape(self) -> tuple[int, int] | None:
        """(height, width) of the image, or None if it is not known."""
        return self.info.shape

    @property
    def order(self) -> Literal["C", "F"]:
        """``"C"`` when pixels run along the rows of the image, ``"F"`` when they run down its columns."""
        return self.info.order

    @property
    def wavelengths(self) -> NDArray[np.float64] | None:
        """The wavelength of each band, or None."""
        return self.info.wavelengths

    @cached
    def pixels(self) -> NDArray[Any]:
        """All pixels × bands as measured, in memory; NaN for missing data."""
        return np.concatenate([self.info.values(block) for _, block in self.blocks()])

    def blocks(self) -> Iterator[tuple[slice, NDArray[Any]]]:
        """Consecutive pixels as stored, each block with the slice of its pixel numbers."""
        start = 0
        for block in self.source.blocks(_BLOCK_BYTES):
            rows = block.toarray() if sp.issparse(block) else block
            yield slice(start, start + len(rows)), rows
            start += len(rows)

    def image(self, values: NDArray[Any]) -> NDArray[Any]:
        """Values of the pixels (pixels × …) as height × width × …"""
        if self.shape is None:
            raise InvalidInputError(f"the size of the image of {self.name} is not known; pass shape=(height, width)")
        values = values if isinstance(values, np.ndarray) else as_array(values, "values")
        if values.shape[:1] != self.size[:1]:
            raise InvalidInputError(f"values must have a row for each of {self.size[0]} pixels, got {values.shape}")
        return values.reshape(*self.shape, *values.shape[1:], order=self.order)

    def flat(self, image: NDArray[Any]) -> NDArray[Any]:
        """The values of a height × width image in the order of the pixels."""
        image = image if isinstance(image, np.ndarray) else as_array(image, "image")
        if image.size != self.size[0] or (self.shape is not None and image.shape != self.shape):
            raise InvalidInputError(f"image must have the shape {self.shape or self.size[:1]}, got {image.shape}")
        return image.ravel(order=self.order)

    def place(self, pixel: int) -> str:
        """Describe a pixel for messages."""
        pixel = check_one_index(pixel, self.size[0], name="pixel")
        if self.shape is None:
            return f"pixel {pixel}"
        row, column = np.unravel_index(pixel, self.shape, order=self.order)
        return f"pixel {pixel} (row {row}, column {column})"


def _read_again(again: Callable[[], Cube], shape: tuple[int | None, int], max_bytes: int) -> Iterator[Any]:
    """Blocks of pixels of a scene that is opened once more; raises if it has another size by now."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GuessWarning)  # given when the scene was first opened
        cube = again()
    if cube.source.shape != shape:
        now, before = (f"{pixels} pixels × {bands} bands" for pixels, bands in (cube.source.shape, shape))
        raise StoreError(f"{cube.name} has changed: it is {now}, and was {before}; open it again")
    yield from cube.source.blocks(max_bytes)


def as_cube(
    scene: Any,
    *,
    shape: tuple[int, int] | None = None,
    bands: str | None = None,
    order: str | None = None,
    name: str = "the scene",
    sure: bool = False,
) -> Cube:
    """Make a :class:`Cube` from a ``Cube``, a three-dimensional or pixels × bands array, or an image of SPy or xarray.

    Masked values of a masked array, also of one that Dask has to compute, are missing data. Unless the caller names the
    axis of the ``bands`` or is ``sure`` of the axes, a ``GuessWarning`` is issued if another axis looks more like the
    bands.
    """
    check_choice(bands, (None, *_AXES), name="bands")
    check_choice(order, (None, "C", "F"), name="order")
    shape = check_shape(shape)
    if isinstance(scene, Cube):
        if shape is not None and shape != scene.shape:
            raise InvalidInputError(f"{scene.name} already has the shape {scene.shape}, got {shape}")
        if bands is not None:
            raise InvalidInputError(f"{scene.name} already states the axis of its bands; remove bands=…")
        return check_order(scene, order)
    if is_scene_object(scene):
        source = scene_object(scene, bands=bands)
        if source.scene.shape is None:
            return matrix_cube(source, shape, "F" if order == "F" else "C", source.name, sure=sure or bands is not None)
        if shape is not None and tuple(shape) != source.scene.shape:
            raise InvalidInputError(f"{source.name} is an image of {source.scene.shape}, not {tuple(shape)}")
        return check_order(Cube(source, source.scene, source.name), order)
    scene = computed(scene, name)
    if sp.issparse(scene):
        raise InvalidTypeError("the scene must be a dense array, got a sparse matrix; use scene.toarray()")
    check_no_group(scene, name)
    array = np.asarray(scene if isinstance(scene, np.ndarray) else as_array(scene, name))
    if array.ndim == 0:
        cure = "pass a path, an array, an image of spectral.open_image or of xarray"
        raise InvalidTypeError(f"cannot read a scene from {type(scene).__name__}; {cure}")
    if array.dtype.kind == "O":  # such as columns of pandas that may have missing values
        array = numeric(array, name)
    if array.dtype.kind not in "iufb":
        raise InvalidTypeError(f"the scene must hold real numbers, got dtype {array.dtype}")
    if isinstance(scene, np.ma.MaskedArray):
        array = np.where(np.ma.getmaskarray(scene), np.nan, array)
    if bands is not None and array.ndim in (2, 3):
        if bands == "middle" and array.ndim == 2:
            raise InvalidInputError(f"{name} is a matrix, which has no middle axis; pass bands='first' or 'last'")
        array, sure = np.moveaxis(array, 0 if bands == "first" else 1 if bands == "middle" else -1, -1), True
    if array.ndim == 3:
        if shape is not None and tuple(shape) != array.shape[:2]:
            raise InvalidInputError(f"the cube is {array.shape[0]}×{array.shape[1]} pixels, not {shape[0]}×{shape[1]}")
        if not sure:
            doubt(array, name)
        shape = (array.shape[0], array.shape[1])
        array = array.reshape(-1, array.shape[2])
        return check_order(matrix_cube(_source(name, array), shape, "C", name, sure=sure), order)
    if array.ndim != 2:
        raise InvalidInputError(
            f"a scene is height × width × bands or pixels × bands, got {array.ndim} dimension(s): shape {array.shape}"
        )
    return matrix_cube(_source(name, array), shape, "F" if order == "F" else "C", name, sure=sure)


def _source(name: str, array: NDArray[Any]) -> Source:
    return dense_source(name, array.view(np.uint8) if array.dtype.kind == "b" else array)


def check_order(cube: Cube, order: str | None) -> Cube:
    """The same cube; raises if the caller gives another order of pixels than that of an image."""
    if order is not None and order != cube.order:
        raise InvalidInputError(
            f"{cube.name} is an image, whose pixels are in order {cube.order!r}, not {order!r}; remove order=…, which "
            "is for a matrix pixels × bands"
        )
    return cube


def matrix_cube(
    source: Source,
    shape: tuple[int, int] | None,
    order: Literal["C", "F"],
    name: str,
    *,
    sure: bool,
) -> Cube:
    """Make a :class:`Cube` from a pixels × bands matrix, with what its ``scene`` knows about the bands."""
    pixels, bands = source.shape
    shape = check_shape(shape)
    if shape is not None and shape[0] * shape[1] != pixels:
        raise InvalidInputError(f"an image of {shape[0]}×{shape[1]} does not hold {pixels} pixels")
    if not sure and shape is None and pixels is not None and pixels <= bands:
        warnings.warn(
            f"{name} is a matrix: {pixels} pixels with {bands} bands each. If it is an image of a "
            "single band, there is nothing to unmix",
            GuessWarning,
            stacklevel=3,
        )
    return Cube(source, replace(source.scene or SceneInfo(None), shape=shape, order=order), name)


def check_shape(shape: Any) -> tuple[int, int] | None:
    """The size of an image as two integers."""
    if shape is None:
        return None
    size = as_array(shape, "shape")
    if size.shape != (2,) or size.dtype.kind not in "iu" or size.min() < 1:
        raise InvalidInputError(f"shape must be (height, width), two positive integers, got {shape!r}")
    return int(size[0]), int(size[1])
