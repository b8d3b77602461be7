"""``fastanchors encode``: write every row as a mixture of the anchors, streamed."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
import numpy as np
from numpy.typing import NDArray

from .._text import plural
from ..encoder import encode_rows
from ..errors import InvalidInputError
from ..matrix.array import ArrayMatrix
from ..matrix.scaled import norm
from ._files import escape_option, unescaped
from ._input import Input, input_options
from ._options import PATH, check_output, check_unused, name_files
from ._result import Found, check_rows, load
from ._scene_encode import encode_scene, is_endmembers
from ._streams import ADDRESS, WORD_OR_FILE
from ._terminal import progress_bar
from ._topic_encode import UNUSED, encode_documents, is_topic_model, text_column_options
from ._weights import SUFFIXES, WeightsFile
from .app import emit, json_option

__all__ = ["check_names", "encode"]


@click.command()
@click.argument("source", type=ADDRESS)
@click.argument("anchors", type=WORD_OR_FILE)
@click.option("-o", "--out", type=PATH, required=True, help=f"File for the weights: {', '.join(SUFFIXES)}.")
@click.option("--nodata", type=float, help="For a scene: the value that marks missing data.")
@click.option("--sum-to-one", is_flag=True, help="Make the weights of every row sum to one.")
@escape_option
@text_column_options
@input_options
@json_option
def encode(
    source: Path,
    anchors: str,
    out: Path,
    nodata: float | None,
    sum_to_one: bool,
    escape_formulas: bool,
    column: str | None,
    title: str | None,
    replace_errors: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Write every row of SOURCE as a non-negative mixture of the ANCHORS.

    ANCHORS is a result of seek --out (an .npz file also has the anchor rows, so it can encode other data), a file with
    an array of row numbers or of anchor rows, or row numbers such as 3,17,5. It can also be a topic model of topics
    --out: SOURCE is then texts (--column of a table) or counts of new documents, and the weights are their mixtures of
    topics. With the endmembers.csv (or .sli) of unmix, SOURCE is a scene, and the weights are the abundances of its
    pixels; OUT may then be an image, .img or .tif. Rows are read and weights are written in blocks, so memory is
    bounded; the file appears when it is complete.
    """
    if is_endmembers(anchors):
        check_unused(("column", "title", "replace_errors"), f"{anchors} is not a topic model")
        encode_scene(source, anchors, out, sum_to_one, escape_formulas, as_json, options, nodata=nodata)
        return
    if nodata is not None:
        raise click.UsageError("--nodata is for scenes, with the endmembers.csv or .sli of unmix")
    check_output(out, SUFFIXES, "--out", source, anchors, *name_files(options))
    if is_topic_model(anchors):
        check_unused(UNUSED, f"{anchors} is a topic model")
        texts = {"column": column, "title": title, "replace_errors": replace_errors}
        encode_documents(source, Path(anchors), out, escape_formulas, as_json, options | texts)
        return
    for option, value in (("column", column), ("title", title), ("replace-errors", replace_errors or None)):
        if value is not None:
            raise click.UsageError(f"--{option} needs a topic model, and {anchors} is not one")
    start = time.perf_counter()
    with Input(source, **options) as data:
        found = load(anchors).in_order_of(data.column_names, anchors, source)
        components, names = _components(data, found, anchors)
        lost = total = 0.0
        with (
            progress_bar(f"encoding {source.name}", "rows") as bar,
            WeightsFile(out, np.float64, names, escape=escape_formulas) as file,
        ):
            for first, block in data.blocks():
                F = np.empty((block.shape[0], len(components)))
                rows = ArrayMatrix(block)
                lost = math.hypot(lost, encode_rows(rows, components, F, sum_to_one=sum_to_one, error=True))
                total = math.hypot(total, norm(block))
                file.write(F, _names(data, first, block.shape[0]))
                bar(file.rows, data.shape[0])
    error = lost / total if total else 0.0
    seconds = time.perf_counter() - start
    if as_json:
        shape = [file.rows, len(components)]
        emit({"path": str(out), "shape": shape, "relative_error": error, "sum_to_one": sum_to_one, "seconds": seconds})
    else:
        explained = 100 * (1 - error**2)
        size = f"{plural(file.rows, 'row')} in {plural(len(components), 'anchor')}"
        click.echo(f"{size}: {explained:.1f} % of the data explained")
        click.echo(f"weights in {out} ({seconds:.1f} s)")


def _components(data: Input, found: Found, given: str) -> tuple[NDArray[np.float64], list[str]]:
    """The anchors as points, and their names."""
    columns = data.shape[1]
    if found.components is not None:
        components = np.ascontiguousarray(found.components)
        if components.shape[1] != columns:
            raise InvalidInputError(f"the anchors in {given} have {components.shape[1]} columns, {data.path} {columns}")
        if not np.isfinite(components).all():
            raise InvalidInputError(f"the anchors in {given} have NaN or infinite entries")
    else:
        assert found.indices is not None
        theirs = found.record.get("shape", (None, columns))[1]
        if theirs != columns:
            raise InvalidInputError(f"{given} is of data with {theirs} columns, {data.path} has {columns}")
        components = data.pick(found.indices)
    names = found.record.get("anchor_names")
    if found.components is None:
        check_names(data, found, given)
        check_rows(found, components, given, data.path)
    if names is None and found.indices is not None:
        here = [data.row_name(int(i)) if found.components is None else None for i in found.indices]
        names = [str(i) if name is None else name for i, name in zip(found.indices, here, strict=True)]
    return components, list(names) if names is not None else [f"anchor {j + 1}" for j in range(len(components))]


def check_names(data: Input, found: Found, given: str) -> None:
    """Raise if the names of the anchors differ from those of the data: row numbers cannot be used for other data."""
    names = found.record.get("anchor_names")
    if names is None or data.row_names is None:
        return
    for index, name in zip(found.record["anchors"], names, strict=True):
        here = data.row_name(index)
        if name not in (here, unescaped(here or "")):  # the name may begin with ' itself
            raise InvalidInputError(
                f"row {index} is named {here!r} in {data.path} and {name!r} in {given}: these are other data; "
                "use seek --out anchors.npz, which stores the anchor rows too"
            )


def _names(data: Input, first: int, count: int) -> Sequence[str] | None:
    names = data.row_names
    return None if names is None or len(names) < first + count else list(names[first : first + count])
