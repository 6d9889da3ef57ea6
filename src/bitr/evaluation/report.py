"""Evaluations side by side: as JSON, as a table, as charts, and from the best to the worst pair."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from io import BytesIO
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float64

from bitr.errors import InputError
from bitr.evaluation import metrics
from bitr.evaluation.calibrate import LOW, SURE, Reliability
from bitr.evaluation.evaluate import ERRORS, Evaluation, Score
from bitr.evaluation.metrics import CHANCE_MEAN, chance_density, chance_recall
from bitr.files import whole_file
from bitr.show.picture import new_figure

NONE = "–"
FRACTURES = (
    ("RMSE(R), Euler (°)", "euler_rmse_deg", 1.0),
    ("RMSE(T) · 100", "translation_rmse", 100.0),
    ("CD · 1000", "cd", 1000.0),
    ("CRD · 100", "crd", 100.0),
)
"""Columns of papers on fractures, for pairs without a unit, in the factors that they print."""
BIN = 7.5
"""Degrees of a bin of the histogram."""
DEGREES = np.linspace(0, 180, 181)
MOST_STEPS = 501
"""Steps of a recall curve: more would make a page heavy and add nothing to see."""

COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")
"""The palette of Okabe and Ito, which people with any colour vision can tell apart."""
MARKERS = "osD^vP*X"
"""One more than colours: fifty-six methods before two look alike."""
DASHES = ((), (4, 4), (2, 6), (8, 4, 2, 4))
"""Curves that coincide, as those of a lawful model do, are all seen: each shows in the gaps of the next."""
SIZE, DPI = (3.5, 2.6), 300
"""In inches: a column of a paper."""
STYLE: Any = {
    "font.size": 8,
    "axes.labelsize": 8,
    "legend.fontsize": 7,
    "legend.frameon": False,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#80868d",
    "grid.alpha": 0.25,
    "grid.linewidth": 0.5,
    "axes.axisbelow": True,
    "lines.linewidth": 1.2,
    "pdf.fonttype": 42,  # letters stay letters: sharp at any size, and journals ask for it
    "svg.fonttype": "none",
    "svg.hashsalt": "bitr",  # the same chart is the same text
}
INKS = ("text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color")
CHANCE = {"color": "#777777", "linestyle": "--", "linewidth": 1.0}

Values = Float64[np.ndarray, " _"]


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


# Charts


@dataclass(frozen=True, eq=False)
class Curve:
    """Points of one method; with ``bars``, half the length of an error bar at each."""

    x: Values
    y: Values
    bars: Values | None = None


@dataclass(frozen=True, eq=False)
class Chart:
    """Curves by the names of the methods, and one to compare them with."""

    curves: Mapping[str, Curve]
    level: Mapping[str, Curve]
    """Chance, or perfect calibration: one curve at most, by its name."""
    x_label: str
    y_label: str
    x_limits: tuple[float, float]
    """The left end first."""
    y_limits: tuple[float, float | None]
    x_ticks: tuple[float, ...]

    def write(self, path: Path, *, force: bool = False) -> None:
        """Write the chart in the format that the name says; the file appears at the end, whole."""
        if path.suffix.lower() not in (".png", ".pdf", ".svg"):
            raise InputError(
                f"{path}: found a {path.suffix or 'name without a suffix'}, expected .png, .pdf or .svg"
            )
        with whole_file(path, force=force) as temporary:
            self._save(temporary, "#000000")

    def to_uri(self) -> str:
        """The chart as a ``data:`` address, for a page in light or dark colours."""
        out = BytesIO()
        self._save(out, "#80868d", format="svg", transparent=True, metadata={"Date": None})
        return f"data:image/svg+xml;base64,{base64.b64encode(out.getvalue()).decode()}"

    def _save(self, target: Path | BytesIO, ink: str, **how: Any) -> None:
        figure, _ = new_figure(DPI)
        from matplotlib import rc_context

        with rc_context(STYLE | dict.fromkeys(INKS, ink)):
            figure.set(size_inches=SIZE, layout_engine="constrained")
            self.draw(figure.add_subplot())
            figure.legend(loc="outside upper center", ncols=2)
            figure.savefig(target, **how)

    def draw(self, axes: Any) -> None:
        """Draw on the axes of a matplotlib figure."""
        looks = zip(cycle(COLORS), cycle(DASHES), cycle(MARKERS))
        for (title, curve), (color, dashes, marker) in zip(self.curves.items(), looks, strict=False):
            name = title.replace("$", r"\$")  # it stands for itself, not for a formula
            if curve.bars is None:
                line = (0, dashes) if dashes else "-"
                axes.plot(curve.x, curve.y, color=color, linestyle=line, label=name)
            else:
                bars = {"capsize": 2, "elinewidth": 0.8, "markersize": 3.5}
                axes.errorbar(curve.x, curve.y, curve.bars, color=color, marker=marker, label=name, **bars)
        for name, curve in self.level.items():
            axes.plot(curve.x, curve.y, **CHANCE, label=name)
        axes.set(xlabel=self.x_label, ylabel=self.y_label, xticks=self.x_ticks)
        top = self.y_limits[1]
        axes.set(xlim=self.x_limits, ylim=(self.y_limits[0], None if top is None else 1.02 * top))


def rotation_histogram(errors: Mapping[str, Values]) -> Chart:
    """Share of the answered pairs in each bin of Δr, beside that of guessing; failed pairs are left out."""
    edges = np.arange(0, 180 + BIN, BIN)
    curves = {}
    for name, values in errors.items():
        known = values[~np.isnan(values)]
        share = 100 * np.histogram(known, edges)[0] / max(len(known), 1)
        curves[name] = Curve(edges.repeat(2), np.concatenate([[0.0], share.repeat(2), [0.0]]))
    chance = Curve(DEGREES, 100 * BIN * chance_density(DEGREES))
    level = {f"chance (mean {CHANCE_MEAN:.1f}°)": chance}
    return _over_degrees(curves, level, "rotation error Δr (°)", f"% of pairs in each {BIN:g}°", None)


def recall_curve(errors: Mapping[str, Values]) -> Chart:
    """Share of all pairs whose Δr is below each threshold; failed pairs (NaN) are never below."""
    curves = {}
    for name, values in errors.items():
        known = np.sort(values[~np.isnan(values)])
        degrees = np.concatenate([[0.0], known, [180.0]])
        share = np.concatenate([[0.0], np.arange(1, len(known) + 1), [len(known)]]) / len(values)
        kept = spread(len(degrees), MOST_STEPS)
        curves[name] = Curve(degrees[kept].repeat(2)[1:], 100 * share[kept].repeat(2)[:-1])
    level = {"chance": Curve(DEGREES, 100 * chance_recall(DEGREES))}
    return _over_degrees(curves, level, "threshold on Δr (°)", "recall (% of pairs)", 100.0)


def _over_degrees(
    curves: Mapping[str, Curve], level: Mapping[str, Curve], x_label: str, y_label: str, top: float | None
) -> Chart:
    return Chart(curves, level, x_label, y_label, (0.0, 180.0), (0.0, top), tuple(DEGREES[::30].tolist()))


def error_against_keep(curves: Mapping[str, Curve], label: str, chance: float | None = None) -> Chart:
    """An error of several methods against the share of each cloud that is kept, easy on the left.

    ``label`` names the error and its unit, as "rotation error Δr (°)"; ``chance`` draws a level.
    """
    keeps = np.unique(np.concatenate([curve.x for curve in curves.values()]))
    margin = 0.05 * max(float(np.ptp(keeps)), 0.1)
    limits = float(keeps[-1]) + margin, float(keeps[0]) - margin
    level = {} if chance is None else {f"chance ({chance:.1f})": Curve(np.array(limits), np.full(2, chance))}
    return Chart(curves, level, "keep ratio", label, limits, (0.0, None), tuple(keeps.tolist()))


def reliability_diagram(found: Mapping[str, Reliability]) -> Chart:
    """Share of right answers against confidence, bin by bin, with the standard error of each share."""
    curves = {
        f"{name} (ECE {each.expected_error:.3f})": Curve(
            each.confidence, each.right, np.sqrt(each.right * (1 - each.right) / each.count)
        )
        for name, each in found.items()
    }
    level = {"calibrated": Curve(np.array([0.0, 1.0]), np.array([0.0, 1.0]))}
    ticks = tuple(np.linspace(0, 1, 6).tolist())
    return Chart(curves, level, "confidence", "share of right poses", (0.0, 1.0), (0.0, 1.0), ticks)


def spread(total: int, most: int) -> list[int]:
    """At most so many of the numbers below ``total``, evenly spread, with both ends; an odd ``most`` has the
    middle too."""
    return sorted({round(place) for place in np.linspace(0, total - 1, min(most, total)).tolist()})
