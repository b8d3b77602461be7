"""Ways to find anchors, one file each: ``.seek(A_or_S, k, rng=…) -> Anchors``.

``SOLVERS`` names them all; :func:`get` turns a name, a class or an object into a solver. Names load on first use.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from typing import Any

from .._lazy import load, names
from ..errors import InvalidInputError, InvalidTypeError

# Class -> the module it lives in; ``_NAMES`` below: how a solver is asked for by name.
_HOME = {
    "FAS": "fas",
    "SPA": "spa",
    "SNPA": "snpa",
    "XRAY": "xray",
    "DCA": "dca",
    "AroraLP": "arora_lp",
    "Hottopixx": "hottopixx",
    "QDCA": "qdca",
    "FGNSR": "fgnsr",
    "Solver": "_solver",
    "Robust": "robust",
    "EQUAL": "spa",
    "TIE": "spa",
    "choose": "spa",
}
_NAMES = {
    "fas": "FAS",
    "spa": "SPA",
    "snpa": "SNPA",
    "xray": "XRAY",
    "dca": "DCA",
    "arora-lp": "AroraLP",
    "hottopixx": "Hottopixx",
    "qdca": "QDCA",
    "fgnsr": "FGNSR",
}

__all__ = ["SOLVERS", "get", *sorted(_HOME)]


class _Solvers(Mapping[str, Any]):
    """Name -> solver class, each imported when it is asked for."""

    def __getitem__(self, name: str) -> Any:
        return __getattr__(_NAMES[name])

    def __iter__(self) -> Iterator[str]:
        return iter(_NAMES)

    def __len__(self) -> int:
        return len(_NAMES)


SOLVERS: Mapping[str, Any] = _Solvers()


def get(solver: Any) -> Any:
    """The solver that a name (``"spa"``), a class or an object stands for; objects are passed through."""
    if isinstance(solver, str):
        if solver not in _NAMES:
            close = difflib.get_close_matches(solver.lower().replace("_", "-"), _NAMES, n=1)
            hint = f"; did you mean {close[0]!r}?" if close else ""
            raise InvalidInputError(f"unknown solver {solver!r}{hint} (solvers: {', '.join(_NAMES)})")
        return SOLVERS[solver]()
    if isinstance(solver, type):
        solver = solver()
    if not callable(getattr(solver, "seek", None)):
        raise InvalidTypeError(f"a solver is a name or an object with .seek(A, k, rng=…), got {solver!r}")
    return solver


def __getattr__(name: str) -> Any:
    return load(__name__, _HOME, name)


def __dir__() -> list[str]:
    return names(__name__, _HOME)
