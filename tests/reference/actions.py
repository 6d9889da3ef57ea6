"""The actions of motions and of the swap on features (Sec. 5.1, App. B), which every layer must keep."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from bitr.groups import Field, wigner


def turn(field: Field, r1: Float[Tensor, "3 3"], r2: Float[Tensor, "3 3"]) -> Field:
    """The action of (r₁, r₂) on the features (not on the points that carry them)."""
    turned = {}
    for (p, q), value in field.items():
        matrix = value.unflatten(-2, (2 * p + 1, 2 * q + 1))
        moved = torch.einsum("ax,...xyc,by->...abc", wigner(r1, p), matrix, wigner(r2, q))
        turned[p, q] = moved.flatten(-3, -2)
    return turned


def swap(field: Field) -> Field:
    """The action of the swap on the features (Sec. 5.1): degree (p, q) becomes (q, p), transposed."""
    return {
        (q, p): value.unflatten(-2, (2 * p + 1, 2 * q + 1)).transpose(-3, -2).flatten(-3, -2)
        for (p, q), value in field.items()
    }
