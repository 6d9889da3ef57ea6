"""What the training loop has to know of a baseline: ``train(config, out, kind=kind("nsm"))``."""

from __future__ import annotations

from dataclasses import replace

import torch

from bitr.errors import InputError
from bitr.evaluation.baselines.learned.common import Regressor, Sizes
from bitr.evaluation.baselines.learned.table import regressor
from bitr.evaluation.baselines.learned.weights import save
from bitr.model import BITRConfig
from bitr.training import Kind, TrainConfig


def kind(name: str) -> Kind:
    """The baseline of that short name, for the loop.

    Data, optimiser and run are as the config says, so that the rows of a table differ in the network alone.
    What only BITR has, [model] and the spread of key points, is set back to its default.
    """
    cls = regressor(name)

    def make(config: TrainConfig) -> tuple[Regressor, TrainConfig]:
        if config.run.init_from:
            raise InputError(f"run.init_from = {config.run.init_from!r}: a baseline starts from new weights")
        torch.manual_seed(config.run.seed)
        own = replace(config, model=BITRConfig(), loss=replace(config.loss, spread_weight=0.0))
        return cls(Sizes(points=config.data.points)), own

    return Kind(make, save)
