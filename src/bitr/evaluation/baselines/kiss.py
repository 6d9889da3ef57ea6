"""KISS-Matcher: point features, pruned by a graph of what fits together (extra ``baselines``)."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float64

from bitr.data import AssemblyPair
from bitr.data.poses import pose
from bitr.evaluation.baselines.extra import load
from bitr.evaluation.baselines.local import BUDGET, centered
from bitr.evaluation.method import Method

NAME = "KISS-Matcher"
VOXEL = 0.3
"""Its default, in metres: the clouds are scaled so that their spacing is this."""


def kiss_matcher(budget: int = BUDGET) -> Method:
    """Its estimate with the default settings; taken also where it doubts it, so that no pair is left out."""
    library = load("kiss_matcher", NAME)

    def solve(pair: AssemblyPair) -> Float64[np.ndarray, "4 4"]:
        local = centered(pair, budget, VOXEL)
        matcher = library.KISSMatcher(library.KISSMatcherConfig(voxel_size=VOXEL))
        found = matcher.estimate(local.x, local.y)
        return local.pose(pose(np.asarray(found.rotation), np.asarray(found.translation).reshape(3)))

    return Method(NAME, solve)
