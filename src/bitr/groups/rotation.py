"""Rotations: angle, projection, and how well the projection is determined."""

import roma
import torch
from jaxtyping import Float
from torch import Tensor


def rotation_angle(rotation: Float[Tensor, "*b 3 3"]) -> Float[Tensor, "*b"]:
    """Angle in radians, in [0, π]; exact to rounding for small angles, unlike acos of the trace."""
    sine = torch.stack(
        [
            rotation[..., 2, 1] - rotation[..., 1, 2],
            rotation[..., 0, 2] - rotation[..., 2, 0],
            rotation[..., 1, 0] - rotation[..., 0, 1],
        ],
        dim=-1,
    ).norm(dim=-1)
    cosine = rotation.diagonal(dim1=-2, dim2=-1).sum(-1) - 1
    return torch.atan2(sine, cosine)


def nearest_rotation(a: Float[Tensor, "*b 3 3"]) -> Float[Tensor, "*b 3 3"]:
    r"""Rotation closest to ``a``: the SVD projection of the paper's App. C.1.

    With :math:`a = U \Sigma V^\top`, returns :math:`U\,\mathrm{diag}(1, 1, \det UV^\top)\,V^\top`.
    Unique when :math:`\sigma_2 > \sigma_3`; unchanged by a positive scale. The gradient is that of the
    projection (roma), finite also where singular values coincide.
    """
    size = a.detach().square().sum((-2, -1), keepdim=True).sqrt()
    floor = torch.finfo(a.dtype).eps  # an all-zero ``a`` must not turn the gradient into infinity
    rotation: Tensor = roma.special_procrustes(a / size.clamp_min(floor))
    return rotation


def singular_gap(a: Float[Tensor, "*b 3 3"], floor: float = 0.0) -> Float[Tensor, "*b"]:
    r""":math:`(\sigma_2 + \mathrm{sign}(\det a)\,\sigma_3) / \sigma_1`: near 0, no rotation is nearest.

    Between 0 and 2; unchanged by rotations on either side, by transposition and, above the ``floor``
    below which σ₁ counts as rounding, by a positive scale.
    """
    sigma = torch.linalg.svdvals(a)
    gap = sigma[..., 1] + torch.sign(torch.linalg.det(a)) * sigma[..., 2]
    return gap / sigma[..., 0].clamp_min(max(floor, torch.finfo(a.dtype).tiny))
