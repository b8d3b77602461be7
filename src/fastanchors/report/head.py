"""The top of the page: the result, how well it explains the data, and how certain and how stable it is.

These are different questions: rows that are proved to be what the rule selects may still explain little, or differ in
other data from the same source.
"""

from __future__ import annotations

from html import escape

from .._text import GIVEN, count, duration, percent, plural, sentence
from .facts import Facts

__all__ = ["head"]

_SURE = {
    "exact": ("Proved.", "These are exactly what the stated rule selects from all rows."),
    "near": ("Proved up to a factor.", "Each chosen row is as far out as any row, up to the factor stated."),
    "sampled": ("Checked on a sample.", "The statement below says which rows were read."),
    "none": ("Not proved.", "These rows come without a proof; judge them by what they explain."),
}
_WELL, _POORLY = 0.9, 0.5  # shares of the data from which the anchors explain it well, and below which poorly


def head(facts: Facts) -> str:
    """The header of the page."""
    if not facts.searched:
        return _plain_head(facts)
    explained = 1 - facts.shares.unexplained
    about = "about " if facts.shares.sampled else ""
    listed = "".join(f"<div><dt>{escape(a)}</dt><dd>{escape(b)}</dd></div>" for a, b in _figures(facts))
    names = ", ".join(f"<em>{escape(name)}</em>" for name in facts.names[:3])
    names += f" and {facts.k - 3} more" if facts.k > 3 else ""
    rows = plural(facts.shape[0], "row")
    lead = (
        f"Among the {rows}, a few stand for the rest: {names}. "
        "Every other row is, as nearly as possible, a mixture of these."
        if explained >= _POORLY
        else f"These are the farthest out of the {rows}: {names}."
    )
    return (
        f'<header><p class="eyebrow">fastanchors report · {escape(facts.title)}</p>'
        f"<h1>{plural(facts.k, 'anchor')} {'explains' if facts.k == 1 else 'explain'} {about}{percent(explained)} "
        f'of the data</h1><p class="lead">{lead}</p>'
        f'<div class="verdicts">{_how_well(facts)}{_how_sure(facts)}</div>'
        f'<dl class="facts">{listed}</dl></header>'
    )


def _plain_head(facts: Facts) -> str:
    """The header for topics or materials, which no solver selected among the rows."""
    about = "about " if facts.shares.sampled else ""
    names = ", ".join(f"<em>{escape(name)}</em>" for name in facts.names[:8])
    names += f" and {facts.k - 8} more" if facts.k > 8 else ""
    listed = "".join(f"<div><dt>{escape(a)}</dt><dd>{escape(b)}</dd></div>" for a, b in _figures(facts))
    made_up = (
        f"Mixtures of them make up {about}{percent(1 - facts.shares.unexplained)} of the squared length of all rows. "
    )
    if facts.noun == "topic":  # the squares of counts are mostly noise
        made_up = ""
    row = {"topic": "document", "material": "pixel"}.get(facts.noun, "row")
    return (
        f'<header><p class="eyebrow">fastanchors report · {escape(facts.title)}</p>'
        f"<h1>{plural(facts.k, facts.noun)} of {plural(facts.shape[0], row)}</h1>"
        f'<p class="lead">{names}. {made_up}{escape(sentence(facts.anchors.certificate.statement))}</p>'
        f'<dl class="facts">{listed}</dl></header>'
    )


def _figures(facts: Facts) -> list[tuple[str, str]]:
    m, n = facts.shape
    figures = [
        ("data", f"{count(m)} × {count(n)}"),
        ("non-zero", percent(facts.density)),
        ("view", "rows sum to one" if facts.normalize == "l1" else "rows as they are"),
    ]
    if facts.anchors.solver == GIVEN or not facts.searched:
        return figures
    return [
        *figures,
        ("found by", facts.anchors.solver),
        ("rows read", count(facts.anchors.cost.rows_read)),
        ("time to find them", duration(facts.anchors.seconds)),
    ]


def _how_well(facts: Facts) -> str:
    left = facts.shares.unexplained
    word, style = (
        ("Well.", "") if 1 - left >= _WELL else ("In part.", "part") if 1 - left >= _POORLY else ("Poorly.", "open")
    )
    about = "about " if facts.shares.sampled else ""
    of_what = f"of the squared length of all rows; {percent(left)} is left over"
    said = f"Mixtures of {'it' if facts.k == 1 else 'them'} make up {about}{percent(1 - left)} {of_what}."
    also = []
    if facts.own > 0.2 * (1 - left):
        also.append(f"The anchors themselves are {percent(facts.own)} of the whole.")
    if 1 - left < _POORLY:
        also.append("Most rows are not mixtures of these: treat them as the most extreme rows, or use more anchors.")
    return _verdict("How well do they explain the data?", style, word, said, " ".join(also))


def _how_sure(facts: Facts) -> str:
    certificate = facts.anchors.certificate
    word, meaning = _SURE[certificate.kind]
    rule = certificate.details.get("selection")
    if certificate.kind == "exact" and rule is not None:  # applied as stated: there is no search that needs a proof
        word, meaning = "Yes.", f"These are the anchors that the rule “{escape(str(rule))}” gives for all rows."
    style = "open" if certificate.kind == "none" else ""
    asked = "Is this what the rule selects from all rows?"
    first = _verdict(asked, style, word, meaning, escape(sentence(certificate.statement)))
    return first + _how_stable(facts)


def _how_stable(facts: Facts) -> str:
    """Whether the anchors are those of the source or of this sample of it."""
    asked = "Would other data from the same source give the same anchors?"
    found = facts.explorer["steps"][-1].get("stability")
    if found is None:
        unknown = (
            "How the anchors were found is not known." if facts.anchors.solver == GIVEN else "There are too few rows."
        )
        return _verdict(asked, "open", "Not known.", unknown, "")
    firm, k = found["verdicts"].count("firm"), len(found["verdicts"])
    word, style = ("Yes.", "") if firm == k else ("Some of them.", "part") if firm else ("No.", "open")
    which = f"All {k} anchors" if firm == k else f"{firm or 'None'} of the {k} anchors"
    again = f"{which} would" if k > 1 else "It would" if firm else "It would not"
    warnings = "".join(f"<li>{escape(sentence(words))}</li>" for words in found["warnings"])
    listed = f"<ul>{warnings}</ul>" if warnings else ""
    said = f"{again} be found again near the same place."
    return _verdict(asked, style, word, said, escape(sentence(found["statement"])), listed)


def _verdict(asked: str, style: str, word: str, said: str, more: str, listed: str = "") -> str:
    """An answer in a word and one or two sentences, and a list; the texts are HTML already."""
    kind = f"sure {style}".strip()
    below = f'<p class="more">{more}</p>' if more else ""
    return (
        f'<div class="{kind}" role="note" aria-label="{asked}"><p class="asked">{asked}</p>'
        f"<p><strong>{word}</strong> {said}</p>{listed}{below}</div>"
    )
