"""Nearest neighbours as a dense index."""

from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from small_gicp import KdTree
from torch import Tensor

from bitr.errors import InputError

TREE_FROM = 64
"""From how many points a CPU uses a k-d tree: faster than the distance matrix (``benchmarks/variants.py``),
and large enough to wake threads for."""
ROWS_AT_ONCE = 2048
"""Rows of the distance matrix that exist at a time."""

Found = tuple[Int[Tensor, "b n k"], Bool[Tensor, "b n k"] | None]


def nearest_neighbors(
    points: Float[Tensor, "b n d"], k: int, mask: Bool[Tensor, "b n"] | None = None
) -> Found:
    """Indices of the ``k`` nearest other points, nearest first, and which of them are real.

    A cloud with fewer than k + 1 points gives all its other points. The index is unchanged by a rigid
    motion and by a scale, up to ties: distances are in double precision, with differences taken before
    norms, since ‖a‖² + ‖b‖² − 2ab loses the neighbours themselves away from the origin. Both ways of
    searching give the same answer, except that either may choose among points at exactly the same distance.
    """
    return nearest_neighbors_in_each([(points, mask)], k)[0]


@torch.no_grad()
def nearest_neighbors_in_each(
    batches: list[tuple[Float[Tensor, "_ _ d"], Bool[Tensor, "_ _"] | None]],
    k: int,
    known: Sequence[Int[Tensor, "_ _ _"] | None] | None = None,
) -> list[Found]:
    """The same for several batches of clouds; the indices of some may be ``known``, k of them or more."""
    found = []
    eager_on_cpu = batches[0][0].device.type == "cpu" and not torch.compiler.is_compiling()
    for (points, mask), searched in zip(batches, known or [None] * len(batches), strict=True):
        fewer = min(k, points.shape[1] - 1)
        if searched is not None:
            if searched.shape[2] < fewer:
                raise InputError(f"got {searched.shape[2]} neighbors a point, expected at least {fewer}")
            index = searched[..., :fewer]
        elif eager_on_cpu and points.shape[1] >= TREE_FROM and points.shape[2] == 3:
            masks = [None] * len(points) if mask is None else list(mask)
            trees = [by_tree(cloud.detach(), m, fewer) for cloud, m in zip(points, masks, strict=True)]
            index = torch.stack(trees)
        else:
            index = by_matrix(points, fewer, mask)
        valid = None
        if mask is not None:
            enough = torch.arange(fewer, device=points.device) < mask.sum(1)[:, None] - 1
            valid = enough[:, None] & mask[..., None]
        found.append((index, valid))
    return found


def by_tree(points: Float[Tensor, "n d"], mask: Bool[Tensor, " n"] | None, k: int) -> Int[Tensor, "n k"]:
    """One cloud on the CPU. Rows of padding, and places beyond the last real neighbour, hold any index."""
    if mask is not None:
        real = mask.nonzero()[:, 0]
        index = torch.zeros(len(points), k, dtype=torch.long)
        if len(real) > 1:
            among_real = by_tree(points[real], None, min(k, len(real) - 1))
            index[real, : among_real.shape[1]] = real[among_real]
        return index
    array, threads = points.double().numpy(), torch.get_num_threads()
    found, _ = KdTree(array, threads).batch_knn_search(array, k + 1, threads)
    found = found.view(np.int64)  # torch does not compute with unsigned numbers
    own = found == np.arange(len(array))[:, None]
    own[~own.any(1), -1] = True  # among many duplicates a point need not find itself: drop the last instead
    return torch.from_numpy(found[~own].reshape(-1, k))


def by_matrix(
    points: Float[Tensor, "b n d"], k: int, mask: Bool[Tensor, "b n"] | None
) -> Int[Tensor, "b n k"]:
    found, points = [], points.double()
    for start in range(0, points.shape[1], ROWS_AT_ONCE):
        rows = points[:, start : start + ROWS_AT_ONCE]
        distance = torch.cdist(rows, points, compute_mode="donot_use_mm_for_euclid_dist")
        if mask is not None:
            distance.masked_fill_(~mask[:, None, :], torch.inf)
        own = torch.arange(rows.shape[1], device=points.device)
        distance[:, own, own + start] = torch.inf
        found.append(distance.topk(k, dim=-1, largest=False).indices)
    return torch.cat(found, dim=1)
