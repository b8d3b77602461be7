"""``fastanchors representatives``: select a few rows that represent a table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import numpy as np

from .._text import plural
from ._count import Count
from ._files import escape_option
from ._input import Input
from ._options import FORMAT, PATH, check_output, name_files, table_options
from ._streams import ADDRESS
from ._terminal import name_in_table, working
from ._weights import SUFFIXES, WeightsFile
from .app import emit, json_option
from .seek import make_solver

__all__ = ["representatives"]

_NAME_WIDTH = 60
_ADVICE = "try several numbers, and use the smallest one after which the error hardly decreases"


@click.command()
@click.argument("table", type=ADDRESS)
@click.option("-k", "size", type=Count(1, "representatives", _ADVICE), required=True, help="Number of rows.")
@click.option(
    "--scale",
    type=click.Choice(["range", "none"]),
    default="range",
    show_default=True,
    help="Map every column to 0 … 1, or use them as they are (one unit, no negative values).",
)
@click.option(
    "--robust",
    type=click.Choice(["neighbours"]),
    help="Require that a representative has near neighbours, to exclude errors in the table.",
)
@click.option("--format", type=FORMAT, help="File format; by default from the suffix or the content.")
@click.option("--row-names", type=ADDRESS, help="A file with one row name per line.")
@click.option("-o", "--out", type=PATH, help=f"Write every row as a mixture of them: {', '.join(SUFFIXES)}.")
@escape_option
@table_options
@json_option
def representatives(
    table: Path,
    size: int,
    scale: Any,
    robust: str | None,
    out: Path | None,
    escape_formulas: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Select K rows of TABLE such that the others are mixtures of them, with the share of each.

    TABLE is any file of numbers that seek reads and that fits in memory: .csv, .tsv, .parquet, .npy and more. Rows have
    their names if the table has a column of names.
    """
    from ..apps import representatives as run

    check_output(out, SUFFIXES, "--out", table, *name_files(options))
    with Input(table, normalize="none", **options) as data, working(f"reading {table.name}"):
        rows = data.rows
        if data.store is not None:
            raise click.UsageError(f"{table.name} does not fit in memory; use fastanchors seek instead")
        found = run(rows, size, scale=scale, solver=make_solver("spa", robust=robust) if robust else "snpa", rng=0)
        labels = None if data.row_names is None else [str(name) for name in data.row_names]
    names = [str(i) if labels is None else labels[i] for i in found.indices]
    if out is not None:
        with WeightsFile(out, np.float64, names, escape=escape_formulas) as file:
            file.write(found.weights, labels)
    if as_json:
        record = {
            "anchors": found.indices.tolist(),
            "anchor_names": None if labels is None else names,
            "share": found.share.tolist(),
            "relative_error": found.relative_error,
            "shape": list(rows.shape),
            "out": None if out is None else str(out),
        }
        emit(record)
        return
    click.echo(f"{plural(size, 'row')} for {table.name}: {plural(rows.shape[0], 'row')} × {rows.shape[1]} columns\n")
    shown = [name_in_table(name, _NAME_WIDTH) for name in names]
    width = max(len(name) for name in shown)
    for name, index, share in zip(shown, found.indices, found.share, strict=True):
        place = "" if labels is None else f"  row {index:,}"
        click.echo(f"  {name:<{width}}  {share:6.1%}{place}")
    click.echo(f"\nThe error of the mixtures is {found.relative_error:.1%} of the spread of the rows.")
    if out is not None:
        click.echo(f"Written to {out}: every row as a mixture.")
