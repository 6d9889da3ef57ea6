"""A layer in which a point sees both clouds as wholes, and no neighbours."""

from __future__ import annotations

import torch
from torch import nn

from bitr.groups import Field, Rep
from bitr.layers.clouds import Clouds
from bitr.layers.feed_forward import FeedForward
from bitr.layers.linear import DegreeLinear
from bitr.layers.normalization import FieldNorm


class WholeCloudBlock(nn.Module):
    """Each point gets the mean features of its cloud and the mean scalars of the other; then a FeedForward.

    The mean of a field turns as the field does, so that every degree of the own cloud is kept; of the other
    only what does not turn. Once the mean has vectors, their inner products with a point's own tell where in
    the whole it is. There is no edge, so that many channels cost little.
    """

    def __init__(self, rep: Rep) -> None:
        super().__init__()
        self.norm = FieldNorm(center=True)
        self.of_own = DegreeLinear(rep, rep, tied=False)
        self.of_other = nn.Linear(rep[0, 0], rep[0, 0])
        self.feed_forward = FeedForward(rep)

    def forward(self, field: Field, clouds: Clouds) -> Field:
        """The first half of the clouds are the sources, the second half their references."""
        field = self.norm(field, clouds)
        own = self.of_own({degree: clouds.means(values) for degree, values in field.items()})
        of_x, of_y = clouds.means(nn.functional.silu(field[0, 0])).chunk(2)
        own[0, 0] = own[0, 0] + self.of_other(torch.cat([of_y, of_x])).to(of_x.dtype)
        return self.feed_forward({d: values + clouds.spread(own[d]) for d, values in field.items()})
