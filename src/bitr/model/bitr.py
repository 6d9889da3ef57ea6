"""BITR: the whole model, g = Φ_P ∘ Φ_S(X, Y), eq. (14)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache

import torch
from jaxtyping import Float
from torch import Tensor, nn

from bitr.errors import require
from bitr.groups import Cloud, Rigid, map_tensors, nearest_rotation_and_gap, prepare_tables
from bitr.layers import full_precision
from bitr.model.config import BITRConfig
from bitr.model.dense import Dense, DenseHead, ScoreNetwork, choose_contacts
from bitr.model.distribution import SPREAD, Heads, log_density, sample_heads
from bitr.model.inputs import Frame, as_cloud, center_pair, check_pair
from bitr.model.keypoints import KeyPointNetwork, merge, merged_rep
from bitr.model.mating import Mating, MatingHead
from bitr.model.projection import NearestRotation, Unprojected, project
from bitr.model.transformer import MergedTransformer

Points = Cloud | Tensor


@dataclass(frozen=True)
class Solution:
    """A pose, and the parts that it was made of."""

    pose: Rigid
    source_keypoints: Float[Tensor, "b l 3"]
    reference_keypoints: Float[Tensor, "b l 3"]
    singular_gap: Float[Tensor, " b"]
    """Near 0 the rotation is not determined: the shape is symmetric or degenerate."""
    votes: Unprojected | None = None
    """The rotation and anchors of each key point; None for models that have no such votes."""
    heads: Heads | None = None
    """All poses that the model holds possible with their scores, best first; the first is ``pose``."""
    source_dense: Dense | None = None
    """Predicted contact with the reference at each point of the source; None for older models."""
    reference_dense: Dense | None = None
    source_mating: Mating | None = None
    """Break and descriptors at each point of the source; None for models without a mating head."""
    reference_mating: Mating | None = None

    @property
    def unprojected(self) -> Unprojected | None:
        """The mean of the votes, for a loss that need not look through the projection."""
        return None if self.votes is None else self.votes.mean()


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
        found = f"got {type(config).__name__}, expected a BITRConfig, as BITRConfig.paper()"
        require(isinstance(self.config, BITRConfig), found)
        _keep_freed_memory()
        prepare_tables(self.config.max_degree)
        self.extract = KeyPointNetwork(self.config)
        self.transform = MergedTransformer(self.config, merged_rep(self.extract.rep_out))
        self.dense = DenseHead(self.extract.rep_out) if self.config.dense else None
        self.mating = MatingHead(self.extract.rep_out) if self.config.mating else None
        self.score = ScoreNetwork(self.config, self.extract.rep_out) if self.config.num_modes > 1 else None

    def forward(self, source: Points, reference: Points) -> Rigid:
        """The pose, in the precision of the inputs; differentiable in points and weights."""
        return self.solve(source, reference).pose

    def solve(
        self,
        source: Points,
        reference: Points,
        *,
        nearest: NearestRotation = nearest_rotation_and_gap,
    ) -> Solution:
        """The pose, the other poses held possible, key points, and how well the rotation is determined."""
        x, y, frame = self._enter(as_cloud(source, "source"), as_cloud(reference, "reference"))
        x_key, y_key = keys = self.extract(x, y)  # Φ_E, eqs. (10), (11)
        dense = None if self.dense is None else (self.dense(x_key.at_points), self.dense(y_key.at_points))
        with full_precision(x.points.device):  # so few points that rounding would save nothing
            z, field = merge(x_key, y_key)  # z = x̃ ⊕ ỹ, Sec. 4.3
            field = {degree: values.to(x.points) for degree, values in field.items()}  # from double precision
            field = self.transform(z.to(x.points), field)  # Φ_S, eq. (5)
            pose, gap, votes = project(field, x_key.points, y_key.points, nearest)  # Φ_P, eq. (13)
            score, spread = torch.zeros_like(gap), torch.full_like(gap, SPREAD)
            if self.score is not None and dense is not None:
                x_near = choose_contacts(x, dense[0], x_key.at_points)
                y_near = choose_contacts(y, dense[1], y_key.at_points)
                scalars = field[0, 0][:, 0].unflatten(0, (len(gap), -1))
                x_at, y_at = (key.points.to(x.points) for key in keys)
                score, spread = self.score(scalars, pose, gap, votes, (x_at, y_at), (x_near, y_near))
            heads = Heads.of(pose, score, gap, votes, spread)
        heads = replace(heads, pose=frame.pose(pose), votes=frame.leave_votes(votes)).best_first()
        of_x, of_y = (None, None) if dense is None else map(frame.leave_dense, dense)
        mating = (None, None) if self.mating is None else (self.mating(key.at_points) for key in keys)
        return Solution(
            heads.pose[:, 0],
            frame.leave(x_key.points, frame.source_center),
            frame.leave(y_key.points, frame.reference_center),
            heads.singular_gap[:, 0],
            map_tensors(lambda votes: votes[:, 0], heads.votes),
            heads,
            of_x,
            of_y,
            *mating,
        )

    def log_likelihood(self, pose: Rigid, source: Points, reference: Points) -> Float[Tensor, " b"]:
        """log p(pose | X, Y) of the mixture of heads, one pose for each pair; it keeps all laws.

        With respect to uniform rotations, and to volume in units of the pair's size cubed.
        """
        heads, unit = self._heads_and_unit(source, reference)
        each = log_density(heads, pose.to(heads.pose.rotation.dtype), unit)
        return (heads.log_weight.to(each.dtype) + each).logsumexp(1)

    @torch.no_grad()
    def sample(
        self, source: Points, reference: Points, n: int, generator: torch.Generator | None = None
    ) -> Rigid:
        """``n`` poses of each pair, (b, n), drawn from the same mixture."""
        heads, unit = self._heads_and_unit(source, reference)
        return sample_heads(heads, unit, n, generator or torch.Generator().manual_seed(0))

    def _heads_and_unit(self, source: Points, reference: Points) -> tuple[Heads, Float[Tensor, " b"]]:
        heads = self.solve(source, reference).heads
        assert heads is not None
        frame = center_pair(as_cloud(source, "source"), as_cloud(reference, "reference"), with_unit=True)[2]
        return heads, frame.unit.to(heads.pose.rotation.dtype)

    def complete_match(self, source: Points, reference: Points) -> Rigid:
        """U-BITR, Φ(X, Y) Φ(X, X): recovers g from Y = gX with any weights (Prop. C.11).

        Both factors are of the head whose scores are highest in sum.
        """
        across, own = (self.solve(source, other).heads for other in (reference, source))
        assert across is not None
        assert own is not None
        across, own = across.in_own_order(), own.in_own_order()
        best = (across.belief + own.belief).argmax(1, keepdim=True)
        return across.take(best).pose[:, 0] @ own.take(best).pose[:, 0]

    def _enter(self, source: Cloud, reference: Cloud) -> tuple[Cloud, Cloud, Frame]:
        """The pair checked, centred, in one unit of length, and in the precision of the weights."""
        weight = next(self.parameters())
        if not torch.compiler.is_compiling():
            wanted = tuple(name for name in ("normals", "colors") if getattr(self.config, name))
            check_pair(source, reference, weight.device, wanted)
        x, y, frame = center_pair(source, reference, with_unit=self.config.scale)
        x, y = (replace(side, points=side.points.to(weight.dtype)) for side in (x, y))
        return x, y, frame


@cache
def _keep_freed_memory() -> None:
    """Have the C library hand freed memory to the next layer, not to the system and back.

    From a freed block of just under 32 MB glibc learns to keep up to twice that much; otherwise a fifth of a
    small forward pass is spent on page faults. Nothing is written to the block, so it takes no memory.
    """
    torch.empty(2**25 - 2**16, dtype=torch.uint8)
