"""Weights on disk: safetensors, with the config as JSON inside. No pickle is ever read."""

from __future__ import annotations

import json
import os
from importlib import resources
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from bitr.errors import InputError
from bitr.files import whole_file
from bitr.model.bitr import BITR
from bitr.model.config import BITRConfig

FORMAT = "bitr-1"
FILE_NAME = "model.safetensors"


def save(model: BITR, path: str | os.PathLike[str]) -> Path:
    """Write a checkpoint file (or ``model.safetensors`` into an existing folder) and return its path.

    The file appears whole or not at all: it is written under another name and renamed.
    """
    target = Path(path)
    if target.is_dir():
        target = target / FILE_NAME
    metadata = {"format": FORMAT, "config": json.dumps(model.config.to_dict())}
    tensors = {name: value.detach().contiguous().cpu() for name, value in model.state_dict().items()}
    with whole_file(target, force=True) as temporary:
        save_file(tensors, temporary, metadata)
    return target


def load(name: str | os.PathLike[str]) -> BITR:
    """The model of a checkpoint: a path to a file or folder, or the name of weights that come with bitr."""
    path = _find(name)
    config, tensors = _read(path)
    with torch.random.fork_rng(devices=[]):  # the weights drawn here are replaced at once
        model = BITR(config)
    expected = {key: tuple(value.shape) for key, value in model.state_dict().items()}
    found = {key: tuple(value.shape) for key, value in tensors.items()}
    if expected != found:
        wrong = sorted(key for key in expected.keys() | found.keys() if expected.get(key) != found.get(key))
        raise InputError(
            f"{path}: the weights do not fit the config inside ({len(wrong)} differ, first {wrong[0]}: "
            f"found {found.get(wrong[0])}, expected {expected.get(wrong[0])})"
        )
    kinds = {value.dtype for value in tensors.values()}
    if len(kinds) != 1 or not kinds <= {torch.float32, torch.float64}:
        names = ", ".join(sorted(str(kind) for kind in kinds))
        raise InputError(f"{path}: the weights are of type {names}, expected all float32 or all float64")
    damaged = [key for key, value in tensors.items() if not value.isfinite().all()]
    if damaged:
        raise InputError(f"{path}: the weights {damaged[0]} are NaN or infinite; the file is damaged")
    model.to(kinds.pop()).load_state_dict(tensors)
    return model.eval()


def _find(name: str | os.PathLike[str]) -> Path:
    path = Path(name)
    if path.is_dir():
        path = path / FILE_NAME
    if path.is_file():
        return path
    shipped = resources.files("bitr") / "weights"
    files = [f.name for f in shipped.iterdir()] if shipped.is_dir() else []
    names = sorted(f.removesuffix(".safetensors") for f in files if f.endswith(".safetensors"))
    if str(name) in names:
        return Path(str(shipped / f"{name}.safetensors"))
    known = ", ".join(names) or "none yet"
    raise InputError(f"{name}: no such file or folder, and no such weights come with bitr ({known})")


def _read(path: Path) -> tuple[BITRConfig, dict[str, Tensor]]:
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118 (not a dict)
    except (SafetensorError, OSError) as error:
        raise InputError(f"{path}: not a readable safetensors file ({error})") from error
    if metadata.get("format") != FORMAT or "config" not in metadata:
        raise InputError(
            f"{path}: not a bitr checkpoint (format {metadata.get('format')!r}, expected {FORMAT!r})"
        )
    try:
        values = json.loads(metadata["config"])
        if not isinstance(values, dict):
            raise InputError(f"expected settings by name, found {values!r}")
        config = BITRConfig.from_dict(values)
    except (ValueError, TypeError) as error:
        raise InputError(f"{path}: the config inside cannot be used ({error})") from error
    return config, tensors
