"""Φ_E with few layers on neighbourhoods and many channels on whole clouds: what our weights have."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn

from bitr.groups import Field, Rep
from bitr.layers import Clouds, DegreeLinear, Edges, FieldNorm, WholeCloudBlock
from bitr.model.blocks import transformer_layer
from bitr.model.config import BITRConfig
from bitr.model.keypoints import KeyPointNetwork, input_rep

SHARPER = 2.0
"""First logits over torch's own: key points start farther apart, which keeps the laws better in float32."""


class WideBlock(nn.Module):
    """A layer of ``cloud_channels`` on neighbourhoods, then ``depth`` blocks of ``width`` on whole clouds.

    Work on edges is bound by memory; work at points is products of matrices, which are many times as fast.
    """

    def __init__(self, config: BITRConfig, first: bool) -> None:
        super().__init__()
        narrow = Rep.one_sided(config.max_degree, config.cloud_channels)
        wide = Rep.one_sided(config.max_degree, config.width)
        self.narrow = None if first else DegreeLinear(wide, narrow, tied=False)
        self.near = transformer_layer(config, input_rep(config) if first else narrow, narrow, sides=1)
        self.widen = DegreeLinear(narrow, wide, tied=False)
        self.whole = nn.ModuleList(WholeCloudBlock(wide) for _ in range(config.depth))

    def forward(self, field: Field, edges: Edges, clouds: Clouds) -> Field:
        near = self.widen(self.near(field if self.narrow is None else self.narrow(field), edges))
        field = near if self.narrow is None else {d: values + near[d] for d, values in field.items()}
        for block in self.whole:
            field = block(field, clouds)
        return field


class WideKeyPointNetwork(KeyPointNetwork):
    """``num_layers`` wide blocks; the logits are a linear map of the last scalars."""

    def _make(self, config: BITRConfig) -> Rep:
        self.blocks = nn.ModuleList(WideBlock(config, first=i == 0) for i in range(config.num_layers))
        self.norm = FieldNorm(center=True)
        self.last = nn.Linear(config.width, config.num_keypoints)
        with torch.no_grad():
            self.last.weight.mul_(SHARPER)
        return Rep.one_sided(config.max_degree, config.width)

    def _features(self, field: Field, edges: Edges, clouds: Clouds) -> tuple[Field, Float[Tensor, "N l"]]:
        for block in self.blocks:
            field = block(field, edges, clouds)
        field = self.norm(field, clouds)
        scalars = field[0, 0][:, 0]
        return field, self.last(scalars).to(scalars.dtype)
