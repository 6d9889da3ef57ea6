"""Mating surfaces: which points lie on the break, and which of both pieces belong together.

The two sides of a break are one surface, seen from two materials. Each point has two invariant descriptors,
``shape`` and ``side``: at a true match the shapes agree and the sides are opposite. The score

    S_ij = (shape_i · shape_j − side_i · side_j) / √d

is symmetric in the two pieces, so a swap transposes it; motions and a common scale do not change it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from bitr.groups import Cloud, Field, Rep, Rigid, take_rows
from bitr.layers.neighbors import nearest_neighbors

SIZE = 32  # numbers of a descriptor
HIDDEN = 96  # width of the network at each point
FIRST_SLACK = 2.0
"""Logit of having no partner, before training."""


@dataclass(frozen=True)
class Mating:
    """Descriptors of the points of one cloud."""

    contact: Float[Tensor, "b n"]
    """Logit that the point lies on the break, where the other piece will touch it."""
    shape: Float[Tensor, "b n d"]
    side: Float[Tensor, "b n d"]
    along: Float[Tensor, "b n 3"]
    """Direction on which both pieces agree at a match; with the normals, which oppose, it is a rotation."""
    slack: Float[Tensor, ""]
    """Logit of having no partner."""


class MatingHead(nn.Module):
    """From Φ_E's features at a point: contact and descriptors of degree 0, and a direction of degree 1."""

    def __init__(self, rep: Rep) -> None:
        super().__init__()
        scalars, vectors = rep[0, 0], rep[1, 0]
        self.a, self.b = (nn.Linear(vectors, vectors, bias=False) for _ in range(2))
        self.network = nn.Sequential(
            nn.Linear(scalars + vectors, HIDDEN),
            nn.SiLU(),
            nn.Linear(HIDDEN, HIDDEN),
            nn.SiLU(),
            nn.Linear(HIDDEN, 1 + 2 * SIZE + vectors),
        )
        self.along = nn.Linear(vectors, 1, bias=False)
        self.slack = nn.Parameter(torch.tensor(FIRST_SLACK))

    def forward(self, field: Field) -> Mating:
        """From features (b, n, m, c)."""
        vectors = field[1, 0]
        inner = (self.a(vectors) * self.b(vectors)).mean(2)
        out = self.network(torch.cat([field[0, 0][:, :, 0], inner.to(vectors.dtype)], dim=-1))
        contact, shape, side, gate = out.to(vectors.dtype).split([1, SIZE, SIZE, vectors.shape[-1]], dim=-1)
        along = self.along(vectors * (1 + gate[:, :, None]))[..., 0].to(vectors.dtype)
        return Mating(contact[..., 0], shape, side, along, self.slack.to(vectors.dtype))


def match_scores(x: Mating, y: Mating) -> Float[Tensor, "b n m"]:
    """S of every point of x with every point of y; swapping x and y transposes it."""
    left = torch.cat([x.shape, -x.side], dim=-1)
    right = torch.cat([y.shape, y.side], dim=-1)
    return left @ right.mT * SIZE**-0.5


def match_probabilities(x: Mating, y: Mating) -> Float[Tensor, "b n m"]:
    """Chance that two points belong together: of all partners of either, and of having none.

    The product of the shares in row and column, each with a slack. Unlike Sinkhorn's iteration it is done in
    one step, and a point on a dense side may have several partners.
    """
    scores = match_scores(x, y)
    row = scores - torch.logaddexp(scores.logsumexp(2, keepdim=True), x.slack)
    column = scores - torch.logaddexp(scores.logsumexp(1, keepdim=True), x.slack)
    return (row + column).exp()


# what training compares with the truth

RANK = 8
"""Neighbour whose distance r measures the spacing of a cloud: π r² holds so many points."""
REACH, CLEAR = 2.0, 5.0
"""Spacings within which two points belong together, and beyond which a point has no partner at all."""
LEAST = 0.1
"""Least weight of the best partner of a point that lies on the break."""
ON_BREAK, OFF_BREAK = 128, 64
"""Most points of either piece whose matches are compared, on the break and far from it."""
ALONE = 0.3
"""Weight of the points that have no partner, over those that have one."""


@dataclass(frozen=True)
class MatchLabels:
    """The truth of the points of one piece."""

    weight: Float[Tensor, "b n m"]
    """How much two points belong together, from 0 to 1."""
    touches: Bool[Tensor, "b n"]
    """True on the break."""
    is_clear: Bool[Tensor, "b n"]
    """True where the other piece is far."""


