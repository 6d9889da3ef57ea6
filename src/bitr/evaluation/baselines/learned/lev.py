"""In the manner of LEV: canonical poses from vector neurons, which turn with the piece."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float, Float64
from torch import Tensor, nn

from bitr.evaluation.baselines.learned.common import Regressor, Sizes, greatest, network
from bitr.groups import Cloud, Rigid, nearest_rotation_and_gap
from bitr.layers import nearest_neighbors

NEIGHBORS = (4, 8, 16, 32)
"""A point's mean offset to so many neighbours is an input vector: about a normal, as long as the bend."""
LEAK = 0.2
FRAME = 4
"""Vectors per cloud that all its points' vectors are read off against."""


class VectorCanonicalPoses(Regressor):
    r"""In the manner of Wu et al., Leveraging SE(3) equivariance for learning 3D geometric shape assembly.

    ICCV 2023. Vector neurons give each piece vectors V that turn with it and an embedding e that does not.
    The pose of a piece in the assembled shape is read off its own vectors, by weights that depend on both
    embeddings:

    .. math:: r_X = \mathrm{SVD}(V_X\, W(e_X, e_Y)), \quad t_X = t(e_X, e_Y), \quad
              g_X\, x = r_X^\top x + t_X, \quad g = g_Y^{-1} g_X.

    Laws: model(g₁X, g₂Y) = g₂ g g₁⁻¹ and model(Y, X) = g⁻¹.

    Left out: learned layers on the edges to neighbours, whose place fixed means take, and the losses on a
    canonical reconstruction and of a discriminator.
    """

    name = "lev"

    def __init__(self, sizes: Sizes) -> None:
        super().__init__(sizes)
        c = sizes.channels
        self.encode = VectorEncoder(c)
        self.mix = network(4 * c, 2 * c, 3 * c)
        self.shift = network(4 * c, 2 * c, 3)

    def relative(self, x: Cloud, y: Cloud) -> tuple[Rigid, Float64[Tensor, " b"]]:
        (v_x, e_x), (v_y, e_y) = self.encode(x), self.encode(y)
        canonical_from_x, gap_x = self._pose(v_x, torch.cat([e_x, e_y], dim=-1))
        canonical_from_y, gap_y = self._pose(v_y, torch.cat([e_y, e_x], dim=-1))
        return canonical_from_y.inverse() @ canonical_from_x, torch.minimum(gap_x, gap_y)

    def _pose(
        self, vectors: Float[Tensor, "b 3 c"], embeddings: Float[Tensor, "b e"]
    ) -> tuple[Rigid, Float64[Tensor, " b"]]:
        weights = self.mix(embeddings).unflatten(-1, (-1, 3))
        rotation, gap = nearest_rotation_and_gap((vectors @ weights).double())
        return Rigid(rotation.mT, self.shift(embeddings).double()), gap


class VectorEncoder(nn.Module):
    """A cloud about the origin ↦ c vectors that turn with it, and 2c numbers that do not."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.local = VectorLayer(1 + 2 * len(NEIGHBORS), channels // 2)
        self.global_ = VectorLayer(2 * (channels // 2), channels)
        self.frame = nn.Linear(channels, FRAME, bias=False)
        self.invariant = network(FRAME * channels, 2 * channels, 2 * channels)

    def forward(self, cloud: Cloud) -> tuple[Float[Tensor, "b 3 c"], Float[Tensor, "b e"]]:
        local = self.local(_input_vectors(cloud))
        of_cloud = _mean(local, cloud.mask).expand_as(local)
        vectors = self.global_(torch.cat([local, of_cloud], dim=-1))
        pooled = _mean(vectors, cloud.mask)
        frame = self.frame(pooled)
        size = frame.square().mean((-2, -1), keepdim=True).sqrt().clamp_min(1e-6)
        products = vectors.mT @ (frame / size)
        return pooled[:, 0], greatest(self.invariant(products.flatten(2)), cloud.mask)


class VectorLayer(nn.Module):
    r"""A vector neuron layer (Deng et al. 2021): channels are mixed, and cut off along a learned direction.

    :math:`q = VW, k = VU`; where :math:`\langle q, k\rangle < 0`, q loses its part along k but for a leak.
    """

    def __init__(self, c_in: int, c_out: int) -> None:
        super().__init__()
        self.value, self.direction = (nn.Linear(c_in, c_out, bias=False) for _ in range(2))

    def forward(self, vectors: Float[Tensor, "b n 3 c"]) -> Float[Tensor, "b n 3 d"]:
        q, k = self.value(vectors), self.direction(vectors)
        along = (q * k).sum(-2, keepdim=True)
        size = k.square().sum(-2, keepdim=True) + 1e-6  # a direction of length 0 cuts nothing off
        return q - (1 - LEAK) * along.clamp_max(0) / size * k


def _input_vectors(cloud: Cloud) -> Float[Tensor, "b n 3 c"]:
    """Of each point: itself, mean offsets to its neighbours at several reaches, and their cross products.

    A point alone has but one direction. The cross products tell a shape from its mirror image. Offsets are in
    units of their own mean size, since they are small and how small depends on the sampling.
    """
    x = cloud.points
    index, valid = nearest_neighbors(x, NEIGHBORS[-1], cloud.mask)
    rows = torch.arange(len(x), device=x.device)[:, None, None]
    offsets = x[rows, index] - x[:, :, None]
    real = torch.ones_like(offsets[..., :1]) if valid is None else valid[..., None].to(x)
    sums, counts = (offsets * real).cumsum(2), real.cumsum(2).clamp_min(1)
    last = [min(k, index.shape[2]) - 1 for k in NEIGHBORS]
    bends = (sums / counts)[:, :, last].mT
    size = _mean(bends.square().sum(2, keepdim=True), cloud.mask).sqrt().clamp_min(1e-6)
    bends = bends / size
    return torch.cat([x[..., None], bends, torch.linalg.cross(x[..., None], bends, dim=2)], dim=-1)


def _mean(values: Float[Tensor, "b n m c"], mask: Bool[Tensor, "b n"] | None) -> Float[Tensor, "b 1 m c"]:
    """Over the real points of each cloud."""
    if mask is None:
        return values.mean(1, keepdim=True)
    weight = mask[..., None, None].to(values)
    return (values * weight).sum(1, keepdim=True) / weight.sum(1, keepdim=True)
