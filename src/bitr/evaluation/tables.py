"""The tables of BENCHMARK.md: rows from results, kept as Markdown files whose first line is their command.

A file is written row by row: a row takes the place of the one with the same first cell. ``bitr reproduce``
writes into a folder of its own; ``python -m benchmarks.tables`` brings such files into BENCHMARK.md.
"""

from __future__ import annotations

import json
import logging
import math
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple, replace
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from bitr.assembly.network import Network
from bitr.errors import InputError, require
from bitr.evaluation import speed
from bitr.evaluation.evaluate import evaluate
from bitr.evaluation.experiment import Plan
from bitr.evaluation.method import engine
from bitr.evaluation.metrics import CHANCE_MEAN, RIGHT, chance_quantile
from bitr.evaluation.puzzles import STUDIES, Job, Solved, solve_study, summarise
from bitr.evaluation.report import NONE, Repeated, table_lines
from bitr.files import write_text
from bitr.testing import KINDS, PAPER_LAWS, SETTINGS, Laws, measured_laws, worst

if TYPE_CHECKING:
    from bitr.evaluation.reproduce import Result, Table

COMMANDS = {
    "laws": "bitr reproduce laws",
    "speed": "bitr reproduce speed",
    "paper": "bitr reproduce toy, airplane, inter-class, indoor, outdoor, fragments, manipulation",
    "unseen": "bitr reproduce unseen",
    "engine": "bitr reproduce engine",
    "puzzles": "bitr reproduce puzzles",
}
"""The command of each table; the rows of the paper's experiments and of the engine have their own, too."""
HEADS = {
    "laws": ("model", "Δ_bi", "Δ_swap", "Δ_scale"),
    "speed": ("model, points a cloud × pairs", "forward, units (ms)", "with backward, units (ms)"),
    "paper": ("experiment", "command", "minutes", "paper", "best other method", "BITR"),
    "engine": ("pairs", "command", "pairs", "mean", "median", "right", "within 5°"),
    "puzzles": ("on", "puzzles", "pieces right", "mean pairwise error", "seconds a puzzle"),
}
ENGINE = {
    "shapes:cut": ("generated cuts", 200),
    "openshapes:cut": ("open shapes, cut", 200),
    "shapes:meshes": ("classic meshes, cut and cropped", None),
    "shapes:crop": ("generated crops", 80),
    "shapes:noisy": ("generated crops, 1% noise", 50),
    "openshapes:scan": ("open shapes, scanned from two sides", 50),
    "indoor": ("rooms, RedKitchen", None),
    "indoor:low": ("rooms, RedKitchen, overlap 10 to 30%", 40),
    "winebottle": ("wine bottles†, two fragments", None),
    "shapes:fracture": ("generated fractures", 160),
    "openshapes:fracture": ("open-shape fractures", 80),
}
"""Data sets of the table of the default command: label, and number of pairs; None for all."""
PUZZLES = {
    "cut-3": "shells cut into 3",
    "cut-5": "shells cut into 5",
    "cut-8": "shells cut into 8",
    "foreign": "4 pieces of 5 and a foreign one",
    "fracture": "broken solids, 3 to 8 pieces",
    "time": "8 pieces of 5,000 points",
    "rooms": "RedKitchen, 10 fragments",
    "multiway": "RedKitchen, 10 fragments, Open3D multiway",
}
"""Studies of the table of puzzles, and their labels."""
SPEED = (
    *(("default", 1024, 1), ("paper", 1024, 1), ("default", 4096, 1)),
    *(("default", 65536, 1), ("default", 1024, 8)),
)
"""Model, points of a cloud, and pairs at a time."""
SUCCESS = "success in simulation"  # name of the share of answers that work
OURS, SEES, MANNER = ("BITR", "bitr assemble"), "looks at the answer", "in the manner of "
"""Beginnings of the names of our rows, the words of a row that is no method, and those before a name."""

Row = tuple[str, ...]

log = logging.getLogger("bitr")


# Files


def cells_of(text: str) -> list[Row]:
    """The cells of a table in Markdown, its head among them and the line below it not."""
    lines = [line for line in text.splitlines() if line.startswith("|") and not line.startswith("| ---")]
    return [tuple(cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip()[1:-1])) for line in lines]


