"""Leave-one-scene-out check of the unmixing constants: choose them on all other scenes, then score the one left out.

Each constant is varied over a small grid with the others at their defaults. The value with the least mean ratio over
the other scenes is chosen, and the scene left out is unmixed with all chosen values. This does not correct for one
bias: the rules themselves were written with all scenes known.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module

import numpy as np

# Constant -> where it is defined, and its grid; the default is the middle value.
GRID: dict[str, tuple[str, tuple[float, ...]]] = {
    "largest group": ("apps._groups._LARGEST", (1, 2, 4)),
    "brightness floor": ("apps._groups.DARK", (0.05, 0.1, 0.2)),
    "rare material beyond": ("apps._groups._MISSED", (0.5, 1.0, 2.0)),
    "rare material gains": ("apps._groups._GAIN", (0.02, 0.05, 0.1)),
    "group of another set gains": ("apps._groups._SWAPPED", (0.05, 0.1, 0.2)),
    "noisy bands beyond": ("greedy.noise._NOISY", (3.0, 5.0, 10.0)),
    "white within": ("apps._materials.VARIES", (2.0, 4.0, 8.0)),
    "part unexplained": ("apps._materials._UNEXPLAINED", (0.01, 0.02, 0.05)),
}
DEFAULTS = {name: grid[1] for name, (_, grid) in GRID.items()}

Values = dict[str, float]
Ratio = Callable[[str], float]


@contextmanager
def constants(values: Values) -> Iterator[None]:
    """Inside, unmixing uses these constants."""
    before = []
    for name, value in values.items():
        module, _, attribute = GRID[name][0].rpartition(".")
        found = import_module(f"fastanchors.{module}")
        before.append((found, attribute, getattr(found, attribute)))
        setattr(found, attribute, value)
    try:
        yield
    finally:
        for found, attribute, value in before:
            setattr(found, attribute, value)


def leave_one_out(scenes: list[str], ratio: Ratio) -> list[tuple[str, float, float, str]]:
    """For each scene: ratio with the defaults, ratio with constants chosen on the others, changed constants."""

    def measured(values: Values, names: list[str]) -> np.ndarray:
        with constants(values):
            return np.array([ratio(name) for name in names])

    usual = measured(DEFAULTS, scenes)
    tried = {
        (name, value): usual if value == DEFAULTS[name] else measured(DEFAULTS | {name: value}, scenes)
        for name, (_, grid) in GRID.items()
        for value in grid
    }
    rows = []
    for at, scene in enumerate(scenes):
        others = np.arange(len(scenes)) != at
        chosen = {
            name: min(sorted(grid, key=lambda v: v != DEFAULTS[name]), key=lambda v: tried[name, v][others].mean())
            for name, (_, grid) in GRID.items()
        }
        changed = ", ".join(f"{name} {value:g}" for name, value in chosen.items() if value != DEFAULTS[name])
        rows.append((scene, float(usual[at]), float(measured(chosen, [scene])[0]), changed or "none"))
    return rows
