"""``fastanchors seek``: find the anchors, with the share that each explains and the certificate."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
import numpy as np
from click.shell_completion import CompletionItem
from numpy.typing import NDArray

from .. import solvers
from .._rng import as_generator
from .._text import plural, uncounted
from ..anchors import Anchors
from ..errors import InvalidInputError, RankError
from ._files import escape_option
from ._input import Input, input_options
from ._options import PATH, SELECTION, check_output, name_files
from ._result import SUFFIXES, fingerprints, json_ready, save
from ._streams import ADDRESS
from ._terminal import name_in_table, working
from .app import emit, json_option

__all__ = ["SIZE", "make_solver", "record_of", "seek", "seek_anchors", "seek_options", "summary"]

_NAME_WIDTH = 60
_MOST_AUTO = 50  # anchors that -k auto considers
_UNEXPLAINED = 0.9  # unexplained fraction of the data above which there is advice
_SPARSE = 0.1  # largest fraction of non-zeros of a table of word counts


class _Size(click.ParamType):  # type: ignore[type-arg]
    name = "k"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int | str:
        if value == "auto":
            return "auto"
        try:
            k = int(value)
        except ValueError:
            k = 0
        if k < 1:
            self.fail(f"{value!r} is neither a positive number of anchors nor 'auto'", param, ctx)
        return k

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[Any]:
        return [CompletionItem("auto", help="estimate from the data")] if "auto".startswith(incomplete) else []


SIZE = _Size()


class _SolverName(click.ParamType):  # type: ignore[type-arg]
    name = "solver"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if value not in solvers.SOLVERS:
            try:
                solvers.get(value)
            except InvalidInputError as error:
                self.fail(str(error), param, ctx)
        return str(value)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[Any]:
        return [CompletionItem(name) for name in solvers.SOLVERS if name.startswith(incomplete)]


def seek_options(command: Any) -> Any:
    """Options of the solvers."""
    for option in (
        click.option(
            "--robust",
            type=click.Choice(["neighbours", "average", "median"]),
            help="Do not select isolated rows, such as outliers (fas, spa).",
        ),
        click.option(
            "--radius",
            type=click.FloatRange(0, 1, min_open=True, max_open=True),
            help="Largest distance of a neighbour for --robust, relative to the row; by default from the data.",
        ),
        click.option(
            "--support",
            type=click.FloatRange(0, min_open=True),
            help="Number of neighbours a row needs for --robust: at least 2, or a fraction of the rows below 1.",
        ),
        click.option(
            "--precondition",
            type=click.Choice(["spa", "svd", "mve"]),
            help="Make the anchors well-conditioned first, for robustness to noise (fas, spa).",
        ),
        click.option(
            "--selection",
            type=SELECTION,
            help="How to select anchors (fas): by default depending on the noise; spa: rows as they are.",
        ),
        click.option("--budget", type=click.IntRange(1), help="Largest number of rows to read (fas)."),
        click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Random seed."),
        click.option(
            "--solver",
            type=_SolverName(),
            default="fas",
            show_default=True,
            help=f"One of {', '.join(solvers.SOLVERS)}.",
        ),
    ):
        command = option(command)
    return command


def make_solver(name: str, **options: Any) -> Any:
    """The solver of that name with the options that are set."""
    given = {key: value for key, value in options.items() if value is not None}
    neighbourhood = {key: given.pop(key) for key in ("radius", "support") if key in given}
    if neighbourhood:
        if "robust" not in given:
            raise click.UsageError(f"--{next(iter(neighbourhood))} needs --robust")
        given["robust"] = solvers.Robust(given["robust"], **neighbourhood)
    both = {"precondition", "robust"}
    takes = {"fas": both | {"budget", "selection"}, "spa": both}.get(name, set())
    for key in given:
        if key not in takes:
            also = "" if key in ("budget", "selection") else " or spa"
            raise click.UsageError(f"--{key} is an option of --solver fas{also}, not of {name}")
    return solvers.SOLVERS[name](**given)


@click.command()
@click.argument("source", type=ADDRESS)
@click.option("-k", "size", type=SIZE, required=True, help="Number of anchors, or 'auto'.")
@seek_options
@click.option("--shares/--no-shares", default=True, help="Estimate the share of each anchor (from 1,000 rows).")
@click.option("--out", type=PATH, help=f"Also write the result to a file: {', '.join(SUFFIXES)}.")
@escape_option
@input_options
@json_option
def seek(
    source: Path,
    size: int | str,
    solver: str,
    seed: int,
    budget: int | None,
    precondition: str | None,
    robust: str | None,
    radius: float | None,
    support: float | None,
    selection: str | None,
    shares: bool,
    out: Path | None,
    escape_formulas: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Find K anchor rows of SOURCE, a store or a file.

    Prints the anchors, the share of the data that each explains, and the certificate of the answer. A store has an
    index, so the cost of a seek hardly grows with its size; a file is read completely each time.
    """
    check_output(out, SUFFIXES, "--out", source, *name_files(options))
    selection = "auto" if selection is None and solver == "fas" else selection
    rule = {"robust": robust, "radius": radius, "support": support, "selection": selection}
    engine = make_solver(solver, budget=budget, precondition=precondition, **rule)
    again = make_solver(solver, precondition=precondition, **rule)
    with Input(source, **options) as data:
        with working(f"seeking anchors of {source.name}"):
            anchors, curve = seek_anchors(engine, data, size, seed)
            components = anchors.points if anchors.points is not None else data.pick(anchors.indices)
            record = record_of(data, anchors, again, seed, curve, components if shares else None)
            record["options"] = {"budget": budget, "precondition": precondition, **rule}
        if out is not None:
            columns = {} if data.column_names is None else {"column_names": [str(name) for name in data.column_names]}
            save(record | columns, components, out, escape=escape_formulas)
    if as_json:
        emit(record)
    else:
        click.echo(summary(record))
        if out is not None:
            click.echo(f"written to    {out}")


