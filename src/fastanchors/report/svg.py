"""Create drawings as SVG text: small, static, coloured by the page's style sheet, machine-readable.

Drawings are laid out for a width of 360 units, a phone's, so that their letters are never shrunk below reading size.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

import numpy as np
from numpy.typing import NDArray

from .._text import percent, short

__all__ = ["NAMED", "WIDTH", "curve", "drawing", "histogram", "simplex", "spectra_backdrop", "spectrum"]

WIDTH = 360
NAMED = 8  # corners with names beside them; if there are more, the names are in a list
_LETTER = 6.4  # width of a letter, roughly
_Array = NDArray[np.float64]


def drawing(identity: str, height: float, title: str, description: str, *parts: str) -> str:
    """An SVG picture with its text alternative."""
    return (
        f'<svg viewBox="0 0 {WIDTH} {height:g}" role="img" aria-labelledby="{identity}-t {identity}-d">'
        f'<title id="{identity}-t">{escape(title)}</title><desc id="{identity}-d">{escape(description)}</desc>'
        f"{''.join(parts)}</svg>"
    )


def _text(x: float, y: float, words: str, anchor: str = "start", style: str = "") -> str:
    kind = f' class="{style}"' if style else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{kind}>{escape(words)}</text>'


def _path(xs: Sequence[float] | _Array, ys: Sequence[float] | _Array) -> str:
    return "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in zip(xs, ys, strict=True))


def curve(
    identity: str,
    title: str,
    description: str,
    ks: Sequence[int],
    values: Sequence[float],
    chosen: int,
    *,
    log: bool,
) -> str:
    """Values against the number of anchors, with the chosen number marked; ``log`` for a logarithmic scale."""
    left, right, top, bottom, height = 46.0, 10.0, 14.0, 34.0, 230.0
    shown = np.asarray(values, dtype=float)
    if log:
        floor = max(shown.max() * 1e-16, 1e-300)
        shown = np.log10(np.maximum(shown, floor))
        low, high, ticks = _log_scale(float(shown.min()), float(shown.max()))
    else:
        low, high = 0.0, max(1e-12, float(shown.max()))
        step_size = _nice(high / 4)
        high = step_size * math.ceil(high / step_size - 1e-9)
        ticks = [(t * step_size, f"{100 * t * step_size:.3g} %") for t in range(round(high / step_size) + 1)]
    wide, tall = WIDTH - left - right, height - top - bottom
    most = max(ks)

    def x(k: float) -> float:
        return left + wide * ((k - 1) / max(1, most - 1))

    def y(value: float) -> float:
        return top + tall * (1 - (value - low) / (high - low))

    parts = []
    for value, label in ticks:
        parts.append(f'<path class="grid" d="M{left:g} {y(value):.1f}H{WIDTH - right:g}"/>')
        parts.append(_text(left - 6, y(value) + 4, label, "end"))
    step = max(1, math.ceil(most / 8))
    for k in range(step, most + 1, step):
        parts.append(_text(x(k), height - 18, str(k), "middle"))
    parts.append(_text(left + wide / 2, height - 3, "number of anchors", "middle", "soft"))
    parts.append(f'<path class="line" d="{_path([x(k) for k in ks], [y(v) for v in shown])}"/>')
    for k, v, value in zip(ks, shown, values, strict=True):
        here = k == chosen
        amount = f"{value:.3g}" if log else percent(value)
        parts.append(
            f'<circle class="{"mark" if here else "dot"}" cx="{x(k):.1f}" cy="{y(v):.1f}" r="{6 if here else 3}">'
            f"<title>{k} anchors: {amount}</title></circle>"
        )
    if chosen in list(ks):  # the curve falls: there is room above it on the right, and below it on the left
        at = x(chosen), y(float(shown[list(ks).index(chosen)]))
        if at[0] < left + 0.85 * wide:
            parts.append(_text(at[0] + 8, at[1] - 10, f"k = {chosen}", "start", "strong"))
        else:
            parts.append(_text(at[0] - 4, at[1] + 20, f"k = {chosen}", "end", "strong"))
    return drawing(identity, height, title, description, *parts)


def _log_scale(low: float, high: float) -> tuple[float, float, list[tuple[float, str]]]:
    """Both ends of a scale that contains two logarithms, and its ticks: 1, 2, 5 if it is short, else decades."""
    first, last = math.floor(low), math.ceil(high + 1e-9)
    if last - first > 2:
        step = math.ceil((last - first) / 6)
        ticks = [(float(t), f"1e{t}" if t else "1") for t in range(first, last + 1, step)]
        return float(first), float(last), ticks
    fine = [(math.log10(f) + t, f"{f * 10.0**t:g}") for t in range(first, last + 1) for f in (1, 2, 5)]
    start = max(at for at, (value, _) in enumerate(fine) if value <= low + 1e-9)
    stop = min(at for at, (value, _) in enumerate(fine) if value >= high - 1e-9 and at > start)
    return fine[start][0], fine[stop][0], fine[start : stop + 1]


def _nice(step: float) -> float:
    """The next of 1, 2, 5 times a power of ten."""
    power = 10.0 ** math.floor(math.log10(step))
    return next(f * power for f in (1, 2, 5, 10) if f * power >= step * (1 - 1e-9))


def histogram(identity: str, title: str, description: str, values: _Array, bins: int = 20) -> str:
    """How often each share up to 1 occurs; the scale starts at 0, 90 or 99 %, depending on the values."""
    left, right, top, bottom, height = 10.0, 10.0, 10.0, 34.0, 170.0
    first = max(start for start in (0.0, 0.9, 0.99) if start == 0.0 or values.min() >= start)
    counts, edges = np.histogram(values, bins=bins, range=(first, 1.0))
    wide, tall = (WIDTH - left - right) / bins, height - top - bottom
    parts = [f'<path class="grid" d="M{left:g} {top + tall:g}H{WIDTH - right:g}"/>']
    for b, number in enumerate(counts):
        if number == 0:
            continue
        size = max(1.5, tall * number / counts.max())
        words = f"{number} rows: {100 * edges[b]:.4g} to {100 * edges[b + 1]:.4g} % explained"
        parts.append(
            f'<rect class="bar" x="{left + b * wide + 1:.1f}" y="{top + tall - size:.1f}" width="{wide - 2:.1f}" '
            f'height="{size:.1f}"><title>{words}</title></rect>'
        )
    for part in (0.0, 0.25, 0.5, 0.75, 1.0):
        anchor = {0.0: "start", 1.0: "end"}.get(part, "middle")
        label = f"{100 * (first + part * (1 - first)):.5g} %"
        parts.append(_text(left + wide * bins * part, height - 18, label, anchor))
    parts.append(_text(WIDTH / 2, height - 3, "explained of a row that was held back", "middle", "soft"))
    return drawing(identity, height, title, description, *parts)


def simplex(
    identity: str,
    title: str,
    description: str,
    weights: _Array,
    explained: _Array,
    row_names: Sequence[str],
    anchor_names: Sequence[str],
    order: Sequence[int],
) -> str:
    """Rows among the anchors: each anchor a corner of a regular polygon, each row at its mixture of the corners."""
    k = len(anchor_names)
    height, radius = 310.0, 112.0
    centre = np.array([WIDTH / 2, height / 2 + (24 if k == 3 else 0)])
    corners = np.empty((k, 2))
    for place, j in enumerate(order):
        angle = -math.pi / 2 + 2 * math.pi * place / k if k != 2 else math.pi * place
        corners[j] = centre + radius * np.array([math.cos(angle), math.sin(angle)])
    if k == 1:
        corners[0] = centre
    parts = []
    if k > 1:
        outline = [corners[j] for j in order] + [corners[order[0]]]
        parts.append(f'<path class="hull" d="{_path([p[0] for p in outline], [p[1] for p in outline])}"/>')
    points = weights @ corners
    parts.append("<g>")
    for (px, py), share, name, row in zip(points, explained, row_names, weights, strict=True):
        heavy = np.argsort(-row, kind="stable")[:2]
        mix = ", ".join(f"{percent(row[j])} {short(anchor_names[j], 40)}" for j in heavy if row[j] > 0.005)
        words = escape(f"{short(name, 80)}: {mix}; {percent(share)} explained")
        style = "p" if share >= 0.5 else "q"
        parts.append(f'<circle class="{style}" cx="{px:.1f}" cy="{py:.1f}" r="3"><title>{words}</title></circle>')
    parts.append("</g>")
    for j in order:
        parts += _corner(corners[j], centre, j, anchor_names[j], k)
    return drawing(identity, height, title, description, *parts)


def _corner(at: _Array, centre: _Array, j: int, name: str, k: int) -> list[str]:
    """An anchor: a numbered mark, and its name outside if there is room."""
    away = at - centre
    length = float(np.hypot(*away))
    away = away / length if length else np.array([0.0, -1.0])
    parts = [
        f'<g class="corner"><title>{escape(f"{j + 1}. {name}")}</title>'
        f'<circle cx="{at[0]:.1f}" cy="{at[1]:.1f}" r="9.5"/>' + _text(at[0], at[1] + 4, str(j + 1), "middle") + "</g>"
    ]
    if k <= NAMED:
        parts.append(_corner_name(at, away, name))
    return parts


def _corner_name(at: _Array, away: _Array, name: str) -> str:
    """The name beside the corner if it fits before the edge; else above or below, moved into the picture."""
    x = float(at[0]) + math.copysign(15.0, away[0])
    beside = int((WIDTH - x if away[0] > 0 else x) / _LETTER)
    if abs(away[0]) > 0.35 and len(name) <= beside:
        return _text(x, float(at[1]) + 4 + 7 * float(away[1]), name, "start" if away[0] > 0 else "end", "name")
    label = short(name, 28)
    half = min(WIDTH / 2, _LETTER * len(label) / 2 + 2)
    x = min(max(float(at[0]), half), WIDTH - half)
    return _text(x, float(at[1]) + (24 if away[1] > 0.05 else -15), label, "middle", "name")


_SPECTRUM_HEIGHT = 130.0
_SPECTRUM_LEFT = 44.0


def _spectrum_path(row: _Array, top: float) -> str:
    at = np.unique(np.linspace(0, len(row) - 1, min(len(row), 240)).astype(int))
    xs = _SPECTRUM_LEFT + (WIDTH - _SPECTRUM_LEFT - 6) * at / max(1, len(row) - 1)
    ys = 10 + (_SPECTRUM_HEIGHT - 30) * (1 - row[at] / top)
    return _path(xs, ys)


def spectra_backdrop(components: _Array) -> str:
    """All spectra in grey, drawn once as the background of :func:`spectrum`."""
    top = float(components.max()) or 1.0
    lines = "".join(f'<path class="back" d="{_spectrum_path(row, top)}"/>' for row in components)
    return (
        f'<svg class="hidden" aria-hidden="true"><symbol id="all-spectra" viewBox="0 0 {WIDTH} {_SPECTRUM_HEIGHT:g}">'
        f"{lines}</symbol></svg>"
    )


def spectrum(identity: str, name: str, components: _Array, j: int, columns: Sequence[str] | None) -> str:
    """One anchor as a line over its columns, the others behind it."""
    top = float(components.max()) or 1.0
    peak = int(np.argmax(components[j]))
    n = components.shape[1]

    def label(column: int) -> str:
        return str(column) if columns is None else short(columns[column], 12)

    base = _SPECTRUM_HEIGHT - 20
    return drawing(
        identity,
        _SPECTRUM_HEIGHT,
        f"Spectrum of {name}",
        f"Values from 0 to {top:.2g} over {n} columns, highest at {label(peak)}; the other anchors in grey.",
        f'<use href="#all-spectra" width="{WIDTH}" height="{_SPECTRUM_HEIGHT:g}"/>',
        f'<path class="grid" d="M{_SPECTRUM_LEFT:g} {base:g}H{WIDTH - 6}M{_SPECTRUM_LEFT:g} 10H{WIDTH - 6}"/>',
        _text(_SPECTRUM_LEFT - 5, 14, f"{top:.2g}", "end"),
        _text(_SPECTRUM_LEFT - 5, base + 4, "0", "end"),
        f'<path class="line" d="{_spectrum_path(components[j], top)}"/>',
        _text(_SPECTRUM_LEFT, _SPECTRUM_HEIGHT - 5, label(0)),
        _text(WIDTH - 6, _SPECTRUM_HEIGHT - 5, label(n - 1), "end"),
    )
