"""Φ_E: ordered key points of each cloud, chosen in view of the other (Sec. 4.3)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn

from bitr.errors import InputError
from bitr.groups import Cloud, Field, Rep
from bitr.layers import Edges, Neighborhoods, edges_of, masked_mean
from bitr.model.blocks import Block, transformer_layer
from bitr.model.config import BITRConfig

INITIAL_TEMPERATURE = 1.0
"""Standard deviation of the logits: enough to spread the key points, so that they start as means of regions
rather than at the centroid; larger values pick single points, which made learning slower."""


@dataclass(frozen=True)
class KeyPoints:
    """L ordered points in the convex hull of a cloud, with Φ_E's features pooled by the same weights."""

    points: Float[Tensor, "b l 3"]
    field: Field


class KeyPointNetwork(nn.Module):
    """A shared SE(3)-transformer that gives each point L logits; X̃ = softmax(F⁰_X) X (eq. keypoints)."""

    def __init__(self, config: BITRConfig) -> None:
        super().__init__()
        self.config = config
        rep = Rep.one_sided(config.max_degree, config.channels)
        fused = Rep({**rep, (0, 0): 2 * config.channels})
        inputs = [_input_rep(config)] + [rep] * (config.num_layers - 1)
        self.blocks = nn.ModuleList(Block(config, rep_in, rep, sides=1) for rep_in in inputs)
        self.last = transformer_layer(config, fused, Rep({(0, 0): config.num_keypoints}), sides=1)
        self.temperature = (
            nn.Parameter(torch.full((config.num_keypoints,), INITIAL_TEMPERATURE))
            if config.normalize
            else None
        )
        self.rep_out = fused

    def forward(self, x: Cloud, y: Cloud) -> tuple[KeyPoints, KeyPoints]:
        edges_x, edges_y = self._edges(x, y)
        field_x, field_y = self._features(x, edges_x), self._features(y, edges_y)
        pool_x, pool_y = masked_mean(field_x[0, 0], x.mask), masked_mean(field_y[0, 0], y.mask)
        fused_x, fused_y = _fuse(field_x, pool_y), _fuse(field_y, pool_x)
        return self._select(x, fused_x, edges_x), self._select(y, fused_y, edges_y)

    def _edges(self, x: Cloud, y: Cloud) -> tuple[Edges, Edges]:
        """Neighbourhoods of both clouds; lengths are in units of their mean reach, the same for both."""
        config = self.config
        clouds = [(x.points, x.mask), (y.points, y.mask)]
        around_x, around_y = Neighborhoods.of_each(clouds, config.num_neighbors)
        unit = (around_x.mean_reach() + around_y.mean_reach()) / 2 if config.smooth else None
        return edges_of(around_x, config.max_degree, unit), edges_of(around_y, config.max_degree, unit)

    def _features(self, cloud: Cloud, edges: Edges) -> Field:
        field = _input_field(cloud, self.config)
        for block in self.blocks:
            field = block(field, edges, cloud.mask)
        return field

    def _select(self, cloud: Cloud, field: Field, edges: Edges) -> KeyPoints:
        logits = self.last(field, edges)[0, 0][:, :, 0]
        if self.temperature is not None:
            logits = _standardised(logits, cloud.mask) * self.temperature
        if cloud.mask is not None:
            logits = logits.masked_fill(~cloud.mask[..., None], -torch.inf)
        weights = logits.softmax(1).mT
        pooled = {d: (weights @ f.flatten(2)).unflatten(2, f.shape[2:]) for d, f in field.items()}
        return KeyPoints(weights @ cloud.points, pooled)


def _fuse(field: Field, other: Float[Tensor, "b 1 c"]) -> Field:
    """Each point gets the other cloud's pooled scalars beside its own: f⁰(x_u) ⊕ Pool_v f⁰(y_v) ⊕ f¹(x_u)."""
    own = field[0, 0]
    return {**field, (0, 0): torch.cat([own, other[:, None].expand_as(own)], dim=-1)}


def _standardised(logits: Float[Tensor, "b n l"], mask: Tensor | None) -> Float[Tensor, "b n l"]:
    """Logits of mean 0 and variance 1 over the cloud, whatever the size of the features.

    Near-uniform logits would put all key points at the centroid and leave only rounding between them.
    """
    centred = logits - masked_mean(logits, mask)[:, None]
    variance = masked_mean(centred.square(), mask)[:, None]
    return centred * torch.rsqrt(variance + 1e-6)


def _input_rep(config: BITRConfig) -> Rep:
    scalars = 1 + config.position_features + 3 * config.colors
    vectors = config.position_features + config.normals
    return Rep({(0, 0): scalars, (1, 0): int(vectors)})


def _input_field(cloud: Cloud, config: BITRConfig) -> Field:
    """Degree 0: a constant, distance from the centroid, colours. Degree 1: offset from it, normals."""
    points = cloud.points
    scalars, vectors = [torch.ones_like(points[..., :1])], []
    if config.position_features:
        scalars.append((points.square().sum(-1, keepdim=True) + 1e-4).sqrt())  # smooth at the centroid
        vectors.append(points)
    if config.normals:
        vectors.append(_wanted(cloud.normals, "normals").to(points))
    if config.colors:
        scalars.append(_wanted(cloud.colors, "colors").to(points))
    field = {(0, 0): torch.cat(scalars, dim=-1)[:, :, None]}
    if vectors:
        field[1, 0] = torch.stack(vectors, dim=-1)
    return field


def _wanted(values: Tensor | None, name: str) -> Tensor:
    if values is None:
        raise InputError(f"the model was made for clouds with {name}, and a cloud has none")
    return values
