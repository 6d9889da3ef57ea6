"""Normalisation over a cloud, by a number that no law changes."""

import torch
from jaxtyping import Bool
from torch import Tensor, nn

from bitr.groups import Field


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

    def forward(self, field: Field, mask: Bool[Tensor, "b n"] | None = None) -> Field:
        if self.center:
            scalars = field[0, 0]
            field = {**field, (0, 0): scalars - masked_mean(scalars, mask)[:, None]}
        return {degree: value * self._inverse_size(value, mask) for degree, value in field.items()}

    def _inverse_size(self, value: Tensor, mask: Tensor | None) -> Tensor:
        squares = masked_mean(value.square().mean((2, 3)), mask)
        return torch.rsqrt(squares + self.epsilon)[:, None, None, None]


def masked_mean(values: Tensor, mask: Bool[Tensor, "b n"] | None) -> Tensor:
    """Mean over the points (dimension 1) that are real."""
    if mask is None:
        return values.mean(1)
    weight = mask.to(values).reshape(*mask.shape, *([1] * (values.dim() - 2)))
    return (values * weight).sum(1) / weight.sum(1)
