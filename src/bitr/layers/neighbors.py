"""Clouds side by side in one row of points, and the nearest neighbours of each point in its own cloud.

The points of all clouds of a batch stand in one row of length N = b·n, their neighbours last: (…, N, k).
Element-wise work then runs over long contiguous rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from small_gicp import KdTree
from torch import Tensor
from torch.nn.functional import pad

from bitr.errors import require

TREE_FROM = 64
"""Number of points from which a CPU uses a k-d tree: faster than the distance matrix
(``benchmarks/variants.py``), and large enough to wake threads for."""
ROWS_AT_ONCE = 2048  # rows of the distance matrix that exist at a time
SHORTEST = 1e-6
"""A length that counts as 0, in units of the clouds' size (without the scale law, of the input)."""


@torch.no_grad()
def nearest_neighbors(
    points: Float[Tensor, "b n d"],
    k: int,
    mask: Bool[Tensor, "b n"] | None = None,
    known: Int[Tensor, "b n _"] | None = None,
) -> tuple[Int[Tensor, "b n k"], Bool[Tensor, "b n k"] | None]:
    """Indices of the ``k`` nearest other points, nearest first, and which of them are real.

    A cloud with fewer than k + 1 points gives all its other points; an index that is ``known`` saves the
    search. The index is unchanged by a rigid motion and by a scale, up to ties: distances are in double
    precision, with differences taken before norms, since ‖a‖² + ‖b‖² − 2ab loses the neighbours themselves
    away from the origin. Both ways of searching give the same answer up to ties.
    """
    k = min(k, points.shape[1] - 1)
    on_cpu = points.device.type == "cpu" and not torch.compiler.is_compiling()
    if known is not None:
        require(known.shape[2] >= k, f"got {known.shape[2]} neighbors a point, expected at least {k}")
        index = known[..., :k]
    elif on_cpu and points.shape[1] >= TREE_FROM and points.shape[2] == 3:
        masks = [None] * len(points) if mask is None else list(mask)
        index = torch.stack([by_tree(cloud, m, k) for cloud, m in zip(points.detach(), masks, strict=True)])
    else:
        index = by_matrix(points, k, mask)
    if mask is None:
        return index, None
    enough = torch.arange(k, device=points.device) < mask.sum(1)[:, None] - 1
    return index, enough[:, None] & mask[..., None]


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


@dataclass(frozen=True)
class Clouds:
    """Batches of clouds, one after the other: each has b clouds of n points. ``mask`` is False on padding."""

    shapes: tuple[tuple[int, int], ...]
    mask: Bool[Tensor, " N"] | None = None

    def split(self, values: Float[Tensor, "N ..."]) -> list[Tensor]:
        """Back to one (b, n, …) tensor per batch."""
        parts = values.split([b * n for b, n in self.shapes])
        return [part.unflatten(0, shape) for part, shape in zip(parts, self.shapes, strict=True)]

    def means(self, values: Float[Tensor, "N ..."]) -> Float[Tensor, "C ..."]:
        """Mean over the real points of each cloud."""
        if self.mask is None:
            return torch.cat([part.mean(1) for part in self.split(values)])
        wide = (-1, *([1] * (values.dim() - 1)))
        weight = self.mask.to(values).reshape(wide)
        sums, counts = (
            torch.cat([part.sum(1) for part in self.split(each)]) for each in (values * weight, weight)
        )
        return sums / counts

    def spread(self, of_clouds: Float[Tensor, "C ..."]) -> Float[Tensor, "N ..."]:
        """A value per cloud, at each of its points."""
        parts = of_clouds.split([b for b, _ in self.shapes])
        spread = [
            part[:, None].expand(-1, n, *part.shape[1:]).flatten(0, 1)
            for part, (_, n) in zip(parts, self.shapes, strict=True)
        ]
        return torch.cat(spread) if len(spread) > 1 else spread[0]


@dataclass(frozen=True)
class Neighborhoods:
    """For each point u its nearest other points v of the same cloud, and the offsets z_vu = z_v − z_u."""

    index: Int[Tensor, "N k"]
    valid: Bool[Tensor, "N k"] | None
    offset: Float[Tensor, "d N k"]
    clouds: Clouds

    @classmethod
    def of(
        cls, points: Float[Tensor, "b n d"], k: int, mask: Bool[Tensor, "b n"] | None = None
    ) -> Neighborhoods:
        return cls.of_all([points], [mask], k)

    @classmethod
    def of_all(
        cls,
        batches: list[Float[Tensor, "_ _ d"]],
        masks: list[Bool[Tensor, "_ _"] | None],
        k: int,
        known: Sequence[Int[Tensor, "_ _ _"] | None] | None = None,
    ) -> Neighborhoods:
        """Neighbourhoods of several batches of clouds, in one row; some indices may be ``known``."""
        shapes = tuple((batch.shape[0], batch.shape[1]) for batch in batches)
        ones = [batch.new_ones(shape, dtype=torch.bool) for batch, shape in zip(batches, shapes, strict=True)]
        full = [one if mask is None else mask for one, mask in zip(ones, masks, strict=True)]
        is_full = all(mask is None for mask in masks)
        clouds = Clouds(shapes, None if is_full else torch.cat([mask.flatten() for mask in full]))
        searches = zip(batches, masks, known or [None] * len(batches), strict=True)
        found = [nearest_neighbors(points, k, mask, index) for points, mask, index in searches]
        most = max(index.shape[2] for index, _ in found)
        all_real = all(valid is None and index.shape[2] == most for index, valid in found)
        indices, valids, start = [], [], 0
        for (b, n), (index, valid) in zip(clouds.shapes, found, strict=True):
            first, fewer = start + n * torch.arange(b, device=index.device), (0, most - index.shape[2])
            real = torch.ones_like(index, dtype=torch.bool) if valid is None else valid
            indices.append(pad(index + first[:, None, None], fewer, value=start).flatten(0, 1))
            valids.append(pad(real, fewer).flatten(0, 1))
            start += b * n
        index = torch.cat(indices)
        rows = torch.cat([points.flatten(0, 1) for points in batches]).mT.contiguous()
        offset = gather_neighbors(rows, index) - rows[..., None]
        return cls(index, None if all_real else torch.cat(valids), offset, clouds)

    def farthest_square(self) -> Float[Tensor, " N"]:
        """Square of the distance to the farthest neighbour; 0 for padding."""
        squares = self.offset.square().sum(0)
        if self.valid is not None:
            squares = squares.masked_fill(~self.valid, 0)
        return squares.amax(-1)

    def mean_reach(self) -> Float[Tensor, " C"]:
        """Mean over a cloud of the distance to the farthest neighbour: a length of scale degree 1.

        Summed in double precision: all lengths of a cloud are over this one, so that its error does not
        average out over the points.
        """
        reach = root(self.farthest_square())
        return self.clouds.means(reach.double()).to(reach)


def gather_neighbors(rows: Float[Tensor, "f N"], index: Int[Tensor, "n k"]) -> Float[Tensor, "f n k"]:
    """The values at each point's neighbours."""
    return rows.index_select(1, index.flatten()).unflatten(1, index.shape)


def root(squares: Tensor) -> Tensor:
    """Square root whose gradient at 0 is of order 1: points may coincide."""
    return (squares + SHORTEST**2).sqrt()
