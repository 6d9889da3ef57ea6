"""Several poses of one pair, each with a score: the modes of a distribution in place of one guess."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from bitr.groups import Rep, Rigid
from bitr.model.config import BITRConfig
from bitr.model.dense import Contacts
from bitr.model.projection import Unprojected

HIDDEN, PAIRED = 64, 32
"""Width of the score network, and of the part that compares two points."""
NUM_NUMBERS = 8
"""Of ``evidence`` that are not of single key points."""
REACH = 0.1
"""Distance at which a point hardly meets another, in units of the pair's size."""
FIRST_SIZE, FIRST_TRUST = 0.1, 3.0
"""Before training the score is mainly the singular gap: of random heads the best determined one is taken,
which rounding disturbs least."""
SPREAD = 0.3
"""Of the place, before training or where no likelihood was learned."""
WIDEST = 4.0
"""Logarithm of the largest and of the smallest spread over ``SPREAD``."""
CONCENTRATION = 10.0
"""Each head's density has A = 10 r̂: where r̂ is a rotation, its standard deviation is 13° about each axis."""
FAR = 1e6
"""Beyond any distance, in units of the pair's size."""


@dataclass(frozen=True)
class Heads:
    """K poses, likeliest first. Motions and scale change no order and no score; a swap inverts each pose."""

    pose: Rigid
    """(b, k)."""
    score: Float[Tensor, "b k"]
    """Logits of the shares in the mixture: ``log_weight``. A vague head may have a large share."""
    singular_gap: Float[Tensor, "b k"]
    votes: Unprojected
    """(b, k, l): what each key point says of rotation and anchors."""
    place: Int[Tensor, "b k"]
    """Which of the model's outputs each one is."""
    spread: Float[Tensor, "b k"]
    """Standard deviation of the place along each axis, in units of the pair's size."""
    belief: Float[Tensor, "b k"]
    """Logarithm of the mixture's density at each pose, up to a constant: the first head has the largest."""

    @property
    def log_weight(self) -> Float[Tensor, "b k"]:
        return self.score.log_softmax(1)

    def taken(self, rows: Int[Tensor, "b _"]) -> Heads:
        """Some heads of each pair, in this order."""

        def of(values: Tensor) -> Tensor:
            index = rows.reshape(*rows.shape, *([1] * (values.dim() - 2)))
            return values.gather(1, index.expand(-1, -1, *values.shape[2:]))

        votes = Unprojected(
            of(self.votes.r_hat), of(self.votes.source_anchor), of(self.votes.reference_anchor)
        )
        pose = Rigid(of(self.pose.rotation), of(self.pose.translation))
        rest = (of(each) for each in (self.place, self.spread, self.belief))
        return Heads(pose, of(self.score), of(self.singular_gap), votes, *rest)

    def best_first(self) -> Heads:
        return self if self.belief.shape[1] == 1 else self.taken(self.belief.argsort(1, descending=True))


def beliefs(
    pose: Rigid, score: Float[Tensor, "b k"], parts: Unprojected, spread: Float[Tensor, "b k"]
) -> Float[Tensor, "b k"]:
    r"""Logarithm of the mixture's density at the pose of each head, in the pair's frame and up to a constant.

    A matrix-Fisher density with the proper singular values s of A has the peak
    :math:`\sqrt{8\pi (s_1+s_2)(s_2+s_3)(s_3+s_1)}` where it is sharp (Laplace), which is a polynomial in
    rᵀA: no singular values are needed.
    """
    r, score, spread = pose.rotation, score.to(parts.r_hat), spread.to(parts.r_hat)
    polar = r.mT @ parts.r_hat
    e1 = polar.diagonal(dim1=-2, dim2=-1).sum(-1)
    e2 = (e1.square() - (polar * polar.mT).sum((-2, -1))) / 2
    a, b, c = polar.unbind(-2)
    e3 = (a * torch.linalg.cross(b, c)).sum(-1)
    sharp = torch.log1p(8 * math.pi * CONCENTRATION**3 * (e1 * e2 - e3).clamp_min(0)) / 2
    turned = torch.einsum("bkmn,bjmn->bkj", r, parts.r_hat) - e1[:, None]
    gap = pose.act(parts.source_anchor[:, None]) - parts.reference_anchor[:, None]
    place = -gap.square().sum(-1) / (2 * spread.square()[:, None])
    head = score.log_softmax(1) + sharp - 3 * spread.log()
    return (head[:, None] + CONCENTRATION * turned + place).logsumexp(2)


