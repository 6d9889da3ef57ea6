"""The training loop: each step a pure function of the config and of what the steps before it made."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, replace
from typing import Any

import torch

from bitr.errors import InputError
from bitr.model.checkpoint import FILE_NAME
from bitr.settings import to_mapping
from bitr.training import state
from bitr.training.config import TrainConfig
from bitr.training.folder import RunFolder, check_same_run
from bitr.training.group import Group
from bitr.training.kind import Kind
from bitr.training.log import Listener, Record, RunLog
from bitr.training.meter import Meter
from bitr.training.optimizer import rate_at
from bitr.training.samples import Batch
from bitr.training.source import sources, split_record
from bitr.training.state import Progress
from bitr.training.stream import Numbers, Stream, batches
from bitr.training.trainer import Step, Trainer
from bitr.training.validation import HeldOut, Validation


class TrainingError(RuntimeError):
    """Training could not go on; the message says why, and what is on disk."""


class Run:
    """A run in its folder: what is done between the steps."""

    def __init__(
        self,
        config: TrainConfig,
        kind: Kind,
        folder: RunFolder,
        group: Group,
        listener: Listener,
        resume: bool,
    ) -> None:
        model, self.config = kind.make(config)
        self.save = kind.save
        self.folder, self.group, self.listener = folder, group, listener
        self.train_source, self.val_source, self.label = sources(config.data)
        self.epoch = len(self.train_source)  # opens it, before a folder is made for a run that cannot be
        if group.leads:
            folder.begin(resume)
        self.trainer = Trainer(self.config, model, group)
        self.progress = self._restored() if resume else Progress()
        self.held_out = HeldOut(self.val_source, self.config, group)
        self.log = RunLog(folder.path, self.progress.step) if group.leads else None
        if group.leads:
            folder.write_config(self.config)
            record = split_record(self.train_source, self.val_source, self.held_out.ids, self.label)
            folder.write_json("split.json", record)

    def go(self, stopping: Callable[[], bool]) -> dict[str, Any]:
        """All steps that are left."""
        run, first = self.config.run, self.progress.step
        self.listener.started(first, run.steps)
        numbers = Numbers(first, run.steps, run.batch, self.group.rank, self.group.world)
        stream = Stream.of(self.train_source, self.config)
        pairs = batches(stream, numbers, self.config.data.workers)
        meter = Meter(self.progress.meter)
        while self.progress.step < run.steps and not self._lost_patience():
            with meter.waiting():
                batch = next(pairs).to(self.group.device)
            result = self._step(batch, stopping())
            meter.add(result)
            done = self.progress.step
            validated = done % run.validate_every == 0 or done == run.steps
            if validated or done % run.log_every == 0:
                self._record(meter, self._validate() if validated else None)
                meter = Meter()
            self.progress = replace(self.progress, meter=meter.kept())
            if done % run.checkpoint_every == 0 or done == run.steps or result.stop:
                self._checkpoint()
            if result.stop:
                raise KeyboardInterrupt
        return self._finish()

    def _step(self, batch: Batch, stop: bool) -> Step:
        try:
            result = self.trainer.step(batch, self.progress.step, stop)
        except InputError as error:
            raise InputError(f"{self.label}, one of {', '.join(batch.ids)}: {error}") from error
        step = self.progress.step + 1
        if result.taken:
            self.progress = replace(self.progress, step=step, skipped_in_a_row=0)
            return result
        in_a_row = self.progress.skipped_in_a_row + 1
        self.progress = replace(
            self.progress, step=step, skipped=self.progress.skipped + 1, skipped_in_a_row=in_a_row
        )
        self.listener.noted(
            f"step {step}: loss or gradient not finite, step left out; its pairs: {', '.join(batch.ids)}"
        )
        if in_a_row >= self.config.run.skips:
            self._checkpoint()
            raise TrainingError(
                f"{in_a_row} steps in a row had a loss or gradient that is not finite, the last on the pairs "
                f"{', '.join(batch.ids)}; a lower optimizer.rate may help. The run is kept at step {step}"
            )
        return result

    def _validate(self) -> Validation:
        """Errors of the averaged weights on the pairs held out; the best so far are kept."""
        found = self.held_out.errors(self.trainer.averaged)
        if found.loss < self.progress.best_loss:
            self.progress = replace(
                self.progress, best_loss=found.loss, best_step=self.progress.step, worse=0, best=asdict(found)
            )
            if self.group.leads:
                self.save(self.trainer.parts.average, self.folder.path / FILE_NAME)
        else:
            self.progress = replace(self.progress, worse=self.progress.worse + 1)
        return found

    def _lost_patience(self) -> bool:
        return 0 < self.config.run.patience <= self.progress.worse

    def _record(self, meter: Meter, validation: Validation | None) -> None:
        step, seconds = self.progress.step, self.progress.seconds + meter.seconds
        self.progress = replace(self.progress, seconds=seconds)
        means = meter.means()
        found = {} if validation is None else {f"val_{k}": v for k, v in asdict(validation).items()}
        record = Record(
            step=step,
            epoch=step * self.config.run.batch / self.epoch,
            seconds=seconds,
            rate=rate_at(step - 1, self.config.run.steps, self.config.optimizer),
            samples_per_second=meter.steps * self.config.run.batch / meter.seconds,
            skipped=self.progress.skipped,
            **means,
            **found,
        )
        if self.log is not None:
            self.log.add(record)
        self.listener.recorded(record)

    def _checkpoint(self) -> None:
        if self.group.leads:
            data = state.pack(self.trainer.parts, self.progress, to_mapping(self.config))
            state.write(self.folder.checkpoints, data, self.progress.step, self.config.run.keep)

    def _restored(self) -> Progress:
        """From the newest whole checkpoint that the leading process finds, if any."""
        data, notes = state.newest(self.folder.checkpoints) if self.group.leads else (None, [])
        for note in notes:
            self.listener.noted(note)
        data = self.group.from_leader(data)
        if data is None:
            return Progress()
        check_same_run(state.config_of(data), to_mapping(self.config), self.folder.path)
        return state.unpack(data, self.trainer.parts)

    def _finish(self) -> dict[str, Any]:
        if not self.progress.best:
            raise TrainingError(
                f"{self.folder.path}: the loss on held-out pairs was never finite, so no weights were kept"
            )
        result = {
            "data": self.label,
            "val": self.progress.best,
            "best_step": self.progress.best_step,
            "steps": self.progress.step,
            "skipped": self.progress.skipped,
            "seconds": round(self.progress.seconds, 1),
            "processes": self.group.world,
            "threads": torch.get_num_threads(),
            "split_sha256": self._split_hash(),
            "config": to_mapping(self.config),
        }
        if self.group.leads and self.log is not None:
            self.log.close()
            self.folder.write_json("result.json", result)
        return result

    def _split_hash(self) -> str | None:
        path = self.folder.path / "split.json"
        return json.loads(path.read_text(encoding="utf-8"))["sha256"] if path.is_file() else None
