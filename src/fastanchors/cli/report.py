"""``fastanchors report``: write the result as an HTML page."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import numpy as np

from .._text import GIVEN, plural
from .._validate import check_index
from ..anchors import Anchors, Certificate
from ..errors import InvalidInputError, StoreError, one_line
from ..io.addresses import path_of
from ..matrix.cost import Cost
from ..rank import RankCurve
from ._input import Input, input_options
from ._options import (
    IMAGE,
    KIND,
    PATH,
    check_output,
    check_outside_inputs,
    check_unused,
    display_options,
    name_files,
    reader_arguments,
)
from ._result import Found, check_rows, is_result, load
from ._streams import ADDRESS
from ._terminal import shown_bytes, working
from ._topic_encode import UNUSED, is_topic_model, report_topics
from .app import emit, json_option
from .encode import check_names
from .seek import SIZE, make_solver, seek_anchors, seek_options

__all__ = ["report"]

_RULE = ("precondition", "robust", "radius", "support", "selection")
_SEEK = ("solver", "seed", "budget", *_RULE)  # options of a seek, which a result has made


@click.command()
@click.argument("source", type=ADDRESS)
@click.option("-o", "--out", type=PATH, default=Path("report.html"), show_default=True, help="The page to write.")
@click.option("-k", "size", type=SIZE, help="How many anchors, or 'auto' (the default); not for a result.")
@click.option(
    "--kind",
    type=KIND,
    default="auto",
    show_default=True,
    help="What the rows are: anchors are shown as lines over the columns, with maps, or by words, genes or columns.",
)
@click.option("--image", type=IMAGE, help="Size of the image if the rows are its pixels.")
@click.option("--data", type=ADDRESS, help="Where the data of a result are now, if they have moved.")
@click.option("--title", help="Name of the data on the page.")
@seek_options
@input_options
@json_option
def report(
    source: Path,
    out: Path,
    size: int | str | None,
    kind: str,
    image: tuple[int, int] | None,
    data: Path | None,
    title: str | None,
    solver: str,
    seed: int,
    budget: int | None,
    precondition: str | None,
    robust: str | None,
    radius: float | None,
    support: float | None,
    selection: str | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Write one self-contained page about the anchors of SOURCE: a store, a file, a result of seek --out, or a topic
    model of topics --out.

    It shows the result and its certainty: the anchors and their heaviest columns (or spectra), the share that each
    explains, rows among the anchors, residual and rank curve, how well held-back rows are reconstructed, and the cost
    compared with full SPA. Fewer anchors, their names and the rows can be explored in it. It needs no network, and can
    be read on a phone and printed.
    """
    from ..report import write

    check_output(out, (".html", ".htm"), "--out", source, data, *name_files(options))
    start = time.perf_counter()
    if is_topic_model(str(source)):
        check_unused((*_SEEK, *UNUSED, "kind", "image"), f"{source} is a topic model")
        if size is not None:
            raise click.UsageError(f"-k is for data: the topic model {source} has its topics already")
        with working(f"looking at {source.name}"):
            number = report_topics(source, out, data, title, options)
        _print(out, number, "topic", {}, start, as_json)
        return
    found = load(str(source)) if source.is_file() and is_result(source) else None
    if found is not None:
        if size is not None:
            raise click.UsageError(f"-k is for data: the result {source} has its anchors already")
        data, options = _place(found, source, data, options)
        check_outside_inputs(out, "--out", data)
        known = "solver" in found.record
        check_unused(_SEEK if known else ("budget",), f"the result {source} has its anchors already")
        if known:
            solver, seed = found.record["solver"], found.record.get("seed", seed)
            kept = found.record.get("options", {})
            precondition, robust, radius, support, selection = (kept.get(name) for name in _RULE)
    elif data is not None:
        raise click.UsageError("--data is for results: SOURCE is the data already")
    with Input(data or source, **options) as rows, working(f"looking at {(data or source).name}"):
        rule = {"robust": robust, "radius": radius, "support": support, "selection": selection}
        again = make_solver(solver, precondition=precondition, **rule)
        if found is None:
            engine = make_solver(solver, budget=budget, precondition=precondition, **rule)
            anchors, curve = seek_anchors(engine, rows, size or "auto", seed)
        else:
            found = found.in_order_of(rows.matrix.column_names, source, rows.path)
            anchors = _anchors(found, rows, source)
            if found.record.get("averaged") and anchors.points is None:
                anchors = _points_again(again, rows, anchors, seed)
            curve = _curve(found, source)
        write(
            out,
            rows.matrix,
            anchors,
            title=title or rows.path.name,
            row_names=rows.row_names,
            column_names=rows.column_names,
            normalize=rows.normalize,
            **display_options(rows, kind, image),
            curve=curve,
            solver=again,
            seed=seed,
        )
    _print(out, len(anchors), "anchor", {"anchors": anchors.as_dict()["anchors"]}, start, as_json)


