"""Nearest neighbours as a dense index."""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

ROWS_AT_ONCE = 2048
"""Rows of the distance matrix that exist at a time."""


@torch.no_grad()
def nearest_neighbors(
    points: Float[Tensor, "b n d"], k: int, mask: Bool[Tensor, "b n"] | None = None
) -> tuple[Int[Tensor, "b n k"], Bool[Tensor, "b n k"] | None]:
    """Indices of the ``k`` nearest other points, nearest first, and which of them are real.

    A cloud with fewer than k + 1 points gives all its other points. The index is unchanged by a rigid
    motion and by a scale, up to ties: differences are taken before norms, since ‖a‖² + ‖b‖² − 2ab loses
    the neighbours themselves away from the origin.
    """
    n = points.shape[1]
    k = min(k, n - 1)
    found = []
    for start in range(0, n, ROWS_AT_ONCE):
        rows = points[:, start : start + ROWS_AT_ONCE]
        distance = torch.cdist(rows, points, compute_mode="donot_use_mm_for_euclid_dist")
        if mask is not None:
            distance = distance.masked_fill(~mask[:, None, :], torch.inf)
        own = torch.arange(rows.shape[1], device=points.device)
        distance[:, own, own + start] = torch.inf
        found.append(distance.topk(k, dim=-1, largest=False))
    index = torch.cat([top.indices for top in found], dim=1)
    if mask is None:
        return index, None
    return index, torch.cat([top.values for top in found], dim=1).isfinite() & mask[..., None]


def gather_neighbors(values: Float[Tensor, "b n f"], index: Int[Tensor, "b n k"]) -> Float[Tensor, "b n f k"]:
    """The values at each point's neighbours, neighbours last: long contiguous rows for what follows."""
    b, n, k = index.shape
    rows = values.gather(1, index.reshape(b, n * k, 1).expand(-1, -1, values.shape[-1]))
    return rows.reshape(b, n, k, -1).transpose(-1, -2).contiguous()
