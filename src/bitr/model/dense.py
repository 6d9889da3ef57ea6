"""Dense outputs at every point, and the scores of the heads, which are made from them."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from jaxtyping import Float
from torch import Tensor, nn

from bitr.groups import Cloud, Field, Rep, Rigid, map_tensors, take_rows
from bitr.model.config import BITRConfig
from bitr.model.distribution import SPREAD, bounded_spread
from bitr.model.projection import Unprojected

NUM_CONTACTS = 96  # points of a cloud that are looked at under each pose: those most likely in contact
HIDDEN, PAIRED = 64, 32  # width of the score network, and of the part that compares two points
NUM_NUMBERS = 8  # numbers of ``evidence`` that are not of single key points
REACH = 0.1  # distance at which a point hardly meets another, in units of the pair's size
FIRST_SIZE, FIRST_TRUST = 0.1, 3.0
"""Before training the score is mainly the singular gap: the best determined of random heads is taken, which
rounding disturbs least."""
FAR = 1e6  # beyond any distance, in units of the pair's size


@dataclass(frozen=True)
class Dense:
    """Predictions at the points of one cloud, in its own frame."""

    contact: Float[Tensor, "b n"]
    """Logit of how near the other piece will be."""
    to_other: Float[Tensor, "b n 3"]
    """From the point to the nearest point of the other piece, once assembled."""
    to_center: Float[Tensor, "b n 3"]
    """From the point to the centroid of the assembled whole."""

    @property
    def vectors(self) -> tuple[Tensor, Tensor]:
        return self.to_other, self.to_center


class DenseHead(nn.Module):
    """From Φ_E's features at a point: a logit of degree 0 and two vectors of degree 1.

    The vectors are linear in the features of degree 1, weighted by a small network on the scalars.
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


@dataclass(frozen=True)
class Contacts:
    """The likeliest contact points of one cloud; ``weight`` is 0 on padding."""

    points: Float[Tensor, "b p 3"]
    expected: Float[Tensor, "b p 3"]  # the nearest point of the other piece that each predicts
    weight: Float[Tensor, "b p"]
    center: Float[Tensor, "b 1 3"]  # mean of the points' predictions of the centroid of the whole
    scalars: Float[Tensor, "b p c"]
    vectors: Float[Tensor, "b p 3 d"]  # Φ_E's features at the points


def choose_contacts(cloud: Cloud, dense: Dense, field: Field) -> Contacts:
    """The likeliest contact points; as no motion changes their logits, the choice moves with the cloud."""
    logits = dense.contact if cloud.mask is None else dense.contact.masked_fill(~cloud.mask, -torch.inf)
    top, rows = logits.topk(min(NUM_CONTACTS, logits.shape[1]), dim=1)
    points, to_other, scalars, vectors = (
        take_rows(values, rows) for values in (cloud.points, dense.to_other, field[0, 0], field[1, 0])
    )
    center = cloud.mean(cloud.points + dense.to_center)
    return Contacts(points, points + to_other, top.sigmoid(), center, scalars[:, :, 0], vectors)


class ScoreNetwork(nn.Module):
    """Scores of the heads, from numbers that no law changes.

    These are the scalars of the merged cloud, how far the pose leaves the key points, the anchors and the
    two opinions of the centre from each other, how sure r̂ is, and how the likeliest contact points of both
    pieces lie: all symmetric in the two pieces, and in the pair's unit of length. The poses are seen as they
    are: no score is made better by a change of the pose.
    """

    def __init__(self, config: BITRConfig, rep: Rep) -> None:
        super().__init__()
        keys = config.num_keypoints
        self.meeting = Meeting(rep)
        self.of_pair = nn.Linear(keys * config.channels, HIDDEN)
        self.of_head = nn.Linear(2 * keys + NUM_NUMBERS, HIDDEN)
        self.own = nn.Parameter(0.1 * torch.randn(config.num_modes, HIDDEN))
        out = 2 if config.spread else 1
        last = nn.Linear(HIDDEN, out)
        self.network = nn.Sequential(nn.SiLU(), nn.Linear(HIDDEN, HIDDEN), nn.SiLU(), last)
        self.trust = nn.Parameter(torch.tensor(FIRST_TRUST))
        with torch.no_grad():
            last.weight.mul_(FIRST_SIZE)

    def forward(
        self,
        scalars: Float[Tensor, "b l c"],
        pose: Rigid,
        gap: Float[Tensor, "b k"],
        votes: Unprojected,
        keys: tuple[Float[Tensor, "b l 3"], Float[Tensor, "b l 3"]],
        sides: tuple[Contacts, Contacts],
    ) -> tuple[Float[Tensor, "b k"], Float[Tensor, "b k"]]:
        """Scores and spreads."""
        x, y = sides
        pose = map_tensors(Tensor.detach, pose)
        with torch.no_grad():
            g = pose.to(keys[0].dtype)
            apart = _distances(g, x, y), _distances(g.inverse(), y, x)
            meeting = _meeting(g, x, y, apart[0]) + _meeting(g.inverse(), y, x, apart[1])
            numbers = torch.cat([evidence(pose, gap, votes, keys, sides), meeting], dim=-1).to(scalars.dtype)
            g = pose.to(numbers.dtype)
        hidden = self.of_pair(scalars.flatten(1))[:, None] + self.of_head(numbers) + self.own
        hidden = hidden + self.meeting(g, x, y, apart[0]) + self.meeting(g.inverse(), y, x, apart[1])
        score, *more = self.network(hidden).to(scalars.dtype).unbind(-1)
        score = score + self.trust * gap.to(score)
        return score, bounded_spread(more[0]) if more else torch.full_like(score, SPREAD)


