"""Solvers, which find anchors: one file each, with the method ``.seek(A_or_S, k, rng=…) -> Anchors``.

``SOLVERS`` maps names to classes; :func:`get` turns a name, a class or an object into a solver. Names load on first
use.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeVar, overload

from .._lazy_names import load, names
from ..errors import InvalidInputError, InvalidTypeError

# What type checkers and editors see; a test keeps it equal to the tables below.
if TYPE_CHECKING:
    from ._solver import Solver as Solver
    from .arora_lp import AroraLP as AroraLP
    from .choice import choose as choose
    from .dca import DCA as DCA
    from .fas import FAS as FAS
    from .fgnsr import FGNSR as FGNSR
    from .hottopixx import Hottopixx as Hottopixx
    from .qdca import QDCA as QDCA
    from .robust import Robust as Robust
    from .snpa import SNPA as SNPA
    from .spa import EQUAL as EQUAL
    from .spa import SPA as SPA
    from .spa import TIE as TIE
    from .xray import XRAY as XRAY

# Name of a solver -> its class and the module of the class.
_SOLVERS = {
    "fas": ("FAS", "fas"),
    "spa": ("SPA", "spa"),
    "snpa": ("SNPA", "snpa"),
    "xray": ("XRAY", "xray"),
    "dca": ("DCA", "dca"),
    "arora-lp": ("AroraLP", "arora_lp"),
    "hottopixx": ("Hottopixx", "hottopixx"),
    "qdca": ("QDCA", "qdca"),
    "fgnsr": ("FGNSR", "fgnsr"),
}
_HOME = {
    **dict(_SOLVERS.values()),
    "Solver": "_solver",
    "Robust": "robust",
    "EQUAL": "spa",
    "TIE": "spa",
    "choose": "choice",
}

__all__ = [
    "DCA",
    "EQUAL",
    "FAS",
    "FGNSR",
    "QDCA",
    "SNPA",
    "SOLVERS",
    "SPA",
    "TIE",
    "XRAY",
    "AroraLP",
    "Hottopixx",
    "Robust",
    "Solver",
    "choose",
    "get",
]

_Seeker = TypeVar("_Seeker")


class _Solvers(Mapping[str, "type[Solver]"]):
    """Name -> solver class, imported on first access."""

    def __getitem__(self, name: str) -> type[Solver]:
        return load(__name__, _HOME, _SOLVERS[name][0])

    def __iter__(self) -> Iterator[str]:
        return iter(_SOLVERS)

    def __len__(self) -> int:
        return len(_SOLVERS)


#: Name -> solver class, for every solver of the library.
SOLVERS: Mapping[str, type[Solver]] = _Solvers()


@overload
def get(solver: str) -> Solver: ...


@overload
def get(solver: type[_Seeker]) -> _Seeker: ...


@overload
def get(solver: _Seeker) -> _Seeker: ...


def get(solver: Any) -> Any:
    """Return a solver, given its name, its class or the solver itself.

    Parameters
    ----------
    solver : str, class or object
        A name such as ``"spa"``, a class of solvers, or an object with ``.seek(A, k, rng=…)``, which is returned as it
        is.

    Examples
    --------
    >>> import fastanchors as fa
    >>> fa.solvers.get("spa")
    SPA(precondition=None, robust=None, tol=None, allow_fewer=False)
    """
    if isinstance(solver, str):
        if solver not in _SOLVERS:
            close = difflib.get_close_matches(solver.lower().replace("_", "-"), _SOLVERS, n=1)
            hint = f"; did you mean {close[0]!r}?" if close else ""
            raise InvalidInputError(f"unknown solver {solver!r}{hint} (solvers: {', '.join(_SOLVERS)})")
        return SOLVERS[solver]()
    if isinstance(solver, type):
        solver = solver()
    if not callable(getattr(solver, "seek", None)):
        raise InvalidTypeError(f"a solver must be a name or an object with .seek(A, k, rng=…), got {solver!r}")
    return solver


if not TYPE_CHECKING:  # type checkers report every name that is not listed above

    def __getattr__(name: str) -> Any:
        return load(__name__, _HOME, name)


def __dir__() -> list[str]:
    return names(__name__, _HOME)
