"""The start of a training run: which processes, which first weights, and what stops it."""

from __future__ import annotations

import errno
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError

from bitr.errors import InputError
from bitr.model import BITR, BITRConfig
from bitr.model.checkpoint import load, save
from bitr.training.config import TrainConfig
from bitr.training.folder import RunFolder
from bitr.training.group import joined
from bitr.training.kind import Kind
from bitr.training.log import Listener, Silent
from bitr.training.loop import Run, TrainingError
from bitr.training.signals import asked_to_stop


def train(
    config: TrainConfig,
    out: Path,
    *,
    resume: bool = False,
    listener: Listener | None = None,
    kind: Kind | None = None,
) -> dict[str, Any]:
    """Trains and returns what ``result.json`` says; the best weights are in ``out``, for ``bitr.load``.

    The same config gives the same weights, bit for bit, on one machine, also when the run is killed at any
    moment and goes on with ``resume``.
    """
    with joined(config.run.device) as group, asked_to_stop() as stopping:
        if config.run.batch < group.world:
            raise InputError(f"run.batch = {config.run.batch} is less than the {group.world} processes")
        shown = listener if listener is not None and group.leads else Silent()
        chosen = kind or Kind(_first_model, save)
        try:
            run = Run(config, chosen, RunFolder(out), group, shown, group.restarted() or resume)
            return run.go(stopping)
        except (OSError, SafetensorError) as error:
            if not _is_full(error):
                raise
            raise TrainingError(
                f"{out}: no space left on the disk; the checkpoints there are whole: make room and go on "
                "with --resume"
            ) from error


def _is_full(error: OSError | SafetensorError) -> bool:
    """Whether the disk or the quota is at its end; safetensors tells that in words only."""
    if isinstance(error, OSError):
        return error.errno in (errno.ENOSPC, errno.EDQUOT)
    return any(f"(os error {code})" in str(error) for code in (errno.ENOSPC, errno.EDQUOT))


def _first_model(config: TrainConfig) -> tuple[BITR, TrainConfig]:
    """The model before its first step, and the config with what is known of it."""
    if not config.run.init_from:
        torch.manual_seed(config.run.seed)
        return BITR(config.model), config
    model = load(config.run.init_from).float()
    if config.model not in (BITRConfig(), model.config):
        raise InputError(
            f"{config.run.init_from}: its model is not the one that [model] asks for; leave [model] out"
        )
    torch.manual_seed(config.run.seed)
    return model, replace(config, model=model.config)
