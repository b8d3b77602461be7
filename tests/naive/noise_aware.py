"""Naive implementations of the noise-aware selection."""

from __future__ import annotations

import numpy as np
from scipy.optimize import brentq, minimize
from scipy.special import logsumexp
from scipy.stats import multivariate_normal, norm

from fastanchors.greedy.groups import cores
from fastanchors.greedy.selection import lifted, smoothed_groups

from .encode import encode_sum_to


def naive_spa(points, k):
    """The row farthest from the span of those selected, by least squares at every step."""
    chosen = []
    for _ in range(k):
        if chosen:
            basis = points[chosen].T
            rest = points - (basis @ np.linalg.lstsq(basis, points.T, rcond=None)[0]).T
        else:
            rest = points
        chosen.append(int(np.argmax([row @ row for row in rest])))
    return chosen


def naive_smoothed_one(points, k, count):
    """Smoothed SPA as published: the mean of the points farthest along the longest residual, by least squares."""
    means = []
    for _ in range(k):
        rest = points
        if means:
            basis = np.array(means).T
            rest = points - (basis @ np.linalg.lstsq(basis, points.T, rcond=None)[0]).T
        direction = rest[np.argmax([row @ row for row in rest])]
        far = np.argsort([-(row @ direction) for row in rest], kind="stable")[:count]
        means.append(np.mean([points[i] for i in far], axis=0))
    return np.array(means)


def naive_pseudo_points(points, count, precision):
    means = []
    for point in points:
        near = np.argsort([np.linalg.norm(point - other) for other in points], kind="stable")[:count]
        means.append(np.average(points[near], axis=0, weights=precision[near]))
    return np.array(means)