class Meeting(nn.Module):
    """Compares features of the contact points of one piece with those of the other where they come to lie.

    Scalars are compared as they are, vectors by their inner products once the pose has turned them.
    """

    def __init__(self, rep: Rep) -> None:
        super().__init__()
        scalars, vectors = rep[0, 0], rep[1, 0]
        self.own, self.other = nn.Linear(scalars + 1, PAIRED), nn.Linear(scalars, PAIRED, bias=False)
        self.aligned = nn.Linear(vectors, PAIRED, bias=False)
        self.out = nn.Linear(PAIRED, HIDDEN)

    def forward(
        self, g: Rigid, x: Contacts, y: Contacts, apart: Float[Tensor, "b k p q"]
    ) -> Float[Tensor, "b k h"]:
        """``g`` takes x to y, for each head, and leaves their points ``apart``."""
        with torch.no_grad():
            near = (-(apart / REACH).square()).softmax(-1)
            distance = (near * apart).sum(-1, keepdim=True)
        vectors = (near @ y.vectors.flatten(2)[:, None]).unflatten(-1, y.vectors.shape[2:])
        turned = torch.einsum("bkij,bpjc->bkpic", g.rotation, x.vectors)
        own = self.own(torch.cat([x.scalars[:, None].expand(-1, near.shape[1], -1, -1), distance], dim=-1))
        other = near @ self.other(y.scalars)[:, None]
        pairs = nn.functional.silu(own + other + self.aligned((turned * vectors).mean(-2)))
        weight = (x.weight / x.weight.sum(1, keepdim=True))[:, None, :, None]
        return self.out((weight * pairs).sum(2)) / 2


def evidence(
    pose: Rigid,
    gap: Float[Tensor, "b k"],
    votes: Unprojected,
    keys: tuple[Float[Tensor, "b l 3"], Float[Tensor, "b l 3"]],
    sides: tuple[Contacts, Contacts],
) -> Float[Tensor, "b k f"]:
    """Invariant numbers of each head that tell a right pose from a wrong one."""
    kind = keys[0].dtype
    g, (x, y) = pose.to(kind), sides
    apart = (g.act(keys[0][:, None]) - keys[1][:, None]).square().sum(-1)
    anchors = (pose.act(votes.source_anchor) - votes.reference_anchor).square().sum(-1).to(kind)
    r_hat = votes.r_hat.mean(-3)
    disagreement = (votes.r_hat - r_hat[..., None, :, :]).square().sum((-2, -1)).mean(-1)
    a, b, c = r_hat.unbind(-2)
    volume = (a * torch.linalg.cross(b, c)).sum(-1)
    centers = (g.act(x.center[:, None]) - y.center[:, None]).square().sum((-2, -1))
    size = r_hat.square().sum((-2, -1)).to(kind) / 3
    few = torch.stack([gap.to(kind), size, volume.to(kind), disagreement.to(kind), centers], dim=-1)
    return torch.cat([*((squares + 1e-6).sqrt() for squares in (apart, anchors)), few], dim=-1)


def _meeting(g: Rigid, x: Contacts, y: Contacts, apart: Float[Tensor, "b k p q"]) -> Float[Tensor, "b k 3"]:
    """Nearness of the contact points of x to y, as they lie and where they are expected.

    Weighted means over the points of x of the distance to the nearest point of y, of the same for the place
    where the point expects y, and of the share that is nearer than ``REACH``.
    """
    weight = (x.weight / x.weight.sum(1, keepdim=True))[:, None]
    nearest, expected = apart.amin(-1), _distances(g, replace(x, points=x.expected), y).amin(-1)
    means = [nearest, expected, torch.exp(-(nearest / REACH).square())]
    return torch.stack([(weight * each).sum(-1) for each in means], dim=-1)


def _distances(g: Rigid, x: Contacts, y: Contacts) -> Float[Tensor, "b k p q"]:
    """From the points of x, moved by each head's pose, to those of y; padding is far away."""
    padding = torch.where(y.weight > 0, 0.0, FAR).to(x.points)[:, None, None]
    target = y.points[:, None].expand(-1, g.rotation.shape[1], -1, -1)
    return torch.cdist(g.act(x.points[:, None]), target) + padding
