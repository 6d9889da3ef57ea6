"""Evaluations side by side, each on several samplings: as JSON and as a table."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bitr.evaluation.evaluate import Evaluation
from bitr.evaluation.metrics import BENCHMARKS, chance
from bitr.evaluation.score import ERRORS

NONE = "–"


@dataclass(frozen=True, eq=False)
class Repeated:
    """One method on the same data set, sampled anew each time."""

    name: str
    samplings: tuple[Evaluation, ...]

    @property
    def pooled(self) -> Evaluation:
        """All pairs of all samplings as one evaluation."""
        return Evaluation(self.name, tuple(score for each in self.samplings for score in each.scores))

    def between(self, error: str) -> float | None:
        """Standard deviation over the samplings, by n − 1, of the mean error; None for fewer than two."""
        found = [each.summary(error) for each in self.samplings]
        means = [summary.mean for summary in found if summary is not None]
        return float(np.std(means, ddof=1)) if len(means) > 1 else None

    def to_dict(self) -> dict[str, Any]:
        pooled = self.pooled.to_dict()
        del pooled["scores"]  # they are those of the samplings
        return {
            "name": self.name,
            "pooled": pooled,
            "std_between_samplings": {error: self.between(error) for error in ERRORS},
            "samplings": [each.to_dict() for each in self.samplings],
        }


@dataclass(frozen=True, eq=False)
class Report:
    """What was measured, and how."""

    settings: Mapping[str, Any]
    rows: tuple[Repeated, ...]

    def to_json(self) -> str:
        """One JSON object in one line, plain ASCII; what is not known is null."""
        level = {"mean": chance.MEAN_DEG, "std": chance.STD_DEG, "median": chance.chance_quantile(0.5)}
        found = {
            **self.settings,
            "chance": {"rotation_error_deg": level},
            "rows": [row.to_dict() for row in self.rows],
        }
        return json.dumps(found, allow_nan=False)

    def to_markdown(self) -> str:
        """The settings, the table and what its cells mean."""
        told = ", ".join(f"{key} {value}" for key, value in self.settings.items() if value is not None)
        return f"{told}\n\n{table(self.rows)}\n\n{NOTES}\n"


NOTES = (
    "Errors are mean ± standard deviation over the pairs that were answered, and in brackets the standard "
    "deviation of the mean between samplings. Recalls are shares of all pairs, in brackets RRE and RTE of "
    "the accepted ones. Chance: a uniform rotation, for shapes without symmetry."
)


def table(rows: Sequence[Repeated]) -> str:
    """Markdown: a row for each method, and the chance level below them."""
    pooled = [row.pooled for row in rows]
    units = {each.unit for each in pooled}
    unit = f" ({units.pop()})" if len(units) == 1 and any(units) else ""
    recalls = list(dict.fromkeys(name for each in pooled for name in each.recalls))
    parts = ["part accuracy"] if any(each.part_accuracy is not None for each in pooled) else []
    head = ["", "pairs", "failed", "Δr (°)", "median Δr (°)", f"Δt{unit}", f"displacement{unit}"]
    lines = [[*head, *recalls, *parts, "seconds"]]
    lines.append(["---"] * len(lines[0]))
    lines += [_cells(row, recalls, bool(parts)) for row in rows]
    level = f"{chance.MEAN_DEG:.1f} ± {chance.STD_DEG:.1f}"
    guessed = [_chance_recall(name) for name in recalls] + [NONE] * len(parts)
    median = f"{chance.chance_quantile(0.5):.1f}"
    lines.append(["chance", NONE, NONE, level, median, NONE, NONE, *guessed, NONE])
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _cells(row: Repeated, recalls: Sequence[str], parts: bool) -> list[str]:
    pooled = row.pooled
    degrees, seconds, placed = pooled.summary("rotation_error_deg"), pooled.seconds, pooled.part_accuracy
    times = f" × {len(row.samplings)}" if len(row.samplings) > 1 else ""
    return [
        row.name.replace("|", "\\|"),
        f"{len(row.samplings[0].scores)}{times}",
        str(pooled.failed),
        _error(row, "rotation_error_deg", ".1f"),
        NONE if degrees is None else f"{degrees.median:.1f}",
        _error(row, "translation_error", ".3g"),
        _error(row, "displacement", ".3g"),
        *(_recall(pooled, name) for name in recalls),
        *([NONE if placed is None else f"{placed:.1%}"] if parts else []),
        NONE if seconds is None else f"{seconds.mean:.2g}",
    ]


def _error(row: Repeated, error: str, form: str) -> str:
    found, between = row.pooled.summary(error), row.between(error)
    if found is None:
        return NONE
    return f"{found.mean:{form}} ± {found.std:{form}}" + ("" if between is None else f" ({between:{form}})")


def _recall(evaluation: Evaluation, name: str) -> str:
    found = evaluation.recalls.get(name)
    if found is None:
        return NONE
    errors = "" if found.rre is None else f" ({found.rre:.2f}°, {found.rte:.2g})"
    return f"{found.recall:.1%}{errors}"


def _chance_recall(name: str) -> str:
    """By the rotation alone; that the translation must be right too makes it rarer still."""
    degrees = {benchmark.label: benchmark.degrees for benchmark in BENCHMARKS}.get(name)
    return NONE if degrees is None else f"< {max(float(chance.chance_recall(degrees)), 0.001):.1%}"
