"""A contact sheet: many pairs in one picture, each apart and assembled."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float64

from bitr.data import AssemblyPair
from bitr.errors import InputError
from bitr.files import whole_file
from bitr.io import as_points, even_draw
from bitr.pictures.picture import COLORS
from bitr.pictures.scene import Scene
from bitr.pictures.stage import Stage, staged

MOST_POINTS = 1000
"""Of a cloud, in a panel as small as this."""
CELL = (3.4, 1.75)
"""Width and height of a pair, in inches."""
TITLE = 0.4
DPI, DOT = 100, 1.6
NUM_COLORS = 64
"""Three hues and their shades: a third of the bytes of true colours, and nothing to see of it."""
HAZE = 0.45
"""How far the farthest point fades into the background."""


def write_sheet(path: Path, pairs: Sequence[AssemblyPair], title: str, *, force: bool) -> None:
    """Write the picture of all pairs, each apart (red, blue) and assembled (yellow, blue)."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
        from PIL import Image
    except ModuleNotFoundError as error:
        raise InputError(
            'pictures need matplotlib, which is not installed: pip install "bitr[viz]"'
        ) from error
    columns = int(np.ceil(np.sqrt(len(pairs))))
    rows = -(-len(pairs) // columns)
    with whole_file(path, force=force) as temporary:
        figure = Figure(figsize=(CELL[0] * columns, CELL[1] * rows + TITLE), dpi=DPI)
        canvas: Any = FigureCanvasAgg(figure)
        _fill(figure, pairs, title, rows, columns)
        canvas.draw()
        picture = Image.fromarray(np.asarray(canvas.buffer_rgba())[:, :, :3])
        picture.quantize(NUM_COLORS, dither=Image.Dither.NONE).save(temporary, optimize=True)


def _fill(figure: Any, pairs: Sequence[AssemblyPair], title: str, rows: int, columns: int) -> None:
    """Two panels for each pair, below its id; all below the title."""
    width, height = figure.get_size_inches()
    figure.text(0.5, 1 - 0.5 * TITLE / height, title, ha="center", va="center", fontsize=10)
    for i, pair in enumerate(pairs):
        row, column = divmod(i, columns)
        left, top = column * CELL[0] + 0.05, height - TITLE - row * CELL[1]
        figure.text(left / width, top / height, _short(pair.id), ha="left", va="top", fontsize=6)
        size = (CELL[0] / 2 - 0.1) / width, (CELL[1] - 0.2) / height
        places = [((left + side * CELL[0] / 2) / width, (top - CELL[1] + 0.05) / height) for side in (0, 1)]
        apart, together = (figure.add_axes((*place, *size)) for place in places)
        _draw(apart, together, staged(_scene(pair)))


def _scene(pair: AssemblyPair) -> Scene:
    source, reference = (
        _few(as_points(side, MOST_POINTS, seed=0).points) for side in (pair.source, pair.reference)
    )
    return Scene(source, reference, pair.ref_from_src)


def _few(points: Float64[np.ndarray, "n 3"]) -> Float64[np.ndarray, "m 3"]:
    return points[even_draw(len(points), MOST_POINTS, seed=0)]


def _draw(left: Any, right: Any, stage: Stage) -> None:
    """Apart means side by side: where the files put the pieces, one often hides the other."""
    reference = stage.reference.points
    source = stage.source.points
    beside = np.array([-1.1 * (stage.source.radius + stage.reference.radius), 0, 0]) @ stage.view
    _scatter(left, stage, [("source", source + beside), ("reference", reference)])
    _scatter(right, stage, [("source, moved", stage.moved(source)), ("reference", reference)])


def _scatter(axes: Any, stage: Stage, clouds: list[tuple[str, Float64[np.ndarray, "_ 3"]]]) -> None:
    seen = np.concatenate([points @ stage.view.T for _, points in clouds])
    color = np.concatenate([np.tile(_rgb(COLORS[name]), (len(points), 1)) for name, points in clouds])
    depth = seen[:, 2]
    haze = HAZE * (depth.max() - depth) / (np.ptp(depth) or 1.0)
    order = depth.argsort(kind="stable")
    faded = color + (1 - color) * haze[:, None]
    axes.scatter(*seen[order, :2].T, s=DOT, c=faded[order], linewidths=0)
    axes.set_aspect("equal")
    axes.set_axis_off()


def _rgb(color: str) -> Float64[np.ndarray, " 3"]:
    return np.array([int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)])


def _short(id: str) -> str:
    return id if len(id) <= 60 else f"{id[:28]}…{id[-30:]}"
