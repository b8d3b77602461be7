"""Write reports: one self-contained HTML page that shows the results and their certainty."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .._lazy_names import load, names

# What type checkers and editors see; a test keeps it equal to the table below.
if TYPE_CHECKING:
    from .facts import Facts as Facts
    from .facts import gather as gather
    from .page_html import page as page
    from .results import write_topics as write_topics
    from .results import write_unmixing as write_unmixing
    from .shares import Shares as Shares
    from .shares import anchor_shares as anchor_shares
    from .writing import write as write

# Public name -> its module. No module may have the name of a function: importing it would replace the function.
_HOME = {
    "Facts": "facts",
    "Shares": "shares",
    "anchor_shares": "shares",
    "gather": "facts",
    "page": "page_html",
    "write": "writing",
    "write_topics": "results",
    "write_unmixing": "results",
}

__all__ = ["Facts", "Shares", "anchor_shares", "gather", "page", "write", "write_topics", "write_unmixing"]


if not TYPE_CHECKING:  # type checkers report every name that is not listed above

    def __getattr__(name: str) -> Any:
        return load(__name__, _HOME, name)


def __dir__() -> list[str]:
    return names(__name__, _HOME)
