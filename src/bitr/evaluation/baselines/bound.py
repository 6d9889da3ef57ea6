"""What sampling alone allows: Arun's method on the true correspondences."""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Float64, Int64
from scipy.spatial import cKDTree

from bitr.data import AssemblyPair
from bitr.errors import InputError
from bitr.evaluation.baselines.local import BUDGET, Points, points, spacing_of
from bitr.evaluation.method import Method
from bitr.refine import arun

WITHIN = 2.0
"""How many spacings apart two points may be, in place, to correspond."""
LEAST_PAIRS = 3


def bound(budget: int = BUDGET) -> Method:
    """The best rigid motion between points that correspond under the true pose: it looks at the answer.

    Not zero, since two samples of a surface share no points. Where the pieces do not even touch there is
    nothing that corresponds: such a pair has no bound, and an InputError says so. Where they only touch, as
    fragments do, the gap between them is in the answer.
    """

    def solve(pair: AssemblyPair) -> Float64[np.ndarray, "4 4"]:
        x, y = points(pair, budget)
        placed = x @ pair.ref_from_src[:3, :3].T + pair.ref_from_src[:3, 3]
        i, j = correspondences(placed, y)
        if len(i) < LEAST_PAIRS:
            raise InputError(
                f"{pair.id}: {len(i)} points of the pieces lie together in the true pose, "
                f"expected at least {LEAST_PAIRS} for a bound"
            )
        return arun(torch.from_numpy(x[i]), torch.from_numpy(y[j])).matrix().numpy()

    return Method("bound (true correspondences)", solve)


def correspondences(x: Points, y: Points) -> tuple[Int64[np.ndarray, " k"], Int64[np.ndarray, " k"]]:
    """Rows of x and of y that are mutually nearest, and within twice the larger spacing of the clouds.

    Swapping the clouds swaps the rows; a motion or a scale of both changes nothing.
    """
    distance, partner = cKDTree(y).query(x)
    back = cKDTree(x).query(y)[1]
    rows = np.arange(len(x))
    near = distance <= WITHIN * max(spacing_of(x), spacing_of(y))
    i = rows[near & (back[partner] == rows)]
    return i, partner[i]
