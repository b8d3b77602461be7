"""The commands for stores: ``build``, ``info``, ``verify``, ``update``, ``append``."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

import click
import numpy as np

from ..errors import InvalidInputError
from ..fas import stores
from ..io.addresses import is_address, local_path
from ..io.numbers import open_bytes
from ..store import Store
from ..store.storage import is_object_address
from ._options import FORMAT, FilePath, check_outside_inputs, check_outside_stores, reader_arguments, table_options
from ._streams import ADDRESS, is_pipe
from ._terminal import BYTES, progress_bar, shown_bytes
from ._triplets import indexed_triplets, named_triplets
from .app import emit, json_option

__all__ = ["append", "build", "info", "update", "verify"]

_LEADING = 10  # number of singular values to estimate


class _StoreAddress(str):
    """The address of a store in object storage."""

    @property
    def name(self) -> str:
        return self.rstrip("/").rpartition("/")[2]


class _StorePath(FilePath):
    """The directory of a store (also ``file://``), or its address."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if is_object_address(value):
            return _StoreAddress(value)
        return local_path(value) if is_address(value) else super().convert(value, param, ctx)


_source = click.argument("source", type=ADDRESS)
_store = click.argument("store", type=_StorePath(path_type=Path))


def _reader_options(command: Callable[..., None]) -> Callable[..., None]:
    """Options of the readers of :mod:`fastanchors.io`."""
    for option in (
        click.option("--format", type=FORMAT, help="File format; by default from the suffix or the content."),
        click.option("--variable", help="Array of an .npz, .mat or .zarr file."),
        click.option("--layer", help="Layer of an .h5ad file."),
        click.option("--transpose", is_flag=True, default=None, help="Transpose the matrix of a .mat file."),
        click.option("--row-names", type=ADDRESS, help="A file with one row name per line."),
    ):
        command = option(command)
    return table_options(command)


@click.command()
@_source
@_store
@click.option(
    "--normalize",
    type=click.Choice(["auto", "l1", "none"]),
    default="auto",
    show_default=True,
    help="Scale rows; auto is l1, or as SOURCE if it is a store.",
)
@click.option(
    "--columns/--no-columns",
    default=None,
    help="Store the column side too, for draws from columns; by default yes, or as SOURCE if it is a store.",
)
@click.option(
    "--directions",
    type=click.IntRange(1),
    help="Leading directions to keep, for noise-aware seeks of up to one anchor more; by default 32, or as SOURCE.",
)
@click.option("--memory", type=BYTES, default="1G", show_default=True, help="Memory limit.")
@click.option("--overwrite", is_flag=True, help="Replace an existing store.")
@click.option("--column-names", type=ADDRESS, help="A file with one column name per line.")
@_reader_options
@json_option
def build(
    source: Path,
    store: Path,
    normalize: str,
    columns: bool | None,
    directions: int | None,
    memory: int,
    overwrite: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Build STORE from the file SOURCE, in one pass and bounded memory.

    SOURCE is a .npy, .npz, .mtx[.gz], .csv/.tsv[.gz], .parquet, .h5ad, .mat, ENVI, GeoTIFF, netCDF,
    .zarr, LDA-C or docword file, or a store, whose copy keeps its settings.
    """
    if isinstance(store, Path):
        check_outside_stores(store, "STORE", may_be_one=True)
        if not _same_place(source, store):  # a copy may replace its original
            check_outside_inputs(store, "STORE", source)
    start = time.perf_counter()
    with progress_bar(f"building {store.name}", "rows") as bar:
        S = stores.build(
            source,
            store,
            normalize=None if normalize == "none" else normalize,
            columns=columns,
            directions=directions,
            memory_limit=memory,
            overwrite=overwrite,
            progress=lambda state: bar(state.rows, state.total_rows),
            **reader_arguments(options),
        )
    result = {"path": str(store), **_facts(S, all_of_it=False), "seconds": time.perf_counter() - start}
    _answer(result, as_json, f"built {S!r}: {shown_bytes(result['bytes'])} in {result['seconds']:.1f} s")


def _same_place(one: Any, other: Path) -> bool:
    return isinstance(one, Path) and os.path.realpath(one) == os.path.realpath(other)


def _answer(result: dict[str, Any], as_json: bool, text: str) -> None:
    if as_json:
        emit(result)
    else:
        click.echo(text)


@click.command()
@_store
@click.option("--top", type=click.IntRange(0), default=5, show_default=True, help="Number of heaviest rows, columns.")
@json_option
def info(store: Path, top: int, as_json: bool) -> None:
    """Print information on STORE: shape, density, norms, size, conditioning, heaviest rows and columns."""
    with stores.open(store) as S:
        facts = _facts(S)
        facts["frobenius_norm"] = S.frobenius_norm
        facts["heaviest_rows"] = _heaviest(S.row_norm, S.shape[0], S.row_names, top)
        if S.manifest.column_side:
            facts["heaviest_columns"] = _heaviest(S.column_norm, S.shape[1], S.column_names, top)
        leading = _singular_values(S)
        facts["singular_values"] = leading
        facts["condition_estimate"] = leading[0] / leading[-1] if leading else None
    _answer({"path": str(store), **facts}, as_json, _described(store, facts))


def _facts(S: Any, *, all_of_it: bool = True) -> dict[str, Any]:
    m, n = S.shape
    local = isinstance(S, Store)
    nonzeros = S.nnz if local or all_of_it else None  # at an address this would download every shard
    if local:
        size = _bytes_in(S.path)
    else:
        size = sum(description["bytes"] for description in S.manifest.descriptions())
    return {
        "rows": m,
        "columns": n,
        "nonzeros": nonzeros,
        "density": None if nonzeros is None else nonzeros / (m * n),
        "sparse": S.is_sparse,
        "dtype": str(S.dtype),
        "normalize": S.normalize,
        "column_side": S.manifest.column_side,
        "bytes": size,
        "shards": len(S.manifest.shards),
        "generation": S.generation,
        "row_names": S.row_names is not None,
        "column_names": S.column_names is not None,
    }


def _bytes_in(folder: Path) -> int:
    """The size of the files in a folder, from which another process may remove some meanwhile."""
    size = 0
    for file in folder.iterdir():
        with contextlib.suppress(FileNotFoundError):
            size += file.stat().st_size
    return size


def _heaviest(norm: Any, length: int, names: Any, top: int) -> list[dict[str, Any]]:
    """The largest norms of the view, with index and name; computed for a million rows at a time."""
    best = np.empty(0, np.int64)
    for start in range(0, length, 1 << 20):
        best = np.concatenate([best, np.arange(start, min(length, start + (1 << 20)))])
        best = best[np.argsort(-norm(best), kind="stable")[:top]]
    norms = norm(best)
    return [
        {"index": int(i), "name": names[int(i)] if names is not None else str(i), "norm": float(x)}
        for i, x in zip(best, norms, strict=True)
    ]


def _singular_values(S: Store, rows: int = 256, count: int = _LEADING) -> list[float]:
    """Estimate the leading singular values of the view from rows drawn by their squared norms.

    Each drawn row is scaled to length ‖A‖_F / √p, which makes the Gram matrix of the p rows an estimate of A's.
    """
    if S.frobenius_norm == 0:
        return []
    drawn = S.sample_rows(rows, rng=0)
    sample = S.rows(drawn)
    sample = sample.astype(np.float64)  # products of small integers could overflow
    gram = np.asarray((sample @ sample.T).toarray() if S.is_sparse else sample @ sample.T)
    scale = S.frobenius_norm / (np.sqrt(rows) * S.row_norm(drawn))
    values = np.linalg.eigvalsh(gram * np.outer(scale, scale))[::-1]
    kept = values[: min(count, *S.shape)]
    return [float(value) for value in np.sqrt(kept[kept > 1e-12 * kept[0]])]


def _conditioning(facts: dict[str, Any]) -> str:
    count, most = len(facts["singular_values"]), min(facts["rows"], facts["columns"])
    ending = {1: "st", 2: "nd", 3: "rd"}.get(count, "th")  # there are at most ten
    last = "the last" if count == most else f"the {count}{ending} of {most:,}"
    if count < min(most, _LEADING):
        last += ", those after it about zero"
    return f"about {facts['condition_estimate']:.3g} (largest singular value over {last})"


def _described(store: Path, facts: dict[str, Any]) -> str:
    kind = "sparse" if facts["sparse"] else "dense"
    view = "rows of unit l1 norm" if facts["normalize"] == "l1" else "as stored"
    lines = [
        f"{store}",
        f"  shape        {facts['rows']:,} rows × {facts['columns']:,} columns, {kind} {facts['dtype']}",
        f"  non-zeros    {facts['nonzeros']:,} ({100 * facts['density']:.3g} %)",
        f"  view         {view}, Frobenius norm {facts['frobenius_norm']:.6g}",
        f"  on disk      {shown_bytes(facts['bytes'])} in {facts['shards']} shard(s), generation {facts['generation']}"
        + ("" if facts["column_side"] else ", without the column side"),
    ]
    if facts["condition_estimate"] is not None:
        lines.append(f"  conditioning {_conditioning(facts)}")
    for what in ("rows", "columns"):
        entries = facts.get(f"heaviest_{what}", [])
        if entries:
            lines.append(f"  heaviest {what}")
            lines += [f"    {entry['norm']:<12.6g} {entry['name']}" for entry in entries]
    return "\n".join(lines)


@click.command()
@_store
@json_option
def verify(store: Path, as_json: bool) -> None:
    """Check every checksum and every tree of STORE; the error names the damaged file."""
    start = time.perf_counter()
    with progress_bar(f"checking {store.name}", "rows") as bar:
        result = stores.verify(store, progress=bar)
    result |= {"ok": True, "seconds": time.perf_counter() - start}
    summary = f"{result['rows']:,} rows, {result['shards']} shard(s), {shown_bytes(result['bytes'])}"
    _answer(result, as_json, f"{store} is intact: {summary}")


@click.command()
@_store
@click.argument("triplets", default="-", type=FilePath(allow_dash=True))
@click.option("--add", is_flag=True, help="Add to the entries instead of setting them.")
@click.option("--commit-every", type=click.IntRange(1), help="Commit after this many changes; default: at the end.")
@click.option("--names", is_flag=True, help="Rows and columns are names instead of indices.")
@json_option
def update(store: Path, triplets: str, add: bool, commit_every: int | None, names: bool, as_json: bool) -> None:
    """Change entries of STORE: lines of row, column and value, from the file TRIPLETS or standard input.

    Rows and columns are 0-based indices; the separator is blanks or commas. With --names they are names; the separator
    is a tab if the line has one, else a comma, else blanks. Without --commit-every the update is atomic: an invalid
    line leaves the store unchanged.
    """
    start = time.perf_counter()
    name = "standard input" if triplets == "-" else triplets
    changed = commits = pending = 0
    with stores.open(store, mode="r+") as S, _opened(triplets) as file:
        change = S.add if add else S.update
        pieces = named_triplets(file, name, commit_every, S) if names else indexed_triplets(file, name, commit_every)
        for line, rows, columns, values in pieces:
            try:
                change(rows, columns, values)
            except InvalidInputError as error:
                raise InvalidInputError(f"{name}, from line {line} on: {error}") from None
            changed += rows.size
            pending += rows.size
            if commit_every is not None and pending >= commit_every:
                S.commit()
                commits, pending = commits + 1, 0
        if pending:
            S.commit()
            commits += 1
    seconds = time.perf_counter() - start
    result = {"path": str(store), "changed": changed, "commits": commits, "seconds": seconds}
    _answer(result, as_json, f"{changed:,} entries changed in {seconds:.2f} s")


def _opened(triplets: str) -> contextlib.AbstractContextManager[IO[bytes]]:
    """The lines as they come from standard input or a pipe, or those of a file."""
    if triplets == "-":
        return contextlib.nullcontext(sys.stdin.buffer)
    return Path(triplets).open("rb") if is_pipe(triplets) else open_bytes(Path(triplets))


@click.command()
@_store
@_source
@_reader_options
@json_option
def append(store: Path, source: Path, as_json: bool, **options: Any) -> None:
    """Append the rows of the file SOURCE to STORE, atomically."""
    start = time.perf_counter()
    with stores.open(store, mode="r+") as S:
        before = S.shape[0]
        S.append(source, **reader_arguments(options))
        S.commit()
        after = S.shape[0]
    result = {"path": str(store), "appended": after - before, "rows": after, "seconds": time.perf_counter() - start}
    _answer(result, as_json, f"{after - before:,} rows appended, {after:,} in total")
