"""BITR: the whole model, g = Φ_P ∘ Φ_S(X, Y) (eq. BITR-summary)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache

import torch
from jaxtyping import Float
from torch import Tensor, nn

from bitr.errors import InputError
from bitr.groups import Cloud, Rigid, nearest_rotation_and_gap
from bitr.layers.precision import full_precision
from bitr.model.config import BITRConfig
from bitr.model.dense import Dense, DenseHead, contacts
from bitr.model.distribution import log_density, sample_heads
from bitr.model.inputs import Frame, as_cloud, centered, check_pair
from bitr.model.keypoints import KeyPointNetwork, KeyPoints
from bitr.model.merge import merge, merged_rep
from bitr.model.modes import SPREAD, Heads, ScoreNetwork, beliefs
from bitr.model.projection import NearestRotation, Unprojected, project
from bitr.model.transformer import MergedTransformer
from bitr.model.wide import WideKeyPointNetwork


@dataclass(frozen=True)
class Solution:
    """A pose with what it was made of."""

    pose: Rigid
    source_keypoints: Float[Tensor, "b l 3"]
    reference_keypoints: Float[Tensor, "b l 3"]
    singular_gap: Float[Tensor, " b"]
    """Near 0 the rotation is not determined: the shape is symmetric or degenerate."""
    votes: Unprojected | None = None
    """What each key point says of rotation and anchors; None for models that have no such votes."""
    heads: Heads | None = None
    """All poses that the model holds possible with their scores, best first; the first is ``pose``."""
    source_dense: Dense | None = None
    """At each point of the source, how likely it touches the reference and where; None for older models."""
    reference_dense: Dense | None = None

    @property
    def unprojected(self) -> Unprojected | None:
        """What the pose was projected from, for a loss that need not look through the projection."""
        return None if self.votes is None else self.votes.mean()


@dataclass(frozen=True)
class Proposed:
    """What the networks say of a pair in its own frame."""

    heads: Heads
    x_key: KeyPoints
    y_key: KeyPoints
    dense: tuple[Dense | None, Dense | None]


class BITR(nn.Module):
    """Assembles two point clouds: ``model(source, reference)`` takes the source onto the reference.

    With g = model(X, Y), and for all motions g₁, g₂ and factors c > 0:
    model(g₁X, g₂Y) = g₂ g g₁⁻¹,  model(Y, X) = g⁻¹,  model(cX, cY) = g.scaled(c).

    Clouds with fewer than ``num_neighbors`` + 1 points use all their other points as neighbours.
    Weights drawn at construction come from torch's global generator.
    """

    def __init__(self, config: BITRConfig | None = None) -> None:
        super().__init__()
        self.config = config if config is not None else BITRConfig()
        if not isinstance(self.config, BITRConfig):
            raise InputError(f"got {type(config).__name__}, expected a BITRConfig, as BITRConfig.paper()")
        _keep_freed_memory()
        network = WideKeyPointNetwork if self.config.width else KeyPointNetwork
        self.extract = network(self.config)
        self.transform = MergedTransformer(self.config, merged_rep(self.extract.rep_out))
        self.dense = DenseHead(self.extract.rep_out) if self.config.dense else None
        self.score = ScoreNetwork(self.config, self.extract.rep_out) if self.config.num_modes > 1 else None

    def forward(self, source: Cloud | Tensor, reference: Cloud | Tensor) -> Rigid:
        """The pose, in the precision of the inputs; differentiable in points and weights."""
        return self.solve(source, reference).pose

    def solve(self, source: Cloud | Tensor, reference: Cloud | Tensor) -> Solution:
        """The pose, the other poses held possible, key points, and how well the rotation is determined."""
        x, y, frame = self._enter(as_cloud(source, "source"), as_cloud(reference, "reference"))
        inner = self.propose(x, y)
        heads = inner.heads
        heads = replace(heads, pose=frame.pose(heads.pose), votes=frame.leave_votes(heads.votes)).best_first()
        r_hat, x_anchor, y_anchor = (
            part[:, 0]
            for part in (heads.votes.r_hat, heads.votes.source_anchor, heads.votes.reference_anchor)
        )
        dense = [None if d is None else d.scaled(frame.unit, frame.dtype) for d in inner.dense]
        return Solution(
            Rigid(heads.pose.rotation[:, 0], heads.pose.translation[:, 0]),
            frame.leave(inner.x_key.points, frame.source_center),
            frame.leave(inner.y_key.points, frame.reference_center),
            heads.singular_gap[:, 0],
            Unprojected(r_hat, x_anchor, y_anchor),
            heads,
            *dense,
        )

    def propose(self, x: Cloud, y: Cloud, nearest: NearestRotation = nearest_rotation_and_gap) -> Proposed:
        """All heads of a pair that is centred and in its own unit of length, in the order of the weights."""
        x_key, y_key = self.extract(x, y)
        dense = (None, None)
        if self.dense is not None:
            dense = self.dense(x_key.at_points), self.dense(y_key.at_points)
        with full_precision(x_key.points.device):  # so few points that rounding would save nothing
            field = self.transform(*merge(x_key, y_key))
            pose, gap, votes = project(field, x_key.points, y_key.points, nearest)
            score, spread = gap.new_zeros(gap.shape), torch.full_like(gap, SPREAD)
            if self.score is not None and dense[0] is not None and dense[1] is not None:
                scalars = field[0, 0][:, 0].unflatten(0, (len(gap), -1))
                sides = contacts(x, dense[0], x_key.at_points), contacts(y, dense[1], y_key.at_points)
                score, spread = self.score(scalars, pose, gap, votes, (x_key.points, y_key.points), sides)
            with torch.no_grad():
                belief = beliefs(pose, score, votes.mean(), spread) if gap.shape[1] > 1 else score
        place = torch.arange(gap.shape[1], device=gap.device).expand(gap.shape)
        return Proposed(Heads(pose, score, gap, votes, place, spread, belief), x_key, y_key, dense)

    def log_likelihood(
        self, pose: Rigid, source: Cloud | Tensor, reference: Cloud | Tensor
    ) -> Float[Tensor, " b"]:
        """log p(pose | X, Y) of the mixture of heads, one pose for each pair; it keeps all laws.

        With respect to uniform rotations, and to volume in units of the pair's size cubed.
        """
        heads, unit = self._heads_and_unit(source, reference)
        each = log_density(heads, pose.to(heads.pose.rotation.dtype), unit)
        return (heads.log_weight.to(each.dtype) + each).logsumexp(1)

    @torch.no_grad()
    def sample(
        self,
        source: Cloud | Tensor,
        reference: Cloud | Tensor,
        n: int,
        generator: torch.Generator | None = None,
    ) -> Rigid:
        """``n`` poses of each pair, (b, n), drawn from the same mixture."""
        heads, unit = self._heads_and_unit(source, reference)
        return sample_heads(heads, unit, n, generator or torch.Generator().manual_seed(0))

    def _heads_and_unit(
        self, source: Cloud | Tensor, reference: Cloud | Tensor
    ) -> tuple[Heads, Float[Tensor, " b"]]:
        heads = self.solve(source, reference).heads
        assert heads is not None
        frame = centered(as_cloud(source, "source"), as_cloud(reference, "reference"), with_unit=True)[2]
        return heads, frame.unit.to(heads.pose.rotation.dtype)

    def complete_match(self, source: Cloud | Tensor, reference: Cloud | Tensor) -> Rigid:
        """U-BITR, Φ(X, Y) Φ(X, X): recovers g from Y = gX with any weights (Prop. C.11).

        Both factors are of the same head: the one whose scores are highest in sum.
        """
        across, own = (self.solve(source, other).heads for other in (reference, source))
        assert across is not None
        assert own is not None
        across, own = (heads.taken(heads.place.argsort(1)) for heads in (across, own))
        best = (across.belief + own.belief).argmax(1, keepdim=True)
        (a, b) = (heads.taken(best).pose for heads in (across, own))
        return Rigid(a.rotation[:, 0], a.translation[:, 0]) @ Rigid(b.rotation[:, 0], b.translation[:, 0])

    def _enter(self, source: Cloud, reference: Cloud) -> tuple[Cloud, Cloud, Frame]:
        """Checked, centred, in one unit of length, and in the precision of the weights."""
        weight = next(self.parameters())
        if not torch.compiler.is_compiling():
            wanted = tuple(name for name in ("normals", "colors") if getattr(self.config, name))
            check_pair(source, reference, weight.device, wanted)
        x, y, frame = centered(source, reference, with_unit=self.config.scale)
        return (
            replace(x, points=x.points.to(weight.dtype)),
            replace(y, points=y.points.to(weight.dtype)),
            frame,
        )


@cache
def _keep_freed_memory() -> None:
    """Have the C library hand freed memory to the next layer, not to the system and back.

    Of a freed block of just under 32 MB, glibc learns to keep up to twice that much; otherwise a fifth of a
    small forward pass is spent on page faults. Nothing is written to the block, so it takes no memory.
    """
    torch.empty(2**25 - 2**16, dtype=torch.uint8)
