"""What the groups act on: a batch of point clouds."""

from __future__ import annotations

from dataclasses import dataclass, replace

from jaxtyping import Bool, Float, Int
from torch import Tensor

from bitr.groups.rigid import Rigid


@dataclass(frozen=True)
class Cloud:
    """Points with what is known at each of them; ``mask`` is False on padding, None when all are points.

    Normals and colours are used by models that were made for them, as ``BITRConfig(normals=True)``.
    """

    points: Float[Tensor, "b n 3"]
    normals: Float[Tensor, "b n 3"] | None = None
    colors: Float[Tensor, "b n 3"] | None = None
    mask: Bool[Tensor, "b n"] | None = None
    neighbors: Int[Tensor, "b n k"] | None = None
    """Of each point the nearest other points, nearest first, where somebody has searched already; the search
    is then saved. Motions and scales do not change them."""

    def moved(self, pose: Rigid) -> Cloud:
        """The cloud under a rigid motion: points move, normals turn, colours stay."""
        normals = None if self.normals is None else self.normals @ pose.rotation.mT
        return replace(self, points=pose.act(self.points), normals=normals)

    def scaled(self, factor: float) -> Cloud:
        return replace(self, points=self.points * factor)
