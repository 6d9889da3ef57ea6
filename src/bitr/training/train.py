"""The training loop: each step depends on the config and the steps before it alone, bit for bit."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError
from torch import nn

from bitr.data import info
from bitr.errors import InputError, is_full
from bitr.files import write_text
from bitr.model import BITR, BITRConfig
from bitr.model.checkpoint import FILE_NAME, load, save
from bitr.settings import to_mapping, to_toml
from bitr.training import folder
from bitr.training.config import TrainConfig
from bitr.training.distributed import Group, join, listen_for_stop
from bitr.training.folder import FOLDER, METRICS, Listener, Meter, Progress, Record, RunLog, Silent, Step
from bitr.training.step import Objective, Trainer, rate_at
from bitr.training.stream import (
    SPLIT,
    STAND_IN,
    Batch,
    Source,
    Stream,
    batches,
    collate,
    numbers,
    read_split,
    sample,
    seen_by,
    sources,
    split_record,
)


class TrainingError(RuntimeError):
    """Training could not go on; the message says why, and what is on disk."""


@dataclass(frozen=True)
class Kind:
    """A model or a baseline to train. Its module has ``solve(source, reference) -> Solution``."""

    make: Callable[[TrainConfig], tuple[nn.Module, TrainConfig]]
    """Returns the module before its first step, and the config with the module's settings."""
    save: Callable[[Any, Path], object]


def train(
    config: TrainConfig,
    out: Path,
    *,
    resume: bool = False,
    listener: Listener | None = None,
    kind: Kind | None = None,
) -> dict[str, Any]:
    """Trains and returns the content of ``result.json``; ``bitr.load(out)`` loads the best weights.

    The same config gives the same weights, bit for bit, also when a killed run goes on with ``resume``.
    """
    with join(config.run.device) as group, listen_for_stop() as stop_asked:
        if config.run.batch < group.world:
            raise InputError(f"run.batch = {config.run.batch} is less than the {group.world} processes")
        shown = listener if listener is not None and group.leads else Silent()
        try:
            run = Run(config, kind or Kind(_first_model, save), out, group, shown)
            goes_on = group.was_restarted() or resume
            with folder.own_folder(out, goes_on) if group.leads else nullcontext():
                run.begin(goes_on)
                return run.go(stop_asked)
        except (OSError, SafetensorError) as error:
            if not is_full(error):
                raise
            raise TrainingError(
                f"{out}: no space left on the disk; the checkpoints there are whole: make room and go on "
                "with --resume"
            ) from error


def _first_model(config: TrainConfig) -> tuple[BITR, TrainConfig]:
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


