"""How long training may take, and how many steps that is on this machine."""

from __future__ import annotations

import re
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from bitr.data import AssemblyPair
from bitr.errors import InputError
from bitr.training import Kind, TrainConfig, train
from bitr.training.log import Record, Silent
from bitr.training.source import Source, reseeded, sources

UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0}
PROBE, SETTLED = 12, 6
"""Steps that are timed, and how many of the last of them count: the first ones find pairs made ahead."""
SHORT = 20
"""Steps of an epoch up to which a whole one comes first: some data sets compute much once for each pair."""
TIMED = 8
"""Pairs of a longer epoch that are made twice, to see how much of that is computed once."""
VALIDATIONS = 10
"""Of a run whose steps are chosen here."""
USED = 0.95
"""Part of the time that is planned for: machines are not equally fast all the time."""


@dataclass(frozen=True)
class Budget:
    """The time that training may take; ``full`` is as many steps as the configs say, however long."""

    text: str
    seconds: float | None

    @classmethod
    def of(cls, text: str) -> Budget:
        """From "90s", "10m", "1.5h" or "full"."""
        if text == "full":
            return cls(text, None)
        found = re.fullmatch(r"(\d+(?:\.\d+)?)([smh])", text)
        if found is None or not float(found[1]):
            raise InputError(f"--budget {text}: expected a time as 90s, 10m or 1h, or full")
        return cls(text, float(found[1]) * UNITS[found[2]])

    def shared(self, parts: int) -> float | None:
        """Seconds for each of several runs."""
        return None if self.seconds is None else self.seconds / parts


@dataclass(frozen=True)
class Pace:
    """Seconds that a step, a validation, and everything before the first step take."""

    step: float
    validation: float
    start: float
    first: float = 0.0
    """What a step of the first epoch takes longer."""
    epoch: int = 0
    """Steps of an epoch."""

    def steps(self, seconds: float) -> int:
        """The most steps that fit beside the validations; at least one."""
        left = USED * seconds - self.start - VALIDATIONS * self.validation
        new = min(self.epoch, left / (self.step + self.first))
        return max(1, int(new + (left - new * (self.step + self.first)) / self.step))


def fitted(config: TrainConfig, seconds: float, kind: Kind | None = None) -> TrainConfig:
    """The config with as many steps as fit, timing included, but no more than it has.

    The learning rate falls over the steps that there are: a short run is a whole one, not the start of a long
    one.
    """
    began = time.perf_counter()
    pace = measured(config, kind)
    steps = min(config.run.steps, pace.steps(seconds - (time.perf_counter() - began)))
    every = -(-steps // VALIDATIONS)
    return replace(config, run=replace(config.run, steps=steps, validate_every=every, checkpoint_every=every))


def measured(config: TrainConfig, kind: Kind | None = None) -> Pace:
    """From a short run of the ordinary loop, in a folder that is removed."""
    source = sources(config.data)[0]
    epoch = -(-len(source) // config.run.batch)
    steps = PROBE + (epoch if epoch <= SHORT else 0)
    short = replace(
        config,
        run=replace(config.run, steps=steps, log_every=1, validate_every=steps, checkpoint_every=steps),
    )
    clock, began = _Clock(), time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        train(short, Path(folder), listener=clock, kind=kind)
    took = time.perf_counter() - began
    *_, last, end = clock.seconds  # the record of the last step has the validation in it
    step = (last - clock.seconds[-2 - SETTLED]) / SETTLED
    waited = sum(clock.waited[-1 - SETTLED : -1]) / SETTLED
    first = 0.0 if epoch <= SHORT else waited * _once(source)
    validation = max(0.0, end - last - step)
    return Pace(step - first, validation, max(0.0, took - end), first, epoch)


def _once(source: Source) -> float:
    """Part of the time that a pair takes at first which it does not take in later epochs."""
    pairs = source.open(0)
    rows = [source.row((2 * i + 1) * len(source) // (2 * TIMED)) for i in range(TIMED)]
    new, again = (_seconds(reseeded(pairs, seed), rows) for seed in (1, 2))
    return max(0.0, 1 - again / new)


def _seconds(pairs: Sequence[AssemblyPair], rows: Sequence[int]) -> float:
    began = time.perf_counter()
    for row in rows:
        pairs[row]
    return time.perf_counter() - began


class _Clock(Silent):
    """Remembers when each step was done, and how long it waited for its pairs."""

    def __init__(self) -> None:
        self.seconds: list[float] = []
        self.waited: list[float] = []

    def recorded(self, record: Record) -> None:
        self.waited.append(record.waiting * (record.seconds - self.seconds[-1] if self.seconds else 0.0))
        self.seconds.append(record.seconds)
