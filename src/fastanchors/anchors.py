"""The result of a solver: which rows, at what cost, and how sure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from .matrix.cost import Cost

__all__ = ["Anchors", "Certificate", "CertificateKind"]

CertificateKind: TypeAlias = Literal["exact", "near", "sampled", "none"]


@dataclass(frozen=True)
class Certificate:
    """How sure the answer is, and why.

    ``kind`` is ``"exact"`` (proved equal to what full SPA selects), ``"near"`` (every chosen residual is proved
    to be at least 1 − η of the largest), ``"sampled"`` (a statement with probability 1 − δ) or ``"none"``.
    ``statement`` says it in one sentence for people; ``details`` holds the figures behind it.
    """

    kind: CertificateKind
    statement: str
    details: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.kind}: {self.statement}"


@dataclass(frozen=True)
class Anchors:
    """The anchors a solver found.

    Attributes
    ----------
    indices : row indices, in the order of extraction.
    solver : name of the solver.
    cost : sample access used.
    seconds : wall-clock time of the seek.
    certificate : how sure the answer is.
    residuals : for solvers that extract one anchor at a time, the size of the residual at each choice.
    names : names of the anchor rows, where the source has any.
    points : the anchors as points (k × n) where they are not simply the rows ``indices``: averages of near
        neighbours for ``SPA(robust="average")``; what unmixing should take as spectra. None means those rows.
    """

    indices: NDArray[np.intp]
    solver: str
    cost: Cost
    seconds: float
    certificate: Certificate
    residuals: NDArray[np.float64] | None = None
    names: tuple[str, ...] | None = None
    points: NDArray[np.float64] | None = None

    def __len__(self) -> int:
        return len(self.indices)

    def as_dict(self) -> dict[str, Any]:
        """Plain Python values, ready for JSON."""
        result: dict[str, Any] = {
            "anchors": [int(i) for i in self.indices],
            "solver": self.solver,
            "seconds": float(self.seconds),
            "cost": self.cost.as_dict(),
            "certificate": {
                "kind": self.certificate.kind,
                "statement": self.certificate.statement,
                "details": _plain(self.certificate.details),
            },
        }
        if self.residuals is not None:
            result["residuals"] = [float(r) for r in self.residuals]
        if self.names is not None:
            result["anchor_names"] = list(self.names)
        return result


def _plain(value: Any) -> Any:
    """NumPy scalars, arrays and tuples as Python numbers and lists."""
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, np.ndarray):
        return [_plain(item) for item in value.tolist()]
    if isinstance(value, (list, tuple, set, frozenset)):
        return [_plain(item) for item in value]
    if isinstance(value, np.generic):
        return value.item()
    return value
