"""One training step, the same on one process and on many."""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn

from bitr.training.config import PLAIN, TrainConfig
from bitr.training.group import Group
from bitr.training.objective import Objective
from bitr.training.optimizer import make_optimizers, rate_at, update_average
from bitr.training.samples import Batch
from bitr.training.state import Parts


@dataclass(frozen=True)
class Step:
    """What a step did."""

    means: Float[Tensor, " 4"]
    """Loss, Δr, displacement and Δr of the nearest head over the global batch."""
    gradient_norm: float
    taken: bool
    stop: bool
    """Whether some process was asked to stop."""


class Trainer:
    """Model, average and optimisers, and the step that moves them."""

    def __init__(self, config: TrainConfig, model: nn.Module, group: Group) -> None:
        self.config, self.group = config, group
        model = model.to(group.device).train()
        self.parameters = list(model.parameters())
        self.parts = Parts(
            model, copy.deepcopy(model).eval(), make_optimizers(self.parameters, config.optimizer)
        )
        objective = Objective(model, config.loss)
        if config.run.compile:
            objective.compile()
        self.objective = group.parallel(objective, config.loss.uses_all)
        self.averaged = Objective(self.parts.average, PLAIN)

    def step(self, batch: Batch, number: int, stop: bool) -> Step:
        """One step on the global batch, of which ``batch`` is this process's share.

        The gradient is that of the mean over the global batch, however many processes share it. A step whose
        loss or gradient is not finite changes nothing.
        """
        run = self.config.run
        for group in (group for each in self.parts.optimizers for group in each.param_groups):
            group["lr"] = group["times"] * rate_at(number, run.steps, self.config.optimizer)
        with torch.autocast(
            self.group.device.type, dtype=torch.bfloat16, enabled=run.precision == "bfloat16"
        ):
            errors = self.objective(batch, torch.tensor(number / run.steps))
        self.parts.model.zero_grad()
        (errors.loss.sum() * (self.group.world / run.batch)).backward()  # processes are averaged over
        norm = torch.nn.utils.clip_grad_norm_(self.parameters, self.config.optimizer.clip or math.inf)
        sums = self.group.sum(torch.cat([errors.table().detach().sum(0), norm.new_tensor([float(stop)])]))
        taken = bool(norm.isfinite() and sums.isfinite().all())
        if taken:
            for optimizer in self.parts.optimizers:
                optimizer.step()
            update_average(self.parts.average, self.parts.model, number, self.config.optimizer.average)
        return Step(sums[:4].cpu() / run.batch, float(norm), taken, bool(sums[4] > 0))