def seek_anchors(engine: Any, data: Input, size: int | str, seed: int) -> tuple[Anchors, Any]:
    """The anchors, and the curve behind the choice of ``-k auto`` (else None)."""
    curve = None
    rows = data.rows
    try:
        if size == "auto":
            from ..rank import rank_curve

            curve = rank_curve(rows, k_max=min(_MOST_AUTO, *rows.shape), rng=seed)
            size = curve.k
        assert isinstance(size, int)
        return engine.seek(rows, size, rng=seed), curve
    except RankError as error:
        if error.set_aside:
            raise InvalidInputError(f"{data.path}: {error}") from None
        if error.rank < 1:
            raise InvalidInputError(f"every row of {data.path} is zero: it has no anchors") from None
        few = plural(error.rank, "independent anchor")
        raise InvalidInputError(
            f"{data.path} has only {few}, fewer than {size}; use -k {error.rank} or -k auto"
        ) from None


def record_of(
    data: Input, anchors: Anchors, again: Any, seed: int, curve: Any, components: NDArray[np.float64] | None
) -> dict[str, Any]:
    """The record of a seek as JSON values; with shares if ``components`` are given.

    ``again`` is the solver that computes anchors of halves of the rows, for results that do not know their stability.
    """
    from ..report.repeated import stability_record

    record = anchors.as_dict()
    m, n = data.rows.shape
    record |= {
        "k": len(anchors),
        "source": data.address,
        "shape": [m, n],
        "normalize": data.normalize,
        "reader": data.reader,
        "seed": seed,
        "spa_rows": (len(anchors) + 1) * m,
        "averaged": anchors.points is not None,
        "fingerprint": fingerprints(data.pick(anchors.indices)),
    }
    if anchors.points is not None:
        record["points"] = np.asarray(anchors.points, dtype=np.float64).tolist()
    record["stability"] = stability_record(data.rows, anchors, again, as_generator(seed))
    if data.row_names is not None:
        record["anchor_names"] = [str(data.row_names[int(i)]) for i in anchors.indices]
    if curve is not None:
        record["rank"] = curve.as_dict()
    if components is not None:
        from ..report.shares import anchor_shares

        found = anchor_shares(data.rows, components, rng=seed)
        record |= {
            "shares": [float(share) for share in found.shares],
            "unexplained": found.unexplained,
            "share_rows": found.rows,
        }
        if found.unexplained > _UNEXPLAINED:
            record["advice"] = _advice(data, chosen=curve is not None)
    return dict(json_ready(record))


