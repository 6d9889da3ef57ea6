"""Pictures and films of assemblies: side by side, contact sheets, thumbnails, and the assembly as a GIF."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float64, Int64, UInt8
from scipy.spatial.transform import Rotation

from bitr.data import AssemblyPair
from bitr.errors import InputError, require
from bitr.files import whole_file
from bitr.show.stage import Matrix, Scene, Shown, Stage, Vector, set_stage, show_pair

COLORS = {"source": "#dd4033", "source, moved": "#eeb211", "reference": "#3b7ddd"}
KEY_COLORS = {"source": "#8c1b12", "source, moved": "#8a5f00", "reference": "#163f85"}
TEXT, BACKGROUND = "#33363a", "#ffffff"
WIDTH, TALLEST, TITLE, LEGEND, MARGIN = 9.0, 5.0, 0.35, 0.4, 0.1
"""In inches: the figure, its panels at most, the lines above and below them, and around everything."""
DPI, SHEET_DPI = 200, 100
EDGE_ON, HAZE = 0.4, 0.35
"""Brightness of a surface seen edge-on, and how far the farthest point fades into the background."""
APART, SPLIT = 1.05, 1.1
"""Distance of the pieces at the start of a film, and of a pair drawn apart, in sums of their radii."""
SHEET_POINTS, SHEET_TITLE, CELL = 1000, 0.4, (3.4, 1.75)
"""Points of a cloud on a contact sheet; height of its title, and size of a pair on it, in inches."""
NUM_COLORS = 64
"""Two or three hues and their shades: a third of the bytes of true colours, with no visible difference."""
FILM, FILM_SIZE, FILM_POINTS = ".gif", (480, 360), 4000
REST, TRAVEL, STAY, MILLISECONDS = 4, 30, 18, 70
"""Frames before the source sets off, on its way, and in its place; and how long one lasts."""
SWING = np.deg2rad(20.0)
"""Swing of the camera to either side; one full swing in a film, so that its end meets its beginning."""
THUMBNAIL, THUMBNAIL_POINTS = (320, 240), 2000
FINE = 2
"""Pixels are painted this many times finer and averaged, for smooth rims."""
DOT = (1.5, 9.0)
"""Least and greatest diameter of a point, in pixels."""

Corner = Float64[np.ndarray, " 2"]
Picture = UInt8[np.ndarray, "h w 3"]

log = logging.getLogger("bitr")


@dataclass(frozen=True)
class Layer:
    """A cloud in the axes of the view: right, up, towards the viewer."""

    points: Float64[np.ndarray, "n 3"]
    normals: Float64[np.ndarray, "n 3"]
    keypoints: Float64[np.ndarray, "l 3"]
    spacing: float
    color: Vector
    key_color: str


def place_layer(cloud: Shown, turn: Matrix, place: Vector, color: str, key_color: str = TEXT) -> Layer:
    """Turn a cloud about its own centre into the axes of the view, and put the centre at ``place``."""
    points, keypoints = cloud.points @ turn.T + place, cloud.keypoints @ turn.T + place
    return Layer(points, cloud.normals @ turn.T, keypoints, cloud.spacing, parse_color(color), key_color)


def place_source(stage: Stage, rotation: Matrix, offset: Vector, role: str = "source") -> Layer:
    """The source turned about its own centre, whose centre is at ``offset`` from that of the reference."""
    turn, place = stage.view @ rotation, stage.view @ offset
    return place_layer(stage.source, turn, place, COLORS[role], KEY_COLORS[role])


def place_after(stage: Stage) -> list[Layer]:
    """The source after the motion, and the reference, which stands still at the origin."""
    return [place_source(stage, stage.rotation, stage.after, "source, moved"), place_reference(stage)]


def place_beside(stage: Stage, distance: float) -> list[Layer]:
    """The source to the left of the reference, at a distance in sums of the two radii."""
    return [place_source(stage, np.eye(3), offset_beside(stage, distance)), place_reference(stage)]


def place_reference(stage: Stage) -> Layer:
    return place_layer(stage.reference, stage.view, np.zeros(3), COLORS["reference"], KEY_COLORS["reference"])


def offset_beside(stage: Stage, distance: float) -> Vector:
    apart = distance * (stage.source.radius + stage.reference.radius)
    return np.array([-apart, 0.0, 0.0]) @ stage.view


def bounding_box(layers: Sequence[Layer]) -> tuple[Corner, Corner]:
    """Corners of the visible area, with room for the dots at the rim."""
    both = np.concatenate([part[:, :2] for layer in layers for part in (layer.points, layer.keypoints)])
    low, high = both.min(0), both.max(0)
    room = 0.03 * ((high - low).max() or 1.0)
    return low - room, high + room


def shade(layer: Layer, near: float, far: float) -> Float64[np.ndarray, "n 3"]:
    """The colour of each point, from 0 to 1: darker where the surface turns away, paler in the distance."""
    lit = 1 - np.linalg.norm(layer.normals, axis=1) + np.abs(layer.normals[:, 2])
    haze = HAZE * (near - layer.points[:, 2]) / ((near - far) or 1.0)
    surface = layer.color * (EDGE_ON + (1 - EDGE_ON) * lit)[:, None]
    return np.clip(surface + (parse_color(BACKGROUND) - surface) * haze[:, None], 0, 1)


def parse_color(color: str) -> Vector:
    """Red, green and blue from 0 to 1 of a colour like ``#3b7ddd``."""
    return np.array([int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)])


