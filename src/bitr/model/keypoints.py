"""Φ_E: ordered key points of each cloud, chosen in view of the other, and the merged cloud (Sec. 4.3)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn

from bitr.groups import Cloud, Degree, Field, Rep
from bitr.layers import (
    Clouds,
    DegreeLinear,
    Edges,
    FieldNorm,
    Neighborhoods,
    WholeCloudBlock,
    edges_of,
    full_precision,
)
from bitr.model.config import BITRConfig
from bitr.model.transformer import Block, transformer_layer

FIRST_OFFSET = 0.03
"""Length of the first offsets, for features of size 1: key points start where the paper has them."""
SHARPER = 2.0
"""First logits over torch's own: key points start farther apart, which keeps the laws better in float32."""


@dataclass(frozen=True)
class KeyPoints:
    """L ordered points of a cloud, with Φ_E's features pooled by the same weights.

    They lie in the convex hull, or off it by a learned vector where the config has ``offset``.
    """

    points: Float[Tensor, "b l 3"]
    field: Field  # here as (b, l, m, c)
    at_points: Field  # Φ_E's features before they are pooled, (b, n, m, c)


class KeyPointNetwork(nn.Module):
    """A shared network that gives each point L logits; X̃ = softmax(F⁰_X) X, eq. (10).

    Our default has ``num_layers`` wide blocks, and the logits are a linear map of the last scalars. The
    paper's is an SE(3)-transformer: blocks, the fusion of eq. (12), and a last layer to the logits.
    """

    def __init__(self, config: BITRConfig) -> None:
        super().__init__()
        self.config, self.is_wide, layers = config, config.extractor == "wide", range(config.num_layers)
        if self.is_wide:
            self.rep_out = Rep.one_sided(config.max_degree, config.width)
            self.blocks = nn.ModuleList(WideBlock(config, first=i == 0) for i in layers)
            self.norm = FieldNorm(center=True)
            self.last: nn.Module = nn.Linear(config.width, config.num_keypoints)
            with torch.no_grad():
                self.last.weight.mul_(SHARPER)
        else:
            rep = Rep.one_sided(config.max_degree, config.cloud_channels)
            self.rep_out = Rep({**rep, (0, 0): 2 * config.cloud_channels})
            self.blocks = nn.ModuleList(
                Block(config, rep if i else _input_rep(config), rep, sides=1) for i in layers
            )
            logits = Rep({(0, 0): config.num_keypoints})
            self.last = transformer_layer(config, self.rep_out, logits, sides=1)
        vectors = self.rep_out[1, 0]
        first = FIRST_OFFSET * torch.randn(config.num_keypoints, vectors) if config.offset else None
        self.offset = None if first is None else nn.Parameter(first / vectors**0.5)

    def forward(self, x: Cloud, y: Cloud) -> tuple[KeyPoints, KeyPoints]:
        """Both clouds go through the network in one row; only the fusion and the pools tell them apart."""
        around = Neighborhoods.of_all(
            [x.points, y.points], [x.mask, y.mask], self.config.num_neighbors, [x.neighbors, y.neighbors]
        )
        clouds, unit = around.clouds, None
        if self.config.smooth:  # the mean reach of the neighbourhoods of both clouds of a pair
            of_x, of_y = around.mean_reach().chunk(2)
            unit = ((of_x + of_y) / 2).repeat(2)
        edges = edges_of(around, self.config.max_degree, unit, self.config.basis_size(sides=1))
        field_x, field_y = _input_field(x, self.config), _input_field(y, self.config)
        field = {degree: torch.cat([field_x[degree], field_y[degree]]) for degree in field_x}
        for block in self.blocks:
            field = block(field, edges, clouds)
        if self.is_wide:
            field = self.norm(field, clouds)
            logits = self.last(field[0, 0][:, 0]).to(field[0, 0].dtype)
        else:
            field = _fuse(field, clouds)
            logits = self.last(field, edges)[0, 0][:, 0]
        field_x, field_y = ({d: clouds.split(f)[side] for d, f in field.items()} for side in range(2))
        x_logits, y_logits = clouds.split(logits)
        return select(x, x_logits, field_x, self.offset), select(y, y_logits, field_y, self.offset)


def _fuse(field: Field, clouds: Clouds) -> Field:
    """Each point gets the other cloud's pooled scalars beside its own: f⁰(x_u) ⊕ Pool_v f⁰(y_v) ⊕ f¹(x_u)."""
    of_x, of_y = clouds.means(field[0, 0]).chunk(2)
    of_other = clouds.spread(torch.cat([of_y, of_x]))
    return {**field, (0, 0): torch.cat([field[0, 0], of_other], dim=-1)}