def _advice(data: Input, *, chosen: bool) -> str:
    """What to try if the anchors explain almost nothing; ``chosen``: by ``-k auto``."""
    matrix = data.matrix
    if matrix.is_sparse and matrix.nnz < _SPARSE * matrix.shape[0] * matrix.shape[1]:
        return (
            "almost nothing is explained: these sparse rows are not mixtures of a few of them. If rows are documents "
            f"and columns are words, use fastanchors topics {data.path.name}"
        )
    said = "almost nothing is explained: the rows are not mixtures of a few of them"
    return said if chosen else f"{said}; more anchors may help (-k auto)"


def summary(record: Mapping[str, Any]) -> str:
    """The record as text: a table of the anchors, certificate, stability and cost."""
    m, n = record["shape"]
    view = "rows scaled to unit sum" if record["normalize"] == "l1" else "rows as they are"
    size = f"{plural(m, 'row')} × {plural(n, 'column')}"
    lines = [f"{plural(record['k'], 'anchor')} of {Path(record['source']).name}: {size}, {view}", ""]
    if "rank" in record:
        lines[1:1] = [f"k = {record['k']} because {record['rank']['reason']}"]
    lines += _table(record)
    certificate, cost = record["certificate"], record["cost"]
    lines += [
        "",
        f"certificate   {certificate['kind']}: {certificate['statement']}",
        *_stability_lines(record),
        f"cost          {cost['rows_read']:,} rows read in {record['seconds']:.3g} s ({record['solver']}); "
        f"SPA, with a pass for each anchor, reads {record['spa_rows']:,}",
    ]
    if "plain" in certificate["details"] and record["k"] > 1:
        lines.append(f"note          these are plain SPA's rows: {certificate['details']['plain']}")
    if "advice" in record:
        lines.append(f"note          {record['advice']}")
    left_out = uncounted(str(certificate["details"].get("index", "")))
    if left_out:
        lines.append(f"              {left_out}")
    return "\n".join(lines)


def _stability_lines(record: Mapping[str, Any]) -> list[str]:
    """Lines on the stability of the anchors: whether other data from the same source would give them again."""
    stability = record["stability"]
    if stability["statement"] is None:
        return [f"stability     not known: {stability['reason']}"]
    warnings = [f"              warning: {warning}" for warning in stability["warnings"]]
    return [f"stability     {stability['statement']}", *warnings]


def _table(record: Mapping[str, Any]) -> list[str]:
    names = record.get("anchor_names") or [""] * len(record["anchors"])
    pairs = zip(record["anchors"], names, strict=True)
    names = ["" if name == str(index) else name_in_table(name, _NAME_WIDTH) for index, name in pairs]
    shares = record.get("shares")
    wide = max([len(name) for name in names] + [4 if any(names) else 0])
    digits = max(3, *(len(f"{index:,}") for index in record["anchors"]))
    gap = "  " if wide else ""
    lines = [f"{'#':>4}  {'row':>{digits}}{gap}{'name' if wide else '':<{wide}}" + ("  explains" if shares else "")]
    for order, (index, name) in enumerate(zip(record["anchors"], names, strict=True), start=1):
        line = f"{order:>4}  {index:>{digits},}{gap}{name:<{wide}}"
        if shares:
            share = shares[order - 1]
            line += f"  {100 * share:5.1f} %  {'▪' * round(40 * share)}"
        lines.append(line.rstrip())
    if shares:
        left = record["unexplained"]
        before = 4 + 2 + digits + len(gap) + wide
        label = "not explained" if before >= len("not explained") else "rest"
        lines.append(f"{label:>{before}}  {100 * left:5.1f} %")
    return [line.rstrip() for line in lines]
