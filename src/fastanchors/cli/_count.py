"""How many of something the applications look for; they do not choose it, and say how a person can."""

from __future__ import annotations

from typing import Any

import click

__all__ = ["Count"]


class Count(click.IntRange):
    """A number from ``least`` on; ``auto`` is answered with advice."""

    def __init__(self, least: int, things: str, advice: str) -> None:
        super().__init__(min=least)
        self._things, self._advice = things, advice

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if value == "auto":
            self.fail(f"the number of {self._things} is yours to choose: {self._advice}", param, ctx)
        return super().convert(value, param, ctx)
