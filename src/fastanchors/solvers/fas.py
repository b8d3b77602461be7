"""FAS, Fast Anchors Seeking: the indexed variant and the algorithm of the paper."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Literal, TypeAlias, overload

import numpy as np
from numpy.typing import ArrayLike

from .._rng import RngLike, as_generator
from .._validate import as_reals, check_choice, check_finite, check_rank
from ..anchors import Anchors, Certificate, Selection
from ..errors import InvalidInputError, InvalidTypeError
from ..fas.seek import IndexedFAS
from ..greedy.selection import check_selection
from ..matrix import ArrayMatrix, MeteredMatrix, RowMatrix, open_matrix
from ._solver import Solver
from .robust import Robust
from .spa import SPA

__all__ = ["FAS", "SelectionRule"]

SelectionRule: TypeAlias = Literal["auto", "spa", "smoothed", "smoothed-one", "pseudo-points", "lifted", "whitened"]

_VARIANTS = ("indexed", "paper")
_WEIGHTS = ("auto", "poisson", "none")
_INDEXED = (
    "selection",
    "weights",
    "budget",
    "precondition",
    "robust",
    "tol",
    "allow_fewer",
)  # options of one variant only
_PAPER = (
    "kappa", "alpha", "sizes", "rows", "columns", "eps", "eps_V", "eps_U", "zeta", "eta", "gamma", "directions",
    "draws", "orthonormalize", "rule", "layers", "max_draws",
)  # fmt: skip


class FAS(Solver):
    """Fast Anchors Seeking (Chen, Li, Sun, Yuan and Zhang).

    The default variant first estimates the noise of the rows. Without noise the answer is proved to be that of SPA, at
    a cost that hardly grows with the matrix. With noise the anchors are averages of many rows (``Anchors.points``), and
    the index of each is the row nearest to it. ``variant="paper"`` is Algorithm 1 of the paper line by line; None for
    one of its options means the paper's choice (:class:`fastanchors.fas.paper.PaperFAS`).

    Parameters
    ----------
    variant : "indexed" or "paper"
        The algorithm.
    selection : "auto", "spa", "smoothed", "smoothed-one", "pseudo-points", "lifted" or "whitened"
        ``"spa"`` is plain SPA on the rows as they are. The others work on the rows divided by their sums, in their
        leading directions (:mod:`fastanchors.greedy.coordinates` and :mod:`fastanchors.greedy.selection`), for at most
        256 anchors; a single anchor is the centre of noisy rows without outliers, or the farthest row without noise.
        ``"auto"`` uses pseudo-points and refines them. It uses plain SPA instead if there is no noise; if
        k > 256 or noise cannot be seen (k ≥ columns or rows), with the reason in ``certificate.details["plain"]``;
        or if ``budget``, ``precondition``, ``robust``, ``tol`` or ``allow_fewer`` is given.
    weights : "auto", "poisson", "none" or array of m positive numbers
        How much each row counts for the leading directions: by its estimated noise, by its sum (counts as they
        are, not normalised), equally, or as given. A store keeps directions for ``"auto"`` only; the others take a pass
        over its rows.
    budget : int or None
        The largest number of rows to read. The certificate then says what could not be proved.
    precondition, robust, tol, allow_fewer
        As in :class:`fastanchors.SPA`.
    delta : float or None
        Failure probability of a statement; by default 0.01, and 0.1 for the paper's algorithm.
    kappa, alpha, sizes, rows, columns, eps, eps_V, eps_U, zeta, eta, gamma, directions, draws : optional
        The parameters of the paper, with its names: condition number, fraction of directions, sizes of FKV's samples,
        errors and failure probabilities, numbers of directions and draws.
    orthonormalize : bool or None
        Whether FKV's vectors are orthonormalised before they are used.
    rule : "most-frequent" or "largest" or None
        How the draws of a direction choose a row: the paper's rule, or the largest value among them.
    layers : "one" or "two" or None
        Rejection sampling in one layer or in two, as the paper writes it.
    max_draws : int or None
        Limit of the total number of draws.

    Examples
    --------
    >>> import fastanchors as fa
    >>> X = fa.datasets.separable(200, 10, 4, rng=0).A
    >>> fa.FAS().seek(X, 4).certificate.kind
    'exact'
    """

    name: ClassVar[str] = "fas"

    def __init__(
        self,
        variant: Literal["indexed", "paper"] = "indexed",
        *,
        selection: SelectionRule = "auto",
        weights: Literal["auto", "poisson", "none"] | ArrayLike = "auto",
        budget: int | None = None,
        precondition: Literal["spa", "svd", "mve"] | None = None,
        robust: str | Robust | None = None,
        tol: float | None = None,
        allow_fewer: bool = False,
        delta: float | None = None,
        kappa: float | None = None,
        alpha: float | None = None,
        sizes: Literal["practical", "theorem"] | None = None,
        rows: int | None = None,
        columns: int | None = None,
        eps: float | None = None,
        eps_V: float | None = None,
        eps_U: float | None = None,
        zeta: float | None = None,
        eta: float | None = None,
        gamma: float | None = None,
        directions: int | None = None,
        draws: int | None = None,
        orthonormalize: bool | None = None,
        rule: Literal["most-frequent", "largest"] | None = None,
        layers: Literal["one", "two"] | None = None,
        max_draws: int | None = None,
    ) -> None:
        # All options are listed, though those of one variant are errors in the other, so that help, type checkers,
        # get_params and GridSearchCV see them.
        check_choice(variant, _VARIANTS, name="variant")
        options = {name: value for name, value in locals().items() if name not in ("self", "variant")}
        self.variant, self.precondition, self.robust, self._weights = variant, precondition, robust, weights
        vars(self).update(options)
        given = {name: value for name, value in options.items() if value is not None and value is not False}
        given.pop("selection", None)
        if variant == "paper" and not (isinstance(selection, str) and selection == "auto"):
            raise InvalidTypeError("selection is not an option of FAS(variant='paper'); use rule= instead")
        if isinstance(weights, str) and weights == "auto":
            given.pop("weights")
        self._rule = "spa" if variant == "paper" else _rule(selection, given)
        if orthonormalize is False:
            given["orthonormalize"] = False
        for name in _PAPER if variant == "indexed" else _INDEXED:
            if name in given:
                raise InvalidTypeError(f"{name} is not an option of FAS(variant={variant!r})")
        spa = SPA(precondition=precondition, robust=robust, tol=tol, allow_fewer=allow_fewer)  # checks them
        self._spa = None if precondition is None and robust is None else spa
        if self._spa is not None and budget is not None:
            raise InvalidInputError("budget cannot be combined with precondition or robust, which read all rows")
        given = {name: value for name, value in given.items() if name not in ("weights", "precondition", "robust")}
        self._engine = _engine(variant, given)

    @overload
    def seek(self, A: Any, k: int, *, rng: RngLike = None, layer: str | None = None) -> Anchors: ...

    @overload
    def seek(self, A: Any, k: Sequence[int], *, rng: RngLike = None, layer: str | None = None) -> list[Anchors]: ...

    def seek(
        self, A: Any, k: int | Sequence[int], *, rng: RngLike = None, layer: str | None = None
    ) -> Anchors | list[Anchors]:
        """Find ``k`` anchor rows of ``A``.

        Parameters
        ----------
        A : array, sparse matrix, frame, AnnData, SampleMatrix, store, path or Dask collection
            Anything that :func:`fastanchors.open_matrix` opens. For a file that needs options to be read, pass
            ``fa.io.open_source(path, variable=…)``.
        k : int or sequence of int
            Number of anchors. A sequence such as ``[5, 10, 20]`` returns a list with one result for each, at the cost
            of the largest (with ``precondition`` or ``robust``, where anchors are not nested, at the cost of each). If
            the rank is below the largest, the call raises ``RankError``, unless ``allow_fewer=True``.
        rng : numpy.random.Generator, int or None
            Random generator or seed; the same seed gives the same result.
        layer : str or None
            Layer of AnnData (object or file) to read; None for its ``X``.
        """
        started = time.perf_counter()
        generator = None if rng is None else as_generator(rng)  # which takes as long as a step, and few seeks draw
        data = self._engine.prepare(A if layer is None else open_matrix(A, layer=layer))
        k = k.tolist() if isinstance(k, np.ndarray) else k
        several = isinstance(k, Sequence) and not isinstance(k, str)
        sizes = self._sizes(k, data.shape_of_source) if several else [self._size(k, data.shape_of_source)]
        with data.matrix.reading():
            unchecked = isinstance(data.matrix, ArrayMatrix) and not data.matrix.checked
            if unchecked and (self._rule != "spa" or (self._spa is not None and not self._spa._checks())):
                check_finite(data.matrix.data)  # the others check in their first pass
            if self._rule != "spa":
                results = self._noise_aware(data, sizes, generator, started)
            else:
                results = self._plain(data, sizes, generator, started)
        return results if several else results[0]

    def _size(self, k: Any, shape: tuple[int, int]) -> int:
        return check_rank(k, shape, limit=self._limit)

    def _sizes(self, k: Any, shape: tuple[int, int]) -> Sequence[int]:
        """Check several numbers of anchors; of a range, which may be long, only the ends."""
        if self.variant == "paper":
            raise InvalidTypeError(f"FAS(variant={self.variant!r}) takes one k at a time, got {k!r}")
        if len(k) == 0:
            raise InvalidInputError("k is empty; pass at least one number of anchors")
        if isinstance(k, range):
            self._size(k[0], shape), self._size(k[-1], shape)
            return k
        return [self._size(each, shape) for each in k]

    def _noise_aware(
        self, data: MeteredMatrix, sizes: Sequence[int], rng: np.random.Generator | None, started: float
    ) -> list[Anchors]:
        """Select by the noise-aware rule, and by plain SPA where there is no noise."""
        from ..fas.noise_aware import (
            check_many,
            explain_no_noise,
            explain_plain,
            noise_aware,
            summaries_of,
            why_plain,
        )

        reasons = {size: why_plain(data.shape, size) for size in sizes}
        if self._rule != "auto":
            check_many(max(sizes), self._rule)
            reasons = dict.fromkeys(sizes)
        visible = [size for size, why in reasons.items() if why is None]
        weights = _row_weights(self._weights, data)
        summaries = summaries_of(data, visible, weights)
        results = []
        for size in sizes:
            summary = summaries.get(size)
            found = None if summary is None else noise_aware(data, size, self._rule, summary)
            if found is None:
                found, why = self._engine.select(data, size, rng), reasons[size]
                if size == 1 and why is None:
                    why = "no noise is seen, so that a single anchor is the farthest row"
                if why is not None:
                    found = explain_plain(found, why)
                elif summary is not None:
                    found = explain_no_noise(data, summary, found)
            results.append(self._result(data, found, started))
        return results

    def _plain(
        self, data: MeteredMatrix, sizes: Sequence[int], rng: np.random.Generator | None, started: float
    ) -> list[Anchors]:
        """Select by SPA or by the paper's algorithm, with one run for all sizes if the anchors are nested."""
        if self._spa is not None or self.variant == "paper":
            found = [self._select(data, size, rng) for size in sizes]
        else:
            found = self._engine.select_many(data, sizes, rng)
        if isinstance(found, Selection):
            return _prefixes(self._result(data, found, started), sizes, found.prefix_certificate, data.provenance)
        return [self._result(data, selection, started) for selection in found]

    def _select(self, data: RowMatrix, k: int, rng: np.random.Generator | None) -> Selection:
        metered = data if isinstance(data, MeteredMatrix) else MeteredMatrix(data)
        if self._spa is None:
            return self._engine.select(metered, k, rng)
        if self.precondition != "spa" or self.robust is not None:
            return self._spa._select(metered, k, as_generator(rng))
        first = self._engine.select(metered, k, rng)  # uses the index, if there is one
        return self._spa.after_first(metered, k, metered.dense_rows(first.indices))


