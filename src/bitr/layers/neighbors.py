"""Nearest neighbours as a dense index."""

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from scipy.spatial import cKDTree
from torch import Tensor

TREE_FROM = 400
"""Points from which a k-d tree beats the distance matrix on a CPU (measured with 25 neighbours)."""
ROWS_AT_ONCE = 2048
"""Rows of the distance matrix that exist at a time."""


@torch.no_grad()
def nearest_neighbors(
    points: Float[Tensor, "b n d"], k: int, mask: Bool[Tensor, "b n"] | None = None
) -> tuple[Int[Tensor, "b n k"], Bool[Tensor, "b n k"] | None]:
    """Indices of the ``k`` nearest other points, nearest first, and which of them are real.

    A cloud with fewer than k + 1 points gives all its other points. The index is unchanged by a rigid
    motion and by a scale, up to ties: distances are in double precision, with differences taken before
    norms, since ‖a‖² + ‖b‖² − 2ab loses the neighbours themselves away from the origin. Both ways of
    searching give the same answer, except that either may choose among points at exactly the same distance.
    """
    n = points.shape[1]
    k = min(k, n - 1)
    points = points.double()
    if points.device.type == "cpu" and n >= TREE_FROM:
        index = torch.stack(
            [_by_tree(points[i], k, None if mask is None else mask[i]) for i in range(len(points))]
        )
    else:
        index = _by_matrix(points, k, mask)
    if mask is None:
        return index, None
    enough = torch.arange(k, device=points.device) < mask.sum(1)[:, None] - 1
    return index, enough[:, None] & mask[..., None]


def _by_tree(points: Float[Tensor, "n d"], k: int, mask: Bool[Tensor, "n"] | None) -> Int[Tensor, "n k"]:
    """One cloud on the CPU. Rows of padding, and places beyond the last real neighbour, hold any index."""
    if mask is not None:
        real = mask.nonzero()[:, 0]
        index = torch.zeros(len(points), k, dtype=torch.long)
        if len(real) > 1:
            found = _by_tree(points[real], min(k, len(real) - 1), None)
            index[real, : found.shape[1]] = real[found]
        return index
    array = points.numpy()
    _, found = cKDTree(array).query(array, k=k + 1, workers=torch.get_num_threads())
    own = found == np.arange(len(array))[:, None]
    own[~own.any(1), -1] = True  # among many duplicates a point need not find itself: drop the last instead
    return torch.from_numpy(found[~own].reshape(-1, k))


def _by_matrix(
    points: Float[Tensor, "b n d"], k: int, mask: Bool[Tensor, "b n"] | None
) -> Int[Tensor, "b n k"]:
    found = []
    for start in range(0, points.shape[1], ROWS_AT_ONCE):
        rows = points[:, start : start + ROWS_AT_ONCE]
        distance = torch.cdist(rows, points, compute_mode="donot_use_mm_for_euclid_dist")
        if mask is not None:
            distance.masked_fill_(~mask[:, None, :], torch.inf)
        own = torch.arange(rows.shape[1], device=points.device)
        distance[:, own, own + start] = torch.inf
        found.append(distance.topk(k, dim=-1, largest=False).indices)
    return torch.cat(found, dim=1)
