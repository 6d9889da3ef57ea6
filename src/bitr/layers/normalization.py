"""Normalisation over a cloud, by a number that no law changes."""

import torch
from torch import nn

from bitr.groups import Field
from bitr.layers.clouds import Clouds


class FieldNorm(nn.Module):
    """Each degree divided by its root mean square over all points and channels of the cloud.

    The divisor is invariant under rotations and permutations and equal for (p, q) and (q, p) after a
    swap, so every law is kept. Relative sizes within the cloud survive, which a norm per point would lose.
    With ``center``, scalars get mean 0 over the cloud first: of numbers that are all positive, an Elu layer
    would pass or remove a whole channel at a time.
    """

    def __init__(self, center: bool, epsilon: float = 1e-4) -> None:
        super().__init__()
        self.center = center
        self.epsilon = epsilon  # a field that is zero by symmetry must not be blown up to size 1

    def forward(self, field: Field, clouds: Clouds) -> Field:
        if self.center:
            scalars = field[0, 0]
            field = {**field, (0, 0): scalars - clouds.spread(clouds.means(scalars))}
        squares = torch.stack([value.square().mean((1, 2)) for value in field.values()], dim=-1)
        factors = clouds.spread(torch.rsqrt(clouds.means(squares) + self.epsilon)).unbind(-1)
        return {
            degree: value * factor[:, None, None]
            for (degree, value), factor in zip(field.items(), factors, strict=True)
        }
