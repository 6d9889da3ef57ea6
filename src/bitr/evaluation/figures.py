"""Figures as the field draws them, ready for a column of a paper; png, pdf or svg by the name of the file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float64

from bitr.errors import InputError
from bitr.evaluation.metrics.chance import MEAN_DEG, chance_density, chance_recall
from bitr.evaluation.metrics.reliability import Reliability
from bitr.files import whole_file

COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")
"""Those of Okabe and Ito, which people with any colour vision can tell apart."""
MARKERS = "osD^vP*X"
"""One more than colours: fifty-six methods before two look alike."""
DASHES = ("-", (0, (4, 4)), (0, (2, 6)), (4, (2, 6)))
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
    "grid.color": "#e4e4e4",
    "grid.linewidth": 0.5,
    "axes.axisbelow": True,
    "lines.linewidth": 1.2,
    "pdf.fonttype": 42,  # letters stay letters: sharp at any size, and journals ask for it
    "svg.fonttype": "none",
}
CHANCE = {"color": "#777777", "linestyle": "--", "linewidth": 1.0}
BIN = 7.5
"""Degrees."""

Values = Float64[np.ndarray, " n"]


@dataclass(frozen=True)
class Curve:
    """Mean and standard deviation of an error at each keep ratio."""

    keep: Values
    mean: Values
    std: Values


def rotation_histogram(path: Path, errors: Mapping[str, Values], *, force: bool = False) -> None:
    """Density of Δr in degrees for each method, beside that of guessing; pairs that failed are left out."""
    fine = np.linspace(0, 180, 181)
    with _axes(path, force) as axes:
        for (name, values), line in zip(errors.items(), _lines(), strict=False):
            axes.stairs(*density(values), fill=len(errors) == 1, label=name, **line)
        axes.plot(fine, chance_density(fine), **CHANCE, label=f"chance (mean {MEAN_DEG:.1f}°)")
        axes.set(xlabel="rotation error Δr (°)", ylabel="share of pairs per degree", ylim=(0, None))
        _degrees(axes)


def recall_curve(path: Path, errors: Mapping[str, Values], *, force: bool = False) -> None:
    """Share of all pairs whose Δr is below each threshold; pairs that failed (NaN) are never below."""
    fine = np.linspace(0, 180, 181)
    with _axes(path, force) as axes:
        for (name, values), line in zip(errors.items(), _lines(), strict=False):
            degrees, share = recall_steps(values)
            axes.step(degrees, 100 * share, where="post", label=name, **line)
        axes.plot(fine, 100 * chance_recall(fine), **CHANCE, label="chance")
        axes.set(xlabel="threshold on Δr (°)", ylabel="recall (% of pairs)", ylim=(0, 102))
        _degrees(axes)


def density(errors: Values) -> tuple[Float64[np.ndarray, " bins"], Float64[np.ndarray, " edges"]]:
    """Share of the answered pairs per degree of Δr in each bin, and the edges of the bins."""
    edges = np.arange(0, 180 + BIN, BIN)
    known = errors[~np.isnan(errors)]
    return np.histogram(known, edges)[0] / (BIN * max(len(known), 1)), edges


def recall_steps(errors: Values) -> tuple[Float64[np.ndarray, " steps"], Float64[np.ndarray, " steps"]]:
    """Thresholds on Δr in degrees, and from each of them on the share of all pairs that are below."""
    known = np.sort(errors[~np.isnan(errors)])
    share = np.concatenate([[0.0], np.arange(1, len(known) + 1), [len(known)]]) / len(errors)
    return np.concatenate([[0.0], known, [180.0]]), share


def error_against_keep(
    path: Path, curves: Mapping[str, Curve], label: str, *, chance: float | None = None, force: bool = False
) -> None:
    """An error of several methods against the share of each cloud that is kept, easy on the left.

    ``label`` names the error and its unit, as "rotation error Δr (°)"; ``chance`` draws a level.
    """
    with _axes(path, force) as axes:
        bars = {"capsize": 2, "elinewidth": 0.8, "markersize": 3.5}
        for (name, curve), color, marker in zip(curves.items(), cycle(COLORS), cycle(MARKERS), strict=False):
            axes.errorbar(curve.keep, curve.mean, curve.std, color=color, marker=marker, label=name, **bars)
        if chance is not None:
            axes.axhline(chance, **CHANCE, label=f"chance ({chance:.1f})")
        keeps = np.unique(np.concatenate([curve.keep for curve in curves.values()]))
        axes.set(xlabel="keep ratio", ylabel=label, xticks=keeps)
        axes.set_ylim(bottom=0)
        axes.invert_xaxis()


def reliability_diagram(path: Path, found: Mapping[str, Reliability], *, force: bool = False) -> None:
    """Share of right answers against confidence, bin by bin, with the standard error of each share."""
    with _axes(path, force) as axes:
        bars = {"capsize": 2, "elinewidth": 0.8, "markersize": 3.5}
        for (name, each), color, marker in zip(found.items(), cycle(COLORS), cycle(MARKERS), strict=False):
            error = np.sqrt(each.right * (1 - each.right) / each.count)
            label = f"{name} (ECE {each.expected_error:.3f})"
            axes.errorbar(each.confidence, each.right, error, color=color, marker=marker, label=label, **bars)
        axes.plot([0, 1], [0, 1], **CHANCE, label="calibrated")
        axes.set(xlabel="confidence", ylabel="share of right poses", xlim=(0, 1), ylim=(0, 1))


@contextmanager
def _axes(path: Path, force: bool) -> Iterator[Any]:
    """Axes to draw on; the file appears at the end, whole."""
    try:
        from matplotlib import rc_context
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ModuleNotFoundError as error:
        raise InputError(
            f'{path}: figures need matplotlib, which is not installed: pip install "bitr[viz]"'
        ) from error
    if path.suffix.lower() not in (".png", ".pdf", ".svg"):
        raise InputError(
            f"{path}: found a {path.suffix or 'name without a suffix'}, expected .png, .pdf or .svg"
        )
    with whole_file(path, force=force) as temporary, rc_context(STYLE):
        figure = Figure(figsize=SIZE, layout="constrained")
        FigureCanvasAgg(figure)
        yield figure.add_subplot()
        figure.legend(loc="outside upper center", ncols=2)
        figure.savefig(temporary, dpi=DPI)


def _degrees(axes: Any) -> None:
    axes.set(xlim=(0, 180), xticks=range(0, 181, 30))


def _lines() -> Iterator[dict[str, Any]]:
    """Colours and dashes for one method after another."""
    for color, dashes in zip(cycle(COLORS), cycle(DASHES), strict=False):
        yield {"color": color, "linestyle": dashes}
