"""The work of ``bitr evaluate``: from names to a report, and from a report to a folder."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from bitr.assembly.assemble import Settings
from bitr.assembly.network import Network
from bitr.cli.console import Counter
from bitr.data import AssemblyPair, dataset, is_name
from bitr.errors import InputError
from bitr.evaluation import charts
from bitr.evaluation.evaluate import Evaluation, evaluate, evaluate_predictions
from bitr.evaluation.method import PERTURBATIONS, Method, engine, refined, under
from bitr.evaluation.report import Repeated, Report, ranked
from bitr.files import check_target, whole_file
from bitr.io import as_points
from bitr.refine import REFINEMENTS
from bitr.show import MOST_SHOWN, Scene, write_png

SAMPLINGS = 3
JSON, TABLE, HISTOGRAM, RECALL, EXAMPLE = (
    "evaluation.json",
    "table.md",
    "rotation_error.png",
    "recall.png",
    "median_pair.png",
)

log = logging.getLogger("bitr")


@dataclass(frozen=True)
class Job:
    """What to evaluate on, and how often."""

    dataset: str
    split: str
    seed: int
    samplings: int | None
    limit: int | None
    settings: Settings
    refine: str
    perturb: bool
    root: Path | None

    def pairs(self, sampling: int) -> Sequence[AssemblyPair]:
        return dataset(self.dataset, self.split, self.root, self.seed + sampling)[: self.limit]

    def measured(self, checkpoint: str, on_row: Counter) -> Report:
        """A checkpoint on every sampling, and on every perturbation of it."""
        log.info("loading the model %s", checkpoint)
        network = Network.of(checkpoint)
        named = is_name(self.dataset)
        times = self.samplings or (SAMPLINGS if named else 1)
        tests = tuple(PERTURBATIONS) if self.perturb else ("original",)
        found: dict[str, list[Evaluation]] = {test: [] for test in tests}
        for sampling in range(times):
            pairs = self.pairs(sampling)
            method = self.method(network, sampling)
            for number, test in enumerate(tests):
                log.info("%s, sampling %d of %d, %s", self.dataset, sampling + 1, times, test)
                done = (sampling * len(tests) + number) * len(pairs)
                rng = np.random.default_rng([self.seed + sampling, number])
                on_pair = _shifted(on_row, done, times * len(tests) * len(pairs))
                found[test].append(evaluate(under(method, test, rng), pairs, on_pair))
        names = [f"{network.name}, {test}" for test in tests] if self.perturb else [network.name]
        rows = tuple(Repeated(name, tuple(each)) for name, each in zip(names, found.values(), strict=True))
        _refuse_if_all_failed(rows[0].pooled, self.dataset)
        return Report(
            self._settings(
                checkpoint=network.name,
                samplings=times,
                limit=self.limit,
                method="model" if self.settings.fast else self.settings.method,
                points=self.settings.points or network.points,
                refine=self.refine,
            ),
            rows,
        )

    def method(self, network: Network, sampling: int) -> Method:
        """The network as it is evaluated: the path of ``bitr assemble``."""
        method = engine(network, replace(self.settings, seed=self.seed + sampling))
        return method if self.refine == "none" else refined(method, self.refine)

    def scored(self, predictions: Path, on_row: Counter) -> Report:
        """A file of poses, on the pairs of the seed."""
        log.info("scoring %s", predictions)
        found = evaluate_predictions(predictions, self.pairs(0), on_row)
        _refuse_if_all_failed(found, self.dataset)
        return Report(self._settings(predictions=str(predictions)), (Repeated(found.method, (found,)),))

    def _settings(self, **more: Any) -> dict[str, Any]:
        own = {"bitr": version("bitr"), "dataset": self.dataset, "split": self.split, "seed": self.seed}
        return own | more


def _shifted(on_row: Counter, done: int, total: int) -> Callable[[int, int], None]:
    return lambda here, _: on_row(done + here, total)


def _refuse_if_all_failed(evaluation: Evaluation, name: str) -> None:
    if evaluation.failed == len(evaluation.scores):
        first = evaluation.scores[0]
        raise InputError(f"{name}: none of the {len(evaluation.scores)} pairs was answered; {first.failure}")


def check_refinement(name: str) -> None:
    """Raise where there is none of that name."""
    if name not in REFINEMENTS:
        raise InputError(f"--refine {name}: expected one of {', '.join(REFINEMENTS)}")


def check_folder(folder: Path | None, *, force: bool) -> None:
    """Raise when the files cannot be written, before any work is done for them."""
    if folder is None:
        return
    if find_spec("matplotlib") is None:
        raise InputError(f'{folder}: plots need matplotlib, which is not installed: pip install "bitr[viz]"')
    if folder.is_dir():
        for name in (JSON, TABLE, HISTOGRAM, RECALL, EXAMPLE):
            check_target(folder / name, force=force)
    else:
        check_target(folder, force=False)


def write_folder(folder: Path, report: Report, job: Job, *, force: bool) -> list[Path]:
    """The JSON, the table, Δr as a histogram and as a recall curve, and the median pair before and after."""
    folder.mkdir(exist_ok=True)
    for name, text in ((JSON, report.to_json() + "\n"), (TABLE, report.to_markdown())):
        with whole_file(folder / name, force=force) as temporary:
            temporary.write_text(text, encoding="utf-8")
    errors = {row.name: row.pooled.values("rotation_error_deg") for row in report.rows}
    charts.rotation_histogram(errors).write(folder / HISTOGRAM, force=force)
    charts.recall_curve(errors).write(folder / RECALL, force=force)
    write_png(folder / EXAMPLE, _median_pair(report.rows[0], job), force=force)
    return [folder / name for name in (JSON, TABLE, HISTOGRAM, RECALL, EXAMPLE)]


def _median_pair(row: Repeated, job: Job) -> Scene:
    """The pair whose Δr is in the middle: neither the best nor the worst is what to expect."""
    answered = [each for each in ranked(row) if each.score.transformation is not None]
    median = answered[len(answered) // 2]
    pair, pose = job.pairs(median.sampling)[median.number], median.score.transformation
    assert pose is not None
    source, reference = (as_points(side, MOST_SHOWN, seed=0).points for side in (pair.source, pair.reference))
    return Scene(source, reference, pose, title=pair.id)
