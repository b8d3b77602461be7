"""Format words and numbers for display."""

from __future__ import annotations

import unicodedata

__all__ = ["GIVEN", "clean", "count", "duration", "percent", "plural", "sentence", "short", "uncounted"]

_JOINERS = "\u200c\u200d"  # zero-width, but part of words in some scripts
GIVEN = "given"  # name of the solver if the caller gave the anchors


def clean(name: object, width: int = 160) -> str:
    """A name fit for a page or a terminal: on one line, without control characters, at most ``width`` long."""
    text = " ".join(str(name).encode("utf-8", "replace").decode("utf-8").split())
    text = "".join(c for c in text if c in _JOINERS or unicodedata.category(c) not in ("Cc", "Cf", "Cs"))
    return short(text, width)


def short(text: str, width: int, ellipsis: str = "…") -> str:
    """The beginning of ``text``, with an ellipsis if something is left out."""
    return text if len(text) <= width else text[: width - len(ellipsis)].rstrip() + ellipsis


def percent(share: float) -> str:
    """``"73 %"`` (the space does not break), ``"4.2 %"``, ``"0.03 %"``; never rounded to 100 % or to 0 %."""
    value = 100.0 * share
    if value == 0 or value == 100 or 10 <= value < 99.5:
        shown = f"{value:.0f}"
    elif value < 10:
        shown = f"{value:.1f}" if value >= 1 else f"{value:.2f}" if value >= 0.01 else "< 0.01"
    else:
        shown = f"{value:.1f}" if value < 99.95 else f"{value:.2f}" if value < 99.995 else "> 99.99"
    return shown.replace(" ", "\N{NO-BREAK SPACE}") + "\N{NO-BREAK SPACE}%"


def plural(number: int, word: str) -> str:
    """``"1 row"``, ``"2,000 rows"``."""
    return f"{number:,} {word}" + ("" if number == 1 else "s")


def sentence(words: str) -> str:
    """The words with a capital and a full stop."""
    return words[:1].upper() + words[1:] + ("" if words.endswith(".") else ".")


def duration(seconds: float) -> str:
    """``"85 µs"``, ``"1.94 s"``."""
    if seconds < 1e-3:
        return f"{1e6 * seconds:.0f} µs"
    return f"{1e3 * seconds:.3g} ms" if seconds < 1 else f"{seconds:.3g} s"


def uncounted(index: str) -> str:
    """The cost missing from the comparison with full SPA, by a certificate's ``details["index"]``; may be empty."""
    if index.startswith("none"):
        return "this was full SPA too: it read the rows once and made its passes in memory"
    if index.startswith(("kept", "made now from sketches")):
        return "the pass in which the index or its sketches were made is not counted"
    return ""


def count(number: float) -> str:
    """``"12,345"``, or ``"1.2 million"`` for larger numbers."""
    for size, word in ((1e12, "trillion"), (1e9, "billion"), (1e6, "million")):
        if number >= size:
            return f"{number / size:.3g} {word}"
    return f"{number:,.0f}"