class ScoreNetwork(nn.Module):
    """How likely each head is the right one, from numbers that no law changes.

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
        numbers = evidence(pose, gap, votes, keys, sides).detach().to(scalars.dtype)
        hidden = self.of_pair(scalars.flatten(1))[:, None] + self.of_head(numbers) + self.own
        x, y = sides
        g = Rigid(pose.rotation.detach().to(numbers.dtype), pose.translation.detach().to(numbers.dtype))
        hidden = hidden + self.meeting(g, x, y) + self.meeting(g.inverse(), y, x)
        score, *more = self.network(hidden).to(scalars.dtype).unbind(-1)
        score = score + self.trust * gap.to(score)
        return score, bounded_spread(more[0]) if more else torch.full_like(score, SPREAD)


def bounded_spread(logit: Tensor) -> Tensor:
    """``SPREAD`` e^logit, kept between 0.0055 and 16: a spread of 0 has no likelihood and no gradient."""
    return SPREAD * (WIDEST * torch.tanh(logit / WIDEST)).exp()


class Meeting(nn.Module):
    """Whether what meets belongs together: features of the contact points of one piece beside those of the
    other piece where they come to lie.

    Scalars are compared as they are, vectors by their inner products once the pose has turned them.
    """

    def __init__(self, rep: Rep) -> None:
        super().__init__()
        scalars, vectors = rep[0, 0], rep[1, 0]
        self.own, self.other = nn.Linear(scalars + 1, PAIRED), nn.Linear(scalars, PAIRED, bias=False)
        self.aligned = nn.Linear(vectors, PAIRED, bias=False)
        self.out = nn.Linear(PAIRED, HIDDEN)

    def forward(self, g: Rigid, x: Contacts, y: Contacts) -> Float[Tensor, "b k h"]:
        """``g`` takes x to y, for each head."""
        hidden = torch.where(y.weight > 0, 0.0, FAR).to(x.points)[:, None, None]
        target = y.points[:, None].expand(-1, g.rotation.shape[1], -1, -1)
        with torch.no_grad():
            apart = torch.cdist(g.act(x.points[:, None]), target) + hidden
            near = (-(apart / REACH).square()).softmax(-1)
            distance = (near * apart).sum(-1, keepdim=True)
        vectors = (near @ y.vectors.flatten(2)[:, None]).unflatten(-1, y.vectors.shape[2:])
        turned = torch.einsum("bkij,bpjc->bkpic", g.rotation, x.vectors)
        own = self.own(torch.cat([x.scalars[:, None].expand(-1, near.shape[1], -1, -1), distance], dim=-1))
        other = near @ self.other(y.scalars)[:, None]
        pairs = nn.functional.silu(own + other + self.aligned((turned * vectors).mean(-2)))
        weight = (x.weight / x.weight.sum(1, keepdim=True))[:, None, :, None]
        return self.out((weight * pairs).sum(2)) / 2


@torch.no_grad()
def evidence(
    pose: Rigid,
    gap: Float[Tensor, "b k"],
    votes: Unprojected,
    keys: tuple[Float[Tensor, "b l 3"], Float[Tensor, "b l 3"]],
    sides: tuple[Contacts, Contacts],
) -> Float[Tensor, "b k f"]:
    """Of each head: invariant numbers that tell a right pose from a wrong one."""
    rotation, translation = pose.rotation.to(keys[0].dtype), pose.translation.to(keys[0].dtype)
    g = Rigid(rotation, translation)
    x_key, y_key = (side[:, None] for side in keys)
    apart = (g.act(x_key) - y_key).square().sum(-1)
    anchors = (pose.act(votes.source_anchor) - votes.reference_anchor).square().sum(-1).to(apart.dtype)
    r_hat = votes.r_hat.mean(-3)
    disagreement = (votes.r_hat - r_hat[..., None, :, :]).square().sum((-2, -1)).mean(-1)
    a, b, c = r_hat.unbind(-2)
    volume = (a * torch.linalg.cross(b, c)).sum(-1)
    x, y = sides
    centers = (g.act(x.center[:, None]) - y.center[:, None]).square().sum((-2, -1))
    meeting = _meeting(g, x, y) + _meeting(g.inverse(), y, x)
    few = torch.stack(
        [
            gap.to(apart.dtype),
            r_hat.square().sum((-2, -1)).to(apart.dtype) / 3,
            volume.to(apart.dtype),
            disagreement.to(apart.dtype),
            centers,
        ],
        dim=-1,
    )
    return torch.cat([_root(apart), _root(anchors), few, meeting], dim=-1)


def _meeting(g: Rigid, x: Contacts, y: Contacts) -> Float[Tensor, "b k 3"]:
    """How near the contact points of x come to y, as they lie and where they are expected.

    Weighted means over the points of x of the distance to the nearest point of y, of the same for the place
    where the point expects y, and of the share that is nearer than ``REACH``.
    """
    hidden = torch.where(y.weight > 0, 0.0, FAR).to(x.points)[:, None, None]
    weight = (x.weight / x.weight.sum(1, keepdim=True))[:, None]
    target = y.points[:, None].expand(-1, g.rotation.shape[1], -1, -1)
    nearest = (torch.cdist(g.act(x.points[:, None]), target) + hidden).amin(-1)
    expected = (torch.cdist(g.act(x.expected[:, None]), target) + hidden).amin(-1)
    means = [nearest, expected, torch.exp(-(nearest / REACH).square())]
    return torch.stack([(weight * each).sum(-1) for each in means], dim=-1)


def _root(squares: Tensor) -> Tensor:
    return (squares + 1e-6).sqrt()
