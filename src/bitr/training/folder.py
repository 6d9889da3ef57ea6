"""The folder of a run: checkpoints, written whole and checked on reading, the log, and whoever listens."""

from __future__ import annotations

import csv
import io
import json
import logging
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor, nn

from bitr.errors import InputError, require
from bitr.files import only_one, whole_file, write_text
from bitr.model import checkpoint

FOLDER = "checkpoints"
PATTERN = "step-*.safetensors"
LOCK = "training.lock"  # names the process that trains in the folder
LOG = "log.csv"
FREE = {
    *("data.workers", "data.root", "data.seen"),
    *("run.device", "run.keep", "run.log_every", "run.checkpoint_every"),
}
"""Settings that may change when a run goes on: they do not change the weights."""
METRICS = ("loss", "rotation_deg", "displacement", "nearest_deg")
"""Loss, Δr, displacement over the pair's size, and Δr of the nearest head, of each pair."""
TRAIN, VAL, CHANCE = "#9aa4b1", "#d1462f", "#33363a"
CHANCE_DEG = 126.5  # mean angle of a rotation drawn uniformly

log = logging.getLogger("bitr")


@dataclass
class Progress:
    """How far a run has come."""

    step: int = 0
    """Steps done. Epoch and place in it follow from this number."""
    seconds: float = 0.0
    """Training time of all sittings together."""
    best_loss: float = float("inf")
    best_step: int = 0
    best: dict[str, float] = field(default_factory=dict)
    """The best validation."""
    worse: int = 0
    """Validations since the best one."""
    skipped: int = 0
    skipped_in_a_row: int = 0
    meter: list[float] = field(default_factory=list)
    """State of the meter since the last record."""


@dataclass(frozen=True)
class Parts:
    """The modules and optimisers that change while training."""

    model: nn.Module
    average: nn.Module
    optimizers: tuple[torch.optim.Optimizer, ...]

    def optimizer_of(self, parameter: nn.Parameter) -> torch.optim.Optimizer:
        """The one that moves it."""
        groups = ((each, group["params"]) for each in self.optimizers for group in each.param_groups)
        return next(each for each, moved in groups if any(parameter is other for other in moved))


@contextmanager
def own_folder(out: Path, resume: bool) -> Iterator[None]:
    """Makes the folder of a run for this process alone; refuses one that holds a run, unless to resume."""
    require(out.is_dir() or not out.exists(), f"{out}: is a file, expected a folder for the run")
    try:
        (out / FOLDER).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{out}: cannot be made ({error.strerror}); choose another --output") from error
    require(os.access(out, os.W_OK), f"{out}: cannot be written to; choose another folder with -o")
    with only_one(out / LOCK, "is training here; wait for it to end, or choose another --output"):
        begun = f"{out}: holds a run already; go on with --resume, or choose another folder with -o"
        require(resume or not any((out / FOLDER).glob(PATTERN)), begun)
        for unfinished in (out / FOLDER).glob(f".{PATTERN}"):  # left by a run that was killed
            unfinished.unlink()
        yield


def check_same_run(found: dict[str, Any], asked: dict[str, Any], where: Path) -> None:
    """Refuses to go on with settings that would have led to other weights."""
    for table, values in asked.items():
        for key, value in values.items():
            before = found.get(table, {}).get(key)
            if f"{table}.{key}" not in FREE and before != value:
                raise InputError(
                    f"{where}: was begun with {table}.{key} = {before!r}, and {value!r} is asked for; a run "
                    "goes on with the settings it began with: choose another --output for a new one"
                )


def pack(parts: Parts, progress: Progress, config: dict[str, Any]) -> bytes:
    """A checkpoint: weights, their average, optimiser, random states, progress and config, with a hash."""
    tensors = {f"model/{k}": v for k, v in parts.model.state_dict().items()}
    tensors |= {f"average/{k}": v for k, v in parts.average.state_dict().items()}
    for name, parameter in parts.model.named_parameters():
        state = parts.optimizer_of(parameter).state.get(parameter, {})
        tensors |= {f"optimizer/{k}/{name}": v for k, v in state.items()}
    tensors["random/cpu"] = torch.get_rng_state()
    if torch.cuda.is_available():
        tensors["random/cuda"] = torch.cuda.get_rng_state()
    content = json.dumps({"progress": asdict(progress), "config": config})
    return checkpoint.pack(tensors, {"format": checkpoint.RUN_FORMAT, "content": content})


