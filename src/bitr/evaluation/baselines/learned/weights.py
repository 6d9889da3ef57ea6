"""Trained baselines on disk: safetensors, with name and sizes as JSON inside. No pickle is ever read."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from bitr.errors import InputError
from bitr.evaluation.baselines.learned.common import Regressor, Sizes
from bitr.evaluation.baselines.learned.table import regressor
from bitr.files import whole_file
from bitr.model.checkpoint import FILE_NAME

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
    metadata, tensors = _read(file)
    try:
        content = json.loads(metadata["content"])
        cls, sizes = regressor(content["name"]), Sizes(**content["sizes"])
    except (ValueError, TypeError, KeyError) as error:
        raise InputError(f"{file}: what it says of itself cannot be used ({error})") from error
    with torch.random.fork_rng(devices=[]):  # the weights drawn here are replaced at once
        model = cls(sizes)
    expected, found = _forms(model.state_dict()), _forms(tensors)
    if expected != found:
        wrong = min(key for key in expected.keys() | found.keys() if expected.get(key) != found.get(key))
        raise InputError(
            f"{file}: the weights do not fit the sizes inside (first {wrong}: found {found.get(wrong)}, "
            f"expected {expected.get(wrong)})"
        )
    damaged = [key for key, value in tensors.items() if not value.isfinite().all()]
    if damaged:
        raise InputError(f"{file}: the weights {damaged[0]} are NaN or infinite; the file is damaged")
    model.load_state_dict(tensors)
    return model.eval()


def _read(file: Path) -> tuple[dict[str, str], dict[str, Tensor]]:
    try:
        with safe_open(file, framework="pt") as opened:
            metadata = opened.metadata() or {}
            tensors = {key: opened.get_tensor(key) for key in opened.keys()}  # noqa: SIM118 (not a dict)
    except (SafetensorError, OSError) as error:
        raise InputError(f"{file}: not a readable safetensors file ({error})") from error
    if metadata.get("format") != FORMAT:
        raise InputError(
            f"{file}: not a trained baseline (format {metadata.get('format')!r}, expected {FORMAT!r})"
        )
    return metadata, tensors


def _forms(tensors: Mapping[str, Tensor]) -> dict[str, tuple[torch.dtype, tuple[int, ...]]]:
    return {key: (value.dtype, tuple(value.shape)) for key, value in tensors.items()}
