"""Show results in a notebook: one small table with a drawing of each anchor."""

from __future__ import annotations

import base64
import struct
import zlib
from collections.abc import Sequence
from html import escape
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._text import clean, plural, sentence
from ..anchors import Anchors
from ..apps import Topics, Unmixing
from .kinds import recognised

__all__ = ["notebook_form"]

_WIDTH, _HEIGHT = 220, 36  # of a spectrum, in pixels
_MAP = 64  # pixels of a map on its longer side
_LINE = "stroke:currentColor;fill:none;stroke-width:1.3"  # in the colour of the notebook's text, light or dark
_TOP = 5  # columns or words named
_MOST = 50  # lines of a table


def notebook_form(result: Anchors | Topics | Unmixing) -> str:
    """The result as HTML that needs no script, no style sheet and no network."""
    if isinstance(result, Topics):
        return _topics(result)
    return _materials(result) if isinstance(result, Unmixing) else _anchors(result)


def _anchors(anchors: Anchors) -> str:
    head = ["", "row", *(["name"] if anchors.names is not None else [])]
    columns: list[Sequence[str]] = [[f"{index:,}" for index in anchors]]
    if anchors.names is not None:
        columns.append([escape(clean(name, 80)) for name in anchors.names])
    if anchors.residuals is not None:
        head.append("residual")
        columns.append([f"{value:.4g}" for value in anchors.residuals])
    if anchors.support is not None:
        head.append("rows like it")
        columns.append([f"{count:,}" for count in anchors.support])
    if anchors.points is not None and len(anchors):
        smooth = recognised(anchors.points, None) == "spectra"
        head.append("values" if smooth else "heaviest columns")
        columns.append([_line(point, anchors.points) if smooth else _heaviest(point) for point in anchors.points])
    count = plural(len(anchors), "anchor")
    return _table(f"{count} by {anchors.solver}. {sentence(str(anchors.certificate))}", head, columns)


def _topics(topics: Topics) -> str:
    words = [escape(", ".join(clean(word, 40) for word in each)) for each in topics.words(8)]
    anchors = [escape(clean(word, 40)) for word in topics.anchor_words]
    caption = f"{len(topics.topics)} topics of {len(topics.mixtures):,} documents"
    return _table(caption, ["", "anchor word", "share", "words"], [anchors, _shares(topics.share), words])


def _materials(found: Unmixing) -> str:
    head = ["", "share", "pixel", "brightest at", "spectrum"]
    columns: list[Sequence[str]] = [_shares(found.share), [f"{index:,}" for index in found.anchors], found.brightest]
    columns.append([_line(row, found.endmembers) for row in found.endmembers])
    if found.cube.shape is not None:
        head.append("where")
        columns.append([_map(found.maps[:, :, j]) for j in range(len(found.endmembers))])
    return _table(f"{len(found.endmembers)} materials, relative error {found.relative_error:.3g}", head, columns)


def _shares(shares: NDArray[np.float64]) -> list[str]:
    bar = "display:inline-block;height:0.6em;background:currentColor;opacity:0.5;margin-left:0.5em;width"
    return [f'{share:.1%}<span style="{bar}:{60 * min(max(share, 0.0), 1.0):.0f}px"></span>' for share in shares]


def _table(caption: str, head: Sequence[str], columns: Sequence[Sequence[str]]) -> str:
    """A table whose cells are HTML already; the first column numbers its lines."""
    lines = list(zip(*columns, strict=True))
    left = 'style="text-align:left"'
    body = "".join(
        f"<tr><td>{number}</td>" + "".join(f"<td {left}>{cell}</td>" for cell in line) + "</tr>"
        for number, line in enumerate(lines[:_MOST], start=1)
    )
    if len(lines) > _MOST:
        body += f'<tr><td></td><td colspan="{len(columns)}">and {len(lines) - _MOST:,} more</td></tr>'
    names = "".join(f"<th {left}>{escape(name)}</th>" for name in head)
    # The caption is outside the table: a narrow table would break it into many short lines.
    return f'<div><p style="max-width:60em">{escape(caption)}</p><table><tr>{names}</tr>{body}</table></div>'


def _line(row: NDArray[np.float64], among: NDArray[np.float64]) -> str:
    """A spectrum as a line; all lines of a table have one scale."""
    top = float(np.max(among, initial=0.0)) or 1.0
    at = np.unique(np.linspace(0, len(row) - 1, min(len(row), _WIDTH // 2)).astype(int))
    xs = 1 + (_WIDTH - 2) * at / max(1, len(row) - 1)
    ys = 1 + (_HEIGHT - 2) * (1 - np.clip(row[at] / top, 0.0, 1.0))
    path = "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in zip(xs, ys, strict=True))
    size = f'width="{_WIDTH}" height="{_HEIGHT}" viewBox="0 0 {_WIDTH} {_HEIGHT}"'
    return f'<svg {size} role="img" aria-label="spectrum"><path style="{_LINE}" d="{path}"/></svg>'


def _heaviest(row: NDArray[np.float64]) -> str:
    total = float(np.abs(row).sum()) or 1.0
    order = np.argsort(-np.abs(row), kind="stable")[:_TOP]
    return ", ".join(f"{int(j)} ({abs(row[j]) / total:.0%})" for j in order if row[j])


def _map(image: NDArray[Any]) -> str:
    """The shares of a material in the image, from black (none) to white (all)."""
    stride = max(1, -(-max(image.shape) // _MAP))
    grey = np.round(255 * np.clip(np.nan_to_num(image[::stride, ::stride]), 0.0, 1.0)).astype(np.uint8)
    source = f"data:image/png;base64,{base64.b64encode(_png(grey)).decode('ascii')}"
    return f'<img alt="map of the share" width="{grey.shape[1]}" height="{grey.shape[0]}" src="{source}">'


def _png(grey: NDArray[np.uint8]) -> bytes:
    """Eight-bit grey values as a PNG file."""

    def chunk(kind: bytes, content: bytes) -> bytes:
        check = zlib.crc32(kind + content)
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", check)

    height, width = grey.shape
    lines = np.zeros((height, width + 1), dtype=np.uint8)  # each begins with its filter: none
    lines[:, 1:] = grey
    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    body = chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(lines.tobytes())) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + body
