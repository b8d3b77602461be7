"""Options shared by commands, with their types, completion and checks."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource
from click.shell_completion import CompletionItem

from ..io.open import formats

__all__ = [
    "FORMAT",
    "IMAGE",
    "KIND",
    "PATH",
    "SELECTION",
    "FilePath",
    "check_distinct",
    "check_not_input",
    "check_output",
    "check_outside_inputs",
    "check_outside_stores",
    "check_unused",
    "display_options",
    "name_files",
    "reader_arguments",
    "table_options",
]


class _Format(click.ParamType):  # type: ignore[type-arg]
    """A format by name; the reader raises on an unknown one."""

    name = "format"

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[Any]:
        return [CompletionItem(name) for name in formats() if name.startswith(incomplete)]


FORMAT = _Format()
SELECTION = click.Choice(["auto", "spa", "smoothed", "smoothed-one", "pseudo-points", "lifted", "whitened"])
KIND = click.Choice(["auto", "spectra", "scene", "words", "cells", "features"])


class FilePath(click.Path):
    """A path. An empty one, often an unset variable of a script, would be the current folder, and is refused."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if value == "":
            self.fail("the name is empty", param, ctx)
        return super().convert(value, param, ctx)


PATH = FilePath(path_type=Path)


class _Image(click.ParamType):  # type: ignore[type-arg]
    """The size of an image, as ``95,120``."""

    name = "height,width"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, int]:
        parts = str(value).replace("x", ",").split(",")
        if len(parts) != 2 or not all(part.isascii() and part.isdigit() and int(part[:9]) > 0 for part in parts):
            self.fail(f"{value!r} is not HEIGHT,WIDTH such as 95,120", param, ctx)
        return int(parts[0][:9]), int(parts[1][:9])


IMAGE = _Image()


class _Separator(click.ParamType):  # type: ignore[type-arg]
    name = "character"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        value = "\t" if value in ("\\t", "tab") else str(value)
        if len(value.encode()) != 1:
            self.fail(f"{value!r} is not one plain character such as ';' (or 'tab')", param, ctx)
        return value


def display_options(rows: Any, kind: str, image: tuple[int, int] | None) -> dict[str, Any]:
    """How to show the rows in a report: as requested, else by the metadata of their file."""
    from ..report.display import display_options_of_file

    found = display_options_of_file(rows.path, rows.scene, rows.matrix.shape[0])
    if image is not None:
        found = {"kind": "scene", "image": image}
    return found | ({} if kind == "auto" else {"kind": kind})


def table_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Options for the layout of a .csv or .tsv file, or of an array with three axes."""
    for option in (
        click.option(
            "--bands",
            type=click.Choice(["first", "middle", "last"]),
            help="Which axis of a cube in .npy or .npz holds the bands: its rows are then pixels.",
        ),
        click.option("--encoding", help="Encoding of a .csv or .tsv file, if it is not UTF-8: latin-1, cp1252, …"),
        click.option("--separator", type=_Separator(), help="Separator of the fields of a .csv file: ';', 'tab', …"),
        click.option(
            "--names-column",
            metavar="HEADING|none",
            help="The column of a table with the row names; 'none' if all columns are data.",
        ),
        click.option(
            "--header/--no-header",
            default=None,
            help="Whether the first line of a table has column names; by default guessed, with a note if uncertain.",
        ),
    ):
        command = option(command)
    return command


def reader_arguments(options: dict[str, Any]) -> dict[str, Any]:
    """The arguments of the reader: the options that were set, with ``names_column`` as ``row_names``."""
    given = {name: value for name, value in options.items() if value is not None}
    column = given.pop("names_column", None)
    if column is not None:
        if "row_names" in given:
            raise click.UsageError("use either --names-column or --row-names")
        given["row_names"] = False if column == "none" else column
    return given


def name_files(options: dict[str, Any]) -> tuple[Any, ...]:
    """The inputs among the options of a reader; ``--names-column`` may be a file of names too."""
    return tuple(options.get(name) for name in ("row_names", "column_names", "names_column"))


def check_output(
    path: Path | None, suffixes: tuple[str, ...], option: str, *sources: Any, beside: tuple[str, ...] = ()
) -> None:
    """Check an output file before any work is done: its suffix, its folder, and that it is not one of the inputs.

    ``beside`` has the suffixes of further files that are written with it.
    """
    if path is None or path.suffix.lower() != ".csv":
        check_unused(("escape_formulas",), "it is for a .csv file")
    if path is None:
        return
    if path.suffix.lower() not in suffixes:
        raise click.BadParameter(f"{path.name} must end in {', '.join(suffixes)}", param_hint=option)
    if not path.absolute().parent.is_dir():
        raise click.BadParameter(f"the folder {path.parent} does not exist", param_hint=option)
    if path.is_dir():
        raise click.BadParameter(f"{path} is a folder", param_hint=option)
    if path.exists() and not path.is_file():  # it would be replaced, not written to
        raise click.BadParameter(f"{path} is a pipe or a device; give the name of a file", param_hint=option)
    check_outside_stores(path, option)
    check_outside_inputs(path, option, *sources)
    for written in (path, *(path.with_suffix(suffix) for suffix in beside)):
        check_not_input(written, option, *sources)


def check_not_input(path: Path, option: str, *sources: Any) -> None:
    """Check that an output is none of the inputs, nor the header or the raw file that belongs to one."""
    from ..io.envi import image_files

    for source in sources:
        local = isinstance(source, str | Path)  # not an address
        if local and any(_same_file(path, file) for file in image_files(Path(source))):
            raise click.BadParameter(f"{path} is an input of this command and would be overwritten", param_hint=option)


def check_outside_inputs(path: Path, option: str, *sources: Any) -> None:
    """Check that an output is not in a folder that the command reads: the next reader would take it for data."""
    for source in sources:
        if isinstance(source, Path) and source.is_dir() and _real(path).is_relative_to(_real(source)):
            raise click.BadParameter(f"{path} is inside {source}, which this command reads", param_hint=option)


def check_outside_stores(path: Path, option: str, *, may_be_one: bool = False) -> None:
    """Check that an output is neither a store, unless it may be one, nor inside one."""
    from ..store.build_directory import is_store

    place = _real(path)
    if any(is_store(folder) for folder in (*(() if may_be_one else (place,)), *place.parents)):
        raise click.BadParameter(f"{path} is inside a store, which would be damaged", param_hint=option)


def check_distinct(outputs: dict[str, Path | None]) -> None:
    """Check that no two options name the same output file."""
    seen: dict[Path, str] = {}
    for option, path in outputs.items():
        if path is not None and (other := seen.setdefault(_real(path), option)) != option:
            raise click.BadParameter(f"{path} is also the file of {other}", param_hint=option)


def check_unused(names: tuple[str, ...], reason: str) -> None:
    """Raise if one of these parameters was given as an option of the command: it would have no effect."""
    context = click.get_current_context()
    for option in context.command.params:
        if option.name in names and context.get_parameter_source(option.name) is ParameterSource.COMMANDLINE:
            raise click.UsageError(f"{option.opts[-1]} has no effect: {reason}")


def _real(path: Path) -> Path:
    """The path without links; those that lead in a circle stay, where ``Path.resolve`` would raise a RuntimeError."""
    return Path(os.path.realpath(path))


def _same_file(path: Path, source: Path) -> bool:
    """Whether both are the same file, also through links."""
    try:
        return os.path.samefile(path, source)
    except (OSError, ValueError):  # it does not exist, or is an address
        return False
