"""Normals for clouds that come without, by a rule that moves with the cloud."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float64
from scipy.spatial import cKDTree

NUM_NEIGHBORS = 16


def estimate_normals(
    points: Float64[np.ndarray, "m 3"], cloud: Float64[np.ndarray, "n 3"]
) -> Float64[np.ndarray, "m 3"]:
    """Unit normals at ``points`` of the surface that ``cloud`` samples, pointing away from its centroid.

    The direction in which the 16 nearest points of the cloud spread least.
    """
    center = cloud.mean(0)
    neighbors = cloud[cKDTree(cloud).query(points, k=min(NUM_NEIGHBORS, len(cloud)))[1]]
    neighbors = neighbors - neighbors.mean(1, keepdims=True)
    largest = np.abs(neighbors).max()
    neighbors = neighbors / largest if largest > 0 else neighbors
    _, axes = np.linalg.eigh(np.einsum("nki,nkj->nij", neighbors, neighbors))
    normals = axes[:, :, 0]  # eigenvalues come smallest first
    inward = np.einsum("ni,ni->n", normals, points - center) < 0
    return np.where(inward[:, None], -normals, normals)