def _print(out: Path, number: int, noun: str, more: dict[str, Any], start: float, as_json: bool) -> None:
    seconds, size = time.perf_counter() - start, out.stat().st_size
    if as_json:
        emit({"path": str(out), "bytes": size, **more, "seconds": seconds})
    else:
        click.echo(f"report on {plural(number, noun)} in {out} ({shown_bytes(size)}, {seconds:.1f} s)")


def _place(found: Found, source: Path, data: Path | None, options: dict[str, Any]) -> tuple[Path, dict[str, Any]]:
    """The path of the data of a result, and the options to read them."""
    if "source" not in found.record:
        if data is None:
            raise InvalidInputError(f"{source} does not have the path of its data; pass it with --data")
        return data, options
    place = data or path_of(found.record["source"])
    if not place.exists():
        raise InvalidInputError(f"the data of {source} are no longer at {place}; pass their path with --data")
    if (place / "manifest.json").exists():
        return place, options
    recorded = {"normalize": found.record.get("normalize", "l1") or "none", **found.record.get("reader", {})}
    recorded |= reader_arguments(options)
    for name in ("row_names", "column_names"):
        if recorded.get(name) == "-":
            option = name.replace("_", "-")
            raise InvalidInputError(f"{source} has its {option.replace('-', ' ')} from standard input; pass --{option}")
    return place, recorded


def _points_again(solver: Any, rows: Input, anchors: Anchors, seed: int) -> Anchors:
    """The points of a result that only names the rows nearest to them, computed again from the same data."""
    found: Anchors = solver.seek(rows.matrix, len(anchors), rng=seed)
    if np.array_equal(found.indices, anchors.indices):
        return replace(found, cost=anchors.cost, seconds=anchors.seconds)
    changed = "the data have changed since the anchors were found; the rows nearest to them are shown in their place"
    return replace(anchors, certificate=Certificate("none", changed))


def _curve(found: Found, given: Path) -> RankCurve | None:
    """The curve behind the choice of ``-k auto`` of a result, or None."""
    from ..report.facts import curve_of

    if "rank" not in found.record:
        return None
    try:
        curve = curve_of(found.record["rank"])
        sizes = {len(values) for values in (curve.ks, curve.residuals, curve.errors, curve.falls)}
        if len(sizes) != 1 or not sizes.pop() or curve.singular_values.ndim != 1:
            raise ValueError("the curve of 'rank' has lists of different lengths")
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise StoreError(f"{given} is damaged: {one_line(str(error), 200)}") from error
    return curve


def _anchors(found: Found, rows: Input, given: Path) -> Anchors:
    """The result as the solver returned it, checked against the data."""
    record = found.record
    assert found.indices is not None
    shape = rows.matrix.shape
    check_index(found.indices, shape[0], name="anchor")
    if "solver" not in record:
        check_names(rows, found, str(given))
        how = Certificate("none", "the rows were given; the file does not say how they were chosen")
        return Anchors(found.indices, solver=GIVEN, cost=Cost(), seconds=0.0, certificate=how)
    if shape[1] != record["shape"][1]:
        raise InvalidInputError(f"{given} is of data with {record['shape'][1]} columns, {rows.path} has {shape[1]}")
    check_names(rows, found, str(given))
    check_rows(found, rows.pick(found.indices), given, rows.path)
    certificate = record["certificate"]
    try:
        anchors = Anchors(
            indices=found.indices,
            solver=record["solver"],
            cost=Cost(**record["cost"]),
            seconds=float(record["seconds"]),
            certificate=Certificate(certificate["kind"], certificate["statement"], certificate["details"]),
            residuals=None if "residuals" not in record else np.asarray(record["residuals"], dtype=np.float64),
            points=found.components if record.get("averaged") else None,
        )
    except (KeyError, TypeError, ValueError) as error:
        raise StoreError(f"{given} is damaged: {one_line(str(error), 200)}") from error
    if shape[0] == record["shape"][0]:
        return anchors
    changed = f"the data had {record['shape'][0]} rows when the anchors were found, and have {shape[0]} now"
    return replace(anchors, certificate=Certificate("none", changed))
