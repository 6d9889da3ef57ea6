"""Optimiser, learning rate and the running average of the weights."""

from __future__ import annotations

import math
from collections.abc import Iterable

import torch
from torch import nn

from bitr.training.config import OptimizerConfig


def make_optimizer(parameters: Iterable[nn.Parameter], config: OptimizerConfig) -> torch.optim.Adam:
    kind = torch.optim.AdamW if config.name == "adamw" else torch.optim.Adam
    return kind(parameters, lr=config.rate, weight_decay=config.weight_decay, fused=True)


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
