"""Evaluations side by side, each on several samplings: as JSON, as a table, and from best to worst pair."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from bitr.evaluation import metrics
from bitr.evaluation.calibrate import LOW, SURE
from bitr.evaluation.evaluate import ERRORS, Evaluation, Score

NONE = "–"
FRACTURES = (
    ("RMSE(R), Euler (°)", "euler_rmse_deg", 1.0),
    ("RMSE(T) · 100", "translation_rmse", 100.0),
    ("CD · 1000", "cd", 1000.0),
    ("CRD · 100", "crd", 100.0),
)
"""Columns of papers on fractures, for pairs without a unit, in the factors that they print."""


@dataclass(frozen=True)
class Published:
    """Figures of a paper as it prints them, "8.4 (0.9)"; empty where it says nothing."""

    rotation: str = ""
    translation: str = ""


@dataclass(frozen=True, eq=False)
class Repeated:
    """One method on one data set that is sampled anew each time; ``made`` says why a row has no samplings."""

    name: str
    samplings: tuple[Evaluation, ...]
    made: str = ""
    """The data and the training behind the figures, or why there are none."""
    published: Published | None = None
    shares: Mapping[str, float] = field(default_factory=dict)
    """Further columns: shares of the pairs, by their names."""

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
            "made": self.made,
            "published": None if self.published is None else asdict(self.published),
            "shares": dict(self.shares),
            "pooled": pooled,
            "std_between_samplings": {error: self.between(error) for error in ERRORS},
            "samplings": [each.to_dict() for each in self.samplings],
        }


@dataclass(frozen=True, eq=False)
class Report:
    """The rows of an evaluation, and its settings."""

    settings: Mapping[str, Any]
    rows: tuple[Repeated, ...]

    def to_json(self) -> str:
        """One JSON object in one line, plain ASCII; unknown values are null."""
        rows = [row.to_dict() for row in self.rows]
        return json.dumps({**self.settings, "chance": metrics.chance_level(), "rows": rows}, allow_nan=False)

    def to_markdown(self) -> str:
        """The settings, the table and the meaning of its cells."""
        return f"{as_line(self.settings)}\n\n{table(self.rows)}\n\n{NOTES}\n"


def as_line(settings: Mapping[str, Any]) -> str:
    """The settings that are set, in one line."""
    return ", ".join(f"{key} {value}" for key, value in settings.items() if value is not None)


NOTES = (
    "Errors are mean ± standard deviation over the pairs that were answered, and in brackets the standard "
    f"deviation of the mean between samplings. Right: {metrics.RIGHT}, a share of all pairs; the size is the "
    "radius of the assembled shape. Displacement: the distance of a piece's centre from its place. "
    "Confidence: mean, calibration error in 10 bins, AUROC. Recalls are shares of all pairs, in brackets RRE "
    "and RTE of the accepted ones. Chance: a uniform rotation, for shapes without symmetry."
)


def table(rows: Sequence[Repeated]) -> str:
    """Markdown: a row for each method, the chance level below them, and only columns that say something."""
    found = [[head, "---", *cells, guess] for head, cells, guess in columns(rows)]
    lines = ([cell.replace("|", "\\|") for cell in line] for line in zip(*found, strict=True))
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def columns(rows: Sequence[Repeated]) -> Iterator[tuple[str, list[str], str]]:
    """The head, the cells and the chance level of each column."""
    pooled = [row.pooled for row in rows]
    units = {each.unit_name for each in pooled if each.scores}
    unit = f" ({units.pop()})" if len(units) == 1 else ""
    square = unit.replace("(m)", "(m²)").replace("files)", "files, squared)")
    printed = [row.published or Published() for row in rows]
    seconds = [each.seconds for each in pooled]
    yield "", [row.name or NONE for row in rows], "chance"
    if any(row.made for row in rows):
        yield "data and training", [row.made or NONE for row in rows], NONE
    yield "pairs", [_pairs(row) for row in rows], NONE
    yield "failed", [str(each.failed) if each.scores else NONE for each in pooled], NONE
    level = f"{metrics.CHANCE_MEAN:.1f} ± {metrics.CHANCE_STD:.1f}"
    yield "Δr (°)", [_error(row, "rotation_error_deg", ".1f") for row in rows], level
    if any(each.rotation for each in printed):
        yield "paper Δr (°)", [each.rotation or NONE for each in printed], NONE
    yield "median Δr (°)", [_median(each) for each in pooled], f"{metrics.chance_quantile(0.5):.1f}"
    yield "right", [_share(each.right) for each in pooled], NONE
    yield "within 5°", [_share(each.within(5.0)) for each in pooled], NONE
    if any(each.trust is not None for each in pooled):
        yield "confidence", [_trust(each) for each in pooled], NONE
    yield f"Δt{unit}", [_error(row, "translation_error", ".3g") for row in rows], NONE
    if any(each.translation for each in printed):
        yield "paper Δt", [each.translation or NONE for each in printed], NONE
    yield f"displacement{unit}", [_error(row, "displacement", ".3g") for row in rows], NONE
    yield f"ADD-S{unit}", [_error(row, "add_s", ".3g") for row in rows], NONE
    yield f"Chamfer{square}", [_error(row, "part_chamfer", ".3g") for row in rows], NONE
    for name in dict.fromkeys(name for each in pooled for name in each.recalls):
        yield name, [_recall(each, name) for each in pooled], _chance_recall(name)
    placed = [each.part_accuracy for each in pooled]
    if any(share is not None for share in placed):
        yield "part accuracy", [_share(share) for share in placed], NONE
        for head, error, times in FRACTURES:
            cells = [_error(row, error, ".3g", times) for row in rows]
            yield (
                head,
                [NONE if share is None else cell for share, cell in zip(placed, cells, strict=True)],
                NONE,
            )
    for name in dict.fromkeys(name for row in rows for name in row.shares):
        yield name, [_share(row.shares.get(name)) for row in rows], NONE
    yield "seconds", [NONE if each is None else f"{each.mean:.2g}" for each in seconds], NONE


def _trust(evaluation: Evaluation) -> str:
    """Mean confidence, calibration error, AUROC, and the share of wrong answers among those above 0.9."""
    found = evaluation.trust
    if found is None:
        return NONE
    auroc = "" if found.auroc is None else f", AUROC {found.auroc:.3f}"
    error = "" if found.error is None else f", error {found.error:.3f}"
    sure = "" if found.wrong_above is None else f", {found.wrong_above:.1%} wrong above {SURE:g}"
    return f"{found.mean:.2f}{error}{auroc}{sure}, {found.below:.0%} below {LOW:g}"


def _pairs(row: Repeated) -> str:
    times = f" × {len(row.samplings)}" if len(row.samplings) > 1 else ""
    return f"{len(row.samplings[0].scores)}{times}" if row.samplings else NONE


def _median(evaluation: Evaluation) -> str:
    found = evaluation.summary("rotation_error_deg")
    return NONE if found is None else f"{found.median:.1f}"


def _share(share: float | None) -> str:
    return NONE if share is None else f"{share:.1%}"


def _error(row: Repeated, error: str, form: str, times: float = 1.0) -> str:
    found, between = row.pooled.summary(error), row.between(error)
    if found is None:
        return NONE
    behind = "" if between is None else f" ({times * between:{form}})"
    return f"{times * found.mean:{form}} ± {times * found.std:{form}}{behind}"


def _recall(evaluation: Evaluation, name: str) -> str:
    found = evaluation.recalls.get(name)
    if found is None:
        return NONE
    errors = "" if found.rre is None else f" ({found.rre:.2f}°, {found.rte:.2g})"
    return f"{found.recall:.1%}{errors}"


def _chance_recall(name: str) -> str:
    """An upper bound, by the rotation alone: a right translation makes it rarer still."""
    degrees = {benchmark.label: benchmark.degrees for benchmark in metrics.BENCHMARKS}.get(name)
    return NONE if degrees is None else f"< {max(float(metrics.chance_recall(degrees)), 0.001):.1%}"


@dataclass(frozen=True, eq=False)
class Ranked:
    """A pair by its sampling and its number in it, and its score."""

    sampling: int
    number: int
    score: Score
    name: str
    """The pair's id and, where there are several, its sampling."""


def ranked(row: Repeated) -> tuple[Ranked, ...]:
    """All pairs of all samplings, the smallest rotation error first; last, those without an answer."""
    several = len(row.samplings) > 1
    found = [
        Ranked(sampling, number, score, score.id + (f", sampling {sampling + 1}" if several else ""))
        for sampling, evaluation in enumerate(row.samplings)
        for number, score in enumerate(evaluation.scores)
    ]
    return tuple(sorted(found, key=_rotation_error))


def _rotation_error(pair: Ranked) -> float:
    return np.inf if pair.score.errors is None else pair.score.errors.rotation_error_deg
