"""Films and thumbnails: clouds painted as pixels without a plotting library, and the assembly as a GIF."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from jaxtyping import Int64, UInt8
from scipy.spatial.transform import Rotation

from bitr.errors import InputError
from bitr.files import whole_file
from bitr.show.picture import (
    BACKGROUND,
    COLORS,
    Corner,
    Layer,
    bounding_box,
    offset_beside,
    parse_color,
    place_layer,
    place_moved_source,
    place_reference,
    shade,
)
from bitr.show.stage import Scene, Stage, Vector, set_stage

FILM = ".gif"
REST, TRAVEL, STAY = 4, 30, 18
"""Frames before the source sets off, on its way, and in its place."""
MILLISECONDS = 70
"""Duration of a frame."""
WIDTH, HEIGHT, FILM_POINTS = 480, 360, 4000
"""Largest size of a film in pixels, and most points of a cloud in it."""
APART = 1.05
"""Distance between the centres at first, in sums of the two radii."""
SWING = np.deg2rad(20.0)
"""Swing of the camera to either side; one full swing in a film, so that its end meets its beginning."""
NUM_COLORS = 64
"""Colours of each frame: two hues, their shades, and the rims against white."""
THUMBNAIL, THUMBNAIL_POINTS = (320, 240), 2000
FINE = 2
"""Pixels are painted this many times finer and averaged, for smooth rims."""
DOT = (1.5, 9.0)
"""Least and greatest diameter of a point, in pixels."""

Picture = UInt8[np.ndarray, "h w 3"]

log = logging.getLogger("bitr")


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
    """Draw the pictures of the film, one after another.

    The source starts beside the reference, turned as its file has it, whatever place the file gives it. Its
    centre goes straight to its place, while it turns about its centre at an even rate about one axis; slowly
    at both ends. Red turns into yellow on the way.
    """
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
        yield paint(shot, [source, parse_color(COLORS["reference"])], low, high, (WIDTH, HEIGHT))


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
    """Paint the window from ``low`` to ``high`` as a picture of at most so many pixels, with even sides.

    Points are dots, shaded by their surface; the nearest of all dots that cover a pixel is seen.
    """
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
