"""BITR: the whole model, g = Φ_P ∘ Φ_S(X, Y) (eq. BITR-summary)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache

import torch
from jaxtyping import Float
from torch import Tensor, nn

from bitr.errors import InputError
from bitr.groups import Cloud, Rigid
from bitr.layers.precision import full_precision
from bitr.model.config import BITRConfig
from bitr.model.inputs import Frame, as_cloud, centered, check_pair
from bitr.model.keypoints import KeyPointNetwork
from bitr.model.merge import merge, merged_rep
from bitr.model.projection import Unprojected, project
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

    @property
    def unprojected(self) -> Unprojected | None:
        """What the pose was projected from, for a loss that need not look through the projection."""
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
        if not isinstance(self.config, BITRConfig):
            raise InputError(f"got {type(config).__name__}, expected a BITRConfig, as BITRConfig.paper()")
        _keep_freed_memory()
        network = WideKeyPointNetwork if self.config.width else KeyPointNetwork
        self.extract = network(self.config)
        self.transform = MergedTransformer(self.config, merged_rep(self.extract.rep_out))

    def forward(self, source: Cloud | Tensor, reference: Cloud | Tensor) -> Rigid:
        """The pose, in the precision of the inputs; differentiable in points and weights."""
        return self.solve(source, reference).pose

    def solve(self, source: Cloud | Tensor, reference: Cloud | Tensor) -> Solution:
        """The pose with its key points and with how well the rotation is determined."""
        x, y, frame = self._enter(as_cloud(source, "source"), as_cloud(reference, "reference"))
        x_key, y_key = self.extract(x, y)
        with full_precision(x_key.points.device):  # so few points that rounding would save nothing
            field = self.transform(*merge(x_key, y_key))
            pose, gap, votes = project(field, x_key.points, y_key.points)
        return Solution(
            frame.pose(pose),
            frame.leave(x_key.points, frame.source_center),
            frame.leave(y_key.points, frame.reference_center),
            gap,
            frame.leave_votes(votes),
        )

    def complete_match(self, source: Cloud | Tensor, reference: Cloud | Tensor) -> Rigid:
        """U-BITR, Φ(X, Y) Φ(X, X): recovers g from Y = gX with any weights (Prop. C.11)."""
        return self(source, reference) @ self(source, source)

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
