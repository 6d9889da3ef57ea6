"""Point-to-point ICP from where the pieces are: the paper's ICP (Sec. 6.5)."""

from __future__ import annotations

import math

import numpy as np
import torch
from jaxtyping import Float64
from scipy.spatial import cKDTree

from bitr.data import AssemblyPair
from bitr.evaluation.baselines.local import BUDGET, Points, in_place
from bitr.evaluation.method import Method
from bitr.refine import arun

KEPT = 0.8
"""Share of the source's points, those closest to the reference, that each round fits."""
MOST_ROUNDS = 500


def icp(budget: int = BUDGET) -> Method:
    """Trimmed ICP as the authors' code runs it, from the identity: where the pieces lie decides."""

    def solve(pair: AssemblyPair) -> Float64[np.ndarray, "4 4"]:
        local = in_place(pair, budget)
        return local.pose(trimmed_icp(local.x, local.y))

    return Method("ICP", solve)


def trimmed_icp(x: Points, y: Points) -> Float64[np.ndarray, "4 4"]:
    r"""Repeats: partner each point with the nearest of the reference, fit the closest 80% by Arun's method.

    Neither step raises :math:`\sum_{i \in \mathrm{kept}} \|r x_i + t - y_{p(i)}\|^2`; ends when no partner
    changes, or after 500 rounds.
    """
    tree, count = cKDTree(y), math.ceil(KEPT * len(x))
    matrix, last = np.eye(4), None
    for _ in range(MOST_ROUNDS):
        distance, partner = tree.query(x @ matrix[:3, :3].T + matrix[:3, 3])
        kept = np.sort(np.argsort(distance, kind="stable")[:count])
        matched = np.stack([kept, partner[kept]])
        if last is not None and np.array_equal(matched, last):
            break
        last = matched
        fitted = arun(torch.from_numpy(x[kept]), torch.from_numpy(y[partner[kept]]))
        matrix = fitted.matrix().numpy()
    return matrix
