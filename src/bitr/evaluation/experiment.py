"""The experiments of ``experiments.toml``, the plan to run them, and weights that are trained in time."""

from __future__ import annotations

import logging
import re
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import resources
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal

from bitr.data import AssemblyPair, data_root, dataset, info
from bitr.data.poses import reseed
from bitr.data.storage import find_below
from bitr.errors import InputError, counted, require, unknown_name
from bitr.evaluation.evaluate import Progress
from bitr.evaluation.report import Published
from bitr.model import BITR
from bitr.model.checkpoint import card_of, load
from bitr.settings import from_file, read_toml
from bitr.training import Kind, TrainConfig, train
from bitr.training.config import config_file
from bitr.training.folder import Listener, Silent, draw_curves, read_log
from bitr.training.stream import Source, sources

MEASURED = ("laws", "speed", "engine", "puzzles")
"""Tables of BENCHMARK.md that are no experiment of the paper; ``tables`` measures them."""
DECIDED = ("data.name", "data.stand_in", "data.root", "run.seed")
"""Settings of a training config that follow from the experiment and the plan."""
FREELY = 600.0  # seconds of budget beyond which learned baselines are trained by default
PROBE, SETTLED = 12, 6
"""Steps that are timed, and how many of the last of them count: the first ones find pairs made ahead."""
SHORT = 20
"""Steps of an epoch up to which a whole one comes first: some data sets compute much once for each pair."""
TIMED = 8  # pairs of a longer epoch that are made twice, to see how much of the work is done only once
VALIDATIONS = 10  # validations of a run whose steps are chosen here
USED = 0.95  # share of the time that is planned for: machines are not equally fast all the time
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
"""Data that is not the paper's: a pattern of its files, if any, and its description in tables."""

log = logging.getLogger("bitr")


@dataclass(frozen=True)
class Case:
    """One table of an experiment: a data set, by the name that ``bitr.data.dataset`` knows."""

    data: str
    keep: float | None = None  # the share of each cloud that is kept, where the tables differ in it
    disturbed: str | None = None
    """The change of the second of two equal shapes, where the tables differ in it."""

    @property
    def title(self) -> str:
        if self.keep is not None:
            return f"{self.data.partition(':')[0]}, keep {self.keep:g}"
        return self.disturbed or self.data


