"""Find archetypes of single cells, of which the others are mixtures; results go into AnnData as in scanpy."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from .. import solvers
from .._rng import RngLike, as_generator
from .._validate import check_flag, check_size, check_text
from ..encoder import encode, error_norm
from ..errors import InvalidInputError, InvalidTypeError
from ..matrix import open_matrix

__all__ = ["archetypes"]


def archetypes(
    adata: Any,
    k: int,
    *,
    layer: str | None = None,
    solver: Any = "fas",
    key: str = "archetypes",
    copy: bool = False,
    rng: RngLike = None,
) -> Any:
    """Find ``k`` archetypal cells, and express every cell as a mixture of them.

    An archetype is a cell of the data at an extreme of expression, such as the end of a differentiation path. Cells are
    compared by the shares of their counts, so that sequencing depth does not matter.

    Parameters
    ----------
    adata : AnnData
        Cells × genes, in memory or backed: non-negative counts, or counts after ``log1p``.
    k : int
        Number of archetypes.
    layer : str or None
        The layer to use instead of ``X``.
    solver : str or solver object
        As in :class:`fastanchors.SeparableNMF`. ``"fas"`` estimates the profile of an archetype from several cells if
        single cells are noisy; ``fa.FAS(selection="spa")`` uses the cells unchanged.
    key : str
        The name under which the results are written.
    copy : bool
        Return a copy in memory with the results instead of writing into ``adata``. A view of a backed object, such as
        ``adata[mask]``, cannot hold results and needs this.
    rng : int, Generator or None
        The seed.

    Returns
    -------
    AnnData or None
        The copy if ``copy`` is true, otherwise None. With ``key="archetypes"`` the results are:

        - ``.obsm["X_archetypes"]``: cells × k, the share of each archetype in every cell; rows sum to one, but those of
          cells without counts are zero;
        - ``.obs["archetypes"]``: the archetype with the largest share, as a category named after its cell; missing for
          cells without counts;
        - ``.obs["archetypes_anchor"]``: whether the cell is an archetype;
        - ``.uns["archetypes"]``: ``names`` and ``indices`` of the archetypes, their expression profiles as
          ``components`` (k × genes, each summing to one), ``relative_error`` over the cells with counts,
          ``certificate`` and ``params``.

    Examples
    --------
    >>> import anndata  # doctest: +SKIP
    >>> import fastanchors as fa
    >>> adata = anndata.AnnData(fa.datasets.cells(500, 200, 4, rng=0).A)  # doctest: +SKIP
    >>> fa.apps.archetypes(adata, 4, rng=0)  # doctest: +SKIP
    >>> adata.obsm["X_archetypes"].shape  # doctest: +SKIP
    (500, 4)
    """
    if not all(hasattr(adata, part) for part in ("X", "obs", "obsm", "uns", "obs_names")):
        raise InvalidTypeError(
            f"archetypes takes an AnnData object, got {type(adata).__name__}; for arrays and tables use "
            "fa.apps.representatives or fa.SeparableNMF"
        )
    k = check_size(k, name="k")
    check_flag(copy, name="copy")
    check_text(key, name="key")
    backed = bool(getattr(adata, "isbacked", False))
    if backed and adata.is_view and not copy:
        raise InvalidInputError(
            "adata is a view of a backed AnnData object and cannot hold results; pass copy=True, which returns a copy "
            "in memory, or pass adata.to_memory()"
        )
    engine = solvers.get(solver)
    if layer is None:
        cells = open_matrix(adata, normalize="l1", name="adata.X")
    else:
        cells = open_matrix(adata, normalize="l1", name=f"adata.layers[{layer!r}]", layer=layer)
    found = engine.seek(cells, k, rng=as_generator(rng))
    points = found.points if found.points is not None else cells.rows(found.indices)
    components = np.asarray(points.toarray() if sp.issparse(points) else points, dtype=np.float64)
    squares = cells.squared_norms()
    shares = encode(cells, components, sum_to_one=True)
    shares[squares == 0] = 0  # a cell without counts is no mixture
    missed = error_norm(cells, components, sum_to_one=True, zero_rows=False)
    names = _names(adata.obs_names, found.indices)

    target = adata if not copy else adata.to_memory() if backed else adata.copy()
    target.obsm[f"X_{key}"] = shares
    target.obs[key] = _category(names, np.where(squares == 0, -1, shares.argmax(axis=1)))
    target.obs[f"{key}_anchor"] = np.isin(np.arange(len(shares)), found.indices)
    target.uns[key] = {
        "names": names,
        "indices": np.asarray(found.indices),
        "components": components,
        "relative_error": missed / float(np.sqrt(np.sum(squares))),
        "certificate": str(found.certificate),
        "params": {"k": k, "solver": found.solver, "layer": layer or "X"},
    }
    return target if copy else None


def _names(obs_names: Any, anchors: Any) -> Any:
    """The names of the archetypes, used as categories: cells that share a name also get their row number."""
    names = [str(obs_names[i]) for i in anchors]
    twice = {name for name in names if names.count(name) > 1}
    return np.array([f"{name} (row {i})" if name in twice else name for name, i in zip(names, anchors)], dtype=object)


def _category(names: Any, codes: Any) -> Any:
    """A categorical column, in the order of the archetypes, missing where the code is -1; AnnData requires pandas."""
    import pandas as pd

    return pd.Categorical.from_codes(codes, categories=list(names))
