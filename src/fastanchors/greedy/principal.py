"""Principal directions of weighted profiles: by the Gram matrix of few columns, by subspace iteration of many.

The iteration multiplies vectors by ZᵀZ, where Z are the weighted rows less their mean. If there are fewer rows than
columns it multiplies shorter ones by ZZᵀ: each step has the same span, at the cost of the products with Z alone, and
of the vectors with an entry per column only the result is kept in memory.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from numpy.typing import NDArray

from .._parallel import map_ordered
from ..errors import InvalidInputError

__all__ = [
    "CANCELS",
    "GRAM_COLUMNS",
    "NOT_FINITE",
    "PIECE",
    "covariance",
    "pieces_of",
    "principal_directions",
    "settled",
    "signs_of",
]

GRAM_COLUMNS = 512  # up to this many columns: eigenvectors of a Gram matrix; above: subspace iteration
_EQUAL = 1e-12  # eigenvalues that differ by less, relative to the largest, are equal
_TIE = 1e-6  # columns whose squared distances differ by less are equally near
_FAINT = 1e-9  # eigenvalues below this part of the largest have lost digits in a Gram matrix…
_EXACTLY = 1 << 20  # …and come from singular values of at most this many entries
_GRAMS = 8  # Gram matrices of pieces in memory at a time
CANCELS = 1e-6  # squared differences below this fraction lose digits if they are differences of squares
_NULL = 1e-14  # eigenvalues below this part of the largest are rounding
_ROWS_ENTRIES = 1 << 21  # entries of the part of a product with Zᵀ in memory at a time
PIECE = 1 << 17  # entries of a piece that stays in the cache
NOT_FINITE = "A has entries that are not finite or whose sums overflow; divide A by its largest entry"

_Array = NDArray[np.float64]


def principal_directions(
    profiles: Any, w: _Array, centre: _Array, scale: _Array, start: _Array, d: int, iterations: int
) -> tuple[_Array, _Array, _Array]:
    """Leading eigenvalues and eigenvectors of Zᵀ·diag(w)·Z / Σw, and its diagonal."""
    n, total = profiles.shape[1], w.sum()
    if n <= GRAM_COLUMNS:
        gram = scale[:, None] * covariance(profiles, w, centre) * scale
        if not np.isfinite(gram).all():
            raise InvalidInputError(NOT_FINITE)
        values, V = _leading(gram, d)
        if values[-1] < _FAINT * values[0] and profiles.shape[0] * n <= _EXACTLY:
            return _singular(profiles, w / total, centre, scale, d)
        return values, V, np.diag(gram).copy()
    squared = profiles.multiply(profiles) if sp.issparse(profiles) else profiles * profiles
    spread = scale**2 * np.maximum(np.asarray(squared.T @ w).reshape(-1) / total - centre**2, 0.0)
    if profiles.shape[0] < n:
        values, V = _by_rows(profiles, np.sqrt(w / total), centre, scale, start, iterations)
        return values[:d], settled(values, V), spread
    V, _ = np.linalg.qr(start)
    values = np.zeros(d)
    for _ in range(iterations):
        Y = _centred_product(profiles, centre, scale, V) * w[:, None]
        V, R = np.linalg.qr(scale[:, None] * (np.asarray(profiles.T @ Y) - np.outer(centre, Y.sum(axis=0))) / total)
        turned, values, _ = np.linalg.svd(R)
        V = V @ turned
    return values[:d], settled(values, V), spread


def _by_rows(
    profiles: Any, roots: _Array, centre: _Array, scale: _Array, start: _Array, iterations: int
) -> tuple[_Array, _Array]:
    """Singular values and left singular vectors of the last product of the subspace iteration, for few rows.

    With Z = diag(roots)·(profiles − centre)·scale the iteration is V ← orthonormal basis of ZᵀZV. Here U is one of ZV,
    so that V spans ZᵀU. The columns of V before the last product are ZᵀU·E·diag(g)^(−1/2), where E and g are the
    eigenvectors and eigenvalues of UᵀZZᵀU.
    """
    n, width = profiles.shape[1], start.shape[1]
    columns = sp.csc_array(profiles) if sp.issparse(profiles) else profiles
    step = max(1, _ROWS_ENTRIES // width)
    parts = [(columns[:, at : at + step], slice(at, at + step)) for at in range(0, n, step)]

    def up(part: Any, at: slice, V: _Array) -> _Array:
        """This part's columns of Z, times V, which is overwritten."""
        V *= scale[at, None]
        return roots[:, None] * (np.asarray(part @ V) - centre[at] @ V)

    def down(part: Any, at: slice, U: _Array, sums: _Array) -> _Array:
        """Those columns, transposed, times U, whose rows are multiplied by ``roots`` and have those sums."""
        found = np.asarray(part.T @ U)
        found -= np.outer(centre[at], sums)
        found *= scale[at, None]
        return found

    U, turn = np.linalg.qr(sum(up(part, at, start[at].copy()) for part, at in parts))
    for _ in range(iterations - 1):
        weighted = roots[:, None] * U
        sums = weighted.sum(axis=0)
        Y: Any = sum(up(part, at, down(part, at, weighted, sums)) for part, at in parts)
        g, E = np.linalg.eigh((U.T @ Y + Y.T @ U) / 2)
        U, R = np.linalg.qr(Y)
        turn = R @ E / np.sqrt(np.where(g > _NULL * g[-1], g, np.inf))
    weighted = roots[:, None] * U
    sums = weighted.sum(axis=0)
    V = np.empty((n, U.shape[1]))
    for part, at in parts:
        V[at] = down(part, at, weighted, sums)
    return _turned(V, turn)


