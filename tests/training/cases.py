"""Runs small enough to test with: a few pieces of generated shapes on disk, and the smallest of models."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file

from bitr.data import AssemblyPair, bumpy_shape, cut
from bitr.data.transforms import assembled, move_randomly
from bitr.io import Geometry
from bitr.model import BITRConfig
from bitr.training import TrainConfig
from bitr.training.config import DataConfig, LossConfig, OptimizerConfig, RunConfig
from bitr.training.folder import Record

MODEL = BITRConfig(num_keypoints=4, num_layers=1, channels=2, cloud_channels=2, num_neighbors=4, num_heads=1)
TABLES = {"data": DataConfig, "loss": LossConfig, "optimizer": OptimizerConfig, "run": RunConfig}
QUICK = {"workers": 0, "points": 32}, {"steps": 6, "batch": 2, "checkpoint_every": 2, "validate_every": 3}
TIMES = ("seconds", "samples_per_second", "waiting")
"""What a log tells that no two runs have in common."""


def pair(i: int, n: int = 24) -> AssemblyPair:
    """Two pieces of a generated shape, each at a random place; sizes differ from pair to pair."""
    rng = torch.Generator().manual_seed(i)
    source, reference = (piece.numpy() for piece in cut(bumpy_shape(n + i % 5, rng), 0.4, rng))
    made = assembled(Geometry(source), Geometry(reference), f"pair-{i}")
    return move_randomly(made, np.random.default_rng(i))


def write_folder(folder: Path, count: int, n: int = 24, first: int = 0) -> Path:
    """A user's folder of pairs: one folder for each, that do not say what they are for."""
    for i in range(first, first + count):
        made, place = pair(i, n), folder / f"pair-{i}"
        place.mkdir(parents=True)
        np.save(place / "source.npy", made.source.points)
        np.save(place / "reference.npy", made.reference.points)
        np.savetxt(place / "pose.txt", made.ref_from_src, fmt="%.17g")
    return folder


def config(folder: Path | str, model: BITRConfig = MODEL, **changes: Any) -> TrainConfig:
    """A run of six steps on the pairs of a folder; changes are by table, as ``run_steps=3``."""
    data, run = QUICK
    values = {f"data_{k}": v for k, v in (data | {"name": str(folder)}).items()}
    values |= {f"run_{k}": v for k, v in run.items()} | changes
    tables: dict[str, dict[str, Any]] = {name: {} for name in TABLES}
    for key, value in values.items():
        table, _, name = key.partition("_")
        tables[table][name] = value
    return TrainConfig(model=model, **{name: TABLES[name](**tables[name]) for name in TABLES})


def changed(settings: TrainConfig, table: str, **changes: Any) -> TrainConfig:
    return replace(settings, **{table: replace(getattr(settings, table), **changes)})


def weights(path: Path) -> dict[str, torch.Tensor]:
    """The tensors of a file, or of the newest checkpoint of a run's folder."""
    return load_file(path if path.is_file() else checkpoints(path)[-1])


def checkpoints(run: Path) -> list[Path]:
    return sorted((run / "checkpoints").iterdir())


def assert_same_tensors(actual: dict[str, torch.Tensor], expected: dict[str, torch.Tensor]) -> None:
    """Bit for bit."""
    assert actual.keys() == expected.keys()
    for name, value in expected.items():
        assert torch.equal(actual[name], value), name


class Heard:
    """A listener that remembers."""

    def __init__(self) -> None:
        self.begun: list[tuple[int, int]] = []
        self.records: list[Record] = []
        self.notes: list[str] = []

    def started(self, step: int, steps: int, data: str) -> None:
        self.begun.append((step, steps))
        self.data = data

    def recorded(self, record: Record) -> None:
        self.records.append(record)

    def noted(self, text: str) -> None:
        self.notes.append(text)
