"""All experiments one after the other, and a table of what each came to."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from bitr.errors import InputError
from bitr.evaluation.report import Repeated, table
from bitr.evaluation.reproduce import folder
from bitr.evaluation.reproduce.experiment import Experiment
from bitr.evaluation.reproduce.paper import EXPERIMENTS
from bitr.evaluation.reproduce.plan import Plan
from bitr.evaluation.reproduce.result import Result
from bitr.training import TrainingError


@dataclass(frozen=True, eq=False)
class Every:
    """The results by the names of the experiments; where there is none, the reason."""

    found: dict[str, Result | str]

    def to_json(self) -> str:
        """One JSON object in one line, plain ASCII."""
        told = {
            name: {"not measured": found} if isinstance(found, str) else found.to_dict()
            for name, found in self.found.items()
        }
        return json.dumps(told, allow_nan=False)

    def to_markdown(self) -> str:
        """A row for each table of each experiment, its first one; then the tables themselves."""
        rows = [row for name, found in self.found.items() for row in _rows(name, found)]
        whole = [found.to_markdown() for found in self.found.values() if not isinstance(found, str)]
        return "\n\n".join(["# All experiments", table(rows), *whole])


def _rows(name: str, found: Result | str) -> Iterator[Repeated]:
    if isinstance(found, str):
        yield Repeated(name, (), f"not measured: {found}")
        return
    for each in found.tables:
        where = name if len(found.tables) == 1 else f"{name}, {each.title}"
        yield replace(each.rows[0], name=f"{where}: {each.rows[0].name}")


def run_one(experiment: Experiment, plan: Plan) -> tuple[Result, list[Path]]:
    """The result and the files that it was written to, in the experiment's own folder below ``plan.out``."""
    own = replace(plan, out=plan.out / experiment.name)
    folder.check(own.out)
    result = experiment.run(experiment, own)
    return result, folder.write(own.out, result)


def run_all(plan: Plan) -> tuple[Every, list[Path]]:
    """Every experiment; one that lacks its data, or whose training fails, is told and passed over."""
    found: dict[str, Result | str] = {}
    for name, experiment in EXPERIMENTS.items():
        try:
            found[name] = run_one(experiment, plan)[0]
        except (InputError, TrainingError) as error:
            found[name] = str(error)
    every = Every(found)
    files = [plan.out / folder.TABLE, plan.out / folder.JSON]
    for path, text in zip(files, (every.to_markdown(), every.to_json() + "\n"), strict=True):
        folder.write_text(path, text)
    return every, files
