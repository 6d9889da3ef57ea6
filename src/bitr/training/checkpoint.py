"""The folder of a run and its checkpoints: written whole, kept few, checked on reading."""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load as tensors_of
from torch import Tensor, nn

from bitr.errors import InputError
from bitr.files import only_one, whole_file
from bitr.model.checkpoint import CHECKSUM, checksum
from bitr.model.checkpoint import pack as pack_weights

FORMAT = "bitr-training-1"
FOLDER = "checkpoints"
PATTERN = "step-*.safetensors"
LOCK = "training.lock"
"""File that names the process that trains in a folder."""
FREE = (
    "data.workers",
    "data.root",
    "data.seen",
    "run.device",
    "run.keep",
    "run.log_every",
    "run.checkpoint_every",
)
"""Settings that may change when a run goes on: they do not change the weights."""


@dataclass
class Progress:
    """How far a run has come."""

    step: int = 0
    """Steps done. Epoch and place in it follow from this number."""
    seconds: float = 0.0
    """Training time of all sittings together."""
    best_loss: float = float("inf")
    best_step: int = 0
    best: dict[str, float] = field(default_factory=dict)
    """The best validation."""
    worse: int = 0
    """Validations since the best one."""
    skipped: int = 0
    skipped_in_a_row: int = 0
    meter: list[float] = field(default_factory=list)
    """State of the meter since the last record."""


@dataclass(frozen=True)
class Parts:
    """The modules and optimisers that change while training."""

    model: nn.Module
    average: nn.Module
    optimizers: tuple[torch.optim.Optimizer, ...]

    def optimizer_of(self, parameter: nn.Parameter) -> torch.optim.Optimizer:
        def holds(optimizer: torch.optim.Optimizer) -> bool:
            return any(parameter is each for group in optimizer.param_groups for each in group["params"])

        return next(optimizer for optimizer in self.optimizers if holds(optimizer))


@contextmanager
def own_folder(out: Path, resume: bool) -> Iterator[None]:
    """Makes the folder of a run and keeps other processes from training there.

    Refuses a folder that holds a run already, unless that is to go on.
    """
    if out.exists() and not out.is_dir():
        raise InputError(f"{out}: is a file, expected a folder for the run")
    try:
        (out / FOLDER).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{out}: cannot be made ({error.strerror}); choose another --output") from error
    if not os.access(out, os.W_OK):
        raise InputError(f"{out}: cannot be written to; choose another folder with -o")
    with only_one(out / LOCK, "is training here; wait for it to end, or choose another --output"):
        if not resume and any((out / FOLDER).glob(PATTERN)):
            raise InputError(
                f"{out}: holds a run already; go on with --resume, or choose another folder with -o"
            )
        for unfinished in (out / FOLDER).glob(f".{PATTERN}"):  # left by a run that was killed
            unfinished.unlink()
        yield


def check_same_run(found: dict[str, Any], asked: dict[str, Any], where: Path) -> None:
    """Refuses to go on with settings that would have led to other weights."""
    for table, values in asked.items():
        for key, value in values.items():
            before = found.get(table, {}).get(key)
            if f"{table}.{key}" not in FREE and before != value:
                raise InputError(
                    f"{where}: was begun with {table}.{key} = {before!r}, and {value!r} is asked for; a run "
                    "goes on with the settings it began with: choose another --output for a new one"
                )


def pack(parts: Parts, progress: Progress, config: dict[str, Any]) -> bytes:
    """A checkpoint: weights, their average, optimiser, random states, progress and config, with a hash."""
    tensors = {f"model/{k}": v for k, v in parts.model.state_dict().items()}
    tensors |= {f"average/{k}": v for k, v in parts.average.state_dict().items()}
    for name, parameter in parts.model.named_parameters():
        state = parts.optimizer_of(parameter).state.get(parameter, {})
        tensors |= {f"optimizer/{k}/{name}": v for k, v in state.items()}
    tensors["random/cpu"] = torch.get_rng_state()
    if torch.cuda.is_available():
        tensors["random/cuda"] = torch.cuda.get_rng_state()
    tensors = {k: v.detach().cpu().contiguous() for k, v in tensors.items()}
    content = json.dumps({"progress": asdict(progress), "config": config})
    metadata = {"format": FORMAT, "content": content, CHECKSUM: checksum(tensors, content)}
    return pack_weights(tensors, metadata)


def unpack(data: bytes, parts: Parts) -> Progress:
    """Puts the content of a checkpoint that passed ``check`` in place."""
    metadata, tensors = _read(data)
    parts.model.load_state_dict(_below("model/", tensors))
    parts.average.load_state_dict(_below("average/", tensors))
    moments = _below("optimizer/", tensors)
    for name, parameter in parts.model.named_parameters():
        state = {
            k.partition("/")[0]: v.to(parameter.device)
            for k, v in moments.items()
            if k.partition("/")[2] == name
        }
        if state:
            parts.optimizer_of(parameter).state[parameter] = state
    torch.set_rng_state(tensors["random/cpu"])
    if "random/cuda" in tensors and torch.cuda.is_available():
        torch.cuda.set_rng_state(tensors["random/cuda"])
    return Progress(**json.loads(metadata["content"])["progress"])


def config_of(data: bytes) -> dict[str, Any]:
    return json.loads(_read(data)[0]["content"])["config"]


def check(data: bytes, name: Path) -> None:
    """Refuses bytes that are no checkpoint, or not those that were written."""
    try:
        metadata, tensors = _read(data)
    except (SafetensorError, ValueError, KeyError) as error:
        raise InputError(f"{name}: damaged, not a readable checkpoint ({str(error)[:80]})") from error
    if (found := metadata.get("format")) != FORMAT:
        raise InputError(
            f"{name}: not a checkpoint of a training run (format {found!r}, expected {FORMAT!r})"
        )
    if metadata.get(CHECKSUM) != checksum(tensors, metadata.get("content", "")):
        raise InputError(f"{name}: damaged, its content does not fit its checksum")


def write(folder: Path, data: bytes, step: int, keep: int) -> Path:
    """Adds a checkpoint to the folder, and then removes the oldest beyond ``keep``."""
    target = folder / f"step-{step:09d}.safetensors"
    with whole_file(target, force=True) as temporary:
        temporary.write_bytes(data)
    for old in sorted(folder.glob(PATTERN))[:-keep]:
        old.unlink()
    return target


def write_text(target: Path, text: str) -> None:
    with whole_file(target, force=True) as temporary:
        temporary.write_text(text, encoding="utf-8")


def newest(folder: Path) -> tuple[bytes | None, list[str]]:
    """The newest whole checkpoint, and a line for each damaged one that was passed over.

    Going on from an older one leads to the same weights. Damaged files are left for their owner to look at.
    """
    notes = []
    for path in sorted(folder.glob(PATTERN), reverse=True):
        data = path.read_bytes()
        try:
            check(data, path)
        except InputError as error:
            notes.append(f"{error}; going on from the one before")
            continue
        return data, notes
    if notes:
        raise InputError(
            f"{folder}: none of its {len(notes)} checkpoints can be read; the newest: {notes[0]}"
        )
    return None, []


def _read(data: bytes) -> tuple[dict[str, str], dict[str, Tensor]]:
    tensors = tensors_of(data)  # first, as it looks at the header with more suspicion than json does
    size = struct.unpack("<Q", data[:8])[0]
    return json.loads(data[8 : 8 + size]).get("__metadata__", {}), tensors


def _below(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {key.removeprefix(prefix): value for key, value in tensors.items() if key.startswith(prefix)}