def read(data: bytes, name: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Content (progress and config) and tensors of a checkpoint; refuses bytes that are not whole."""
    what = "checkpoint of a training run"
    metadata, tensors = checkpoint.unpack(data, name, checkpoint.RUN_FORMAT, what)
    return json.loads(metadata["content"]), tensors


def restore(content: dict[str, Any], tensors: dict[str, Tensor], parts: Parts) -> Progress:
    """Puts what was read in place."""
    parts.model.load_state_dict(_below("model/", tensors))
    parts.average.load_state_dict(_below("average/", tensors))
    parameters = dict(parts.model.named_parameters())
    for key, value in _below("optimizer/", tensors).items():
        kind, _, name = key.partition("/")
        parameter = parameters[name]
        parts.optimizer_of(parameter).state[parameter][kind] = value.to(parameter.device)
    torch.set_rng_state(tensors["random/cpu"])
    if "random/cuda" in tensors and torch.cuda.is_available():
        torch.cuda.set_rng_state(tensors["random/cuda"])
    return Progress(**content["progress"])


def _below(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {key.removeprefix(prefix): value for key, value in tensors.items() if key.startswith(prefix)}


def write(folder: Path, data: bytes, step: int, keep: int) -> Path:
    """Adds a checkpoint to the folder, and then removes the oldest beyond ``keep``."""
    target = folder / f"step-{step:09d}.safetensors"
    with whole_file(target, force=True) as temporary:
        temporary.write_bytes(data)
    for old in sorted(folder.glob(PATTERN))[:-keep]:
        old.unlink()
    return target


def newest(folder: Path) -> tuple[bytes | None, list[str]]:
    """The newest whole checkpoint, and a line for each damaged one, which is passed over and left."""
    notes = []
    for path in sorted(folder.glob(PATTERN), reverse=True):
        data = path.read_bytes()
        try:
            read(data, path)
        except InputError as error:
            notes.append(f"{error}; going on from the one before")
        else:
            return data, notes
    if notes:
        raise InputError(
            f"{folder}: none of its {len(notes)} checkpoints can be read; the newest: {notes[0]}"
        )
    return None, []


@dataclass(frozen=True)
class Step:
    """The outcome of a step."""

    means: Float[Tensor, " 4"]
    """``METRICS`` over the global batch."""
    gradient_norm: float
    taken: bool
    stop: bool
    """True if some process was asked to stop."""


@dataclass(frozen=True)
class Record:
    """Means since the record before; those of ``val`` only where a validation was made."""

    step: int
    epoch: float
    seconds: float
    loss: float
    rotation_deg: float
    displacement: float
    nearest_deg: float
    """Δr of the head that is nearest to the truth: a bound for better scores."""
    rate: float
    gradient_norm: float
    samples_per_second: float
    waiting: float
    """Part of the time in which the model waited for pairs."""
    skipped: int
    """Steps left out so far since their loss or gradient was not finite."""
    val_loss: float | None = None
    val_rotation_deg: float | None = None
    val_median_deg: float | None = None
    val_displacement: float | None = None
    val_nearest_deg: float | None = None


COLUMNS = [each.name for each in fields(Record)]


@runtime_checkable
class Listener(Protocol):
    """Shows a run to a person."""

    def started(self, step: int, steps: int, data: str) -> None:
        return

    def recorded(self, record: Record) -> None:
        return

    def noted(self, text: str) -> None:
        return


class Silent(Listener):
    """A listener that shows nothing; what is noted goes to the log of the program."""

    def noted(self, text: str) -> None:
        log.warning(text)


class Meter:
    """Adds up steps; times are wall-clock seconds. A meter goes on from the ``state`` of another."""

    def __init__(self, state: Sequence[float] = ()) -> None:
        self.steps, self.taken, self.waited, seconds, *sums = state or [0.0] * 9
        self.start = time.perf_counter() - seconds
        self.sums = torch.tensor(sums, dtype=torch.float64)

    def state(self) -> list[float]:
        return [self.steps, self.taken, self.waited, self.seconds, *self.sums.tolist()]

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Time in here counts as waiting for pairs."""
        start = time.perf_counter()
        yield
        self.waited += time.perf_counter() - start

    def add(self, step: Step) -> None:
        self.steps += 1
        if step.taken:
            self.taken += 1
            self.sums += torch.tensor([*step.means.tolist(), step.gradient_norm], dtype=torch.float64)

    @property
    def seconds(self) -> float:
        return time.perf_counter() - self.start

    def means(self) -> dict[str, float]:
        """Means over the steps that were taken, by the names of a record; NaN where none was."""
        means = dict(zip((*METRICS, "gradient_norm"), (self.sums / self.taken).tolist(), strict=True))
        return means | {"waiting": self.waited / self.seconds}


class RunLog:
    """The CSV and TensorBoard's events of a run, cut back to where the run goes on from."""

    def __init__(self, folder: Path, step: int) -> None:
        self.path = folder / LOG
        rows = [row for row in read_log(folder) if row["step"] <= step] if self.path.exists() else []
        write_text(self.path, ",".join(COLUMNS) + "\n" + _lines(rows), force=True)
        self.board = _board(folder / "tensorboard", step)

    def add(self, record: Record) -> None:
        values = asdict(record)
        with self.path.open("a", encoding="utf-8") as file:
            file.write(_lines([values]))
        if self.board is not None:
            for name, value in values.items():
                if name != "step" and value is not None:
                    self.board.add_scalar(name, value, record.step)

    def close(self) -> None:
        if self.board is not None:
            self.board.close()


def read_log(folder: Path) -> list[dict[str, Any]]:
    """The records of a run's CSV, empty cells as None."""
    lines = (folder / LOG).read_text(encoding="utf-8").splitlines(keepends=True)
    whole = [line for line in lines if line.endswith("\n")]  # a full disk may cut the last one off

    def number(text: str) -> float | int | None:
        return int(text) if text.isdigit() else float(text) if text else None

    return [{key: number(text) for key, text in row.items()} for row in csv.DictReader(whole)]


def _lines(rows: list[dict[str, Any]]) -> str:
    out = io.StringIO()
    csv.DictWriter(out, COLUMNS, lineterminator="\n").writerows(rows)
    return out.getvalue()


def _board(folder: Path, step: int) -> Any:
    """TensorBoard's writer, or None where it is not installed."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        return None
    return SummaryWriter(str(folder), purge_step=step + 1)


def draw_curves(folder: Path, title: str) -> Path:
    """Loss, Δr and displacement against steps, training and held-out pairs; needs matplotlib (``viz``)."""
    from matplotlib.figure import Figure

    rows = read_log(folder)
    figure = Figure(figsize=(11, 3.4), layout="constrained")
    axes = figure.subplots(1, 3)

    def draw(ax: Any, name: str, style: str, **look: Any) -> None:
        there = [(row["step"], row[name]) for row in rows if row[name] is not None]
        ax.plot([step for step, _ in there], [value for _, value in there], style, **look)

    names = ("loss", "rotation_deg", "displacement")
    labels = ("loss", "Δr (degrees)", "displacement (of the pair's size)")
    for ax, name, label in zip(axes, names, labels, strict=True):
        draw(ax, name, "-", color=TRAIN, linewidth=1, label="training")
        draw(ax, f"val_{name}", "o-", color=VAL, markersize=3, label="held out, averaged weights")
        ax.set(xlabel="step", ylabel=label)
        ax.spines[["top", "right"]].set_visible(False)
    draw(axes[1], "val_median_deg", "--", color=VAL, linewidth=1, label="held out, median")
    axes[1].axhline(CHANCE_DEG, color=CHANCE, linewidth=0.8, linestyle=":", label="chance")
    for ax in axes[:2]:
        ax.legend(frameon=False, fontsize=8)
    for ax in axes:
        ax.set_ylim(bottom=0)
    figure.suptitle(title, fontsize=10)
    with whole_file(folder / "curves.png", force=True) as temporary:
        figure.savefig(temporary, dpi=150)
    return folder / "curves.png"
