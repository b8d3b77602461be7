"""Build the page from the facts: one self-contained HTML file."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._text import GIVEN, duration, percent, plural, sentence, short, uncounted
from .._version import __version__
from ..errors import InvalidTypeError
from ..rank import RankCurve
from . import svg
from .facts import Facts
from .head import head
from .script import embedded, inlined, policy, read

__all__ = ["document", "page"]

_VERDICTS = {"firm": "firm", "loose": "moves in other data", "noise": "not found again in other data"}
_ADVICE = "; judge by the curve, or raise k_max"  # from the rank curve, for callers of the function; not shown


def page(facts: Facts) -> str:
    """The whole document.

    Parameters
    ----------
    facts
        The result of :func:`gather`.

    Examples
    --------
    >>> import fastanchors as fa
    >>> X = fa.datasets.separable(100, 8, 3, rng=0).A
    >>> html = fa.report.page(fa.report.gather(X, fa.SPA().seek(X, 3), title="made"))
    >>> html[:15]
    '<!DOCTYPE html>'
    """
    if not isinstance(facts, Facts):
        raise InvalidTypeError(f"facts must be the result of gather, got {type(facts).__name__}")
    body = [
        head(facts),
        "<main>",
        read("explorer.html"),
        _anchors(facts),
        _shares(facts),
        _simplex(facts),
        _rank(facts, facts.curve) if facts.curve is not None else "",
        _held_back(facts) if facts.searched else "",
        _cost(facts) if facts.searched and facts.anchors.solver != GIVEN else "",
        "</main>",
        _foot(facts),
    ]
    return document(f"{facts.title}: {plural(facts.k, facts.noun)}", body, facts.explorer)


def document(title: str, body: Sequence[str], data: Mapping[str, Any], *, live: bool = False) -> str:
    """A page with these parts, the data of the explorer and its script; it loads nothing else."""
    script = inlined()
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy(script, connect=live)}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="referrer" content="no-referrer">'
        f'<meta name="generator" content="fastanchors {__version__}"><title>{escape(title)}</title>'
        f'<link rel="icon" href="data:,"><style>{read("style.css")}{read("explorer.css")}</style></head><body>\n'
        + "\n".join(body)
        + f'\n<script type="application/json" id="data">{embedded(data)}</script>\n<script>{script}</script>'
        + "\n</body></html>\n"
    )


def _section(identity: str, heading: str, *parts: str) -> str:
    return f'<section id="{identity}" aria-labelledby="{identity}-h"><h2 id="{identity}-h">{heading}</h2>' + (
        "\n".join(parts) + "</section>"
    )


def _table(caption: str, head: Sequence[tuple[str, bool]], rows: Iterable[Sequence[str]]) -> str:
    """A table of cells that are HTML already; columns marked True hold numbers. The first cell heads its row."""
    top = "".join(f'<th scope="col"{_number(right)}>{escape(label)}</th>' for label, right in head)
    lines = []
    for row in rows:
        cells = [f'<th scope="row"{_number(head[0][1])}>{row[0]}</th>']
        for cell, (_, right) in zip(row[1:], head[1:], strict=True):
            cells.append(cell if cell.startswith("<td") else f"<td{_number(right)}>{cell}</td>")
        lines.append(f"<tr>{''.join(cells)}</tr>")
    body = "".join(lines)
    return f"<table><caption>{escape(caption)}</caption><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>"


def _number(right: bool) -> str:
    return ' class="n"' if right else ""


def _meter(share: float, rest: bool = False) -> str:
    kind = ' class="rest"' if rest else ""
    width = 100 * min(max(share, 0.0), 1.0)
    return f'<td class="meter" aria-hidden="true"><span{kind} style="width:{width:.2f}%"></span></td>'


def _anchors(facts: Facts) -> str:
    spectra = facts.kind in ("spectra", "scene")
    stability = facts.explorer["steps"][-1].get("stability")
    cards = []
    places = [facts.explorer["anchors"][at].get("place") for at in facts.explorer["steps"][-1]["anchors"]]
    for j, (name, share) in enumerate(zip(facts.names, facts.shares.shares, strict=True)):
        inside = (
            svg.spectrum(f"spectrum-{j + 1}", name, facts.components, j, facts.column_names)
            if spectra
            else _features(facts, j)
        )
        row = f"{places[j] or f'row {int(facts.anchors.indices[j]):,}'} · " if facts.named else ""
        again = f" · {_VERDICTS[stability['verdicts'][j]]}" if stability is not None else ""
        if stability is not None and "support" in stability:
            again += f" · supported by {plural(stability['support'][j], 'row')}"
        cards.append(
            f'<li><h3><span class="number">{j + 1}</span>{escape(name)}</h3>'
            f'<p class="share">{row}explains {percent(float(share))}{again}</p>{inside}</li>'
        )
    what = (
        "its values over the columns, the other anchors in grey"
        if spectra
        else f"its heaviest {_columns(facts)} with their share of the row"
    )
    intro = f"<p>In the order in which they were found; of each, {what}.</p>"
    return _section(
        "anchors",
        "The anchors",
        intro,
        svg.spectra_backdrop(facts.components) if spectra else "",
        f'<ol class="cards">{"".join(cards)}</ol>',
    )


def _columns(facts: Facts) -> str:
    return "words" if facts.kind == "words" else "columns"


def _features(facts: Facts, j: int) -> str:
    features = facts.features[j]
    most = max((value for _, value in features), default=1.0) or 1.0
    rows = "".join(
        f'<tr><th scope="row" title="{escape(name)}">{escape(name)}</th><td class="n">{percent(value)}</td>'
        f"{_meter(value / most)}</tr>"
        for name, value in features
    )
    return f"<table><caption>Heaviest {_columns(facts)}</caption><tbody>{rows}</tbody></table>"


def _shares(facts: Facts) -> str:
    found = facts.shares
    how = (
        f"Estimated from {found.rows:,} rows drawn by their squared norms."
        if found.sampled
        else f"From all {found.rows:,} rows."
    )
    most = max(float(found.shares.max()), found.unexplained) or 1.0
    rows = [
        [
            f'<span class="number">{j + 1}</span>{escape(name)}',
            percent(float(share)),
            percent(float(lead)),
            _meter(float(share) / most),
        ]
        for j, (name, share, lead) in enumerate(zip(facts.names, found.shares, facts.picture.leads, strict=True))
    ]
    rows.append(["not explained", percent(found.unexplained), "", _meter(found.unexplained / most, rest=True)])
    share = "weight" if facts.kind == "scene" else "share, its weight times its sum"
    return _section(
        "shares",
        "What each explains",
        "<p>The squared length of every row splits into a part for each anchor of its best mixture and a part that no "
        f"anchor explains. “Leads” is the percentage of rows, of {len(facts.picture.names):,} drawn evenly, in which "
        f"the anchor has the largest {share}.</p>",
        _table(how, (("anchor", False), ("explains", True), ("leads", True), (f"0 to {percent(most)}", False)), rows),
    )


def _simplex(facts: Facts) -> str:
    shown = facts.picture
    order = _seriation(shown.weights)
    poor = int(np.count_nonzero(shown.explained < 0.5))
    grey = f" Grey points ({poor} of {len(shown.names)}) are explained by less than half." if poor else ""
    note = "" if facts.k <= 3 else " With more than three anchors different mixtures can have the same position."
    picture = svg.simplex(
        "simplex-picture",
        "Rows as mixtures of the anchors",
        f"{len(shown.names)} rows among {facts.k} numbered anchors at the corners of a polygon. "
        f"{_spread(shown.weights)}",
        shown.weights,
        shown.explained,
        shown.names,
        facts.names,
        order,
    )
    legend = "" if facts.k <= svg.NAMED else _legend(facts)
    return _section(
        "simplex",
        "Rows among the anchors",
        f'<figure class="one"><div>{picture}</div>'
        f"<figcaption>{legend}<p>{len(shown.names):,} rows drawn evenly. An anchor is a corner; "
        "a row lies nearer to the anchors with larger shares in it, and a row in a corner is like that anchor alone. "
        f"Point at a row for its name and mixture.{grey}{note}</p></figcaption></figure>",
    )


def _legend(facts: Facts) -> str:
    """The names of the corners, if there are too many to draw; the heaviest two columns are added for unnamed rows."""
    items = []
    for j, name in enumerate(facts.names):
        heavy = (
            ""
            if facts.named or facts.kind in ("spectra", "scene")
            else ", ".join(word for word, _ in facts.features[j][:2])
        )
        items.append(f"<li>{escape(short(name, 60))}{f' · {escape(heavy)}' if heavy else ''}</li>")
    return f'<ol class="legend">{"".join(items)}</ol>'


def _spread(weights: NDArray[np.float64]) -> str:
    pure = int(np.count_nonzero(weights.max(axis=1) > 0.8)) if len(weights) else 0
    return f"{pure} of the rows are more than 80 % one anchor, the others are mixtures."


def _seriation(weights: NDArray[np.float64]) -> list[int]:
    """Order of the anchors around the polygon in which those that mix are neighbours: greedy, from the heaviest."""
    k = weights.shape[1]
    together = weights.T @ weights
    left = set(range(k))
    order = [int(np.argmax(np.diag(together)))]
    left.remove(order[0])
    while left:
        best = max(sorted(left), key=lambda j: together[order[-1], j])
        order.append(best)
        left.remove(best)
    return order


def _rank(facts: Facts, curve: RankCurve) -> str:
    ks = [int(k) for k in curve.ks]
    agreed = "The curve agrees" if curve.k == facts.k else f"By itself the curve would choose {curve.k}"
    residual = svg.curve(
        "residual-curve",
        "Largest distance of a row from the cone of the anchors",
        f"From {curve.residuals[0]:.3g} with one anchor to {curve.residuals[-1]:.3g} with {ks[-1]}.",
        ks,
        curve.residuals.tolist(),
        facts.k,
        log=True,
    )
    missing = svg.curve(
        "error-curve",
        "Share of the data not explained",
        f"From {percent(float(curve.errors[0]) ** 2)} with one anchor to {percent(float(curve.errors[-1]) ** 2)} "
        f"with {ks[-1]}.",
        ks,
        (curve.errors**2).tolist(),
        facts.k,
        log=False,
    )
    values = curve.singular_values
    rows = [
        [
            str(k),
            f"{curve.residuals[at]:.4g}",
            f"{curve.falls[at]:.3g}",
            percent(float(curve.errors[at]) ** 2),
            f"{values[at]:.4g}" if at < len(values) else "",
        ]
        for at, k in enumerate(ks)
    ]
    head = (("k", True), ("residual", True), ("falls by", True), ("not explained", True), ("singular value", True))
    table = _table(f"The figures behind the curves, from {curve.rows:,} rows", head, rows)
    return _section(
        "rank",
        "How many anchors?",
        f"<p>{agreed}: {escape(curve.reason.removesuffix(_ADVICE))}.</p>",
        f'<div class="pair"><figure>{residual}<figcaption>Residual: the farthest row from all mixtures of the first k '
        f"anchors, taken greedily.</figcaption></figure><figure>{missing}<figcaption>Share of the data that the "
        "first k leave unexplained.</figcaption></figure></div>",
        f'<details><summary>The figures</summary><div class="scroll">{table}</div></details>',
    )


def _held_back(facts: Facts) -> str:
    held = facts.held_back
    heading = "Rows that were held back"
    if held is None:
        return _section("held-back", heading, "<p>There are too few rows to hold some back.</p>")
    rows = len(held.explained)
    half, low = float(np.median(held.explained)), float(np.quantile(held.explained, 0.1))
    words = (
        f"<p>{rows:,} rows were held back and anchors found again among {held.kept:,} others ({held.same} of {held.k} "
        f"came out the same). Mixtures of these make up {percent(held.total)} of the squared length of the rows held "
        f"back, against {percent(held.total_kept)} of the other rows (the anchors, which explain themselves, aside). "
        f"Half of the rows held back are explained to {percent(half)} or more, nine of ten to {percent(low)} or "
        "more.</p>"
    )
    picture = svg.histogram(
        "held-back-picture",
        "How well rows that were held back are explained",
        f"Median {percent(half)}, a tenth of the rows below {percent(low)}.",
        held.explained,
    )
    return _section("held-back", heading, words, f'<figure class="one">{picture}</figure>')


def _cost(facts: Facts) -> str:
    cost, full = facts.anchors.cost, facts.spa_rows
    most = max(cost.rows_read, full)
    left_out = uncounted(str(facts.anchors.certificate.details.get("index", "")))
    if left_out.startswith("this was full SPA"):
        compared = f"{sentence(left_out)} On rows that are not held in memory it passes over all"
    elif cost.rows_read == 0:
        compared = "No row was read: an index that was made before gave the answer. Full SPA passes over all rows"
    elif cost.rows_read < full:
        compared = f"{full / cost.rows_read:.3g} times fewer rows were read than full SPA reads, which passes over all"
    else:
        compared = "As many rows were read as full SPA reads, or more; it passes over all"
    rows = [
        [escape(facts.anchors.solver), f"{cost.rows_read:,}", _meter(cost.rows_read / most)],
        ["full SPA, a pass for each anchor", f"{full:,}", _meter(full / most, rest=True)],
    ]
    extra = []
    if cost.samples:
        extra.append(f"{cost.samples:,} draws")
    if cost.queries:
        extra.append(f"{cost.queries:,} single entries and norms")
    also = f" Besides these: {' and '.join(extra)}." if extra else ""
    if left_out and not left_out.startswith("this was full SPA"):
        also += f" {sentence(left_out)}"
    return _section(
        "cost",
        "What it cost",
        f"<p>{compared} {facts.k + 1} times. The search took {duration(facts.anchors.seconds)}.{also}</p>",
        _table("Rows read to find the anchors", (("method", False), ("rows read", True), ("", False)), rows),
    )


def _foot(facts: Facts) -> str:
    seed = "" if facts.seed is None else f", seed {facts.seed}"
    return (
        f"<footer><p>Made by fastanchors {__version__} on {time.strftime('%Y-%m-%d')} with solver "
        f"<code>{escape(facts.anchors.solver)}</code>{seed}. The same data and seed give the same anchors.</p></footer>"
    )
