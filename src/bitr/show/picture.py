"""Pictures and films of assemblies: side by side, contact sheets, thumbnails, and the assembly as a GIF."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float64, Int64, UInt8
from scipy.spatial.transform import Rotation

from bitr.data import AssemblyPair
from bitr.errors import InputError
from bitr.files import whole_file
from bitr.io import as_points, even_draw
from bitr.show.stage import Matrix, Scene, Shown, Stage, Vector, set_stage

COLORS = {"source": "#dd4033", "source, moved": "#eeb211", "reference": "#3b7ddd"}
KEY_COLORS = {"source": "#8c1b12", "source, moved": "#8a5f00", "reference": "#163f85"}
TEXT, BACKGROUND = "#33363a", "#ffffff"
WIDTH, TALLEST, TITLE, LEGEND, MARGIN = 9.0, 5.0, 0.35, 0.4, 0.1
"""In inches: the figure, its panels at most, the lines above and below them, and around everything."""
DPI = 200
EDGE_ON, HAZE = 0.4, 0.35
"""Brightness of a surface seen edge-on, and how far the farthest point fades into the background."""
SPLIT = 1.1
"""Distance between the pieces of a pair that is drawn apart, in sums of their radii."""
SHEET_POINTS, SHEET_DPI, SHEET_TITLE = 1000, 100, 0.4
CELL = (3.4, 1.75)
"""Width and height of a pair on a contact sheet, in inches."""
NUM_COLORS = 64
"""Two or three hues and their shades: a third of the bytes of true colours, with no visible difference."""
FILM = ".gif"
REST, TRAVEL, STAY = 4, 30, 18
"""Frames before the source sets off, on its way, and in its place."""
MILLISECONDS = 70
"""Duration of a frame."""
FILM_SIZE, FILM_POINTS = (480, 360), 4000
"""Largest size of a film in pixels, and most points of a cloud in it."""
APART = 1.05
"""Distance between the centres at first, in sums of the two radii."""
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

    name: str
    points: Float64[np.ndarray, "n 3"]
    normals: Float64[np.ndarray, "n 3"]
    keypoints: Float64[np.ndarray, "l 3"]
    spacing: float


def write_png(path: Path, scene: Scene, *, force: bool) -> None:
    """Write the picture; without ``force`` an existing file is refused, and no partial file is ever left."""
    figure, canvas = new_figure(DPI)
    with whole_file(path, force=force) as temporary:
        _draw_pair(figure, set_stage(scene))
        canvas.print_png(temporary)


def write_sheet(path: Path, pairs: Sequence[AssemblyPair], title: str, *, force: bool) -> None:
    """Write one picture of all pairs, each apart (red, blue) and assembled (yellow, blue)."""
    figure, canvas = new_figure(SHEET_DPI)
    from PIL import Image  # comes with matplotlib

    with whole_file(path, force=force) as temporary:
        _draw_sheet(figure, pairs, title)
        canvas.draw()
        picture = Image.fromarray(np.asarray(canvas.buffer_rgba())[:, :, :3])
        picture.quantize(NUM_COLORS, dither=Image.Dither.NONE).save(temporary, optimize=True)


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


def _draw_pair(figure: Any, stage: Stage) -> None:
    """Draw both panels at one scale, each as wide as its content, and the legend."""
    reference = place_reference(stage)
    before = [place_layer("source", stage, stage.source, np.eye(3), stage.before), reference]
    after = [place_moved_source(stage), reference]
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
        axes = _add_panel(figure, (left, bottom), (width, height), layers)
        middle = (left + width / 2) / size[0], 1 - 0.6 * TITLE / size[1]
        figure.text(*middle, title, ha="center", va="center", fontsize=11, color=TEXT)
        left += width + MARGIN
    dots = [axes.scatter([], [], s=36, c=color, linewidths=0) for color in COLORS.values()]
    place = {"loc": "center", "bbox_to_anchor": (0.5, 0.5 * LEGEND / size[1]), "ncol": len(dots)}
    figure.legend(dots, COLORS, frameon=False, fontsize=9, labelcolor=TEXT, handletextpad=0.1, **place)


def _draw_sheet(figure: Any, pairs: Sequence[AssemblyPair], title: str) -> None:
    """Draw two panels for each pair, below its id; all below the title."""
    columns = int(np.ceil(np.sqrt(len(pairs))))
    width, height = CELL[0] * columns, CELL[1] * -(-len(pairs) // columns) + SHEET_TITLE
    figure.set_size_inches(width, height)
    figure.text(0.5, 1 - 0.5 * SHEET_TITLE / height, title, ha="center", va="center", fontsize=10)
    inner = CELL[0] / 2 - 0.1, CELL[1] - 0.2
    for number, pair in enumerate(pairs):
        row, column = divmod(number, columns)
        left, top = column * CELL[0] + 0.05, height - SHEET_TITLE - row * CELL[1]
        figure.text(left / width, top / height, _shorten(pair.id), ha="left", va="top", fontsize=6)
        stage = set_stage(_few_points(pair))
        still = place_reference(stage)
        # side by side: at the places in the files one piece often hides the other
        apart = place_layer("source", stage, stage.source, np.eye(3), offset_beside(stage, SPLIT))
        for side, moving in enumerate((apart, place_moved_source(stage))):
            corner = left + side * CELL[0] / 2, top - CELL[1] + 0.05
            _add_panel(figure, corner, inner, [moving, still])


def _add_panel(
    figure: Any, corner: tuple[float, float], size: tuple[float, float], layers: Sequence[Layer]
) -> Any:
    """Draw layers into a panel, whose lower left corner and size are in inches."""
    low, high = bounding_box(layers)
    whole = figure.get_size_inches()
    axes = figure.add_axes((*(corner / whole), *(size / whole)))
    axes.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]), aspect="equal")
    axes.set_axis_off()
    _scatter(axes, layers, 72 * float((size / (high - low)).min()))
    return axes


def _few_points(pair: AssemblyPair) -> Scene:
    clouds = [as_points(side, SHEET_POINTS, seed=0).points for side in (pair.source, pair.reference)]
    source, reference = (points[even_draw(len(points), SHEET_POINTS, seed=0)] for points in clouds)
    return Scene(source, reference, pair.ref_from_src)


def _shorten(id: str) -> str:
    return id if len(id) <= 60 else f"{id[:28]}…{id[-30:]}"


def place_layer(name: str, stage: Stage, cloud: Shown, rotation: Matrix, offset: Vector) -> Layer:
    """Turn a cloud about its own centre, put the centre at ``offset``, and look at it along the view."""
    turn = stage.view @ rotation
    keypoints = np.zeros((0, 3)) if cloud.keypoints is None else cloud.keypoints
    return Layer(
        name,
        cloud.points @ turn.T + stage.view @ offset,
        cloud.normals @ turn.T,
        keypoints @ turn.T + stage.view @ offset,
        cloud.spacing,
    )


def place_reference(stage: Stage) -> Layer:
    """The reference, which stands still at the origin."""
    return place_layer("reference", stage, stage.reference, np.eye(3), np.zeros(3))


def place_moved_source(stage: Stage) -> Layer:
    """The source after the motion."""
    return place_layer("source, moved", stage, stage.source, stage.rotation, stage.after)


def offset_beside(stage: Stage, distance: float) -> Vector:
    """Offset to the left of the reference, in sums of the two radii."""
    apart = distance * (stage.source.radius + stage.reference.radius)
    return np.array([-apart, 0.0, 0.0]) @ stage.view


def bounding_box(layers: Sequence[Layer]) -> tuple[Corner, Corner]:
    """Corners of the visible area, with room for the dots at the rim."""
    both = np.concatenate([part[:, :2] for layer in layers for part in (layer.points, layer.keypoints)])
    low, high = both.min(0), both.max(0)
    room = 0.03 * ((high - low).max() or 1.0)
    return low - room, high + room


def _scatter(axes: Any, layers: Sequence[Layer], points_per_unit: float) -> None:
    """Draw all points of a panel in one call, the farthest first, then the key points on top of them."""
    depth = np.concatenate([layer.points[:, 2] for layer in layers])
    near, far = depth.max(), depth.min()
    sizes = [np.clip(1.6 * layer.spacing * points_per_unit, 0.8, 9.0) for layer in layers]
    size = np.concatenate([np.full(len(a.points), s**2) for a, s in zip(layers, sizes, strict=True)])
    color = np.concatenate([shade(layer, parse_color(COLORS[layer.name]), near, far) for layer in layers])
    place = np.concatenate([layer.points[:, :2] for layer in layers])
    order = depth.argsort(kind="stable")
    axes.scatter(*place[order].T, s=size[order], c=color[order], linewidths=0)
    for layer in layers:
        dots = {"s": 30, "c": KEY_COLORS[layer.name], "edgecolors": BACKGROUND, "linewidths": 0.8}
        axes.scatter(*layer.keypoints[:, :2].T, **dots)


def shade(layer: Layer, color: Vector, near: float, far: float) -> Float64[np.ndarray, "n 3"]:
    """The colour of each point, from 0 to 1: darker where the surface turns away, paler in the distance."""
    lit = 1 - np.linalg.norm(layer.normals, axis=1) + np.abs(layer.normals[:, 2])
    haze = HAZE * (near - layer.points[:, 2]) / ((near - far) or 1.0)
    surface = color * (EDGE_ON + (1 - EDGE_ON) * lit)[:, None]
    return np.clip(surface + (parse_color(BACKGROUND) - surface) * haze[:, None], 0, 1)


def parse_color(color: str) -> Vector:
    """Red, green and blue from 0 to 1 of a colour like ``#3b7ddd``."""
    return np.array([int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)])


