"""A fixed smooth basis of radial functions."""

import torch
from jaxtyping import Float
from torch import Tensor


def chebyshev(lengths: Float[Tensor, "sides N k"], functions: int) -> Float[Tensor, "N z k"]:
    r"""Chebyshev polynomials :math:`T_z(2\tau - 1)` of :math:`\tau = r/(1+r)`; of two sides, all products."""
    t = 1 - 2 / (1 + lengths)
    ladder = [torch.ones_like(t), t]
    while len(ladder) < functions:
        ladder.append(2 * t * ladder[-1] - ladder[-2])
    basis = torch.stack(ladder[:functions], dim=2)
    if len(lengths) == 1:
        return basis[0]
    return (basis[0, :, :, None] * basis[1, :, None]).flatten(1, 2)