def new_figure(dpi: int) -> tuple[Any, Any]:
    """Return a figure and its canvas, without pyplot, whose state the caller's own figures share."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ModuleNotFoundError as error:
        raise InputError(
            'pictures need matplotlib, which is not installed: pip install -e ".[viz]"'
        ) from error
    figure = Figure(dpi=dpi, facecolor=BACKGROUND)
    return figure, FigureCanvasAgg(figure)


def write_figure(
    path: Path, draw: Callable[[Any], None], dpi: int, colors: int | None = None, *, force: bool
) -> None:
    """Write what is drawn on a figure, whole or not at all; reduced to so many colours, if given."""
    figure, canvas = new_figure(dpi)
    with whole_file(path, force=force) as temporary:
        draw(figure)
        if colors is None:
            canvas.print_png(temporary)
            return
        from PIL import Image  # comes with matplotlib

        canvas.draw()
        picture = Image.fromarray(np.asarray(canvas.buffer_rgba())[:, :, :3])
        picture.quantize(colors, dither=Image.Dither.NONE).save(temporary, optimize=True)


def draw_panel(
    figure: Any, corner: tuple[float, float], size: tuple[float, float], layers: Sequence[Layer]
) -> Any:
    """Draw layers, the farthest points first, into a panel with this lower left corner and size in inches."""
    low, high = bounding_box(layers)
    whole = figure.get_size_inches()
    axes = figure.add_axes((*(corner / whole), *(size / whole)))
    axes.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]), aspect="equal")
    axes.set_axis_off()
    points_per_unit = 72 * float((size / (high - low)).min())
    depth = np.concatenate([layer.points[:, 2] for layer in layers])
    near, far = depth.max(), depth.min()
    sizes = [np.clip(1.6 * layer.spacing * points_per_unit, 0.8, 9.0) for layer in layers]
    area = np.concatenate([np.full(len(a.points), s**2) for a, s in zip(layers, sizes, strict=True)])
    color = np.concatenate([shade(layer, near, far) for layer in layers])
    place = np.concatenate([layer.points[:, :2] for layer in layers])
    order = depth.argsort(kind="stable")
    axes.scatter(*place[order].T, s=area[order], c=color[order], linewidths=0)
    for layer in layers:  # on top of all points
        dots = {"s": 30, "c": layer.key_color, "edgecolors": BACKGROUND, "linewidths": 0.8}
        axes.scatter(*layer.keypoints[:, :2].T, **dots)
    return axes


def write_png(path: Path, scene: Scene, *, force: bool) -> None:
    """Write a picture of a pair before and after the motion."""
    write_figure(path, lambda figure: _draw_pair(figure, set_stage(scene)), DPI, force=force)


def _draw_pair(figure: Any, stage: Stage) -> None:
    """Draw both panels at one scale, each as wide as its content, and the legend."""
    before = [place_source(stage, np.eye(3), stage.before), place_reference(stage)]
    after = place_after(stage)
    titles = "Before (brought closer)" if stage.is_closer else "Before", "After"
    boxes = [bounding_box(before), bounding_box(after)]
    widths, heights = zip(*(high - low for low, high in boxes), strict=True)
    scale = min((WIDTH - 3 * MARGIN) / sum(widths), TALLEST / max(heights))
    size = scale * sum(widths) + 3 * MARGIN, scale * max(heights) + TITLE + LEGEND
    figure.set_size_inches(size)
    left = MARGIN
    for title, layers, (low, high) in zip(titles, (before, after), boxes, strict=True):
        width, height = scale * (high - low)
        bottom = LEGEND + (size[1] - TITLE - LEGEND - height) / 2
        axes = draw_panel(figure, (left, bottom), (width, height), layers)
        middle = (left + width / 2) / size[0], 1 - 0.6 * TITLE / size[1]
        figure.text(*middle, title, ha="center", va="center", fontsize=11, color=TEXT)
        left += width + MARGIN
    dots = [axes.scatter([], [], s=36, c=color, linewidths=0) for color in COLORS.values()]
    place = {"loc": "center", "bbox_to_anchor": (0.5, 0.5 * LEGEND / size[1]), "ncol": len(dots)}
    figure.legend(dots, COLORS, frameon=False, fontsize=9, labelcolor=TEXT, handletextpad=0.1, **place)


def write_sheet(path: Path, pairs: Sequence[AssemblyPair], title: str, *, force: bool) -> None:
    """Write one picture of all pairs, each apart (red, blue) and assembled (yellow, blue)."""
    columns = int(np.ceil(np.sqrt(len(pairs))))
    width, height = CELL[0] * columns, CELL[1] * -(-len(pairs) // columns) + SHEET_TITLE
    inner = CELL[0] / 2 - 0.1, CELL[1] - 0.2

    def draw(figure: Any) -> None:
        figure.set_size_inches(width, height)
        figure.text(0.5, 1 - 0.5 * SHEET_TITLE / height, title, ha="center", va="center", fontsize=10)
        for number, pair in enumerate(pairs):
            row, column = divmod(number, columns)
            left, top = column * CELL[0] + 0.05, height - SHEET_TITLE - row * CELL[1]
            name = pair.id if len(pair.id) <= 60 else f"{pair.id[:28]}…{pair.id[-30:]}"
            figure.text(left / width, top / height, name, ha="left", va="top", fontsize=6)
            stage = set_stage(show_pair(pair, pair.ref_from_src, most=SHEET_POINTS), SHEET_POINTS)
            # beside each other: at the places in the files one piece often hides the other
            for side, layers in enumerate((place_beside(stage, SPLIT), place_after(stage))):
                draw_panel(figure, (left + side * CELL[0] / 2, top - CELL[1] + 0.05), inner, layers)

    write_figure(path, draw, SHEET_DPI, NUM_COLORS, force=force)


def check_film(path: Path) -> None:
    """Raise when a film of that name cannot be made here, before any work is done for it."""
    found = path.suffix or "file without a suffix"
    require(path.suffix.lower() == FILM, f"{path}: a film cannot be a {found}, expected {FILM}")
    missing = f'{path}: a GIF needs pillow, which is not installed: pip install -e ".[viz]"'
    require(find_spec("PIL"), missing)


def write_animation(path: Path, scene: Scene, *, force: bool) -> None:
    """Write the film, whole or not at all."""
    check_film(path)
    with whole_file(path, force=force) as temporary:
        _write_gif(temporary, draw_frames(scene))


def draw_frames(scene: Scene) -> Iterator[Picture]:
    """Draw the pictures of the film: the source goes from beside the reference to its place."""
    stage = set_stage(scene, FILM_POINTS)
    count = REST + TRAVEL + STAY
    shots = [_shoot(stage, _progress(frame), frame / count) for frame in range(count)]
    lows, highs = zip(*map(bounding_box, shots), strict=True)
    low, high = np.min(lows, axis=0), np.max(highs, axis=0)
    for frame, shot in enumerate(shots):
        if frame % 8 == 0:
            log.info("drawing frame %d of %d", frame + 1, count)
        yield paint(shot, low, high, FILM_SIZE)


def draw_thumbnail(scene: Scene) -> Picture:
    """Draw a small picture: the source in its place (yellow) and the reference (blue)."""
    layers, size = place_after(set_stage(scene, THUMBNAIL_POINTS)), np.array(THUMBNAIL)
    low, high = bounding_box(layers)
    reach = size * ((high - low) / size).max() / 2
    middle = (low + high) / 2
    return paint(layers, middle - reach, middle + reach, THUMBNAIL)


def empty_thumbnail() -> Picture:
    return np.full((THUMBNAIL[1], THUMBNAIL[0], 3), 255, dtype=np.uint8)


def _progress(frame: int) -> float:
    """Share of the way that the source has gone, with no jump of speed: t²(3 − 2t)."""
    t = float(np.clip((frame - REST) / TRAVEL, 0, 1))
    return t * t * (3 - 2 * t)


def _shoot(stage: Stage, way: float, time: float) -> list[Layer]:
    """Place both clouds as the camera sees them; ``time`` runs from 0 to 1, and the source turns yellow."""
    swing = Rotation.from_rotvec([0.0, SWING * np.sin(2 * np.pi * time), 0.0]).as_matrix()
    seen = replace(stage, view=swing @ stage.view)
    turn = Rotation.from_rotvec(way * Rotation.from_matrix(stage.rotation).as_rotvec()).as_matrix()
    start = offset_beside(stage, APART)
    source = place_source(seen, turn, start + way * (stage.after - start))
    red, yellow = source.color, parse_color(COLORS["source, moved"])
    return [replace(source, color=red + (yellow - red) * way), place_reference(seen)]


def _write_gif(path: Path, frames: Iterable[Picture]) -> None:
    from PIL import Image

    plain = Image.Dither.NONE  # the pattern of any other flickers
    first, *rest = (Image.fromarray(frame).quantize(NUM_COLORS, dither=plain) for frame in frames)
    first.save(path, "GIF", save_all=True, append_images=rest, duration=MILLISECONDS, loop=0)


def paint(layers: Sequence[Layer], low: Corner, high: Corner, most: tuple[int, int]) -> Picture:
    """Paint the window as a picture of at most ``most`` pixels: shaded dots, the nearest of which is seen."""
    scale = float((np.array(most) / (high - low)).min())
    width, height = (max(2, 2 * round(side * scale / 2)) for side in (high - low).tolist())
    depth = np.concatenate([layer.points[:, 2] for layer in layers])
    near, far = depth.max(), depth.min()
    nearness = np.empty(len(depth), dtype=np.int64)
    nearness[depth.argsort(kind="stable")] = np.arange(len(depth))
    size = np.array([FINE * width, FINE * height])
    owner, begin = np.full(size.prod(), -1), 0
    for layer in layers:
        place = (layer.points[:, :2] - low) * FINE * scale
        place[:, 1] = size[1] - place[:, 1]
        dot = _disc(FINE * np.clip(1.6 * layer.spacing * scale, *DOT) / 2)
        pixel = np.clip(np.floor(place).astype(np.int64)[:, None] + dot, 0, size - 1)
        # numpy does not promise which of several values stays where they meet, so they are compared
        rank = nearness[begin : begin + len(place), None].repeat(len(dot), 1)
        np.maximum.at(owner, (pixel[..., 1] * size[0] + pixel[..., 0]).ravel(), rank.ravel())
        begin += len(place)
    shade_of = np.empty((len(depth) + 1, 3), dtype=np.uint16)
    shade_of[nearness] = np.rint(255 * np.concatenate([shade(layer, near, far) for layer in layers]))
    shade_of[-1] = np.rint(255 * parse_color(BACKGROUND))  # a pixel that nothing covers has the owner −1
    fine = owner.reshape(height, FINE, width, FINE)
    parts = [shade_of[fine[:, i, :, j]] for i in range(FINE) for j in range(FINE)]
    return (sum(parts[1:], parts[0]) // FINE**2).astype(np.uint8)


def _disc(radius: float) -> Int64[np.ndarray, "m 2"]:
    """The pixels of a dot, relative to its centre."""
    reach = int(np.ceil(radius))
    grid = np.stack(np.meshgrid(*[np.arange(-reach, reach + 1)] * 2), axis=-1).reshape(-1, 2)
    return grid[np.square(grid).sum(1) <= radius**2].astype(np.int64)
