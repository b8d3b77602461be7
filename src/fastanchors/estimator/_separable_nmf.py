"""``SeparableNMF``, a scikit-learn estimator: ``fit`` finds the anchors, ``transform`` encodes rows in them."""

from __future__ import annotations

import copy
import math
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn import get_config
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from .._parallel import thread_count, use_threads
from .._rng import as_generator
from .._text import plural
from .._validate import as_matrix, check_choice, check_size, is_dask
from ..encoder import encode, encode_rows, error_norm
from ..errors import InvalidInputError, InvalidTypeError
from ..matrix import ArrayMatrix, RowMatrix, Rows, SampleAccess
from ..matrix.columns import put_in_order
from ..matrix.scaled import norm, row_sums
from ..metrics import reconstruction_error
from ..rank import rank_curve
from ..sampling.matrix import SampleMatrix
from ._appended import append_rows
from ._input import check_collection, checked_matrix
from ._seeking import most, rng_of, seek, solver_of

if TYPE_CHECKING:
    from ..solvers.fas import SelectionRule

__all__ = ["SeparableNMF"]

_SAMPLED_ROWS = 4096  # rows of a store that the reconstruction error is estimated from


class SeparableNMF(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Separable NMF: X ≈ F·X_R, where every row is a non-negative mixture of a few rows of X, the anchors.

    X is anything that :func:`fastanchors.open_matrix` opens: an array, a sparse matrix (never made dense), a pandas or
    polars frame, AnnData, a sample matrix, a store, the path of a store or file, or a Dask array or data frame,
    for which the weights are lazy (arrays of xarray over Dask are loaded). Fitting an array with ``normalize="l1"``
    needs memory for one scaled copy.

    Parameters
    ----------
    n_components : int or "auto"
        Number of anchors, or ``"auto"`` to choose it with :func:`fastanchors.rank_curve`. More anchors than rows is an
        error. If the data have fewer independent anchors than requested, all of them are used with a warning, and
        ``n_components_`` is their number.
    solver : str or solver
        ``"fas"``, ``"spa"``, ``"snpa"``, ``"xray"``, ``"dca"``, ``"arora-lp"``, ``"hottopixx"``, ``"qdca"``,
        ``"fgnsr"``, or an object such as ``fa.SPA(robust="average")``.
    normalize : "l1" or None
        ``"l1"`` searches for anchors among the rows scaled to unit sum, so that a row is not chosen for its length
        (zero rows stay zero); None uses the rows as they are. Weights always refer to the rows as given. It has no
        effect on a sample matrix or a store, which keep the normalisation they were built with.
    sum_to_one : bool
        Whether the weights of each row must sum to one.
    random_state : int, numpy.random.Generator, numpy.random.RandomState or None
        Seed of the solver; the same seed gives the same result.
    n_jobs : int or None
        Number of threads, as in scikit-learn. Results do not depend on it.
    selection : "auto", "spa", "smoothed", "smoothed-one", "pseudo-points", "lifted" or "whitened"
        How ``solver="fas"`` selects anchors (see :class:`fastanchors.FAS`). By default it depends on the noise of the
        rows: without noise the components are rows of X, with noise they are averages of many rows.
    layer : str or None
        Layer of AnnData (object or file) to read; None for its ``X``.

    Attributes
    ----------
    anchors_ : ndarray of int
        Indices of the anchor rows, in the order of extraction.
    components_ : ndarray
        The anchor rows of X as given; if X is noisy or the solver averages, the denoised anchors.
    n_components_ : int
        Number of anchors found.
    reconstruction_err_ : float
        ‖X − F·C‖_F, where C are the components. For a sample matrix or a store with more than 4096 rows it is estimated
        from 4096 sampled rows, so that fitting does not read the whole store.
    certificate_ : Certificate
        What is known about the correctness of the anchors.
    result_ : Anchors
        The solver's result; ``result_.names`` are the row labels of a frame or the cell names of AnnData.
    rank_curve_ : RankCurve
        The curves behind the choice of ``n_components="auto"``; set only then.
    n_samples_seen_ : int
        Number of rows passed to :meth:`partial_fit` so far; set only then.
    n_features_in_, feature_names_in_
        As in scikit-learn; the names are the columns of a frame, a file or a store, or the genes of AnnData.

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
        n_jobs: int | None = None,
        selection: SelectionRule = "auto",
        layer: str | None = None,
    ) -> None:
        self.n_components = n_components
        self.solver = solver
        self.normalize = normalize
        self.sum_to_one = sum_to_one
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.selection = selection
        self.layer = layer

    def fit(self, X: Any, y: Any = None) -> SeparableNMF:
        """Find the anchors of ``X``. ``y`` is ignored."""
        matrix = checked_matrix(self, X, reset=True)
        self._forget()
        with use_threads(self.n_jobs):
            rng = self._find(matrix)
            if isinstance(matrix, SampleAccess) and matrix.shape[0] > _SAMPLED_ROWS:
                estimate = reconstruction_error(
                    matrix, self.components_, rows=_SAMPLED_ROWS, sum_to_one=self.sum_to_one, rng=rng
                )
                self.reconstruction_err_ = estimate.absolute
            else:
                self.reconstruction_err_ = self._error(matrix)
        return self

    def partial_fit(self, X: Any, y: Any = None) -> SeparableNMF:
        """Find the anchors among the rows of ``X`` and all rows passed to ``partial_fit`` before.

        The result is that of a fit on all these rows; noise-aware anchors of more than 6,000 rows may differ, if the
        new rows are few: they are compared in the directions and with the sample of an earlier call, and the
        certificate says so. The rows are kept in a :class:`fastanchors.SampleMatrix` (about three
        times their memory) with an index that is updated: with ``selection="spa"`` a call reads little more than the
        new rows. The other rules compare all rows, and a call costs about as much as a fit. ``anchors_`` are positions
        in the order of arrival. The first call needs at least ``n_components`` rows. :meth:`fit` discards the rows of
        earlier calls. A call that fails validation adds no rows. All rows are kept in the type of those of the first
        call: after float32, rows of float64 and of integers are rounded to float32.

        Parameters
        ----------
        X : array, sparse matrix, frame or AnnData
            New rows, all with the same number of columns. For a store, append the rows to it and call ``fit``.
        y : ignored

        Returns
        -------
        SeparableNMF
            This estimator.

        Examples
        --------
        >>> import fastanchors as fa
        >>> X = fa.datasets.separable(100, 8, 3, rng=0).A
        >>> model = fa.SeparableNMF(n_components=3)
        >>> for rows in (X[:60], X[60:]):
        ...     model = model.partial_fit(rows)
        >>> model.n_samples_seen_
        100
        """
        seen: SampleMatrix | None = self.__dict__.get("_seen")
        solver_of(self.solver, self.selection), thread_count(self.n_jobs)  # validate options before any row is added
        new = checked_matrix(self, X, reset=seen is None)
        if not isinstance(new, ArrayMatrix):
            raise InvalidTypeError(
                f"partial_fit takes rows in memory, not a {type(X).__name__}; append rows to a store and fit the store"
            )
        self._requested(new.shape[0] + (0 if seen is None else seen.shape[0]))
        rng = as_generator(rng_of(self.random_state))
        if seen is None:
            names = {"row_names": new.row_names, "column_names": new.column_names}
            seen = SampleMatrix(new.data, self._check_normalize(), **names)
        else:
            append_rows(seen, new, self.normalize)
            self.n_samples_seen_ = seen.shape[0]
        with use_threads(self.n_jobs):
            self._select(seen, seen.raw_rows, rng, scaled=seen.normalize == "l1")
            m = seen.shape[0]
            some = np.sort(rng.choice(m, _SAMPLED_ROWS, replace=False)) if m > _SAMPLED_ROWS else np.arange(m)
            lost = self._error(ArrayMatrix(seen.raw_rows(some)))
            self.reconstruction_err_ = lost * float(np.sqrt(m / len(some)))
        self._seen, self.n_samples_seen_ = seen, m
        return self

    def __copy__(self) -> SeparableNMF:
        """A copy with its own rows of partial_fit."""
        other = type(self).__new__(type(self))
        other.__dict__.update(self.__dict__)
        if "_seen" in self.__dict__:
            other._seen = copy.copy(self._seen)
        return other

    def _forget(self) -> None:
        """Drop the rows of earlier calls of partial_fit."""
        for name in ("_seen", "n_samples_seen_"):
            self.__dict__.pop(name, None)

    def fit_transform(self, X: Any, y: Any = None) -> NDArray[Any]:
        """:meth:`fit` and :meth:`transform` together; ``reconstruction_err_`` is exact for every kind of ``X``."""
        matrix = checked_matrix(self, X, reset=True)
        self._forget()
        with use_threads(self.n_jobs):
            self._find(matrix)
            if is_dask(X):
                self.reconstruction_err_ = self._error(matrix)
                return self._lazy_weights(X)
            F = self._empty(matrix)
            C = self.components_.astype(np.float64, copy=False)
            self.reconstruction_err_ = encode_rows(matrix, C, F, sum_to_one=self.sum_to_one, error=True)
        return F

    def transform(self, X: Any) -> NDArray[Any]:
        """The weights F ≥ 0 of the rows of ``X`` in the anchors, by non-negative least squares."""
        check_is_fitted(self)
        if is_dask(X):
            check_collection(self, X, reset=False)
            return self._lazy_weights(X)
        matrix = checked_matrix(self, X, reset=False)
        with use_threads(self.n_jobs):
            F = self._empty(matrix)
            encode_rows(matrix, self.components_.astype(np.float64, copy=False), F, sum_to_one=self.sum_to_one)
        return F

    def _lazy_weights(self, X: Any) -> NDArray[Any]:
        """The weights of a Dask collection; computed where they become a polars frame, which takes no Dask arrays."""
        weights = encode(X, self.components_, self.sum_to_one)
        output = self.__dict__.get("_sklearn_output_config", {}).get("transform", get_config()["transform_output"])
        return np.asarray(weights) if output == "polars" else weights

    def inverse_transform(self, X: Any) -> NDArray[Any]:
        """The rows F·C for the weights F in ``X``, where C are the components, as an array.

        If ``X`` is a frame with the columns of :meth:`transform` in another order, they are matched by name; columns
        with other names are taken as they stand.
        """
        check_is_fitted(self)
        X = put_in_order(X, self.get_feature_names_out().tolist(), "weights")
        if is_dask(X):
            from ..dask.blockwise import lazy_mixtures

            return lazy_mixtures(X, self.components_)
        F = as_matrix(X, signed=True, name="weights")
        if F.shape[1] != self._n_features_out:
            raise InvalidInputError(f"weights must have {self._n_features_out} columns, got shape {F.shape}")
        return np.asarray(F @ self.components_)

    def score(self, X: Any, y: Any = None) -> float:
        """−‖X − F·C‖_F / ‖X‖_F, at most 0, higher is better; 0 for X = 0."""
        check_is_fitted(self)
        matrix = checked_matrix(self, X, reset=False)
        with use_threads(self.n_jobs):
            if isinstance(matrix, SampleAccess):  # it keeps the norms, and no squares underflow
                size = float(np.sqrt(matrix.squared_norms().sum()))
            else:
                size = math.hypot(*matrix.map_blocks(_norm))
            return -self._error(matrix) / size if size else 0.0

    @property
    def _n_features_out(self) -> int:
        return int(self.components_.shape[0])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.positive_only = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    def _find(self, matrix: RowMatrix) -> np.random.Generator:
        """Set all fitted attributes but the error; returns the random generator for further use."""
        seen = matrix
        if self._check_normalize() == "l1" and not isinstance(matrix, SampleAccess):
            seen = matrix.l1_scaled()
        rng = as_generator(rng_of(self.random_state))
        self._select(seen, matrix.rows, rng, scaled=seen is not matrix)
        return rng

    def _check_normalize(self) -> Literal["l1"] | None:
        check_choice(self.normalize, ("l1", None), name="normalize")
        return "l1" if self.normalize else None

    def _requested(self, rows: int) -> int | None:
        """The requested number of anchors, at most the number of rows; None for "auto"."""
        if isinstance(self.n_components, str):
            if self.n_components != "auto":
                raise InvalidInputError(f"n_components must be an integer or 'auto', got {self.n_components!r}")
            return None
        k = check_size(self.n_components, name="n_components")
        if k > rows:
            raise InvalidInputError(
                f"n_components = {k} anchors cannot be found among n_samples = {rows} rows; "
                "use fewer, or n_components='auto'"
            )
        return k

    def _select(
        self,
        matrix: RowMatrix,
        as_given: Callable[[NDArray[np.intp]], Rows],
        rng: np.random.Generator,
        *,
        scaled: bool,
    ) -> None:
        """Find the anchors of ``matrix``; ``scaled`` says that its rows are ``as_given`` divided by their sums."""
        solver = solver_of(self.solver, self.selection)
        k = self._requested(matrix.shape[0])
        if k is None:
            self.rank_curve_ = rank_curve(matrix, k_max=min(50, most(solver, matrix.shape)), rng=rng)
            result = seek(solver, matrix, self.rank_curve_.k, rng)
        else:
            self.__dict__.pop("rank_curve_", None)  # set by an earlier fit
            result = seek(solver, matrix, k, rng)
            if len(result) < k:
                few = plural(len(result), "independent anchor")
                warnings.warn(
                    f"n_components = {k}, but the data have only {few}; no more are used",
                    stacklevel=4,  # the caller of fit
                )
        self.result_ = result
        self.anchors_ = result.indices
        self.certificate_ = result.certificate
        self.n_components_ = len(result)
        rows = as_given(result.indices)
        components = np.asarray(rows.toarray() if sp.issparse(rows) else rows)
        dtype = components.dtype if components.dtype.kind == "f" else np.float64  # as in scikit-learn
        if result.points is not None:
            components = result.points * (row_sums(rows)[:, None] if scaled else 1.0)
        self.components_ = components.astype(dtype, copy=False)

    def _empty(self, matrix: RowMatrix) -> NDArray[Any]:
        """An empty F of the type of X."""
        return np.empty(
            (matrix.shape[0], self._n_features_out), dtype=np.float32 if matrix.dtype == np.float32 else np.float64
        )

    def _error(self, matrix: RowMatrix) -> float:
        C = self.components_.astype(np.float64, copy=False)
        return error_norm(matrix, C, sum_to_one=self.sum_to_one)


def _norm(start: int, block: Rows) -> float:
    return norm(block)
