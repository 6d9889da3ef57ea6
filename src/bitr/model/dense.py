"""What each point says of the assembled whole: targets at every point, and a place for each in the answer."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn

from bitr.groups import Cloud, Field, Rep


@dataclass(frozen=True)
class Dense:
    """At the points of one cloud, in its own frame."""

    contact: Float[Tensor, "b n"]
    """Logit of how near the other piece will be."""
    to_other: Float[Tensor, "b n 3"]
    """From the point to the nearest point of the other piece, once assembled."""
    to_center: Float[Tensor, "b n 3"]
    """From the point to the centroid of the assembled whole."""

    @property
    def contact_probability(self) -> Float[Tensor, "b n"]:
        return self.contact.sigmoid()

    def scaled(self, unit: Float[Tensor, " b"], dtype: torch.dtype) -> Dense:
        """With vectors in the unit of the cloud."""
        to_other, to_center = (v.to(dtype) * unit.to(dtype)[:, None, None] for v in self.vectors)
        return Dense(self.contact.to(dtype), to_other, to_center)

    @property
    def vectors(self) -> tuple[Tensor, Tensor]:
        return self.to_other, self.to_center


class DenseHead(nn.Module):
    """From Φ_E's features at a point: a logit of degree 0 and two vectors of degree 1.

    The vectors are linear in the features of degree 1, weighted by what a small network says of the scalars.
    """

    def __init__(self, rep: Rep) -> None:
        super().__init__()
        scalars, vectors = rep[0, 0], rep[1, 0]
        self.network = nn.Sequential(nn.Linear(scalars, scalars), nn.SiLU(), nn.Linear(scalars, 1 + vectors))
        self.vectors = nn.Linear(vectors, 2, bias=False)

    def forward(self, field: Field) -> Dense:
        """From features (b, n, m, c)."""
        contact, gate = self.network(field[0, 0][:, :, 0]).split([1, self.vectors.in_features], dim=-1)
        vectors = self.vectors(field[1, 0] * (1 + gate[:, :, None])).to(field[1, 0].dtype)
        return Dense(contact[..., 0].to(vectors.dtype), vectors[..., 0], vectors[..., 1])


NUM_CONTACTS = 96
"""Points of a cloud that are looked at under each pose: those most likely in contact."""


@dataclass(frozen=True)
class Contacts:
    """The likeliest contact points of one cloud; ``weight`` is 0 on padding."""

    points: Float[Tensor, "b p 3"]
    expected: Float[Tensor, "b p 3"]
    """Where each says that the other piece will be."""
    weight: Float[Tensor, "b p"]
    center: Float[Tensor, "b 1 3"]
    """Of the whole, as the points of the cloud say in the mean."""
    scalars: Float[Tensor, "b p c"]
    vectors: Float[Tensor, "b p 3 d"]
    """Φ_E's features at the points."""


def contacts(cloud: Cloud, dense: Dense, field: Field) -> Contacts:
    """Chosen by their logits, which move with nothing: the choice moves with the cloud."""
    logits = dense.contact if cloud.mask is None else dense.contact.masked_fill(~cloud.mask, -torch.inf)
    top, rows = logits.topk(min(NUM_CONTACTS, logits.shape[1]), dim=1)
    index = rows[..., None].expand(-1, -1, 3)
    points = cloud.points.gather(1, index)
    centers = cloud.points + dense.to_center
    if cloud.mask is None:
        center = centers.mean(1, keepdim=True)
    else:
        real = cloud.mask[..., None].to(centers)
        center = (centers * real).sum(1, keepdim=True) / real.sum(1, keepdim=True)
    scalars, vectors = (
        values.gather(1, rows[..., None, None].expand(-1, -1, *values.shape[2:]))
        for values in (field[0, 0], field[1, 0])
    )
    expected = points + dense.to_other.gather(1, index)
    return Contacts(points, expected, top.sigmoid(), center, scalars[:, :, 0], vectors)
