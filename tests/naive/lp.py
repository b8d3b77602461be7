"""The linear programs written out entry by entry, for a few rows."""

from __future__ import annotations

import numpy as np
from scipy.optimize import linprog


def in_hull(point, others):
    """Is there c ≥ 0 with Σ c = 1 and Σ c_j·others_j = point?"""
    if len(others) == 0:
        return False
    equations = np.vstack([np.transpose(others), np.ones(len(others))])
    return linprog(np.zeros(len(others)), A_eq=equations, b_eq=np.append(point, 1.0), bounds=(0, None)).status == 0


def corners(A):
    """Rows outside the hull of all other different rows, first copy of each."""
    result = []
    for i in range(len(A)):
        if any(np.array_equal(A[i], A[j]) for j in range(i)):
            continue
        if not in_hull(A[i], [row for row in A if not np.array_equal(row, A[i])]):
            result.append(i)
    return result


def l1_distance(point, others):
    """min ‖point − Σ c_j·others_j‖₁ with one bound t_l on each |entry|, instead of two parts."""
    size, n = np.shape(others)
    cost = [0.0] * size + [1.0] * n
    rows, right = [], []
    for l in range(n):
        for sign in (1.0, -1.0):  # sign·(point − mixture)_l ≤ t_l
            row = [-sign * others[j][l] for j in range(size)] + [0.0] * n
            row[size + l] = -1.0
            rows.append(row)
            right.append(-sign * point[l])
    sums = [[1.0] * size + [0.0] * n]
    return linprog(cost, A_ub=rows, b_ub=right, A_eq=sums, b_eq=[1.0], bounds=(0, None)).fun


def hottopixx(A, k, price=None, bound=None):
    """(objective, diagonal): C (m×m) and T (m×n) with |A − C·A| ≤ T, rows of C summing to one.

    The trace is k, or free if k is None; C_ij ≤ C_jj ≤ 1.
    """
    m, n = A.shape
    size = m * m + m * n

    def C(i, j):
        return i * m + j

    def T(i, l):
        return m * m + i * n + l

    cost = np.zeros(size)
    rows, right, equal, value = [], [], [], []
    for i in range(m):
        for l in range(n):
            for sign in (1.0, -1.0):
                row = np.zeros(size)
                for j in range(m):
                    row[C(i, j)] = -sign * A[j, l]
                row[T(i, l)] = -1.0
                rows.append(row)
                right.append(-sign * A[i, l])
        for j in range(m):
            if j != i:
                row = np.zeros(size)
                row[C(i, j)], row[C(j, j)] = 1.0, -1.0
                rows.append(row)
                right.append(0.0)
        row = np.zeros(size)
        row[[C(i, j) for j in range(m)]] = 1.0
        equal.append(row)
        value.append(1.0)
        if bound is None:
            cost[[T(i, l) for l in range(n)]] = 1.0
        else:
            cost[C(i, i)] = price[i]
            row = np.zeros(size)
            row[[T(i, l) for l in range(n)]] = 1.0
            rows.append(row)
            right.append(bound)
    if k is not None:
        row = np.zeros(size)
        row[[C(i, i) for i in range(m)]] = 1.0
        equal.append(row)
        value.append(k)
    bounds = [(0, 1)] * (m * m) + [(0, None)] * (m * n)
    solution = linprog(cost, A_ub=np.array(rows), b_ub=right, A_eq=np.array(equal), b_eq=value, bounds=bounds)
    return solution.fun, np.array([solution.x[C(i, i)] for i in range(m)])
