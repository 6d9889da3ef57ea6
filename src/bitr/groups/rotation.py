"""Rotations: angle, projection, and how well the projection is determined."""

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
    r"""Rotation closest to ``a``: the SVD projection of Definition C.5.

    With :math:`a = U \Sigma V^\top`, returns :math:`U\,\mathrm{diag}(1, 1, \det UV^\top)\,V^\top`.
    Unique when :math:`\sigma_2 > \sigma_3`; unchanged by a positive scale. The gradient is that of the
    projection (roma), finite also where singular values coincide.
    """
    return nearest_rotation_and_gap(a)[0]


def nearest_rotation_and_gap(
    a: Float[Tensor, "*b 3 3"], noise: float = 0.0
) -> tuple[Float[Tensor, "*b 3 3"], Float[Tensor, "*b"]]:
    r"""The nearest rotation, and the gap :math:`\sigma_2 + \mathrm{sign}(\det a)\,\sigma_3` over ‖a‖.

    Near 0 the rotation is not determined: no rotation is nearest. The gap is at most 2/√3, has no gradient,
    and is unchanged by rotations on either side, by transposition and by a positive scale as long as ‖a‖ is
    above the ``noise``; below, the gap shrinks with ‖a‖.
    """
    size = a.detach().square().sum((-2, -1), keepdim=True).sqrt()
    floor = torch.finfo(a.dtype).eps  # an all-zero ``a`` must not turn the gradient into infinity
    rotation, signed = _project(a / size.clamp_min(floor))
    gap = (signed[..., 1] + signed[..., 2]).detach()
    above = (size / size.clamp_min(noise))[..., 0, 0] if noise > 0 else 1.0
    return rotation, gap * above


def _project(a: Float[Tensor, "*b 3 3"]) -> tuple[Float[Tensor, "*b 3 3"], Float[Tensor, "*b 3"]]:
    """Nearest rotation and signed singular values; for the gradient, roma, which takes a second to import."""
    if a.requires_grad or torch.compiler.is_compiling():
        import roma

        rotation, signed = roma.special_procrustes(a, return_singular_values=True)
        return rotation, signed
    u, values, vh = proper_svd(a)
    return u @ vh, values


def proper_svd(a: Float[Tensor, "*b 3 3"]) -> tuple[Tensor, Float[Tensor, "*b 3"], Tensor]:
    """The singular value decomposition with det UVᵀ = 1: the last singular value has the sign of det a."""
    u, values, vh = torch.linalg.svd(a)
    sign = torch.ones_like(values)
    sign[..., 2] = torch.linalg.det(u @ vh).sign()
    return u * sign[..., None, :], values * sign, vh
