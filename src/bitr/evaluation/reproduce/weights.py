"""The weights of an experiment: those that are named, those that come with bitr, or newly trained ones."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from importlib import resources
from pathlib import Path
from typing import Any

from bitr.data import data_root
from bitr.data.storage import find_below
from bitr.errors import InputError
from bitr.evaluation.reproduce.budget import fitted
from bitr.evaluation.reproduce.plan import Plan
from bitr.model import BITR
from bitr.model.checkpoint import card_of, load
from bitr.settings import from_file
from bitr.training import Kind, TrainConfig, train
from bitr.training.curves import draw_curves

STAND_INS = {
    "bunny-stand-in": ("", "stand-in: a generated shape, not the bunny"),
    "airplane": ("airplane/*.npz", "airplanes of other collections, not ShapeNet's"),
    "car-motorbike": ("vehicles/*.npz", "vehicles of other collections, not ShapeNet's"),
    "winebottle": ("breaking_bad/*.npz", "wine bottles of Breaking Bad, in two pieces; others to train with"),
    "indoor": ("indoor_3dmatch/*", "RedKitchen of 7Scenes, rooms of SUN3D to train with"),
    "outdoor": ("outdoor_lidar/*", "KITTI's street scans, not ASL's"),
    "mug-hanging": ("", "scenes simulated here"),
    "bowl-placing": ("", "scenes simulated here"),
    "shapes": ("", "not in the paper"),
}
"""Data that is not the paper's: files by which it is known, if any, and what tables say."""

log = logging.getLogger("bitr")


@dataclass(frozen=True, eq=False)
class Weights:
    """A model in double precision, and what tables say of how it came about."""

    model: BITR
    made: str
    run: Path | None = None
    """Where they were trained, if they were."""


def weights(config: TrainConfig, name: str, plan: Plan, parts: int) -> Weights:
    """As the plan says: named ones; those that come with bitr for this data; or trained with a share of the
    budget.

    ``name`` is that of shipped weights and of the folder of the run.
    """
    data = data_words(config, plan)
    if plan.model is not None:
        return Weights(load(plan.model).double(), f"{data}; weights {plan.model}")
    shipped = None if plan.retrain else _shipped(name)
    if shipped is not None:
        return Weights(load(shipped).double(), f"{data}; {_card(shipped)}")
    folder, result = trained(config, name, plan, parts)
    return Weights(load(folder).double(), f"{data}; {training_words(result, config)}", folder)


def trained(
    config: TrainConfig, name: str, plan: Plan, parts: int, kind: Kind | None = None
) -> tuple[Path, dict[str, Any]]:
    """The folder of the run and its result; a run that was begun goes on, a finished one stays as it is.

    How many steps fit into the budget is decided when a run begins.
    """
    if plan.model is not None:
        raise InputError("not trained: with --model nothing is")
    folder = plan.out / "runs" / f"{name.replace(':', '-')}-{plan.budget.text}"
    saved, seconds = folder / "config.toml", plan.budget.shared(parts)
    if saved.is_file():
        begun = from_file(TrainConfig, saved).run
        same = {key: getattr(begun, key) for key in ("steps", "validate_every", "checkpoint_every")}
        chosen = replace(config, run=replace(config.run, **same))
    elif seconds is not None:
        log.info("timing some steps of %s", name)
        chosen = fitted(config, seconds, kind)
    else:
        chosen = config
    log.info("training %s on %s: %d steps", name, config.data.name, chosen.run.steps)
    result = train(chosen, folder, resume=True, listener=plan.listener, kind=kind)
    draw_curves(folder, f"{name}: {result['data']}")
    return folder, result


def training_words(result: dict[str, Any], config: TrainConfig) -> str:
    """How long it was trained, and how much of a full training that is."""
    minutes, threads = result["seconds"] / 60, result["threads"]
    full = f" of {config.run.steps}" if result["steps"] < config.run.steps else ""
    begun = ", beginning with the weights of the table before" if config.run.init_from else ""
    time = f"{minutes:.0f} min" if minutes >= 10 else f"{minutes:.1f} min"
    return f"trained {time}, {result['steps']}{full} steps, {threads} thread{'s' * (threads > 1)}{begun}"


def data_words(config: TrainConfig, plan: Plan) -> str:
    """What differs from the paper's data, or that nothing does."""
    name = config.data.name.partition(":")[0]
    if name in STAND_INS:
        pattern, words = STAND_INS[name]
        if not pattern or find_below(data_root(plan.root), pattern):
            return words
    return "the paper's data"


def _shipped(name: str) -> str | None:
    """The name of shipped weights for a data set; those without the option after the colon serve for any."""
    for candidate in (name.replace(":", "-"), name.partition(":")[0]):
        if (resources.files("bitr") / "weights" / f"{candidate}.safetensors").is_file():
            return candidate
    return None


def _card(name: str) -> str:
    """What the card beside shipped weights says of their training."""
    said = card_of(name)
    words = f"weights {name}, which come with bitr"
    return f"{words}: trained {said['minutes']:.0f} min" if "minutes" in said else words
