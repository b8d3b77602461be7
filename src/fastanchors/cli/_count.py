"""Option type for the number of topics, materials or representatives."""

from __future__ import annotations

from typing import Any

import click

__all__ = ["Count"]


class Count(click.IntRange):
    """An integer of at least ``least``; ``auto`` is an error with advice on how to choose it."""

    def __init__(self, least: int, things: str, advice: str) -> None:
        super().__init__(min=least)
        self._things, self._advice = things, advice

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if value == "auto":
            self.fail(f"the number of {self._things} cannot be chosen automatically: {self._advice}", param, ctx)
        return super().convert(value, param, ctx)
