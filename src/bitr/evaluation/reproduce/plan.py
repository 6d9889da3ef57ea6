"""How an experiment is to be run: what the command's options say."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal

from bitr.data import AssemblyPair, data_root, dataset, info
from bitr.errors import InputError
from bitr.evaluation.evaluate import Progress
from bitr.evaluation.reproduce.budget import Budget
from bitr.settings import from_file
from bitr.training import TrainConfig
from bitr.training.config import config_file
from bitr.training.log import Listener, Silent

Baselines = Literal["none", "classical", "all"]
DECIDED = ("data.name", "data.stand_in", "data.root", "run.seed")
"""Settings of a training config that follow from the experiment and the plan."""
FREELY = 600.0
"""Seconds; with a longer budget learned baselines are trained too, unless it is said otherwise."""


@dataclass(frozen=True)
class Plan:
    """What is common to all experiments of a call."""

    out: Path
    """Each experiment has a folder in it, and goes on where an earlier call left it."""
    budget: Budget = field(default_factory=lambda: Budget.of("10m"))
    """Of each experiment; its models share it, each learned baseline gets as much as the model beside it."""
    seed: int = 0
    """Of training, and of the first sampling; the others count up from it."""
    samplings: int = 3
    limit: int | None = None
    """Only the first so many pairs of each sampling."""
    model: str | None = None
    """Weights to use in all rows of BITR; nothing is trained then."""
    retrain: bool = False
    """Train, although weights for the data come with bitr."""
    baselines: Baselines | None = None
    changes: tuple[str, ...] = ()
    """Of the training configs, as "run.batch=4"."""
    root: Path | None = None
    listener: Listener = field(default_factory=Silent)
    progress: Progress | None = None

    def __post_init__(self) -> None:
        for change in self.changes:
            if change.partition("=")[0].strip() in DECIDED:
                raise InputError(f"--set {change}: the experiment decides on {' and '.join(DECIDED)}")

    @property
    def classical(self) -> bool:
        return self.baselines != "none"

    @property
    def learned(self) -> bool:
        if self.baselines is None:
            return self.budget.seconds is None or self.budget.seconds > FREELY
        return self.baselines == "all"

    def config(self, data: str) -> TrainConfig:
        """The config that comes with bitr for a data set, on the data that is there: that or a stand-in."""
        own = from_file(TrainConfig, config_file(data.partition(":")[0]), self.changes)
        missing = own.data.stand_in and not info(data).present(data_root(self.root))
        name = own.data.stand_in if missing else data
        root = "" if self.root is None else str(self.root)
        return replace(
            own,
            data=replace(own.data, name=name, stand_in="", root=root),
            run=replace(own.run, seed=self.seed),
        )

    def pairs(self, data: str, sampling: int) -> Sequence[AssemblyPair]:
        """The test pairs, sampled anew for each number; raises with how to get them where there are none."""
        return dataset(data, "test", self.root, self.seed + sampling)[: self.limit]

    def settings(self) -> dict[str, Any]:
        """What a result says of how it came about."""
        return {
            "bitr": version("bitr"),
            "budget": self.budget.text,
            "seed": self.seed,
            "samplings": self.samplings,
            "limit": self.limit,
            "model": self.model,
            "set": " ".join(self.changes) or None,
        }