def check_film(path: Path) -> None:
    """Raise when a film of that name cannot be made here, before any work is done for it."""
    if path.suffix.lower() != FILM:
        found = path.suffix or "file without a suffix"
        raise InputError(f"{path}: a film cannot be a {found}, expected {FILM}")
    if find_spec("PIL") is None:
        raise InputError(f'{path}: a GIF needs pillow, which is not installed: pip install -e ".[viz]"')


def write_animation(path: Path, scene: Scene, *, force: bool) -> None:
    """Write the film; without ``force`` an existing file is refused, and no partial file is ever left."""
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
    red, yellow = parse_color(COLORS["source"]), parse_color(COLORS["source, moved"])
    for frame, shot in enumerate(shots):
        if frame % 8 == 0:
            log.info("drawing frame %d of %d", frame + 1, count)
        source = red + (yellow - red) * _progress(frame)
        yield paint(shot, [source, parse_color(COLORS["reference"])], low, high, FILM_SIZE)


def draw_thumbnail(scene: Scene) -> Picture:
    """Draw a small picture: the source in its place (yellow) and the reference (blue)."""
    stage, size = set_stage(scene, THUMBNAIL_POINTS), np.array(THUMBNAIL)
    layers = [place_moved_source(stage), place_reference(stage)]
    low, high = bounding_box(layers)
    reach = size * ((high - low) / size).max() / 2
    middle = (low + high) / 2
    colors = [parse_color(COLORS[layer.name]) for layer in layers]
    return paint(layers, colors, middle - reach, middle + reach, THUMBNAIL)


