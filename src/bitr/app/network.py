"""A model and what comes with its weights."""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass
from pathlib import Path

from bitr.app.calibration import Calibration
from bitr.app.confidence import Signals
from bitr.errors import InputError
from bitr.model import BITR, BITRConfig, FrozenBITR
from bitr.model.checkpoint import card_of, find, load, with_weights

log = logging.getLogger("bitr")


@dataclass(frozen=True)
class Network:
    """A model, what to call it, and what its checkpoint or run folder has beside the weights."""

    model: BITR
    name: str
    calibration: Calibration | None = None
    last: BITR | None = None
    """The last weights of a training run; the model has their running average."""
    points: int | None = None
    """Of each cloud that the model should see, where a run folder or a card says so."""

    @classmethod
    def of(cls, model: str | os.PathLike[str] | BITR) -> Network:
        """From a model as it is, or by the name of shipped weights or the path of a checkpoint.

        What is loaded here is frozen, and runs in double precision: the laws then hold to the rounding of the
        files, and it costs little.
        """
        if isinstance(model, BITR):
            return cls(model, "BITR")
        loaded, name, calibration = _frozen(load(model)), os.fspath(model), Calibration.of(model)
        folder = find(model).parent
        if folder != Path(model):  # a file alone, or weights that come with bitr
            return cls(loaded, name, calibration, points=_points_of_card(model))
        return cls(loaded, name, calibration, _last(loaded.config, folder), _points_of_run(folder))

    def confidence(self, refine: str, signals: Signals | None) -> float | None:
        """Chance from 0 to 1 that an answer with these signals is right; None where nothing tells."""
        if self.calibration is None or signals is None:
            return None
        return self.calibration.confidence(refine, signals)


def _frozen(model: BITR) -> BITR:
    return FrozenBITR(model.double())


def _last(config: BITRConfig, folder: Path) -> BITR | None:
    """The newest checkpoint's own weights; a run that has none, or only damaged ones, is used without."""
    from bitr.training import state

    try:
        data, _ = state.newest(folder / "checkpoints")
        return None if data is None else _frozen(with_weights(config, state.last_weights(data), folder))
    except InputError as error:
        log.warning("%s; going on without the last weights", error)
        return None


def _points_of_card(name: str | os.PathLike[str]) -> int | None:
    from bitr.training.config import DataConfig

    card = card_of(name)
    return DataConfig(**card["config"]["data"]).points_used if card else None


def _points_of_run(folder: Path) -> int | None:
    from bitr.settings import from_file
    from bitr.training.config import TrainConfig

    config = folder / "config.toml"
    return from_file(TrainConfig, config).data.points_used if config.is_file() else None