class WideBlock(nn.Module):
    """A layer of ``cloud_channels`` on neighbourhoods, then ``depth`` blocks of ``width`` on whole clouds.

    Work on edges is bound by memory; work at points is products of matrices, which are many times as fast.
    """

    def __init__(self, config: BITRConfig, first: bool) -> None:
        super().__init__()
        narrow = Rep.one_sided(config.max_degree, config.cloud_channels)
        wide = Rep.one_sided(config.max_degree, config.width)
        self.narrow = None if first else DegreeLinear(wide, narrow, tied=False)
        self.near = transformer_layer(config, _input_rep(config) if first else narrow, narrow, sides=1)
        self.widen = DegreeLinear(narrow, wide, tied=False)
        self.whole = nn.ModuleList(WholeCloudBlock(wide) for _ in range(config.depth))

    def forward(self, field: Field, edges: Edges, clouds: Clouds) -> Field:
        near = self.widen(self.near(field if self.narrow is None else self.narrow(field), edges))
        field = near if self.narrow is None else {d: values + near[d] for d, values in field.items()}
        for block in self.whole:
            field = block(field, clouds)
        return field


def select(
    cloud: Cloud, logits: Float[Tensor, "b n l"], field: Field, offset: Float[Tensor, "l c"] | None
) -> KeyPoints:
    r"""X̃ = softmax(F⁰_X) X, eq. (10), and the features pooled by the same weights.

    With an offset w, :math:`\tilde x_k = \sum_u a_{ku} x_u + \sum_c w_{kc} \sum_u a_{ku} f_c(u)`, with
    :math:`f_c` the channels of degree 1. So both pieces can name a place that neither of them has. Sums are
    in double precision: key points lie close together, and Φ_S lives on their differences.
    """
    if cloud.mask is not None:
        logits = logits.masked_fill(~cloud.mask[..., None], -torch.inf)
    with full_precision(logits.device):
        weights = logits.double().softmax(1).mT
        pooled = {d: (weights @ f.double().flatten(2)).unflatten(2, f.shape[2:]) for d, f in field.items()}
        points = weights @ cloud.points.double()
        if offset is not None:
            points = points + (pooled[1, 0] @ offset.to(points)[..., None])[..., 0]
        return KeyPoints(points, pooled, field)


def _input_rep(config: BITRConfig) -> Rep:
    scalars = 1 + config.position_features + 3 * config.colors
    vectors = config.position_features + config.normals
    return Rep({(0, 0): scalars, (1, 0): int(vectors)})


def _input_field(cloud: Cloud, config: BITRConfig) -> Field:
    """Degree 0: a constant, distance from the centroid, colours. Degree 1: offset from it, normals."""
    points = cloud.points.flatten(0, 1)
    scalars, vectors = [torch.ones_like(points[..., :1])], []
    if config.position_features:
        scalars.append((points.square().sum(-1, keepdim=True) + 1e-4).sqrt())  # smooth at the centroid
        vectors.append(points)
    if config.normals and cloud.normals is not None:
        vectors.append(cloud.normals.flatten(0, 1).to(points))
    if config.colors and cloud.colors is not None:
        scalars.append(cloud.colors.flatten(0, 1).to(points))
    field = {(0, 0): torch.cat(scalars, dim=-1)[:, None]}
    if vectors:
        field[1, 0] = torch.stack(vectors, dim=-1)
    return field


# the merged 6-D cloud and the features it starts with


def merge(x: KeyPoints, y: KeyPoints) -> tuple[Float[Tensor, "b l 6"], Field]:
    r"""z_u = x̃_u ⊕ ỹ_u, with features made of Φ_E's on both sides.

    Degree (p, 0): x's features, (0, q): y's, (p, q): their outer products channel by channel, (0, 0): sums
    and products, which a swap does not change. The offsets x̃_u − m(X̃), ỹ_u − m(Ỹ) are among the vectors, so
    that Arun's correlation matrix is one setting of the weights. Φ_S sees differences of key points alone: z
    is about their means, so that rounding takes little of them.
    """
    a, b = _one_side(x), _one_side(y)
    z = torch.cat([a[1][..., -1], b[1][..., -1]], dim=-1)
    field: Field = {(0, 0): torch.cat([a[0] + b[0], a[0] * b[0]], dim=-1)}
    for p in range(1, len(a)):
        field[p, 0], field[0, p] = a[p], b[p]
        for q in range(1, len(b)):
            c = min(a[p].shape[-1], b[q].shape[-1])
            field[p, q] = (a[p][..., :, None, :c] * b[q][..., None, :, :c]).flatten(2, 3)
    return z, {degree: field[degree].flatten(0, 1) for degree in sorted(field)}


def _one_side(key: KeyPoints) -> list[Tensor]:
    """Features by degree."""
    offset = key.points - key.points.mean(1, keepdim=True)
    side = [key.field[degree] for degree in sorted(key.field)]
    side[1] = torch.cat([side[1], offset[..., None]], dim=-1)
    return side


def merged_rep(rep: Rep) -> Rep:
    """Degrees and multiplicities of the merged features, from those of Φ_E's."""
    side = {p: channels + (p == 1) for (p, _), channels in rep.items()}
    channels: dict[Degree, int] = {(0, 0): 2 * side[0]}
    for p in range(1, len(side)):
        channels |= {(p, 0): side[p], (0, p): side[p]}
        channels |= {(p, q): min(side[p], side[q]) for q in range(1, len(side))}
    return Rep(channels)