def naive_extremes(values, directions, depth):
    """The rows at both ends of the same directions, by sorting all rows."""
    m, d = values.shape
    rng = np.random.default_rng(0)
    ranks = [r for r in (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64) if r < d] + [d]
    spread = values[:: max(1, m // 4096)].astype(float).std(axis=0)
    rows = []
    for j in range(directions):
        r = ranks[j % len(ranks)]
        u = np.zeros(d)
        u[:r] = rng.standard_normal(r) / (spread[:r] if j // len(ranks) % 2 else spread[0])
        order = np.argsort(values @ (u / np.linalg.norm(u)), kind="stable")
        rows += [*order[:depth], *order[-depth:]]
    return rows


def naive_log_likelihood(points, noise, vertices, rows, parts, widths):
    """Log-likelihood of each point in a simplex with noise, in double precision, one point and one anchor at a time."""
    k, d = vertices.shape
    A = np.linalg.inv(np.column_stack([np.ones(k), vertices]))
    spread = 4 * np.atleast_2d(np.cov(points.T))
    found = []
    for y, tau in zip(points, noise, strict=True):
        mixed = np.log(abs(np.linalg.det(A)))
        for j in range(k):
            w, sigma = A[0, j] + y @ A[1:, j], tau * np.linalg.norm(A[1:, j])
            density = parts[j, 0] * norm.pdf(w / sigma) / sigma
            for share, width in zip(parts[j, 1:], widths[1:], strict=True):
                density += share * (norm.cdf(w / sigma) - norm.cdf((w - width) / sigma)) / width
            mixed += np.log(max(density, 1e-30))
        odd = multivariate_normal(np.median(points, axis=0), spread).logpdf(y)
        copies = [multivariate_normal(v, tau**2 * np.eye(d)).logpdf(y) for v in vertices]
        found.append(logsumexp(np.log(rows) + np.array([odd, mixed, *copies])))
    return np.array(found)


def naive_chances(shares, precision, lengths, widths):
    """Shares in units of their noise, its inverse, normal densities and parts, in single precision, by array."""
    inverse = (precision / lengths[:, None]).astype(np.float32)
    first = (shares * inverse).astype(np.float32)
    z = first - inverse * widths[:, None, None]
    bell = np.exp(z * z * np.float32(-0.5)) * np.float32(1 / np.sqrt(2 * np.pi))
    t = 1 / (np.abs(z) * np.float32(0.2316419) + np.float32(1))  # Abramowitz and Stegun 26.2.17
    tail = t * np.float32(1.330274429)
    for coefficient in (-1.821255978, 1.781477937, -0.356563782, 0.319381530):
        tail = (tail + np.float32(coefficient)) * t
    tail *= bell
    below = np.where(z >= 0, 1 - tail, tail)
    return first, inverse, bell, np.concatenate([(bell[0] * inverse)[None], below[0] - below[1:]])


def naive_slopes(first, inverse, widths, bell, heights, share, mixtures, density):
    """Derivatives of the log density by the share and by its log noise, in single precision, by array."""
    z = first - inverse * widths[:, None, None]
    inside = bell * heights[:, :, None]
    weight = bell[0] * inverse * share[:, None]
    responsible = mixtures / density
    by_w = (inside.sum(axis=0) - weight * first) * inverse * responsible
    by_sigma = ((first * first - np.float32(1)) * weight - (inside * z).sum(axis=0)) * responsible
    return by_w, by_sigma


def naive_nearest_mixture(y, corners):
    """Shares of the mixture of the corners that is nearest to y, and its distance, by SLSQP."""
    k = len(corners)
    found = minimize(
        lambda x: np.sum((x @ corners - y) ** 2),
        np.full(k, 1 / k),
        bounds=[(0, 1)] * k,
        constraints={"type": "eq", "fun": lambda x: x.sum() - 1},
    )
    return found.x, np.sqrt(found.fun)


def naive_farthest_from_hull(points, corners):
    """The point whose nearest mixture of the corners is farthest."""
    return int(np.argmax([naive_nearest_mixture(y, corners)[1] for y in points]))


def naive_hull_corners(points, first, k, sweeps):
    """Add the farthest point until there are k corners, then choose every corner again, given the others."""
    corners = list(first)
    while len(corners) < k:
        corners.append(naive_farthest_from_hull(points, points[corners]))
    for _ in range(sweeps):
        for j in range(k):
            corners[j] = naive_farthest_from_hull(points, points[corners[:j] + corners[j + 1 :]])
    return corners


def naive_unclipped(profile, sigma):
    """The profile whose entries, with normal noise clipped at zero, have these means; entries below zero are zero."""

    def mean(h):
        return h * float(norm.cdf(h / sigma)) + sigma * float(norm.pdf(h / sigma))

    found = [brentq(lambda h, p=p: mean(h) - p, -40 * sigma, p + sigma) if p > 0 else 0.0 for p in profile]
    found = np.maximum(found, 0.0)
    return found / found.sum()


def naive_standing_out(corners, least):
    """Leave out the corner nearest to the hull of the others, by SLSQP, while it is nearer than ``least``."""
    kept = list(range(len(corners)))
    while len(kept) > corners.shape[1] + 1:
        gaps = []
        for j in kept:
            others = corners[[i for i in kept if i != j]]
            k = len(others)
            found = minimize(
                lambda x, others=others, j=j: np.sum((x @ others - corners[j]) ** 2),
                np.full(k, 1 / k),
                bounds=[(0, 1)] * k,
                constraints={"type": "eq", "fun": lambda x: x.sum() - 1},
                options={"ftol": 1e-12},
            )
            gaps.append(np.sqrt(found.fun))
        if min(gaps) > least:
            break
        kept.pop(int(np.argmin(gaps)))
    return kept


def naive_squared_residual(rows, vertices):
    """Mean squared distance of rows from mixtures of vertices, by trying every support."""
    return np.mean(np.sum((rows - encode_sum_to(rows, vertices) @ vertices) ** 2, axis=1))


def naive_group_medians(rows, k, sizes):
    """Of the medians of groups of each size, those whose mixtures leave the least residual; groups by the engine."""
    points = lifted(rows[:, : k - 1])
    sets = []
    for size in sizes:
        groups = cores(points, smoothed_groups(points, k, size))
        sets.append(np.array([[np.median(column) for column in rows[group].T] for group in groups]))
    return min(sets, key=lambda medians: naive_squared_residual(rows, medians))


def naive_excess_noise(X, factor=5.0):
    """Columns whose residual from least squares on all others is many times the median; 1 for all others."""
    left = np.array(
        [np.linalg.norm(x - (rest := np.delete(X, j, 1)) @ np.linalg.lstsq(rest, x)[0]) for j, x in enumerate(X.T)]
    )
    ratio = left / np.median(left)
    return np.where(ratio > factor, ratio, 1.0)


def naive_subspace_iteration(Z, start, iterations):
    """Singular values and left singular vectors of ZᵀZ·V after that many products, each of an orthonormal V."""
    V = np.linalg.qr(start)[0]
    values = np.zeros(V.shape[1])
    for _ in range(iterations):
        V, values, _ = np.linalg.svd(Z.T @ (Z @ V), full_matrices=False)
    return values, V
