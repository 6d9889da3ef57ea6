"""The folder of a run: what is in it, and whether a run may begin or go on there."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from bitr.errors import InputError
from bitr.files import whole_file
from bitr.settings import to_toml
from bitr.training import state
from bitr.training.config import TrainConfig

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


class RunFolder:
    """``model.safetensors`` are the best weights; beside it ``config.toml``, ``split.json``, ``log.csv``,
    ``result.json``, ``curves.png``, ``tensorboard/`` and ``checkpoints/``.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.checkpoints = path / "checkpoints"

    def begin(self, resume: bool) -> None:
        """Makes the folder; raises where a run is already, unless it is to go on."""
        if self.path.exists() and not self.path.is_dir():
            raise InputError(f"{self.path}: is a file, expected a folder for the run")
        if not resume and any(self.checkpoints.glob(state.PATTERN)):
            raise InputError(
                f"{self.path}: holds a run already; go on with --resume, or choose another folder with --out"
            )
        try:
            self.checkpoints.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(
                f"{self.path}: cannot be made ({error.strerror}); choose another --out"
            ) from error
        for unfinished in self.checkpoints.glob(f".{state.PATTERN}"):  # of a run that was killed
            unfinished.unlink()
        if not os.access(self.path, os.W_OK):
            raise InputError(f"{self.path}: cannot be written to; choose another folder with --out")

    def write_config(self, config: TrainConfig) -> None:
        self._write("config.toml", to_toml(config))

    def write_json(self, name: str, content: dict[str, Any]) -> None:
        self._write(name, json.dumps(content, indent=1) + "\n")

    def _write(self, name: str, text: str) -> None:
        with whole_file(self.path / name, force=True) as temporary:
            temporary.write_text(text, encoding="utf-8")


def check_same_run(found: dict[str, Any], asked: dict[str, Any], where: Path) -> None:
    """Raises when a run is asked to go on with settings that would have led to other weights."""
    for table, values in asked.items():
        for key, value in values.items():
            before = found.get(table, {}).get(key)
            if f"{table}.{key}" not in FREE and before != value:
                raise InputError(
                    f"{where}: was begun with {table}.{key} = {before!r}, and {value!r} is asked for; a run "
                    "goes on with the settings it began with: choose another --out for a new one"
                )
