"""One training step: the loss's gradient, the optimisers, their rate and the average of the weights."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn

from bitr.training.checkpoint import Parts
from bitr.training.config import PLAIN, OptimizerConfig, TrainConfig
from bitr.training.distributed import Group
from bitr.training.loss import Objective
from bitr.training.stream import Batch

SIDE = 8
"""Minimum number of rows and columns of a matrix for Muon."""
FASTER = 2.0
"""Muon's rate over Adam's, when a step of both has the same size."""
MOMENTUM = 0.95
ADAM_SIZE = 0.2
"""Root mean square of a step of Adam over its rate, which a step of Muon takes over."""
ROUNDS, QUINTIC = 5, (3.4445, -4.7750, 2.0315)
"""Rounds of Newton and Schulz, and the polynomial in the singular values of each (Jordan's coefficients)."""


@dataclass(frozen=True)
class Step:
    """The outcome of a step."""

    means: Float[Tensor, " 4"]
    """Loss, Δr, displacement and Δr of the nearest head over the global batch."""
    gradient_norm: float
    taken: bool
    stop: bool
    """True if some process was asked to stop."""


class Trainer:
    """Model, average and optimisers, and the step that moves them; the same on one process and on many."""

    def __init__(self, config: TrainConfig, model: nn.Module, group: Group) -> None:
        self.config, self.group = config, group
        model = model.to(group.device).train()
        self.parameters = list(model.parameters())
        optimizers = make_optimizers(self.parameters, config.optimizer)
        self.parts = Parts(model, copy.deepcopy(model).eval(), optimizers)
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
        run, parts, device = self.config.run, self.parts, self.group.device
        for group in (group for each in parts.optimizers for group in each.param_groups):
            group["lr"] = group["times"] * rate_at(number, run.steps, self.config.optimizer)
        with torch.autocast(device.type, dtype=torch.bfloat16, enabled=run.precision == "bfloat16"):
            errors = self.objective(batch)
        parts.model.zero_grad()
        (errors.loss.sum() * (self.group.world / run.batch)).backward()  # processes are averaged over
        norm = torch.nn.utils.clip_grad_norm_(self.parameters, self.config.optimizer.clip or math.inf)
        sums = self.group.sum(torch.cat([errors.table().detach().sum(0), norm.new_tensor([float(stop)])]))
        taken = bool(norm.isfinite() and sums.isfinite().all())
        if taken:
            for optimizer in parts.optimizers:
                optimizer.step()
            update_average(parts.average, parts.model, number, self.config.optimizer.average)
        return Step(sums[:4].cpu() / run.batch, float(norm), taken, bool(sums[4] > 0))


class Muon(torch.optim.Optimizer):
    """Steepest descent in the spectral norm, with Nesterov's momentum and decoupled weight decay.

    PyTorch's own orthogonalises in bfloat16, which virtual machines that announce AMX and do not have it end
    with an illegal instruction. This one is in the precision of the weights, matrices of one shape together.
    """

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        for group in self.param_groups:
            shapes: dict[torch.Size, list[Tensor]] = {}
            for each in group["params"]:
                if each.grad is not None:
                    shapes.setdefault(each.shape, []).append(each)
            for shape, weights in shapes.items():
                gradient = torch.stack([each.grad for each in weights if each.grad is not None])
                past = [self.state[each].setdefault("momentum", torch.zeros_like(each)) for each in weights]
                torch._foreach_lerp_(past, list(gradient), 1 - MOMENTUM)
                step = orthogonalize(gradient.lerp(torch.stack(past), MOMENTUM))
                torch._foreach_mul_(weights, 1 - group["lr"] * group["weight_decay"])
                size = ADAM_SIZE * math.sqrt(max(shape))
                torch._foreach_add_(weights, list(step), alpha=-group["lr"] * size)


def orthogonalize(matrices: Float[Tensor, "g r c"]) -> Float[Tensor, "g r c"]:
    """U S' Vᵀ for U S Vᵀ, with all of S' between about 0.7 and 1.2: Newton's and Schulz' iteration."""
    if matrices.shape[1] > matrices.shape[2]:
        return orthogonalize(matrices.mT).mT
    found = matrices / matrices.norm(dim=(1, 2), keepdim=True).clamp(min=1e-7)
    a, b, c = QUINTIC
    for _ in range(ROUNDS):
        gram = found @ found.mT
        found = a * found + (b * gram + c * gram @ gram) @ found
    return found


def make_optimizers(
    parameters: Iterable[nn.Parameter], config: OptimizerConfig
) -> tuple[torch.optim.Optimizer, ...]:
    """Optimisers, each with its share of the parameters; ``times`` of a group is its rate over the config's.

    Muon moves a matrix equally far in all its directions, also in those of small gradients. It takes matrices
    only; AdamW takes the rest: biases and the weights of radial functions.
    """
    matrices: list[nn.Parameter] = []
    others: list[nn.Parameter] = []
    for each in parameters:
        is_matrix = each.ndim == 2 and min(each.shape) >= SIDE
        (matrices if config.name == "muon" and is_matrix else others).append(each)
    rate, decay = config.rate, config.weight_decay
    made: list[torch.optim.Optimizer] = []
    if matrices:
        group = {"params": matrices, "times": FASTER}
        made.append(Muon([group], {"lr": rate, "weight_decay": decay}))
    if others:
        kind = torch.optim.Adam if config.name == "adam" else torch.optim.AdamW
        made.append(kind([{"params": others, "times": 1.0}], rate, weight_decay=decay, fused=True))
    return tuple(made)


def rate_at(step: int, steps: int, config: OptimizerConfig) -> float:
    """Learning rate of a step, counted from 0: a straight rise, then half a cosine down to a rest."""
    rise = min(1.0, (step + 1) / config.warmup) if config.warmup else 1.0
    wave = (1 + math.cos(math.pi * step / steps)) / 2
    return config.rate * rise * (config.final + (1 - config.final) * wave)


@torch.no_grad()
def update_average(average: nn.Module, model: nn.Module, step: int, decay: float) -> None:
    """Moves the average towards the model: by much at first, when it has seen little."""
    keep = min(decay, (1 + step) / (10 + step)) if decay else 0.0
    torch._foreach_lerp_(list(average.parameters()), list(model.parameters()), 1 - keep)
