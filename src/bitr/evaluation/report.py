"""Evaluations side by side: as JSON, as a table, as charts, and from the best to the worst pair."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property, partial
from io import BytesIO
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float64

from bitr.errors import require
from bitr.evaluation import metrics
from bitr.evaluation.calibrate import LOW, SURE, Reliability
from bitr.evaluation.evaluate import ERRORS, Evaluation, Score
from bitr.evaluation.metrics import CHANCE_MEAN, chance_density, chance_recall
from bitr.files import whole_file
from bitr.show.picture import new_figure

NONE = "–"
FRACTURES = {
    "euler_rmse_deg": ("RMSE(R), Euler (°)", 1.0),
    "translation_rmse": ("RMSE(T) · 100", 100.0),
    "cd": ("CD · 1000", 1000.0),
    "crd": ("CRD · 100", 100.0),
}
"""Columns of papers on fractures, for pairs without a unit, in the factors that they print."""
BIN = 7.5  # degrees of a bin of the histogram
DEGREES = np.linspace(0, 180, 181)
MOST_STEPS = 501  # steps of a recall curve: more would make a page heavy and add nothing to see

COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")
"""The palette of Okabe and Ito, which people with any colour vision can tell apart."""
MARKERS, DASHES = "osD^vP*X", ((), (4, 4), (2, 6), (8, 4, 2, 4))
"""Curves that coincide, as those of a lawful model do, are all seen: each shows in the gaps of the next."""
SIZE, DPI = (3.5, 2.6), 300  # in inches: a column of a paper
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
    made: str = ""  # the data and the training behind the figures, or why there are none
    published: Published | None = None
    shares: Mapping[str, float] = field(default_factory=dict)
    """Further columns: shares of the pairs, by their names."""

    @cached_property
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
    found = ([head, *cells, guess] for head, cells, guess in columns(rows))
    escaped = ([cell.replace("|", "\\|") for cell in column] for column in found)
    heads, *lines = zip(*escaped, strict=True)
    return "\n".join(table_lines(heads, lines))


def table_lines(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> Iterator[str]:
    """A Markdown table, line by line as its rows are measured."""
    for cells in (columns, ["---"] * len(columns)):
        yield f"| {' | '.join(cells)} |"
    for row in rows:
        yield f"| {' | '.join(map(str, row))} |"


Column = tuple[str, list[str], str]  # the head, a cell for each row, and the chance level


def columns(rows: Sequence[Repeated]) -> Iterator[Column]:
    """The columns of a table."""

    def column(head: str, cell: Callable[[Repeated], str | None], guess: str = NONE) -> Column:
        return head, [cell(row) or NONE for row in rows], guess

    units = {row.pooled.unit_name for row in rows if row.samplings}
    unit = f" ({units.pop()})" if len(units) == 1 else ""
    square = unit.replace("(m)", "(m²)").replace("files)", "files, squared)")
    yield column("", lambda row: row.name, "chance")
    if any(row.made for row in rows):
        yield column("data and training", lambda row: row.made)
    yield column("pairs", _pairs)
    yield column("failed", lambda row: str(row.pooled.failed) if row.samplings else None)
    level = f"{metrics.CHANCE_MEAN:.1f} ± {metrics.CHANCE_STD:.1f}"
    yield column("Δr (°)", lambda row: _error(row, "rotation_error_deg", ".1f"), level)
    if any(_printed(row, "rotation") for row in rows):
        yield column("paper Δr (°)", partial(_printed, figure="rotation"))
    yield column("median Δr (°)", _median, f"{metrics.chance_quantile(0.5):.1f}")
    yield column("right", lambda row: _share(row.pooled.right))
    yield column("within 5°", lambda row: _share(row.pooled.within(5.0)))
    if any(row.pooled.trust is not None for row in rows):
        yield column("confidence", _trust)
    yield column(f"Δt{unit}", lambda row: _error(row, "translation_error"))
    if any(_printed(row, "translation") for row in rows):
        yield column("paper Δt", partial(_printed, figure="translation"))
    yield column(f"displacement{unit}", lambda row: _error(row, "displacement"))
    yield column(f"ADD-S{unit}", lambda row: _error(row, "add_s"))
    yield column(f"Chamfer{square}", lambda row: _error(row, "part_chamfer"))
    degrees = {benchmark.label: benchmark.degrees for benchmark in metrics.BENCHMARKS}
    for name in dict.fromkeys(name for row in rows for name in row.pooled.recalls):
        # an upper bound, by the rotation alone: a right translation makes it rarer still
        rare = f"< {max(float(chance_recall(degrees[name])), 0.001):.1%}" if name in degrees else NONE
        yield column(name, lambda row, name=name: _recall(row, name), rare)  # type: ignore[misc]
    if any(row.pooled.part_accuracy is not None for row in rows):
        yield column("part accuracy", lambda row: _share(row.pooled.part_accuracy))
        for error, (head, _) in FRACTURES.items():
            yield column(head, partial(_fracture_error, error=error))
    for name in dict.fromkeys(name for row in rows for name in row.shares):
        yield column(name, lambda row, name=name: _share(row.shares.get(name)))  # type: ignore[misc]
    yield column("seconds", _seconds)


def _pairs(row: Repeated) -> str | None:
    times = f" × {len(row.samplings)}" if len(row.samplings) > 1 else ""
    return f"{len(row.samplings[0].scores)}{times}" if row.samplings else None


def _printed(row: Repeated, figure: str) -> str:
    return getattr(row.published, figure, "")


def _median(row: Repeated) -> str | None:
    found = row.pooled.summary("rotation_error_deg")
    return None if found is None else f"{found.median:.1f}"


def _seconds(row: Repeated) -> str | None:
    found = row.pooled.seconds
    return None if found is None else f"{found.mean:.2g}"


def _share(share: float | None) -> str | None:
    return None if share is None else f"{share:.1%}"


def _error(row: Repeated, error: str, form: str = ".3g") -> str | None:
    found, between, times = row.pooled.summary(error), row.between(error), FRACTURES.get(error, ("", 1.0))[1]
    behind = "" if between is None else f" ({times * between:{form}})"
    return None if found is None else f"{times * found.mean:{form}} ± {times * found.std:{form}}{behind}"


def _fracture_error(row: Repeated, error: str) -> str | None:
    return None if row.pooled.part_accuracy is None else _error(row, error)


def _trust(row: Repeated) -> str | None:
    """Mean confidence, calibration error, AUROC, and the share of wrong answers among those above 0.9."""
    found = row.pooled.trust
    if found is None:
        return None
    auroc = "" if found.auroc is None else f", AUROC {found.auroc:.3f}"
    error = "" if found.error is None else f", error {found.error:.3f}"
    sure = "" if found.wrong_above is None else f", {found.wrong_above:.1%} wrong above {SURE:g}"
    return f"{found.mean:.2f}{error}{auroc}{sure}, {found.below:.0%} below {LOW:g}"


def _recall(row: Repeated, name: str) -> str | None:
    found = row.pooled.recalls.get(name)
    if found is None:
        return None
    errors = "" if found.rre is None else f" ({found.rre:.2f}°, {found.rte:.2g})"
    return f"{found.recall:.1%}{errors}"


@dataclass(frozen=True, eq=False)
class Ranked:
    """A pair by its sampling and its number in it, and its score."""

    sampling: int
    number: int
    score: Score
    name: str  # the pair's id and, where there are several, its sampling


def ranked(row: Repeated) -> tuple[Ranked, ...]:
    """All pairs of all samplings, the smallest rotation error first; last, those without an answer."""
    several = len(row.samplings) > 1
    found = [
        Ranked(sampling, number, score, score.id + (f", sampling {sampling + 1}" if several else ""))
        for sampling, evaluation in enumerate(row.samplings)
        for number, score in enumerate(evaluation.scores)
    ]
    errors = (each.score.errors for each in found)
    degrees = [np.inf if error is None else error.rotation_error_deg for error in errors]
    return tuple(found[place] for place in np.argsort(degrees, kind="stable").tolist())


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
    level: Mapping[str, Curve]  # chance, or perfect calibration: one curve at most, by its name
    x_label: str
    y_label: str
    top: float | None = None  # the upper end of y, whose lower end is 0
    x_limits: tuple[float, float] = (0.0, 180.0)  # the left end first
    x_ticks: Sequence[float] = range(0, 181, 30)

    def write(self, path: Path, *, force: bool = False) -> None:
        """Write the chart in the format that the name says; the file appears at the end, whole."""
        found = path.suffix or "name without a suffix"
        is_known = path.suffix.lower() in (".png", ".pdf", ".svg")
        require(is_known, f"{path}: found a {found}, expected .png, .pdf or .svg")
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
        axes.set(xlim=self.x_limits, ylim=(0.0, None if self.top is None else 1.02 * self.top))


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
    return Chart(curves, level, "rotation error Δr (°)", f"% of pairs in each {BIN:g}°")


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
    return Chart(curves, level, "threshold on Δr (°)", "recall (% of pairs)", 100.0)


def error_against_keep(curves: Mapping[str, Curve], label: str, chance: float | None = None) -> Chart:
    """An error of several methods against the share of each cloud that is kept, easy on the left.

    ``label`` names the error and its unit, as "rotation error Δr (°)"; ``chance`` draws a level.
    """
    keeps = np.unique(np.concatenate([curve.x for curve in curves.values()]))
    margin = 0.05 * max(float(np.ptp(keeps)), 0.1)
    limits = float(keeps[-1]) + margin, float(keeps[0]) - margin
    level = {} if chance is None else {f"chance ({chance:.1f})": Curve(np.array(limits), np.full(2, chance))}
    return Chart(curves, level, "keep ratio", label, None, limits, keeps.tolist())


def reliability_diagram(found: Mapping[str, Reliability]) -> Chart:
    """Share of right answers against confidence, bin by bin, with the standard error of each share."""
    curves = {
        f"{name} (ECE {each.expected_error:.3f})": Curve(
            each.confidence, each.right, np.sqrt(each.right * (1 - each.right) / each.count)
        )
        for name, each in found.items()
    }
    level = {"calibrated": Curve(np.array([0.0, 1.0]), np.array([0.0, 1.0]))}
    ticks = np.linspace(0, 1, 6).tolist()
    return Chart(curves, level, "confidence", "share of right poses", 1.0, (0.0, 1.0), ticks)


def spread(total: int, most: int) -> list[int]:
    """At most so many of the numbers below ``total``, evenly spread, with both ends; an odd ``most`` has the
    middle too."""
    return sorted({round(place) for place in np.linspace(0, total - 1, min(most, total)).tolist()})
