"""Where a piece goes through the surface of another."""

from __future__ import annotations

import numpy as np
from jaxtyping import Bool, Float64, Int64
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components


def crossing(
    distance: Float64[np.ndarray, " n"], neighbors: Int64[np.ndarray, "n _"], tolerance: float
) -> Bool[np.ndarray, " n"]:
    """Places that hang together, over places of known distance, with one in front by more than a tolerance.

    What is behind a surface and nowhere comes through it may be in the open: in a tube, or behind a scan.
    """
    n, known = len(distance), np.isfinite(distance)
    here, there = np.repeat(np.arange(n), neighbors.shape[1]), neighbors.ravel()
    both = known[here] & known[there]
    graph = coo_array((np.ones(both.sum()), (here[both], there[both])), shape=(n, n))
    patch = connected_components(graph, directed=False)[1]
    return known & np.isin(patch, patch[known & (distance > tolerance)])
