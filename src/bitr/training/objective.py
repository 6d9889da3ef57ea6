"""Model and loss as one module, so that data-parallel training wraps both."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn

from bitr.groups import Cloud, Rigid, rotation_angle
from bitr.model import Solution
from bitr.training.config import LossConfig
from bitr.training.loss import pose_loss, square_displacement
from bitr.training.samples import Batch


@dataclass(frozen=True)
class Errors:
    """Of each pair: loss, Δr in degrees, displacement over the pair's size, Δr of the nearest head."""

    loss: Float[Tensor, " b"]
    rotation_deg: Float[Tensor, " b"]
    displacement: Float[Tensor, " b"]
    nearest_deg: Float[Tensor, " b"]

    def table(self) -> Float[Tensor, "b 4"]:
        return torch.stack([self.loss, self.rotation_deg, self.displacement, self.nearest_deg], dim=1)


class Objective(nn.Module):
    """``objective(batch)`` gives the losses, to be differentiated, and the errors, which are not.

    The model has ``solve(source, reference) -> Solution``.
    """

    def __init__(self, model: nn.Module, config: LossConfig) -> None:
        super().__init__()
        self.model, self.config = model, config

    def forward(self, batch: Batch, done: float | Tensor = 1.0) -> Errors:
        """``done`` is the part of the run that is over; a compiled run takes it as a tensor."""
        solve: Callable[[Cloud, Cloud], Solution] = self.model.solve  # type: ignore[assignment]
        solution = solve(batch.source, batch.reference)
        loss = pose_loss(solution, batch.truth, batch.source, batch.reference, self.config, done)
        with torch.no_grad():
            pose, truth = _detached(solution.pose), batch.truth
            angle = rotation_angle(pose.rotation.mT @ truth.rotation) * (180 / math.pi)
            away = square_displacement(pose, truth, batch.source, batch.reference).sqrt()
            nearest = angle if solution.heads is None else _angle(solution.heads.pose, truth).amin(1)
        return Errors(loss, angle, away, nearest)


def _angle(heads: Rigid, truth: Rigid) -> Float[Tensor, "b k"]:
    return rotation_angle(heads.rotation.detach().mT @ truth.rotation[:, None]) * (180 / math.pi)


def _detached(pose: Rigid) -> Rigid:
    return Rigid(pose.rotation.detach(), pose.translation.detach())
