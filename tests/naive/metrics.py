"""The scores by loops over pairs and over all matchings."""

from __future__ import annotations

from itertools import permutations
from math import acos, log

import numpy as np


def angle(x, y):
    return acos(np.clip(np.dot(x, y) / (np.linalg.norm(x) * np.linalg.norm(y)), -1, 1))


def best_mean_angle(true, found):
    return min(
        np.mean([angle(true[a], found[order[a]]) for a in range(len(true))])
        for order in permutations(range(len(found)))
    )


def best_rmse(true, found):
    return min(np.sqrt(np.mean((true - found[:, list(order)]) ** 2)) for order in permutations(range(found.shape[1])))


def umass(words, counts):
    seen = [set(np.flatnonzero(counts[:, w])) for w in words]
    return np.mean([log((len(seen[i] & seen[j]) + 1) / len(seen[j])) for i in range(len(words)) for j in range(i)])


def npmi(words, counts):
    seen = [set(np.flatnonzero(counts[:, w])) for w in words]
    total = len(counts)
    scores = []
    for i in range(len(words)):
        for j in range(i):
            p = len(seen[i] & seen[j]) / total
            if p == 0:
                scores.append(-1.0)
            elif p == 1:
                scores.append(1.0)
            else:
                scores.append(log(p / (len(seen[i]) / total * len(seen[j]) / total)) / -log(p))
    return np.mean(scores)
