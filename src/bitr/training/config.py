"""Settings of a training run: data, model, loss, optimiser and length. Saved with everything it makes."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Literal

from bitr.errors import InputError
from bitr.model import BITRConfig


@dataclass(frozen=True)
class DataConfig:
    """The pairs, and how much of each the model sees."""

    name: str = "shapes"
    """A data set of ``bitr data list``, several of them joined by ``+``, which take turns, or the path of a
    folder or manifest of pairs."""
    stand_in: str = ""
    """Data set to take where ``name`` is not there, as every result then says; empty: stop instead."""
    root: str = ""
    """Folder of data sets; empty: the one that BITR_DATA names."""
    points: int = 1024
    """Maximum number of points of a cloud in training; both clouds are thinned alike, anew every time."""
    seen: int = 0
    """Maximum number of points of a cloud for the trained model, where more help; 0: as in training."""
    noise: float = 0.0
    """Standard deviation of noise on training points, in units of the pair's size."""
    stretch: float = 0.0
    """Training shapes are stretched along three random axes by factors from e^-stretch to e^stretch."""
    warp: float = 0.0
    """Training shapes are bent, twisted and swollen by smooth waves, whose slopes sum up to at most this."""
    mirror: bool = False
    """Half of the training shapes are mirrored, for kinds of shapes that contain their mirror images."""
    val_pairs: int = 100
    """Maximum number of validation pairs."""
    workers: int = 1
    """Processes that make pairs and search neighbours while the model learns; 0: none."""

    @property
    def points_used(self) -> int:
        """Maximum number of points of a cloud that the trained model sees."""
        return self.seen or self.points


@dataclass(frozen=True)
class LossConfig:
    """Squared error of the rotation, ``translation_weight`` times that of the place, and terms for key points
    and points. Lengths are over the pair's size.
    """

    compare: Literal["likelihood", "unprojected", "pose"] = "likelihood"
    """Quantity compared with the truth: the pose, as in the paper; r̂ and the anchors that it is made of, for
    models with one head (others take the likelihood); or the density that they are parameters of."""
    translation: Literal["displacement", "paper"] = "displacement"
    """Distance of poses: ``paper`` is ‖t − t_gt‖², which depends on where the source's origin lies."""
    translation_weight: float = 1.0
    keypoint_weight: float = 0.5
    """Weight of the squared distance that the true pose leaves between the k-th key points of both pieces."""
    contact_weight: float = 0.3
    """Weight of the cross entropy of contact at each point."""
    vector_weight: float = 0.3
    """Weight of the squared errors of the vectors at each point, to the other piece and to the centre."""
    mating_weight: float = 1.0
    """Weight of the terms of the mating head, for models that have one."""
    spread_weight: float = 0.0
    """Weight of the penalty on key points that come closer than ``spread_reach``."""
    spread_reach: float = 0.1

    @property
    def uses_all(self) -> bool:
        """True if every output of the model has a part in the loss."""
        return self.compare == "likelihood" and min(self.contact_weight, self.vector_weight) > 0


@dataclass(frozen=True)
class OptimizerConfig:
    """Muon, Adam or AdamW with warm-up, cosine decay, clipping and an average of the weights."""

    name: Literal["muon", "adam", "adamw"] = "muon"
    rate: float = 4e-3
    warmup: int = 100
    """Steps over which the rate rises from 0."""
    final: float = 0.01
    """Part of the rate that is left at the end."""
    weight_decay: float = 0.0
    clip: float = 1.0
    """Maximum norm of the gradient; 0: no limit."""
    average: float = 0.998
    """Decay of the running average of the weights, which is validated and kept; 0: none."""


@dataclass(frozen=True)
class RunConfig:
    """Length, precision and how often files are written."""

    seed: int = 0
    steps: int = 4000
    batch: int = 8
    """Pairs a step, over all processes."""
    validate_every: int = 250
    checkpoint_every: int = 250
    keep: int = 2
    """Checkpoints that stay on disk."""
    log_every: int = 25
    patience: int = 0
    """Validations without an improvement after which training ends; 0: never."""
    skips: int = 20
    """Steps in a row with a loss or gradient that is not finite, after which training stops."""
    device: str = "auto"
    precision: Literal["float32", "bfloat16"] = "float32"
    compile: bool = False
    init_from: str = ""
    """Weights to start from: a name of shipped ones or a path. Their model is then trained."""


@dataclass(frozen=True)
class TrainConfig:
    """One run. The same config on the same machine gives the same weights, bit for bit."""

    data: DataConfig = field(default_factory=DataConfig)
    model: BITRConfig = field(default_factory=BITRConfig)
    loss: LossConfig = field(default_factory=LossConfig)
    optimizer: OptimizerConfig = field(default_factory=OptimizerConfig)
    run: RunConfig = field(default_factory=RunConfig)

    def __post_init__(self) -> None:
        for name, (least, most) in LIMITS.items():
            table, key = name.split(".")
            value = getattr(getattr(self, table), key)
            if not least <= value <= most:
                raise InputError(f"{name} = {value!r}: expected {least:g} to {most:g}")
        if self.loss.translation == "paper" and self.loss.compare != "pose":
            raise InputError("loss.translation = 'paper' compares poses: set loss.compare = 'pose' as well")


PLAIN = LossConfig(compare="pose", keypoint_weight=0.0, contact_weight=0.0, vector_weight=0.0)
"""Loss of the pose, and of the matches for models that have them, for validation: the same in all runs."""


def config_file(name: str | os.PathLike[str]) -> Path:
    """The TOML file at that path, or the one that comes with bitr under that name, as ``bunny``."""
    path = Path(name)
    if path.is_file():
        return path
    shipped = Path(str(files("bitr.training"))) / "configs"
    found = {file.stem: file for file in sorted(shipped.glob("*.toml"))}
    if str(name) in found:
        return found[str(name)]
    raise InputError(f"{name}: no such file, and no such config comes with bitr ({', '.join(found)})")


LIMITS: dict[str, tuple[float, float]] = {
    "data.points": (32, 10**6),
    "data.seen": (0, 10**6),
    "data.noise": (0, 1),
    "data.stretch": (0, 1),
    "data.warp": (0, 0.9),
    "data.val_pairs": (1, 10**6),
    "data.workers": (0, 256),
    **{
        f"loss.{part}_weight": (0, 1e6)
        for part in ("translation", "keypoint", "contact", "vector", "mating", "spread")
    },
    "loss.spread_reach": (0, 10),
    "optimizer.rate": (0, 10),
    "optimizer.warmup": (0, 10**9),
    "optimizer.final": (0, 1),
    "optimizer.weight_decay": (0, 10),
    "optimizer.clip": (0, 1e9),
    "optimizer.average": (0, 1 - 1e-9),
    "run.seed": (0, 2**31 - 1),
    "run.batch": (1, 10**5),
    "run.keep": (1, 1000),
    "run.patience": (0, 10**9),
    **{
        f"run.{key}": (1, 10**9)
        for key in ("steps", "validate_every", "checkpoint_every", "log_every", "skips")
    },
}