@dataclass(frozen=True)
class Experiment:
    """One table or figure of the paper; ``experiments.toml`` explains the fields."""

    name: str
    title: str
    section: str
    data: tuple[str, ...]
    keeps: tuple[float, ...] = ()
    disturbed: tuple[str, ...] = ()
    weights: str | None = None
    most: int | None = None
    tests: tuple[str, ...] = ()
    variants: tuple[str, ...] = ()
    laws: bool = False
    refinements: tuple[str, ...] = ()
    baselines: tuple[str, ...] = ()
    learned: tuple[str, ...] = ()
    simulated: bool = False
    published: Mapping[str, Sequence[str]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    said: tuple[str, ...] = ()

    @property
    def cases(self) -> tuple[Case, ...]:
        kept = [Case(f"{name}:{keep:g}", keep) for name in self.data for keep in self.keeps]
        disturbed = [Case(name, disturbed=how) for name in self.data for how in self.disturbed]
        return tuple(kept or disturbed or map(Case, self.data))

    def published_in(self, title: str) -> dict[str, Published]:
        """The paper's figures for the rows of one table."""
        parts = ((name.rpartition(": "), figures) for name, figures in self.published.items())
        return {name: Published(*figures) for (where, _, name), figures in parts if where in ("", title)}


def _read_experiment(name: str, table: Mapping[str, Any]) -> Experiment:
    values: dict[str, Any] = {key: tuple(v) if isinstance(v, list) else v for key, v in table.items()}
    return Experiment(name, **values)


TABLES = read_toml(Path(__file__).with_name("experiments.toml"))
EXPERIMENTS = {name: _read_experiment(name, table) for name, table in TABLES.items()}


def find_experiment(name: str) -> Experiment:
    """The experiment of that name."""
    if name not in EXPERIMENTS:
        raise unknown_name(name, "experiment", [*EXPERIMENTS, *MEASURED, "all"])
    return EXPERIMENTS[name]


# Options


def seconds_of(budget: str) -> float | None:
    """Seconds of a budget as "90s", "10m" or "1.5h"; None for "full", the steps of the configs."""
    if budget == "full":
        return None
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([smh])", budget)
    if found is None or not float(found[1]):
        raise InputError(f"--budget {budget}: expected a time as 90s, 10m or 1h, or full")
    return float(found[1]) * {"s": 1.0, "m": 60.0, "h": 3600.0}[found[2]]


@dataclass(frozen=True)
class Plan:
    """The options common to all experiments of a call."""

    out: Path  # each experiment has a folder in it, and goes on where an earlier call left it
    budget: str = "10m"
    """Time of each experiment; its models share it, each learned baseline gets as much as the model beside
    it."""
    seed: int = 0  # seed of training and of the first sampling; the others count up from it
    samplings: int = 3
    limit: int | None = None  # most pairs of each sampling
    model: str | None = None  # weights to use in all rows of BITR; nothing is trained then
    retrain: bool = False  # train, although weights for the data come with bitr
    baselines: Literal["none", "classical", "all"] | None = None
    changes: tuple[str, ...] = ()  # changes of the training configs, as "run.batch=4"
    root: Path | None = None
    listener: Listener = field(default_factory=Silent)
    progress: Progress | None = None

    def __post_init__(self) -> None:
        seconds_of(self.budget)  # raises where it is none
        for change in self.changes:
            is_free = change.partition("=")[0].strip() not in DECIDED
            require(is_free, f"--set {change}: the experiment decides on {' and '.join(DECIDED)}")

    @property
    def classical(self) -> bool:
        return self.baselines != "none"

    @property
    def learned(self) -> bool:
        if self.baselines is None:
            return (seconds_of(self.budget) or float("inf")) > FREELY
        return self.baselines == "all"

    def config(self, data: str) -> TrainConfig:
        """The config that comes with bitr for a data set; where the data is missing, with its stand-in."""
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
        """The test pairs, sampled anew for each number; missing data raises with how to get it."""
        return dataset(data, "test", self.root, self.seed + sampling)[: self.limit]

    def settings(self) -> dict[str, Any]:
        """The settings that a result states."""
        return {
            "bitr": version("bitr"),
            "budget": self.budget,
            "seed": self.seed,
            "samplings": self.samplings,
            "limit": self.limit,
            "model": self.model,
            "set": " ".join(self.changes) or None,
        }


# The weights of an experiment


@dataclass(frozen=True, eq=False)
class Weights:
    """A model in double precision, and the words of tables on its data and training."""

    model: BITR
    made: str
    run: Path | None = None  # the folder of the run, if they were trained
    minutes: float | None = None  # time of the training, if it is known


def weights(config: TrainConfig, name: str, plan: Plan, parts: int) -> Weights:
    """The weights that the plan names; those that come with bitr for this data; or newly trained ones.

    ``name`` is that of shipped weights and of the folder of the run, which has one of so many ``parts`` of
    the budget.
    """
    data = data_words(config, plan)
    if plan.model is not None:
        return Weights(load(plan.model).double(), f"{data}; weights {plan.model}")
    shipped = None if plan.retrain else _shipped(name)
    if shipped is not None:
        minutes = card_of(shipped).get("minutes")
        words = f"weights {shipped}, which come with bitr"
        words += "" if minutes is None else f": trained {minutes:.0f} min"
        return Weights(load(shipped).double(), f"{data}; {words}", minutes=minutes)
    folder, result = trained(config, name, plan, parts)
    words = f"{data}; {training_words(result, config)}"
    return Weights(load(folder).double(), words, folder, result["seconds"] / 60)


def trained(
    config: TrainConfig, name: str, plan: Plan, parts: int, kind: Kind | None = None
) -> tuple[Path, dict[str, Any]]:
    """The folder of the run and its result; a run that was begun goes on, a finished one stays as it is.

    The number of steps that fit into the budget is decided when a run begins.
    """
    require(plan.model is None, "not trained: with --model nothing is")
    folder = plan.out / "runs" / f"{name.replace(':', '-')}-{plan.budget}"
    saved, seconds = folder / "config.toml", seconds_of(plan.budget)
    if saved.is_file():
        begun = from_file(TrainConfig, saved).run
        same = {key: getattr(begun, key) for key in ("steps", "validate_every", "checkpoint_every")}
        chosen = replace(config, run=replace(config.run, **same))
    elif seconds is not None:
        log.info("timing some steps of %s", name)
        chosen = fit_steps(config, seconds / parts, kind)
    else:
        chosen = config
    log.info("training %s on %s: %d steps", name, config.data.name, chosen.run.steps)
    result = train(chosen, folder, resume=True, listener=plan.listener, kind=kind)
    draw_curves(folder, f"{name}: {result['data']}")
    return folder, result


def training_words(result: dict[str, Any], config: TrainConfig) -> str:
    """Time and steps of a training, and how many steps a full one has."""
    minutes, threads = result["seconds"] / 60, result["threads"]
    full = f" of {config.run.steps}" if result["steps"] < config.run.steps else ""
    begun = ", beginning with the weights of the table before" if config.run.init_from else ""
    time = f"{minutes:.0f} min" if minutes >= 10 else f"{minutes:.1f} min"
    return f"trained {time}, {result['steps']}{full} steps, {counted(threads, 'thread')}{begun}"


def data_words(config: TrainConfig, plan: Plan) -> str:
    """The difference from the paper's data, if there is one."""
    pattern, words = STAND_INS.get(config.data.name.partition(":")[0], ("", "the paper's data"))
    return words if not pattern or find_below(data_root(plan.root), pattern) else "the paper's data"


def _shipped(name: str) -> str | None:
    """The name of shipped weights for a data set; those without the option after the colon serve for any."""
    folder, names = resources.files("bitr") / "weights", (name.replace(":", "-"), name.partition(":")[0])
    return next((each for each in names if (folder / f"{each}.safetensors").is_file()), None)


# The steps that fit into a budget


def fit_steps(config: TrainConfig, seconds: float, kind: Kind | None = None) -> TrainConfig:
    """The config with as many steps as fit, timing included, but no more than it has.

    A short run of the ordinary loop is timed, in a folder that is removed. The learning rate falls over the
    chosen steps: a short run is a whole one, not the start of a long one.
    """
    began = time.perf_counter()
    source = sources(config.data)[0]
    epoch = -(-len(source) // config.run.batch)
    probe = PROBE + (epoch if epoch <= SHORT else 0)
    with tempfile.TemporaryDirectory() as folder:
        train(_in_steps(config, probe, probe, log_every=1), Path(folder), listener=Silent(), kind=kind)
        rows = read_log(Path(folder))
    done = [row["seconds"] for row in rows]
    start = max(0.0, time.perf_counter() - began - done[-1])
    # the last record has the validation in it
    step = (done[-2] - done[-2 - SETTLED]) / SETTLED
    validation = max(0.0, done[-1] - done[-2] - step)
    once = 0.0
    if epoch > SHORT:
        waiting = sum(row["waiting"] for row in rows[-1 - SETTLED : -1]) / SETTLED
        once = step * waiting * _share_done_once(source)
    left = USED * (seconds - time.perf_counter() + began) - start - VALIDATIONS * validation
    slow = min(epoch, left / step)
    steps = min(config.run.steps, max(1, int(slow + (left - slow * step) / (step - once))))
    return _in_steps(config, steps, -(-steps // VALIDATIONS))


def _in_steps(config: TrainConfig, steps: int, every: int, **changes: Any) -> TrainConfig:
    run = replace(config.run, steps=steps, validate_every=every, checkpoint_every=every, **changes)
    return replace(config, run=run)


def _share_done_once(source: Source) -> float:
    """Share of a pair's time in the first epoch that later epochs do not take."""
    rows = [source.row((2 * i + 1) * len(source) // (2 * TIMED)) for i in range(TIMED)]
    opened, took = source.open(0), []
    for seed in (1, 2):
        pairs, began = reseed(opened, seed), time.perf_counter()
        for row in rows:
            pairs[row]
        took.append(time.perf_counter() - began)
    return max(0.0, 1 - took[1] / took[0])