def _turned(X: _Array, turn: _Array) -> tuple[_Array, _Array]:
    """Singular values and left singular vectors of X·turn, in place of X, which has at least as many rows as columns.

    The QR decomposition is that of pieces in the cache, then of their triangles: LAPACK's would read X once a column.
    """
    n, width = X.shape
    count = max(1, n // max(width, PIECE // width))
    ends = [n * i // count for i in range(count + 1)]
    pieces = [X[low:high] for low, high in pairwise(ends)]

    def factor(piece: _Array) -> _Array:
        piece[:], R = np.linalg.qr(piece)
        return R

    def multiply(piece: _Array, by: _Array) -> None:
        piece[:] = piece @ by

    Q, R = np.linalg.qr(np.vstack(map_ordered(factor, [(piece,) for piece in pieces])))
    left, values, _ = np.linalg.svd(R @ turn)
    map_ordered(multiply, list(zip(pieces, (Q @ left).reshape(count, width, width))))
    return values, X


def _singular(profiles: Any, w: _Array, centre: _Array, scale: _Array, d: int) -> tuple[_Array, _Array, _Array]:
    """The same without a Gram matrix: rows with small weights keep their digits."""
    z = ((profiles.toarray() if sp.issparse(profiles) else profiles) - centre) * scale * np.sqrt(w)[:, None]
    R = scipy.linalg.qr(z, mode="r", check_finite=False)[0][: min(z.shape)]
    _, values, Vt = np.linalg.svd(R, full_matrices=False)
    return values[:d] ** 2, settled(values, Vt.T)[:, :d], np.einsum("ij,ij->j", z, z)


def _leading(gram: _Array, d: int) -> tuple[_Array, _Array]:
    """The d largest eigenvalues and their eigenvectors; where eigenvalues are equal, those of :func:`settled`.

    LAPACK's drivers for some eigenvectors are fast in many columns. They fail on some matrices with equal eigenvalues,
    such as identities, and do not return all eigenvectors of the last eigenvalue. Then all eigenvectors are computed.
    """
    n = len(gram)
    try:
        values, V = scipy.linalg.eigh(gram, subset_by_index=[max(0, n - d - 1), n - 1])
        if _runs(values[::-1]):
            values, V = np.linalg.eigh(gram)
    except np.linalg.LinAlgError:
        values, V = np.linalg.eigh(gram)
    return values[::-1][:d], settled(values[::-1], V[:, ::-1])[:, :d]


def _runs(values: _Array) -> list[slice]:
    """Where decreasing eigenvalues are equal, up to rounding, and not zero."""
    least = _EQUAL * max(float(values[0]), 0.0)
    starts = np.flatnonzero(np.append(True, values[:-1] - values[1:] > least))
    ends = np.append(starts[1:], len(values))
    return [slice(a, b) for a, b in zip(starts.tolist(), ends.tolist()) if b - a > 1 and values[a] > least]


def settled(values: _Array, V: _Array) -> _Array:
    """The eigenvectors, with a basis that rounding does not choose for every eigenvalue that occurs several times.

    The basis starts with the projection of the column that is nearest to the eigenspace; each following vector is that
    of the column nearest to the rest of it. Of columns that are equally near, the first.
    """
    runs = _runs(values)
    V = V.copy() if runs else V
    for run in runs:
        rest = V[:, run].copy()  # the projections of the unit vectors, in the given basis
        turn = np.empty((rest.shape[1], rest.shape[1]))
        for at in range(len(turn)):
            sizes = np.einsum("ij,ij->i", rest, rest)
            q = rest[np.argmax(sizes >= (1 - _TIE) * sizes.max())]
            q = q - turn[:at].T @ (turn[:at] @ q)
            turn[at] = q / np.linalg.norm(q)
            rest -= np.outer(rest @ turn[at], turn[at])
        V[:, run] = V[:, run] @ turn.T
    return V


def signs_of(V: _Array) -> _Array:
    """1 or −1 for each vector, by which its largest entry is positive; of entries that are equally large, the first.

    The signs of eigenvectors are chosen by rounding. What is drawn at random in their coordinates depends on them.
    """
    high, low = V.max(axis=0), -V.min(axis=0)
    least = (1 - _TIE) * np.maximum(high, low)
    signs = np.where(high >= least, 1.0, -1.0)
    for column in np.flatnonzero((high >= least) & (low >= least)):
        v = V[:, column]
        signs[column] = np.sign(v[np.argmax(np.abs(v) >= least[column])]) or 1.0
    return signs


def covariance(profiles: Any, w: _Array, centre: _Array) -> _Array:
    """The weighted covariance of the columns, n × n."""
    (_, n), total = profiles.shape, w.sum()
    pieces, second = [(profiles[at], w[at]) for at in pieces_of(profiles)], np.zeros((n, n))
    for low in range(0, len(pieces), _GRAMS):
        for part in map_ordered(_gram, pieces[low : low + _GRAMS]):
            second += part
    second /= total
    alike = np.trace(second) < (1 + CANCELS) * (centre @ centre)
    return _centred_gram(profiles, w, centre) / total if alike else second - np.outer(centre, centre)


def _gram(profiles: Any, w: _Array) -> Any:
    part = sp.diags_array(np.sqrt(w)) @ profiles if sp.issparse(profiles) else np.sqrt(w)[:, None] * profiles
    return part.T @ part


def _centred_gram(profiles: Any, w: _Array, centre: _Array) -> _Array:
    """Σ wᵢ·zᵢ·zᵢᵀ for z = profile − centre, without differences of squares: for rows that are nearly alike."""
    second, step = np.zeros((len(centre), len(centre))), max(1, PIECE // len(centre))
    for at in range(0, profiles.shape[0], step):
        part = profiles[at : at + step]
        z = (part.toarray() if sp.issparse(part) else part) - centre
        second += (w[at : at + step, None] * z).T @ z
    return second


def _centred_product(profiles: Any, centre: _Array, scale: _Array, V: _Array) -> _Array:
    return np.asarray(np.asarray(profiles @ (scale[:, None] * V)) - (centre * scale) @ V)


def pieces_of(rows: Any, together: int = 1) -> list[slice]:
    """Slices of rows, multiples of ``together``, that stay in the cache if they are dense; all rows if sparse."""
    m, n = rows.shape
    step = max(1, m) if sp.issparse(rows) else max(1, PIECE // n // together) * together
    return [slice(at, at + step) for at in range(0, m, step)]
