"""What is measured: one pass of a model, or of layers, on generated clouds."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from bitr.data import bumpy_shape, cut
from bitr.evaluation.speed.timing import Job
from bitr.model import BITR, BITRConfig

CONFIGS: dict[str, Callable[[], BITRConfig]] = {"default": BITRConfig, "paper": BITRConfig.paper}
LARGEST_TO_TRAIN = 4096
"""Points a cloud up to which the backward pass is measured."""


def pair(n: int, batch: int) -> tuple[Tensor, Tensor]:
    """``batch`` pairs of pieces of n points each, always the same."""
    generator = torch.Generator().manual_seed(0)
    pairs = [cut(bumpy_shape(2 * n, generator), 0.5, generator) for _ in range(batch)]
    return torch.stack([x for x, _ in pairs]).float(), torch.stack([y for _, y in pairs]).float()


def training_step(model: BITR, x: Tensor, y: Tensor) -> None:
    """Forward and backward; the weights stay as they are."""
    model.zero_grad()
    pose = model(x, y)
    (pose.rotation.sum() + pose.translation.sum()).backward()


def no_grad(job: Job) -> Job:
    def run() -> object:
        with torch.no_grad():
            return job()

    return run
