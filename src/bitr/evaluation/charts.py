"""The figures of an evaluation as SVG inside a page: in its colours, and without a plotting library."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from jaxtyping import Float64

from bitr.evaluation.figures import BIN, COLORS, density, recall_steps
from bitr.evaluation.metrics.chance import MEAN_DEG, chance_density, chance_recall
from bitr.evaluation.ranking import spread
from bitr.show.web import as_text

WIDTH, HEIGHT = 440, 250
LEFT, RIGHT, TOP, BOTTOM = 32, 14, 10, 40
"""Around what is plotted."""
DASHES = ("", "5 5", "2 6", "8 4 2 4")
"""Curves that coincide, as those of a lawful model do, are all seen."""
MOST_STEPS = 501
"""Of a curve: more would make the page heavy and add nothing to see."""

Values = Float64[np.ndarray, " _"]


def rotation_histogram(errors: Mapping[str, Values]) -> str:
    """Share of the answered pairs in each bin of Δr, beside that of guessing."""
    fine = np.linspace(0, 180, 181)
    chance = 100 * BIN * chance_density(fine)
    shares = {name: 100 * BIN * density(values)[0] for name, values in errors.items()}
    top = _round_up(max([chance.max(), *(share.max() for share in shares.values())]))
    edges = density(np.zeros(0))[1].repeat(2)
    lines = [(edges, np.concatenate([[0.0], share.repeat(2), [0.0]])) for share in shares.values()]
    names = [*shares, f"chance (mean {MEAN_DEG:.1f}°)"]
    return _chart(
        names, [*lines, (fine, chance)], top, f"% of pairs in each {BIN:g}°", "rotation error Δr (°)"
    )


def recall_curve(errors: Mapping[str, Values]) -> str:
    """Share of all pairs whose Δr is below each threshold, beside that of guessing."""
    fine = np.linspace(0, 180, 181)
    lines = []
    for values in errors.values():
        degrees, share = (each[spread(len(each), MOST_STEPS)] for each in recall_steps(values))
        lines.append((degrees.repeat(2)[1:], 100 * share.repeat(2)[:-1]))
    lines.append((fine, 100 * chance_recall(fine)))
    return _chart([*errors, "chance"], lines, 100, "% of pairs", "threshold on Δr (°)")


def _chart(names: list[str], lines: list[tuple[Values, Values]], top: int, above: str, below: str) -> str:
    """Curves over 0° to 180°; the last one is what guessing gives."""
    kinds = [f"c{number % len(COLORS)}" for number in range(len(lines) - 1)] + ["chance"]
    dashes = [DASHES[number % len(DASHES)] for number in range(len(lines) - 1)] + ["4 4"]
    drawn = "".join(
        f'<polyline class="line {kind}" stroke-dasharray="{dash}" points="{_points(x, y, top)}"/>'
        for kind, dash, (x, y) in zip(kinds, dashes, lines, strict=True)
    )
    keys = "".join(
        f'<li><svg class="key" viewBox="0 0 22 8" aria-hidden="true"><path class="line {kind}" '
        f'stroke-dasharray="{dash}" d="M0 4h22"/></svg>{as_text(name)}</li>'
        for kind, dash, name in zip(kinds, dashes, names, strict=True)
    )
    return (
        f'<svg class="chart" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{above}, by {below}">'
        f'{_grid(top)}{drawn}<text class="what" x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 5}">{below}'
        f'</text></svg><p class="above">{above}</p><ul class="keys">{keys}</ul>'
    )


def _grid(top: int) -> str:
    """Lines across, with their numbers."""
    parts = []
    for degrees in range(0, 181, 30):
        x, y = _place(float(degrees), 0.0, top)
        parts.append(
            f'<path class="grid" d="M{x} {y}V{TOP}"/><text class="what" x="{x}" y="{y + 15}">{degrees}</text>'
        )
    for share in np.linspace(0, top, 6).tolist():
        x, y = _place(0.0, share, top)
        parts.append(
            f'<path class="grid" d="M{x} {y}H{WIDTH - RIGHT}"/><text class="tick" x="{x - 5}" y="{y + 4}">'
            f"{share:g}</text>"
        )
    return "".join(parts)


def _points(x: Values, y: Values, top: int) -> str:
    return " ".join("{},{}".format(*_place(*each, top)) for each in zip(x.tolist(), y.tolist(), strict=True))


def _place(degrees: float, share: float, top: int) -> tuple[float, float]:
    x = LEFT + (WIDTH - LEFT - RIGHT) * degrees / 180
    y = HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * share / top
    return round(x, 1), round(y, 1)


def _round_up(value: float) -> int:
    """To a number that five equal steps reach in round ones."""
    return next(top for top in (5, 10, 15, 20, 25, 30, 40, 50, 60, 75, 100) if top >= value - 1e-9)
