"""Rigid motions, and the point clouds that they move."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor


@dataclass(frozen=True)
class Rigid:
    """A motion x ↦ rotation·x + translation, or a batch of them; ``a_from_b @ b_from_c`` chains."""

    rotation: Float[Tensor, "*b 3 3"]
    translation: Float[Tensor, "*b 3"]

    @classmethod
    def identity(cls, *shape: int, dtype: torch.dtype = torch.float64) -> Rigid:
        return cls(torch.eye(3, dtype=dtype).expand(*shape, 3, 3), torch.zeros(*shape, 3, dtype=dtype))

    @classmethod
    def random(
        cls,
        generator: torch.Generator,
        *shape: int,
        size: float = 1.0,
        dtype: torch.dtype = torch.float64,
    ) -> Rigid:
        """Uniform rotation, and a normal translation of standard deviation ``size`` per axis."""
        import roma  # takes a second, and an assembly can do without

        quaternion = torch.randn(*shape, 4, generator=generator, dtype=torch.float64)
        rotation = roma.unitquat_to_rotmat(quaternion / quaternion.norm(dim=-1, keepdim=True))
        translation = size * torch.randn(*shape, 3, generator=generator, dtype=torch.float64)
        return cls(rotation.to(dtype), translation.to(dtype))

    @classmethod
    def from_matrix(cls, matrix: Float[Tensor, "*b 4 4"]) -> Rigid:
        return cls(matrix[..., :3, :3], matrix[..., :3, 3])

    def matrix(self) -> Float[Tensor, "*b 4 4"]:
        top = torch.cat([self.rotation, self.translation[..., None]], dim=-1)
        bottom = torch.zeros_like(top[..., :1, :])
        bottom[..., 0, 3] = 1
        return torch.cat([top, bottom], dim=-2)

    def act(self, points: Float[Tensor, "... n 3"]) -> Float[Tensor, "... n 3"]:
        return points @ self.rotation.mT + self.translation[..., None, :]

    def inverse(self) -> Rigid:
        back = self.rotation.mT
        return Rigid(back, -(back @ self.translation[..., None])[..., 0])

    def scaled(self, factor: float | Float[Tensor, "*b"]) -> Rigid:
        """The same motion in a unit of length that is ``factor`` times smaller: (r, factor·t)."""
        each = factor[..., None] if isinstance(factor, Tensor) else factor
        return Rigid(self.rotation, self.translation * each)

    def to(self, target: torch.dtype | torch.device) -> Rigid:
        return Rigid(self.rotation.to(target), self.translation.to(target))

    def __matmul__(self, other: Rigid) -> Rigid:
        moved = (self.rotation @ other.translation[..., None])[..., 0] + self.translation
        return Rigid(self.rotation @ other.rotation, moved)

    def __getitem__(self, index: int | slice | tuple[int | slice, ...]) -> Rigid:
        return Rigid(self.rotation[index], self.translation[index])


@dataclass(frozen=True)
class Cloud:
    """Batch of point clouds; ``mask`` is False on padding, None when all are points.

    Normals and colours are used by models that were made for them, as ``BITRConfig(normals=True)``.
    """

    points: Float[Tensor, "b n 3"]
    normals: Float[Tensor, "b n 3"] | None = None
    colors: Float[Tensor, "b n 3"] | None = None
    mask: Bool[Tensor, "b n"] | None = None
    neighbors: Int[Tensor, "b n k"] | None = None
    """Precomputed neighbour indices, nearest first, which motions do not change; skips the search."""

    def moved(self, pose: Rigid) -> Cloud:
        """The cloud under a rigid motion: points move, normals turn, colours stay."""
        normals = None if self.normals is None else self.normals @ pose.rotation.mT
        return replace(self, points=pose.act(self.points), normals=normals)

    def scaled(self, factor: float) -> Cloud:
        return replace(self, points=self.points * factor)
