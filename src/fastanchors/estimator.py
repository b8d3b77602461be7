"""Separable NMF with scikit-learn's conventions: fit finds the anchors, transform encodes rows in them."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from . import solvers
from ._rng import RngLike, as_generator
from ._validate import check_finite, check_size, is_dask
from .anchors import Anchors
from .encoder import encode, encode_rows
from .errors import InvalidInputError, RankError
from .io.addresses import local_path
from .matrix.contract import SampleAccess
from .metrics import reconstruction_error
from .rank import rank_curve

__all__ = ["SeparableNMF"]

_SAMPLED_ROWS = 4096  # rows of a store that the reconstruction error is estimated from


class SeparableNMF(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """X ≈ F·X_R: non-negative mixtures of a few rows of X itself, the anchors.

    Parameters
    ----------
    n_components : number of anchors, or ``"auto"`` to choose it by :func:`fastanchors.rank_curve`. More than there are
        rows is an error. Where the data hold fewer independent anchors than asked for, there is a warning, all
        of them are taken, and ``n_components_`` tells how many.
    solver : ``"fas"``, ``"spa"``, ``"snpa"``, ``"xray"``, ``"dca"``, ``"arora-lp"``, ``"hottopixx"``, ``"qdca"``, or a
        solver object such as ``fa.SPA(robust="average")``.
    normalize : ``"l1"`` looks for anchors among the rows scaled to sum one, so that a row's length does not make
        it an anchor (zero rows stay zero); None takes the rows as they are. Weights are always for the rows as given.
        An object with sample access is taken as its view shows it, whatever this says.
    sum_to_one : whether the weights of each row must sum to one.
    random_state : int, ``numpy.random.Generator``, ``numpy.random.RandomState`` or None.

    Attributes
    ----------
    anchors_ : indices of the anchor rows, in the order of extraction.
    components_ : the anchor rows of X, as given (for a solver that averages near neighbours, these averages).
    n_components_ : how many there are.
    reconstruction_err_ : ‖X − F·C‖_F, C the components. For sample access with more than 4096 rows it is estimated
        from as many rows drawn by the sample model, so that fitting a store does not read it all.
    certificate_ : how sure the solver is that these are the anchors.
    result_ : the solver's whole result, a :class:`fastanchors.Anchors`.
    rank_curve_ : what ``n_components="auto"`` was decided on; only then.
    n_features_in_, feature_names_in_ : as everywhere in scikit-learn.

    X is an array, a sparse matrix (never made dense), a data frame, an object with sample access (``SampleMatrix``,
    a store), the path of a store, or a Dask array or data frame, whose weights are then lazy. Fitting needs the memory
    of one scaled copy of X for ``normalize="l1"``.

    Examples
    --------
    >>> import fastanchors as fa
    >>> model = fa.SeparableNMF(n_components=3, solver="spa")
    >>> X = fa.datasets.separable(100, 8, 3, rng=0).A
    >>> model.fit_transform(X).shape
    (100, 3)
    """

    def __init__(
        self,
        n_components: int | str = 10,
        solver: Any = "fas",
        normalize: str | None = "l1",
        sum_to_one: bool = False,
        random_state: Any = None,
    ) -> None:
        self.n_components = n_components
        self.solver = solver
        self.normalize = normalize
        self.sum_to_one = sum_to_one
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> SeparableNMF:
        """Find the anchors of ``X``. ``y`` is ignored."""
        with self._rows(X, reset=True) as rows:
            rng = self._find(rows)
            if isinstance(rows, SampleAccess) and rows.shape[0] > _SAMPLED_ROWS:
                estimate = reconstruction_error(
                    rows, self.components_, rows=_SAMPLED_ROWS, sum_to_one=self.sum_to_one, rng=rng
                )
                self.reconstruction_err_ = estimate.absolute
            else:
                self.reconstruction_err_ = float(np.sqrt(self._encode(rows, None)))
        return self

    def fit_transform(self, X: Any, y: Any = None, **fit_params: Any) -> NDArray[Any]:
        """:meth:`fit` and :meth:`transform` in one pass; the error is exact for every kind of ``X``."""
        with self._rows(X, reset=True) as rows:
            self._find(rows)
            if is_dask(X):
                self.reconstruction_err_ = float(np.sqrt(self._encode(rows, None)))
                return self._lazy_weights(X)
            F = self._room(rows)
            self.reconstruction_err_ = float(np.sqrt(self._encode(rows, F)))
        return F

    def transform(self, X: Any) -> NDArray[Any]:
        """The weights F ≥ 0 of the rows of ``X`` in the anchors, by non-negative least squares."""
        check_is_fitted(self)
        if is_dask(X):
            self._check_features(X, reset=False)
            return self._lazy_weights(X)
        with self._rows(X, reset=False) as rows:
            F = self._room(rows)
            self._encode(rows, F, error=False)
        return F

    def inverse_transform(self, X: Any) -> NDArray[Any]:
        """The rows F·C (C the components) that the weights in ``X`` stand for."""
        check_is_fitted(self)
        if is_dask(X):
            from .dask.lazy import lazy_mixtures

            return lazy_mixtures(X, self.components_)
        F = X.toarray() if sp.issparse(X) else np.asarray(X)
        if F.ndim != 2 or F.shape[1] != self._n_features_out:
            raise InvalidInputError(f"weights must have {self._n_features_out} columns, got shape {F.shape}")
        return F @ self.components_

    def score(self, X: Any, y: Any = None) -> float:
        """−‖X − F·C‖_F / ‖X‖_F: the closer to zero, the better; 0 for X = 0."""
        check_is_fitted(self)
        with self._rows(X, reset=False) as rows:
            if isinstance(rows, SampleAccess) or is_dask(X):
                norm = rows.frobenius_norm
            else:
                values = rows.data if sp.issparse(rows) else rows.ravel()
                norm = float(np.sqrt(np.einsum("i,i->", values, values, dtype=np.float64)))
            return -float(np.sqrt(self._encode(rows, None))) / norm if norm else 0.0

    @property
    def _n_features_out(self) -> int:
        return int(self.components_.shape[0])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.positive_only = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    @contextmanager
    def _rows(self, X: Any, *, reset: bool) -> Iterator[Any]:
        """``X`` checked; the store at a path is open meanwhile."""
        if isinstance(X, (str, Path)):
            from .fas.stores import open as open_store

            with open_store(local_path(X)) as store:
                yield self._check(store, reset=reset)
        else:
            yield self._check(X, reset=reset)

    def _check(self, X: Any, *, reset: bool) -> Any:
        """Clean rows, or an object with sample access whose width fits."""
        if is_dask(X):
            from .dask.lazy import LazyMatrix

            self._check_features(X, reset=reset)
            return LazyMatrix(X, signed=not reset)
        if isinstance(X, SampleAccess):
            self._check_width(X.shape[1], reset=reset)
            if reset and hasattr(self, "feature_names_in_"):
                del self.feature_names_in_
            return X
        X = validate_data(
            self,
            X,
            reset=reset,
            accept_sparse="csr",
            dtype=[np.float64, np.float32],
            order="C",
            ensure_all_finite=False,
        )
        if sp.issparse(X):
            X = sp.csr_array(X)
        check_finite(X, signed=True, name="X")
        if reset:
            try:
                check_finite(X, name="X")
            except InvalidInputError as error:
                raise InvalidInputError(f"Negative values in data passed to SeparableNMF: {error}") from None
        return X

    def _check_features(self, X: Any, *, reset: bool) -> None:
        """Width and names of a Dask array or data frame, of which nothing is computed."""
        from .dask.blocks import is_frame, layout

        columns = layout(X).columns
        self._check_width(columns, reset=reset)
        validate_data(self, X._meta if is_frame(X) else np.empty((0, columns)), reset=reset, skip_check_array=True)

    def _check_width(self, columns: int, *, reset: bool) -> None:
        if reset:
            self.n_features_in_ = columns
        elif columns != self.n_features_in_:
            raise InvalidInputError(
                f"X has {columns} features, but SeparableNMF is expecting {self.n_features_in_} features"
            )

    def _find(self, X: Any) -> np.random.Generator:
        """Everything fitted but the error; returns the generator for what else is random."""
        if self.normalize not in ("l1", None):
            raise InvalidInputError(f"normalize must be 'l1' or None, got {self.normalize!r}")
        solver = solvers.get(self.solver)
        rng = as_generator(_as_rng(self.random_state))
        rows, lengths = X, None
        if self.normalize == "l1" and not isinstance(X, SampleAccess):
            rows, lengths = _l1_scaled(X)
        if isinstance(self.n_components, str):
            if self.n_components != "auto":
                raise InvalidInputError(f"n_components must be an integer or 'auto', got {self.n_components!r}")
            self.rank_curve_ = rank_curve(rows, k_max=min(50, _most(solver, X.shape)), rng=rng)
            result = _seek(solver, rows, self.rank_curve_.k, rng)
        else:
            if hasattr(self, "rank_curve_"):  # of an earlier fit
                del self.rank_curve_
            k = check_size(self.n_components, name="n_components")
            if k > X.shape[0]:
                raise InvalidInputError(
                    f"n_components = {k} anchors cannot be found among n_samples = {X.shape[0]} rows; "
                    "ask for fewer, or for n_components='auto'"
                )
            result = _seek(solver, rows, k, rng)
            if len(result) < k:
                warnings.warn(
                    f"n_components = {k}, but the data hold only {len(result)} independent anchors; these are taken",
                    stacklevel=3,  # the caller of fit
                )
        self.result_ = result
        self.anchors_ = result.indices
        self.certificate_ = result.certificate
        self.n_components_ = len(result)
        block = X.rows(result.indices) if isinstance(X, SampleAccess) else X[result.indices]
        components = np.asarray(block.toarray() if sp.issparse(block) else block)
        if result.points is not None:
            size = 1.0 if lengths is None else lengths[result.indices, None]
            components = (result.points * size).astype(components.dtype, copy=False)
        # Whole numbers become doubles, as everywhere in scikit-learn.
        self.components_ = components if components.dtype.kind == "f" else components.astype(np.float64)
        return rng

    def _room(self, X: Any) -> NDArray[Any]:
        """An empty F of the type of X."""
        single = getattr(X, "dtype", None) == np.float32
        return np.empty((X.shape[0], self._n_features_out), dtype=np.float32 if single else np.float64)

    def _lazy_weights(self, X: Any) -> Any:
        """The weights of a Dask array, as one."""
        return encode(X, self.components_, self.sum_to_one)

    def _encode(self, X: Any, F: NDArray[Any] | None, *, error: bool = True) -> float:
        C = self.components_.astype(np.float64, copy=False)
        if hasattr(X, "squared_error"):  # a Dask array: each block where it is
            return float(X.squared_error(C, sum_to_one=self.sum_to_one))
        return encode_rows(X, C, F, sum_to_one=self.sum_to_one, workers=os.cpu_count() or 1, error=error)


def _most(solver: Any, shape: tuple[int, int]) -> int:
    """How many anchors the solver can find at most: vertices of a hull, or independent rows."""
    return shape[0] if getattr(solver, "_limit", "rank") == "rows" else min(shape)


def _seek(solver: Any, rows: Any, k: int, rng: np.random.Generator) -> Anchors:
    """k anchors, or all there are."""
    k = min(k, _most(solver, rows.shape))
    try:
        return solver.seek(rows, k, rng=rng)
    except RankError as error:
        if not 0 < error.rank < k:
            raise
        return solver.seek(rows, error.rank, rng=rng)


def _l1_scaled(X: Any) -> tuple[Any, NDArray[Any]]:
    """The rows scaled to sum one, zero rows as they are, and the sums."""
    if hasattr(X, "l1_scaled"):
        return X.l1_scaled()
    lengths = np.asarray(X.sum(axis=1, dtype=np.float64)).ravel()
    inverse = np.divide(1.0, lengths, out=np.zeros_like(lengths), where=lengths > 0).astype(X.dtype)
    if sp.issparse(X):
        scaled = X.copy()
        scaled.data *= np.repeat(inverse, np.diff(X.indptr))
        return scaled, lengths
    return X * inverse[:, None], lengths


def _as_rng(random_state: Any) -> RngLike:
    """scikit-learn's ``random_state`` as this library's ``rng``."""
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(2**31 - 1))
    return random_state
