"""Optimisers, learning rate and the running average of the weights."""

from __future__ import annotations

import math
from collections.abc import Iterable

import torch
from torch import nn

from bitr.training.config import OptimizerConfig

SIDE = 8
"""Rows and columns that a matrix has at least, for Muon."""
FASTER = 2.0
"""Muon's rate over Adam's, when a step of both has the same size."""


def make_optimizers(
    parameters: Iterable[nn.Parameter], config: OptimizerConfig
) -> tuple[torch.optim.Optimizer, ...]:
    """Each with its share of the parameters; ``times`` of a group is its rate over the config's.

    Muon moves a matrix equally far in all its directions, also in those of small gradients, and is for
    matrices only: what else there is, biases and the weights of radial functions, is left to AdamW.
    """
    of_muon: list[nn.Parameter] = []
    others: list[nn.Parameter] = []
    for each in parameters:
        (of_muon if config.name == "muon" and _is_matrix(each) else others).append(each)
    rate, decay = config.rate, config.weight_decay
    made: list[torch.optim.Optimizer] = []
    if of_muon:
        group = {"params": of_muon, "times": FASTER}
        made.append(torch.optim.Muon([group], rate, decay, adjust_lr_fn="match_rms_adamw"))
    if others:
        kind = torch.optim.Adam if config.name == "adam" else torch.optim.AdamW
        made.append(kind([{"params": others, "times": 1.0}], rate, weight_decay=decay, fused=True))
    return tuple(made)


def _is_matrix(parameter: nn.Parameter) -> bool:
    return parameter.ndim == 2 and min(parameter.shape) >= SIDE


def rate_at(step: int, steps: int, config: OptimizerConfig) -> float:
    """The learning rate of a step, counted from 0: a straight rise, then half a cosine down to a rest."""
    rise = min(1.0, (step + 1) / config.warmup) if config.warmup else 1.0
    wave = (1 + math.cos(math.pi * step / steps)) / 2
    return config.rate * rise * (config.final + (1 - config.final) * wave)


@torch.no_grad()
def update_average(average: nn.Module, model: nn.Module, step: int, decay: float) -> None:
    """Moves the average towards the model: by much at first, where what it has seen is worth little."""
    keep = min(decay, (1 + step) / (10 + step)) if decay else 0.0
    torch._foreach_lerp_(list(average.parameters()), list(model.parameters()), 1 - keep)
