"""``fastanchors explore``: serve the report as a live page."""

from __future__ import annotations

import sys
import threading
import webbrowser
from collections.abc import Hashable
from pathlib import Path
from typing import Any

import click

from ..matrix.contract import RowMatrix
from ._input import Input, input_options
from ._options import IMAGE, KIND, SELECTION, display_options
from ._streams import ADDRESS
from ._terminal import working
from .app import emit, json_option, say

__all__ = ["explore"]


@click.command()
@click.argument("source", type=ADDRESS)
@click.option("-k", "size", type=click.IntRange(1, 50), default=5, show_default=True, help="Initial number of anchors.")
@click.option(
    "--selection",
    "rule",
    type=SELECTION,
    default="auto",
    show_default=True,
    help="Initial rule that selects anchors.",
)
@click.option("--kind", type=KIND, default="auto", show_default=True, help="What the rows are, as in report.")
@click.option("--image", type=IMAGE, help="Size of the image if the rows are its pixels.")
@click.option("--title", help="Name of the data on the page.")
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="The port; by default any free one.")
@click.option("--browser/--no-browser", default=False, help="Open the page in the browser of this machine.")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Random seed.")
@input_options
@json_option
def explore(
    source: Path,
    size: int,
    rule: str,
    kind: str,
    image: tuple[int, int] | None,
    title: str | None,
    port: int,
    browser: bool,
    seed: int,
    as_json: bool,
    **options: Any,
) -> None:
    """Serve a page on this machine to explore the anchors of SOURCE, a store or a file, until Ctrl-C.

    This is a live version of the page of report: any number of anchors up to 50, other rules, every row by its name.
    Changes that another process commits to a store are shown within a second. Only this machine can reach the page, at
    the printed address.
    """
    from ..report.live import Session
    from ..report.serve import ExplorerServer

    def open_rows() -> tuple[RowMatrix, dict[str, Any]]:
        rows = Input(source, **options)
        return rows.matrix, display_options(rows, kind, image)

    session = Session(open_rows, lambda: _signature(source), title=title or source.name, seed=seed)
    try:
        with working(f"looking at {source.name}"):
            session.seek(size, rule)
        with ExplorerServer(session, k=size, rule=rule, port=port) as server:
            _print(server.address, as_json)
            if browser:
                threading.Thread(target=webbrowser.open, args=(server.address,), daemon=True).start()
            server.serve_forever(poll_interval=0.2)
    except KeyboardInterrupt:
        say("stopped")
    finally:
        session.close()


def _print(address: str, as_json: bool) -> None:
    if as_json:
        emit({"address": address})
    else:
        click.echo(f"{address}\n(Ctrl-C stops it)")
    sys.stdout.flush()


def _signature(source: Path) -> Hashable:
    """A value that changes if the file, or the committed state of the store, changes."""
    try:
        files = [source] if source.is_file() else [source / "manifest.json", *source.glob("journal-*.log")]
        found = [(file.name, file.stat()) for file in sorted(files)]
    except OSError:  # the file is being replaced
        return None
    return tuple((name, stat.st_mtime_ns, stat.st_size, stat.st_ino) for name, stat in found)