def mating_loss(x: Mating, y: Mating, source: Cloud, reference: Cloud, truth: Rigid) -> Float[Tensor, " b"]:
    """Loss of each pair, the mean over both pieces.

    Cross entropy of contact, minus the log-likelihood of the true matches, and one less the cosine between
    the directions of matched points.
    """
    with torch.no_grad():
        of_x, of_y = match_labels(source, reference, truth)
    turned = replace(x, along=x.along @ truth.rotation.to(x.along).mT)
    first = _side_loss(turned, y, of_x, reference.mask)
    return (first + _side_loss(y, turned, of_y, source.mask)) / 2


def _side_loss(
    own: Mating, other: Mating, labels: MatchLabels, is_real: Bool[Tensor, "b m"] | None
) -> Float[Tensor, " b"]:
    """The terms of one piece; the directions of both are in one frame."""
    each = nn.functional.binary_cross_entropy_with_logits(
        own.contact, labels.touches.to(own.contact), reduction="none"
    )
    loss = (_mean(each, labels.touches) + _mean(each, labels.is_clear)) / 2
    index = torch.cat([_first(labels.touches, ON_BREAK), _first(labels.is_clear, OFF_BREAK)], dim=1)

    parts = (own.contact, own.shape, own.side, own.along)
    contact, shape, side, along = (take_rows(part, index) for part in parts)
    few = Mating(contact, shape, side, along, own.slack)
    table = match_scores(few, other)
    if is_real is not None:
        table = table.masked_fill(~is_real[:, None], -torch.inf)
    total = torch.logaddexp(table.logsumexp(2), own.slack)
    weight = take_rows(labels.weight, index).to(table)
    share = weight / weight.sum(2, keepdim=True).clamp_min(1e-12)
    touches, is_clear = take_rows(labels.touches, index), take_rows(labels.is_clear, index)
    log_likelihood = (share * table.masked_fill(share == 0, 0)).sum(2) - total
    loss = loss - _mean(log_likelihood, touches) - ALONE * _mean(own.slack - total, is_clear)
    a, b = (nn.functional.normalize(v, dim=-1, eps=1e-6) for v in (few.along, other.along))
    return loss + _mean(1 - (a * (share @ b)).sum(-1), touches)


def _mean(values: Float[Tensor, "b n"], rows: Bool[Tensor, "b n"]) -> Float[Tensor, " b"]:
    return torch.where(rows, values, 0.0).sum(1) / rows.sum(1).clamp_min(1)


def _first(rows: Bool[Tensor, "b n"], most: int) -> Int[Tensor, "b k"]:
    """Numbers of the first so many rows that are true; of others where there are fewer."""
    return rows.byte().argsort(dim=1, descending=True, stable=True)[:, :most]


def assembled_distances(moved: Cloud, reference: Cloud) -> Float[Tensor, "b n m"]:
    """Distances of all points of two pieces that lie as assembled; padding is infinitely far."""
    distance = torch.cdist(moved.points.float(), reference.points.float())
    for mask, dim in ((moved.mask, 2), (reference.mask, 1)):
        if mask is not None:
            distance = distance.masked_fill(~mask.unsqueeze(dim), torch.inf)
    return distance


def match_labels(source: Cloud, reference: Cloud, truth: Rigid) -> tuple[MatchLabels, MatchLabels]:
    """Points belong together where the true pose brings them within two spacings with opposed normals."""
    assert source.normals is not None
    assert reference.normals is not None
    distance = assembled_distances(replace(source, points=truth.act(source.points)), reference)
    unit = ((_spacing(source) + _spacing(reference)) / 2).float()[:, None, None]
    turned = source.normals.float() @ truth.rotation.float().mT
    facing = -(turned @ reference.normals.float().mT)
    weight = torch.exp(-(distance / unit).square()) * facing.clamp_min(0) * (distance < REACH * unit)

    def label(weight: Tensor, distance: Tensor) -> MatchLabels:
        away = distance.amin(2) / unit[..., 0]
        return MatchLabels(weight, weight.amax(2) > LEAST, (away > CLEAR) & away.isfinite())

    return label(weight, distance), label(weight.mT, distance.mT)


def _spacing(cloud: Cloud) -> Float[Tensor, " b"]:
    """Side of the square that a point has to itself."""
    rank = min(RANK, cloud.points.shape[1] - 1)
    neighbors = cloud.neighbors
    if neighbors is None:
        neighbors = nearest_neighbors(cloud.points, rank, cloud.mask)[0]
    rank = min(rank, neighbors.shape[2])
    farthest = take_rows(cloud.points, neighbors[:, :, rank - 1])
    square = (farthest - cloud.points).square().sum(-1)
    real = torch.ones_like(square, dtype=torch.bool) if cloud.mask is None else cloud.mask
    return (torch.pi / rank * _mean(square, real)).sqrt()
