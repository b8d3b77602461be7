"""An index as arrays, for its sidecar in a store; arrays that are read are validated."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from .._validate import csr_of
from ..store.sidecars import Arrays, check_types
from .bounds import Thresholds
from .coreset import Coreset, Run
from .hull import Hull
from .index import Index

__all__ = ["decode_index", "encode_index"]

_CSR = ("data", "indices", "indptr")
_INTEGERS = {"numbers", "indices", "tied", "tied_ends", "core.indices", "core.csr.indices", "core.csr.indptr"}
_ENTRIES = {"core.rows", "core.csr.data"}


def encode_index(index: Index) -> dict[str, NDArray[Any]]:
    """The arrays of an index."""
    run, coreset = index.run, index.coreset
    flags = [index.proved, index.rows, index.stuck, index.complete, run.exhausted]
    arrays: dict[str, NDArray[Any]] = {
        "numbers": np.array(flags, dtype=np.int64),
        "norm": np.array([index.norm]),
        "tails": index.tails,
        "indices": run.indices,
        "residuals": run.residuals,
        "basis": run.thresholds.basis,
        "low": run.thresholds.low,
        "high": run.thresholds.high,
        "norm_limit": run.thresholds.norm,
        "tied": np.concatenate([np.zeros(0, np.int64), *run.tied]),
        "tied_ends": np.cumsum([len(tied) for tied in run.tied], dtype=np.int64),
        "core.indices": coreset.indices,
        "core.squares": coreset.squared_norms,
    }
    if index.hull is not None:
        hull = index.hull
        arrays |= {"hull.points": hull.points, "hull.shares": hull.shares, "hull.gap": np.array([hull.gap])}
    if sp.issparse(coreset.rows):
        return arrays | {f"core.csr.{name}": getattr(coreset.rows, name) for name in _CSR}
    return arrays | {"core.rows": coreset.rows}


def decode_index(stored: Arrays, shape: tuple[int, int]) -> Index:
    """The index of a matrix of that shape; raises ``ValueError`` and the like if the arrays are invalid."""
    # The maps outlive the file, which is never rewritten; rows of the coreset are read only if a run is repeated.
    arrays = {name: np.asarray(array) for name, array in stored.items()}
    check_types(arrays, _INTEGERS, _ENTRIES)
    proved, rows, stuck, complete, exhausted = (int(x) for x in arrays["numbers"])
    indices = arrays["indices"]
    thresholds = Thresholds(arrays["basis"], arrays["low"], arrays["high"], arrays["norm_limit"], indices)
    tied = tuple(np.split(arrays["tied"], arrays["tied_ends"][:-1])) if len(indices) else ()
    hull = None
    if "hull.gap" in arrays:
        hull = Hull(arrays["hull.points"], arrays["hull.shares"], float(arrays["hull.gap"][0]))
    core = arrays["core.indices"]
    if "core.rows" in arrays:
        matrix: Any = arrays["core.rows"]
    else:
        matrix = csr_of((arrays[f"core.csr.{name}"] for name in _CSR), (len(core), shape[1]))
    index = Index(
        Run(indices, arrays["residuals"], thresholds, tied, bool(exhausted)),
        proved,
        Coreset(core, matrix, arrays["core.squares"]),
        arrays["tails"],
        float(arrays["norm"][0]),
        rows,
        bool(stuck),
        bool(complete),
        hull,
    )
    _check(index, shape)
    return index


def _check(index: Index, shape: tuple[int, int]) -> None:
    """Raise ``ValueError`` if row indices or array lengths are inconsistent with each other or the store."""
    run, core, (m, n) = index.run, index.coreset, shape
    T, lengths = len(run.indices), run.thresholds
    if not 0 <= index.proved <= T or not 0 <= index.rows <= m or len(run.tied) != T:
        raise ValueError(f"it proves {index.proved} of {T} steps for {index.rows} rows, the store has {m}")
    vectors = (run.residuals, lengths.low, lengths.high, lengths.norm, index.tails)
    if any(x.shape != (T,) for x in vectors) or lengths.basis.shape[1:] != (n,) or len(lengths.basis) < T:
        raise ValueError("its arrays have other lengths than its sequence")
    if index.hull is not None and index.hull.points.shape != (*index.hull.shares.shape, n):
        raise ValueError("its hull has other points than shares")
    if not all(x.dtype == np.float64 for x in (*vectors, lengths.basis)):
        raise ValueError("its numbers are not in double precision")
    for rows in (run.indices, core.indices, *run.tied):
        if rows.ndim != 1 or rows.dtype.kind != "i" or (rows.size and not 0 <= rows.min() <= rows.max() < index.rows):
            raise ValueError(f"it names rows beyond the {index.rows} of the store")
    if len(np.unique(run.indices)) < T or (np.diff(core.indices) <= 0).any():
        raise ValueError("it names a row twice")
    if core.rows.shape != (len(core.indices), n) or core.squared_norms.shape != core.indices.shape:
        raise ValueError("its coreset has other rows than it names")
    if not np.isin(run.indices[: index.proved], core.indices).all():
        raise ValueError("its anchors are not in its coreset")