def _rule(rule: str, given: dict[str, Any]) -> str:
    """The selection rule; options of plain SPA turn "auto" into "spa"."""
    rule = check_selection(rule)
    plain = [name for name in ("budget", "precondition", "robust", "tol", "allow_fewer") if name in given]
    if plain and rule not in ("auto", "spa"):
        raise InvalidTypeError(f"{plain[0]} is an option of plain SPA and does not go with selection={rule!r}")
    if "weights" in given and (plain or rule == "spa"):
        raise InvalidTypeError("weights is an option of the noise-aware rules and does not go with plain SPA")
    if isinstance(given.get("weights"), str):
        check_choice(given["weights"], _WEIGHTS, name="weights")
    return "spa" if plain else rule


def _row_weights(weights: Any, data: RowMatrix) -> Any:
    """The weights of the rows as the name of a rule or as checked numbers."""
    rows = data.shape[0]
    if isinstance(weights, str):
        if weights == "poisson" and data.normalize == "l1":
            raise InvalidInputError(
                "weights='poisson' weights rows by their sums, but these rows are divided by their sums; pass the sums "
                "as weights=, or rows that are not normalised"
            )
        return weights
    if weights is None:
        raise InvalidTypeError(f"weights must be one of {_WEIGHTS} or numbers, got None")
    numbers = as_reals(weights, "weights")
    if numbers.shape != (rows,) or not (numbers > 0).all():
        raise InvalidInputError(
            f"weights must be {rows} positive numbers, one per row, got an array of shape {numbers.shape}"
            + (" with other numbers" if numbers.shape == (rows,) else "")
        )
    return numbers


def _engine(variant: str, options: dict[str, Any]) -> Any:
    """The algorithm with its options."""
    if variant == "paper":
        from ..fas.paper import PaperFAS  # start-up

        return PaperFAS(**options)
    return IndexedFAS(**options)


def _prefixes(
    whole: Anchors,
    sizes: Sequence[int],
    certificate: Callable[[int], Certificate] | None,
    provenance: str | None,
) -> list[Anchors]:
    """The first k of nested anchors, for each k, each with its own certificate.

    Fields are set through ``__dict__``: the ``__init__`` of a frozen dataclass would take longer than the seek.
    """
    fields, indices, residuals, names = vars(whole), whole.indices, whole.residuals, whole.names
    parts = []
    for k in sizes:
        part = object.__new__(Anchors)
        own = part.__dict__
        own.update(fields)
        own["indices"] = indices[:k]
        if certificate is not None and k < len(indices):
            own["certificate"] = certificate(k).with_provenance(provenance)
        if residuals is not None:
            own["residuals"] = residuals[:k]
        if names is not None:
            own["names"] = names[:k]
        parts.append(part)
    return parts
