"""Generalised ICP of small_gicp."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float64

from bitr.data import AssemblyPair
from bitr.evaluation.baselines.local import BUDGET, centered
from bitr.evaluation.method import Method

VOXEL = 0.25
"""small_gicp's default, in metres: the clouds are scaled so that their spacing is this."""


def gicp(budget: int = BUDGET) -> Method:
    """small_gicp's ``align`` with its default settings: partners within four voxels, at most 20 rounds.

    It starts with the centroids together: from further away no point would have a partner.
    """

    def solve(pair: AssemblyPair) -> Float64[np.ndarray, "4 4"]:
        import small_gicp  # not needed to list the baselines

        local = centered(pair, budget, VOXEL)
        return local.pose(small_gicp.align(local.y, local.x).T_target_source)

    return Method("GICP", solve)
