"""The picture of an assembly: before and after, side by side, for a paper or a page."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float64

from bitr.errors import InputError
from bitr.files import whole_file
from bitr.pictures.scene import Scene
from bitr.pictures.stage import Shown, Stage, staged

COLORS = {"source": "#dd4033", "source, moved": "#eeb211", "reference": "#3b7ddd"}
KEY_COLORS = {"source": "#8c1b12", "source, moved": "#8a5f00", "reference": "#163f85"}
TEXT, BACKGROUND = "#33363a", "#ffffff"
WIDTH, TALLEST, TITLE, LEGEND, MARGIN = 9.0, 5.0, 0.35, 0.4, 0.1
"""In inches: the figure, its panels at most, the lines above and below them, and around everything."""
DPI = 200
EDGE_ON, HAZE = 0.4, 0.35
"""Brightness of a surface seen edge-on, and how far the farthest point fades into the background."""


@dataclass(frozen=True)
class Layer:
    """A cloud in the axes of the view: right, up, towards the viewer."""

    name: str
    points: Float64[np.ndarray, "n 3"]
    normals: Float64[np.ndarray, "n 3"]
    keypoints: Float64[np.ndarray, "l 3"]
    spacing: float


def write_png(path: Path, scene: Scene, *, force: bool) -> None:
    """Write the picture; an existing file is refused without ``force``, and nothing partial is ever left."""
    figure_class, canvas_class = _matplotlib()
    with whole_file(path, force=force) as temporary:
        figure = figure_class(dpi=DPI, facecolor=BACKGROUND)
        canvas = canvas_class(figure)
        _draw(figure, staged(scene))
        canvas.print_png(temporary)


def _matplotlib() -> tuple[Any, Any]:
    """The classes themselves, since pyplot would touch the state that the caller's own figures share."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ModuleNotFoundError as error:
        raise InputError(
            'pictures need matplotlib, which is not installed: pip install "bitr[viz]"'
        ) from error
    return Figure, FigureCanvasAgg


def _panels(stage: Stage) -> tuple[list[Layer], list[Layer]]:
    """What is seen before and after; the reference stands still."""
    source, still, nowhere = stage.source, np.eye(3), np.zeros(3)
    reference = layer_of("reference", stage, stage.reference, still, nowhere)
    before = layer_of("source", stage, source, still, stage.before)
    after = layer_of("source, moved", stage, source, stage.rotation, stage.after)
    return [before, reference], [after, reference]


def _draw(figure: Any, stage: Stage) -> None:
    """Both panels at one scale, each as wide as what it shows."""
    titles, (before, after) = (
        ("Before (brought closer)" if stage.closer else "Before", "After"),
        _panels(stage),
    )
    boxes = [box_of(before), box_of(after)]
    widths, heights = zip(*(high - low for low, high in boxes), strict=True)
    scale = min((WIDTH - 3 * MARGIN) / sum(widths), TALLEST / max(heights))
    size = scale * sum(widths) + 3 * MARGIN, scale * max(heights) + TITLE + LEGEND
    figure.set_size_inches(size)
    left = MARGIN
    for title, layers, (low, high) in zip(titles, (before, after), boxes, strict=True):
        width, height = scale * (high - low)
        bottom = LEGEND + (size[1] - TITLE - LEGEND - height) / 2
        axes = figure.add_axes((left / size[0], bottom / size[1], width / size[0], height / size[1]))
        axes.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]))
        axes.set_axis_off()
        _scatter(axes, layers, 72 * scale)
        middle = (left + width / 2) / size[0], 1 - 0.6 * TITLE / size[1]
        figure.text(*middle, title, ha="center", va="center", fontsize=11, color=TEXT)
        left += width + MARGIN
    dots = [axes.scatter([], [], s=36, c=color, linewidths=0) for color in COLORS.values()]
    place = {"loc": "center", "bbox_to_anchor": (0.5, 0.5 * LEGEND / size[1]), "ncol": len(dots)}
    figure.legend(dots, COLORS, frameon=False, fontsize=9, labelcolor=TEXT, handletextpad=0.1, **place)


def layer_of(
    name: str,
    stage: Stage,
    cloud: Shown,
    rotation: Float64[np.ndarray, "3 3"],
    offset: Float64[np.ndarray, " 3"],
) -> Layer:
    """A cloud turned about its own centre, which stands at ``offset``, as the stage's viewer sees it."""
    turn = stage.view @ rotation
    keypoints = np.zeros((0, 3)) if cloud.keypoints is None else cloud.keypoints
    return Layer(
        name,
        cloud.points @ turn.T + stage.view @ offset,
        cloud.normals @ turn.T,
        keypoints @ turn.T + stage.view @ offset,
        cloud.spacing,
    )


def box_of(layers: list[Layer]) -> tuple[Float64[np.ndarray, " 2"], Float64[np.ndarray, " 2"]]:
    """Corners of what is seen, with room for the dots at the rim."""
    both = np.concatenate([part[:, :2] for layer in layers for part in (layer.points, layer.keypoints)])
    low, high = both.min(0), both.max(0)
    room = 0.03 * ((high - low).max() or 1.0)
    return low - room, high + room


def _scatter(axes: Any, layers: list[Layer], points_per_unit: float) -> None:
    """All points of a panel in one go, the farthest first, then the key points on top of them."""
    depth = np.concatenate([layer.points[:, 2] for layer in layers])
    near, far = depth.max(), depth.min()
    sizes = [np.clip(1.6 * layer.spacing * points_per_unit, 0.8, 9.0) for layer in layers]
    size = np.concatenate([np.full(len(a.points), s**2) for a, s in zip(layers, sizes, strict=True)])
    color = np.concatenate([shaded(layer, rgb(COLORS[layer.name]), near, far) for layer in layers])
    place = np.concatenate([layer.points[:, :2] for layer in layers])
    order = depth.argsort(kind="stable")
    axes.scatter(*place[order].T, s=size[order], c=color[order], linewidths=0)
    for layer in layers:
        dots = {"s": 30, "c": KEY_COLORS[layer.name], "edgecolors": BACKGROUND, "linewidths": 0.8}
        axes.scatter(*layer.keypoints[:, :2].T, **dots)


def shaded(
    layer: Layer, color: Float64[np.ndarray, " 3"], near: float, far: float
) -> Float64[np.ndarray, "n 3"]:
    """The colour of each point, from 0 to 1: darker where the surface turns away, paler in the distance."""
    lit = 1 - np.linalg.norm(layer.normals, axis=1) + np.abs(layer.normals[:, 2])
    haze = HAZE * (near - layer.points[:, 2]) / ((near - far) or 1.0)
    surface = color * (EDGE_ON + (1 - EDGE_ON) * lit)[:, None]
    return np.clip(surface + (rgb(BACKGROUND) - surface) * haze[:, None], 0, 1)


def rgb(color: str) -> Float64[np.ndarray, " 3"]:
    return np.array([int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)])
