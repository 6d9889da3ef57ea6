"""The merged 6-D cloud and the features it starts with (Sec. 4.3)."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from bitr.groups import Degree, Field, Rep
from bitr.model.keypoints import KeyPoints


def merge(x: KeyPoints, y: KeyPoints) -> tuple[Float[Tensor, "b l 6"], Field]:
    r"""z_u = x̃_u ⊕ ỹ_u, with features made of Φ_E's on both sides.

    Degree (p, 0): x's features, (0, q): y's, (p, q): their outer products channel by channel, (0, 0): sums
    and products, which a swap does not change. The offsets x̃_u − m(X̃), ỹ_u − m(Ỹ) are among the vectors, so
    that Arun's correlation matrix is one setting of the weights.
    """
    z = torch.cat([x.points, y.points], dim=-1)
    field = _outer(_one_side(x), _one_side(y))
    return z, {degree: value.flatten(0, 1) for degree, value in field.items()}


def merged_rep(rep: Rep) -> Rep:
    """Degrees and multiplicities of the merged features, from those of Φ_E's."""
    side = {p: rep[p, 0] + (p == 1) for p, _ in rep}
    channels: dict[Degree, int] = {(0, 0): 2 * side[0]}
    for p in side:
        for q in side:
            if (p, q) != (0, 0):
                channels[p, q] = side[max(p, q)] if min(p, q) == 0 else min(side[p], side[q])
    return Rep(channels)


def _one_side(key: KeyPoints) -> dict[int, Tensor]:
    side = {p: value for (p, _), value in key.field.items()}
    offset = key.points - key.points.mean(1, keepdim=True)
    side[1] = torch.cat([side[1], offset[..., None]], dim=-1)
    return side


def _outer(x: dict[int, Tensor], y: dict[int, Tensor]) -> Field:
    field: Field = {(0, 0): torch.cat([x[0] + y[0], x[0] * y[0]], dim=-1)}
    for p in range(1, len(x)):
        field[p, 0], field[0, p] = x[p], y[p]
        for q in range(1, len(y)):
            c = min(x[p].shape[-1], y[q].shape[-1])
            field[p, q] = (x[p][..., :, None, :c] * y[q][..., None, :, :c]).flatten(2, 3)
    return {degree: field[degree] for degree in sorted(field)}
