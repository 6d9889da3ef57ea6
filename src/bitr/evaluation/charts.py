"""Charts of evaluations, drawn by matplotlib into files and pages."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from io import BytesIO
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float64

from bitr.errors import InputError
from bitr.evaluation.calibrate import Reliability
from bitr.evaluation.metrics import CHANCE_MEAN, chance_density, chance_recall
from bitr.files import whole_file
from bitr.show.picture import new_figure

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
