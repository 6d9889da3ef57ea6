"""Aligning nothing: what the other rows of a table have to beat."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float64

from bitr.data import AssemblyPair
from bitr.data.poses import pose
from bitr.evaluation.baselines.local import BUDGET, points
from bitr.evaluation.method import Method


def identity() -> Method:
    """The pieces stay where the files put them."""
    return Method("identity", lambda pair: np.eye(4))


def centroids(budget: int = BUDGET) -> Method:
    """The centroids are brought together, t = m(Y) − m(X), and nothing is turned.

    After random rotations its Δr is chance; its displacement is what looking at the shapes has to beat.
    """

    def solve(pair: AssemblyPair) -> Float64[np.ndarray, "4 4"]:
        x, y = points(pair, budget)
        return pose(np.eye(3), y.mean(0) - x.mean(0))

    return Method("centroids", solve)