class Run:
    """A run in its folder.

    ``model.safetensors`` holds the best weights; beside it are ``config.toml``, ``split.json``, ``log.csv``,
    ``result.json``, ``curves.png``, ``tensorboard/`` and ``checkpoints/``.
    """

    def __init__(self, config: TrainConfig, kind: Kind, out: Path, group: Group, listener: Listener) -> None:
        self.model, self.config = kind.make(config)
        self.save, self.out, self.group, self.listener = kind.save, out, group, listener
        self.train_source, self.val_source, self.label = sources(config.data)
        self.epoch = len(self.train_source)  # opens the data before any folder is made
        self.earlier = seen_by(config.run.init_from).trained_on if config.run.init_from else frozenset()

    def begin(self, resume: bool) -> None:
        """Prepares the trainer and the held-out pairs; reads the newest checkpoint to resume."""
        self.trainer = Trainer(self.config, self.model, self.group)
        self.progress = self._restore() if resume else Progress()
        self.meter = Meter(self.progress.meter)
        self.held_out = HeldOut(self.val_source, self.config, self.group)
        split = split_record(self.train_source, self.val_source, self.held_out.ids, self.label, self.earlier)
        self.split_hash = split["sha256"]
        self.log = RunLog(self.out, self.progress.step) if self.group.leads else None
        if self.group.leads:
            write_text(self.out / "config.toml", to_toml(self.config), force=True)
            write_text(self.out / SPLIT, json.dumps(split, indent=1) + "\n", force=True)

    def _restore(self) -> Progress:
        """Progress of the newest whole checkpoint that the leading process finds, if any."""
        place = self.out / FOLDER
        data, notes = folder.newest(place) if self.group.leads else (None, [])
        for note in notes:
            self.listener.noted(note)
        data = self.group.from_leader(data)
        if data is None:
            return Progress()
        content, tensors = folder.read(data, place)
        folder.check_same_run(content["config"], to_mapping(self.config), self.out)
        begun = read_split(self.out).data or self.label
        if STAND_IN in begun + self.label and begun != self.label:
            raise InputError(
                f"{self.out}: was begun on {begun}, and {self.label} is what is here now; choose another "
                "--output for a new run"
            )
        return folder.restore(content, tensors, self.trainer.parts)

    def go(self, stop_asked: Callable[[], bool]) -> dict[str, Any]:
        """Takes the remaining steps; validates, records and saves between them."""
        run, progress = self.config.run, self.progress
        self.listener.started(progress.step, run.steps, self._describe_data())
        steps = numbers(progress.step, run.steps, run.batch, self.group.rank, self.group.world)
        pairs = batches(Stream.of(self.train_source, self.config), steps, self.config.data.workers)
        while progress.step < run.steps and not 0 < run.patience <= progress.worse:
            with self.meter.waiting():
                batch = next(pairs).to(self.group.device)
            step = self._step(batch, stop_asked())
            is_last = progress.step == run.steps
            if is_last or progress.step % run.validate_every == 0:
                self._record(self._validate())
            elif progress.step % run.log_every == 0:
                self._record({})
            if is_last or step.stop or progress.step % run.checkpoint_every == 0:
                self._checkpoint()
            if step.stop:
                raise KeyboardInterrupt
        return self._finish()

    def _describe_data(self) -> str:
        """The data in one line; a stand-in says so, and how to get what it stands in for."""
        counts = f"{self.epoch} pairs, {self.held_out.count} held out"
        name, missing = self.train_source.name, self.config.data.name
        if name == missing:
            return f"training on {self.label}: {counts}"
        return (
            f"training on {name}, a stand-in for {missing}, which is not here: {counts}; "
            f"to get {missing}: {info(missing).source}"
        )

    def _step(self, batch: Batch, stop: bool) -> Step:
        """Takes one step, or leaves it out where loss or gradient is not finite."""
        progress, ids = self.progress, ", ".join(batch.ids)
        try:
            step = self.trainer.step(batch, progress.step, stop)
        except InputError as error:
            raise InputError(f"{self.label}, one of {ids}: {error}") from error
        self.meter.add(step)
        progress.step += 1
        if step.taken:
            progress.skipped_in_a_row = 0
            return step
        progress.skipped += 1
        progress.skipped_in_a_row += 1
        number, in_a_row = progress.step, progress.skipped_in_a_row
        self.listener.noted(f"step {number}: loss or gradient not finite, step left out; its pairs: {ids}")
        if in_a_row >= self.config.run.skips:
            self._checkpoint()
            raise TrainingError(
                f"{in_a_row} steps in a row had a loss or gradient that is not finite, the last on the pairs "
                f"{ids}; a lower optimizer.rate may help. The run is kept at step {number}"
            )
        return step

    def _validate(self) -> dict[str, float]:
        """Errors of the averaged weights on the held-out pairs; saves the weights if they are the best."""
        found, progress = self.held_out.errors(self.trainer.averaged), self.progress
        progress.worse += 1
        if found["loss"] < progress.best_loss:
            progress.best_loss, progress.best_step, progress.worse = found["loss"], progress.step, 0
            progress.best = found
            if self.group.leads:
                self.save(self.trainer.parts.average, self.out / FILE_NAME)
        return found

    def _record(self, validation: dict[str, float]) -> None:
        """Writes what the meter has measured, and starts a new one."""
        run, meter, progress = self.config.run, self.meter, self.progress
        seconds = meter.seconds
        progress.seconds += seconds
        record = Record(
            step=progress.step,
            epoch=progress.step * run.batch / self.epoch,
            seconds=progress.seconds,
            rate=rate_at(progress.step - 1, run.steps, self.config.optimizer),
            samples_per_second=meter.steps * run.batch / seconds,
            skipped=progress.skipped,
            **meter.means(),
            **{f"val_{name}": value for name, value in validation.items()},
        )
        if self.log is not None:
            self.log.add(record)
        self.listener.recorded(record)
        self.meter = Meter()

    def _checkpoint(self) -> None:
        if self.group.leads:
            self.progress.meter = self.meter.state()
            data = folder.pack(self.trainer.parts, self.progress, to_mapping(self.config))
            folder.write(self.out / FOLDER, data, self.progress.step, self.config.run.keep)

    def _finish(self) -> dict[str, Any]:
        progress = self.progress
        if not progress.best:
            never = "the loss on held-out pairs was never finite, so no weights were kept"
            raise TrainingError(f"{self.out}: {never}")
        result = {
            "data": self.label,
            "val": progress.best,
            "best_step": progress.best_step,
            "steps": progress.step,
            "skipped": progress.skipped,
            "seconds": round(progress.seconds, 1),
            "processes": self.group.world,
            "threads": torch.get_num_threads(),
            "split_sha256": self.split_hash,
            "config": to_mapping(self.config),
        }
        if self.log is not None:
            self.log.close()
            write_text(self.out / "result.json", json.dumps(result, indent=1) + "\n", force=True)
        return result


class HeldOut:
    """The validation pairs, made once; each process computes its share of them."""

    def __init__(self, source: Source, config: TrainConfig, group: Group) -> None:
        pairs, self.group = source.open(0), group
        self.count, points = min(config.data.val_pairs, len(source)), config.data.points
        seen = [
            sample(pairs[source.row(i)], points, 0.0, config.model, np.random.default_rng([2, i]))
            for i in range(self.count)
        ]
        self.ids = [pair.id for pair in seen]
        mine, size = range(group.rank, self.count, group.world), config.run.batch
        self.batches = [
            (rows, collate([seen[i] for i in rows], config.model.num_neighbors).to(group.device))
            for rows in (list(mine[k : k + size]) for k in range(0, len(mine), size))
        ]

    @torch.no_grad()
    def errors(self, objective: Objective) -> dict[str, float]:
        """Means over the pairs, and the median angle."""
        table = torch.zeros(self.count, len(METRICS), dtype=torch.float64, device=self.group.device)
        for rows, batch in self.batches:
            try:
                table[rows] = objective(batch).table().double()
            except InputError as error:
                raise InputError(f"held out, one of {', '.join(batch.ids)}: {error}") from error
        table = self.group.sum(table).cpu()
        loss, angle, displacement, nearest = table.mean(0).tolist()
        return {
            "loss": loss,
            "rotation_deg": angle,
            "median_deg": float(table[:, 1].median()),
            "displacement": displacement,
            "nearest_deg": nearest,
        }