def empty_thumbnail() -> Picture:
    width, height = THUMBNAIL
    return np.full((height, width, 3), np.rint(255 * parse_color(BACKGROUND)), dtype=np.uint8)


def _progress(frame: int) -> float:
    """Share of the way that the source has gone, with no jump of speed: t²(3 − 2t)."""
    t = float(np.clip((frame - REST) / TRAVEL, 0, 1))
    return t * t * (3 - 2 * t)


def _shoot(stage: Stage, way: float, time: float) -> list[Layer]:
    """Place both clouds as the camera sees them; ``time`` runs from 0 to 1."""
    swing = Rotation.from_rotvec([0.0, SWING * np.sin(2 * np.pi * time), 0.0]).as_matrix()
    seen = replace(stage, view=swing @ stage.view)
    turn = Rotation.from_rotvec(way * Rotation.from_matrix(stage.rotation).as_rotvec()).as_matrix()
    start = offset_beside(stage, APART)
    source = place_layer("source", seen, stage.source, turn, start + way * (stage.after - start))
    return [source, place_reference(seen)]


def _write_gif(path: Path, frames: Iterable[Picture]) -> None:
    from PIL import Image

    plain = Image.Dither.NONE  # the pattern of any other flickers
    first, *rest = (Image.fromarray(frame).quantize(NUM_COLORS, dither=plain) for frame in frames)
    first.save(path, "GIF", save_all=True, append_images=rest, duration=MILLISECONDS, loop=0)


def paint(
    layers: Sequence[Layer], colors: Sequence[Vector], low: Corner, high: Corner, most: tuple[int, int]
) -> Picture:
    """Paint the window as a picture of at most ``most`` pixels: shaded dots, the nearest of which is seen."""
    scale = float((np.array(most) / (high - low)).min())
    width, height = (max(2, 2 * round(side * scale / 2)) for side in (high - low).tolist())
    depth = np.concatenate([layer.points[:, 2] for layer in layers])
    near, far = depth.max(), depth.min()
    shades = [shade(layer, color, near, far) for layer, color in zip(layers, colors, strict=True)]
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
    shade_of[nearness] = np.rint(255 * np.concatenate(shades))
    shade_of[-1] = np.rint(255 * parse_color(BACKGROUND))  # a pixel that nothing covers has the owner −1
    fine = owner.reshape(height, FINE, width, FINE)
    parts = [shade_of[fine[:, i, :, j]] for i in range(FINE) for j in range(FINE)]
    return (sum(parts[1:], parts[0]) // FINE**2).astype(np.uint8)


def _disc(radius: float) -> Int64[np.ndarray, "m 2"]:
    """The pixels of a dot, relative to its centre."""
    reach = int(np.ceil(radius))
    grid = np.stack(np.meshgrid(*[np.arange(-reach, reach + 1)] * 2), axis=-1).reshape(-1, 2)
    return grid[np.square(grid).sum(1) <= radius**2].astype(np.int64)
