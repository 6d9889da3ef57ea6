"""Trained baselines on disk: safetensors, with name and sizes as JSON inside. No pickle is ever read."""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from pathlib import Path

import torch
from safetensors.torch import save_file

from bitr.errors import InputError
from bitr.evaluation.baselines.learned.common import Regressor, Sizes
from bitr.evaluation.baselines.learned.table import regressor
from bitr.files import whole_file
from bitr.model.checkpoint import FILE_NAME, check_fit, read_weights

FORMAT = "bitr-baseline-1"


def save(model: Regressor, path: str | os.PathLike[str]) -> Path:
    """Write a file (or ``model.safetensors`` into an existing folder), whole or not at all; in float32."""
    target = Path(path)
    if target.is_dir():
        target = target / FILE_NAME
    metadata = {"format": FORMAT, "content": json.dumps({"name": model.name, "sizes": asdict(model.sizes)})}
    tensors = {key: value.float().contiguous().cpu() for key, value in model.state_dict().items()}
    with whole_file(target, force=True) as temporary:
        save_file(tensors, temporary, metadata)
    return target


def load(path: str | os.PathLike[str]) -> Regressor:
    """The baseline of a file, or of the folder of a training run."""
    file = Path(path) / FILE_NAME if Path(path).is_dir() else Path(path)
    metadata, tensors = read_weights(file, FORMAT, "trained baseline")
    try:
        content = json.loads(metadata["content"])
        cls, sizes = regressor(content["name"]), Sizes(**content["sizes"])
    except (ValueError, TypeError, KeyError) as error:
        raise InputError(f"{file}: what it says of itself cannot be used ({error})") from error
    with torch.random.fork_rng(devices=[]):  # the weights drawn here are replaced at once
        model = cls(sizes)
    check_fit(file, model.state_dict(), tensors)
    model.load_state_dict(tensors)
    return model.eval()