def write_table(folder: Path, name: str, head: Sequence[str], rows: Iterable[Sequence[str]]) -> Path:
    """Write rows into the table of that name, below its command; rows that are there stay.

    A row takes the place of the one with the same first cell, and new ones come last. Rows below another head
    are of an older table, and go.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.md"
    old_head, *old = cells_of(path.read_text(encoding="utf-8")) if path.is_file() else [()]
    fresh = {row[0]: tuple(row) for row in rows}
    kept = [fresh.pop(row[0], row) for row in old if old_head == tuple(head)]
    lines = [f"<!-- {COMMANDS[name]} -->", *table_lines(head, [*kept, *fresh.values()])]
    write_text(path, "\n".join(lines) + "\n", force=True)
    return path


def as_json(name: str, text: str) -> str:
    """A table as one JSON object in one line."""
    head, *rows = cells_of(text)
    return json.dumps({"table": name, "head": head, "rows": rows})


# Tables that are measured here


def run_table(name: str, plan: Plan) -> tuple[str, list[Path]]:
    """Measure a table of ``MEASURED``: its text, and its file below the folder ``tables`` of the plan."""
    rows = {"laws": law_rows, "speed": speed_rows, "engine": engine_rows, "puzzles": puzzle_rows}[name]
    written = [write_table(plan.out / "tables", name, HEADS[name], [row]) for row in rows(plan)]
    require(written, f"{name}: none of its data is here, see bitr data list")
    return written[-1].read_text(encoding="utf-8"), written[-1:]


def law_rows(plan: Plan) -> Iterator[Row]:
    """The largest law errors of untrained models, setting by setting."""
    for setting in SETTINGS:
        log.info("trying the laws: %s", setting)
        yield str(setting), *law_cells(worst([laws for _, _, laws in measured_laws(setting)]))
    yield "the paper's table, one trained model, scaled by 2", *law_cells(PAPER_LAWS)


def law_cells(laws: Laws) -> Row:
    return tuple(f"{error:.0e}" for error in astuple(laws))


def speed_rows(plan: Plan) -> Iterator[Row]:
    """Time of a pass, in units of a matrix product and in milliseconds."""
    for name, points, batch in SPEED:
        log.info("timing %s with %d points", name, points)
        found = speed.measure_row(name, speed.CONFIGS[name](), points, batch, speed.FULL)
        *_, forward, step, _ = found.cells()
        yield f"{KINDS[name]}, {points} × {batch}", str(forward), str(step)


def engine_rows(plan: Plan) -> Iterator[Row]:
    """The default command on test pairs; a data set that is not here is passed over, and one that was
    measured with the same settings is not measured again."""
    model = plan.model or "default"
    network = Network.of(model)
    for data, (_, most) in ENGINE.items():
        settings = plan.settings() | {
            "checkpoint": model,
            "dataset": data,
            "limit": min((n for n in (most, plan.limit) if n is not None), default=None),
            "samplings": 1,
        }
        try:
            pairs = replace(plan, limit=settings["limit"]).pairs(data, 0)
        except InputError as error:
            log.warning("%s", error)
            continue
        kept = plan.out / "engine" / f"{data.replace(':', '-')}.json"
        found = json.loads(kept.read_text(encoding="utf-8")) if kept.is_file() else {}
        if {key: found.get(key) for key in settings} != settings:
            log.info("evaluating %s", data)
            measured = Repeated(network.name, (evaluate(engine(network), pairs, plan.progress),))
            found = settings | {"rows": [measured.to_dict()]}
            kept.parent.mkdir(parents=True, exist_ok=True)
            write_text(kept, json.dumps(found, allow_nan=False) + "\n", force=True)
        yield engine_row(found)


def engine_row(found: Mapping[str, Any]) -> Row:
    """The row of one data set, from what ``engine_rows`` keeps or ``bitr evaluate -o`` writes."""
    data, pooled = found["dataset"], found["rows"][0]["pooled"]
    require(data in ENGINE, f"{data}: is not in the table, expected one of {', '.join(ENGINE)}")
    limit, seed = (f" --{key} {found[key]}" if found.get(key) else "" for key in ("limit", "seed"))
    command = f"`bitr evaluate {found['checkpoint']} {data}{limit} --samplings {found['samplings']}{seed}`"
    degrees = (f"{pooled['rotation_error_deg'][key]:.1f}°" for key in ("mean", "median"))
    shares = (f"{pooled[key]:.1%}" for key in ("right", "within_5_deg"))
    return ENGINE[data][0], command, str(pooled["pairs"]), *degrees, *shares


def puzzle_rows(plan: Plan) -> Iterator[Row]:
    """Puzzles of many pieces of the test split; a study whose data is not here is passed over, and pairs that
    were compared are not compared again."""
    model, workers = plan.model or "default", os.cpu_count() or 1
    job = Job(plan.out / "puzzles", seed=plan.seed, root=plan.root, model=model, workers=workers)
    for name, label in PUZZLES.items():
        log.info("solving puzzles: %s", label)
        try:
            solved = list(solve_study(name, min(plan.limit or STUDIES[name].count, STUDIES[name].count), job))
        except InputError as error:
            log.warning("%s", error)
            continue
        yield label, *puzzle_cells(solved)


def puzzle_cells(solved: Sequence[Solved]) -> Row:
    """The cells of one study behind its label; a single puzzle has its worst pair in it."""
    told = summarise([score for each in solved for score in each.scores])
    right, error = f"{told['pieces_right']:.0%}", f"{told['pair_degrees']:.1f}°"
    if not math.isnan(told["kept_out"]):
        right += f", foreign kept out {told['kept_out']:.0%}"
    if len(solved) == 1:
        worst = f"{told['worst_degrees']:.1f}° and {told['worst_shift']:.3f} {solved[0].case.unit}".rstrip()
        error += f", worst {worst}"
    return str(len(solved)), right, error, f"{median(each.found.seconds for each in solved):.0f}"


# Tables from the experiments of the paper


def write_result(folder: Path, result: Result, plan: Plan) -> list[Path]:
    """Write what an experiment adds to the tables of BENCHMARK.md, if it does."""
    if result.experiment.name == "unseen":
        return [write_table(folder, "unseen", *_unseen(result))]
    numbers = range(len(result.tables)) if result.experiment.labels else ()
    rows = [paper_row(result, number, plan) for number in numbers]
    return [write_table(folder, "paper", HEADS["paper"], rows)] if rows else []


def paper_row(result: Result, number: int, plan: Plan) -> Row:
    """One table of an experiment in one row: the paper, the best other method, and ours."""
    experiment, table = result.experiment, result.tables[number]
    ours, others = table.rows[0], _others(table)
    sign = "" if ours.made.startswith("the paper's data") else "†"
    refined = [row for row in table.rows if row.name.startswith(f"{ours.name} + ")]
    if SUCCESS in ours.shares:  # degrees of others say nothing beside it
        reached, others = f"{ours.shares[SUCCESS]:.0%}", []
    else:
        reached = "; ".join(
            [_degrees(ours), *(f"{_last(row)} {_degrees(row).partition(',')[0]}" for row in refined)]
        )
    said = experiment.said[number] if experiment.said else ""
    published = [(row, row.published.rotation) for row in (ours, *refined) if row.published is not None]
    if published:
        said = "; ".join(f"{_last(row)} {_first(text)}".strip() for row, text in published)
    return (
        experiment.labels[number].format(sign),
        f"`bitr reproduce {experiment.name}{_options(plan)}`",
        NONE if table.minutes is None else f"{table.minutes:.1f}",
        said,
        min(others)[1] if others else "",
        reached,
    )


def _options(plan: Plan) -> str:
    """The options that make the row again: the budget, and what differs from the defaults."""
    given = {name: getattr(plan, name) for name in ("model", "limit", "samplings", "seed", "baselines")}
    told = {name: value for name, value in given.items() if value != getattr(Plan, name)}
    options = [f"--budget {plan.budget}", *["--train"] * plan.retrain]
    options += [f"--{name} {value}" for name, value in told.items()]
    return "".join(f" {each}" for each in [*options, *(f"--set {change}" for change in plan.changes)])


def _others(table: Table) -> list[tuple[float, str]]:
    """Mean errors and words of methods that are not ours: measured here, else as the paper prints them."""
    found = []
    for row in table.rows:
        if row.name.startswith(OURS) or row.made == SEES:
            continue
        if (summary := row.pooled.summary("rotation_error_deg")) is not None:
            found.append((summary.mean, f"{row.name} {_degrees(row)}"))
        elif row.published is not None and (printed := re.match(r"[\d.]+", row.published.rotation)):
            name = row.name.removeprefix(MANNER)
            found.append((float(printed[0]), f"{name} {printed[0]}° (in the paper)"))
    return found


def _unseen(result: Result) -> tuple[Row, list[Row]]:
    """Methods by data sets: mean and median error, and the share of all pairs that are right."""
    names = dict.fromkeys(row.name for table in result.tables for row in table.rows if row.samplings)
    rows = [(name, *(_three(table, name) for table in result.tables)) for name in names]
    guess = f"{CHANCE_MEAN:.1f}°, {chance_quantile(0.5):.1f}°"
    head = (f"mean Δr, median, {RIGHT}", *result.experiment.labels)
    return head, [*rows, ("chance", guess, *[""] * (len(result.tables) - 1))]


def _three(table: Table, name: str) -> str:
    row = next((each for each in table.rows if each.name == name and each.samplings), None)
    if row is None or (found := row.pooled.summary("rotation_error_deg")) is None:
        return NONE
    return f"{found.mean:.1f}°, {found.median:.1f}°, {row.pooled.right:.0%}"


def _degrees(row: Repeated) -> str:
    found = row.pooled.summary("rotation_error_deg")
    return NONE if found is None else f"{found.mean:.1f}°, median {found.median:.1f}°"


def _last(row: Repeated) -> str:
    """ "OT" of "BITR + OT", and nothing of the model alone."""
    return row.name.rpartition(" + ")[2] if " + " in row.name else ""


def _first(printed: str) -> str:
    """ "17.1°" of "17.1 (6.0)"."""
    found = re.match(r"[\d.]+", printed)
    return f"{found[0]}°" if found else printed
