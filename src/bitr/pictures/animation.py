"""The assembly as a short film: the source travels to its place while the camera swings about both."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
from jaxtyping import Float64, UInt8
from scipy.spatial.transform import Rotation

from bitr.files import whole_file
from bitr.pictures.film import check_film, write_film
from bitr.pictures.picture import COLORS, Layer, box_of, layer_of, rgb
from bitr.pictures.raster import painted
from bitr.pictures.scene import Scene
from bitr.pictures.stage import Stage, staged

REST, TRAVEL, STAY = 4, 30, 18
"""Frames before the source sets off, on its way, and in its place."""
MOST_POINTS = 4000
"""Of a cloud, in a film as small as this."""
BESIDE = 1.05
"""How far the centres are apart at first, in sums of the two radii."""
SWING = np.deg2rad(20.0)
"""To either side; one full swing in a film, so that its end meets its beginning."""
WIDTH, HEIGHT = 480, 360
"""Of the film at most, in pixels."""

Picture = UInt8[np.ndarray, "h w 3"]

log = logging.getLogger("bitr")


def write_animation(path: Path, scene: Scene, *, force: bool) -> None:
    """Write the film (.gif, .mp4); an existing file is refused without ``force``, and none is partial."""
    check_film(path)
    with whole_file(path, force=force) as temporary:
        write_film(temporary, frames(scene))


def frames(scene: Scene) -> Iterator[Picture]:
    """The pictures of the film, one after another.

    The source starts beside the reference, turned as its file has it, whatever place the file gives it. Its
    centre goes straight to its place, while it turns about its centre at an even rate about one axis; slowly
    at both ends. Red turns into yellow on the way.
    """
    stage = staged(scene, MOST_POINTS)
    count = REST + TRAVEL + STAY
    shots = [_shot(stage, _way(frame), frame / count) for frame in range(count)]
    boxes = [box_of(shot) for shot in shots]
    low, high = np.min([b[0] for b in boxes], axis=0), np.max([b[1] for b in boxes], axis=0)
    red, yellow = rgb(COLORS["source"]), rgb(COLORS["source, moved"])
    for frame, shot in enumerate(shots):
        if frame % 8 == 0:
            log.info("drawing frame %d of %d", frame + 1, count)
        source = red + (yellow - red) * _way(frame)
        yield painted(shot, [source, rgb(COLORS["reference"])], low, high, (WIDTH, HEIGHT))


def _way(frame: int) -> float:
    """Share of the way that the source has gone, with no jump of speed: t²(3 − 2t)."""
    t = float(np.clip((frame - REST) / TRAVEL, 0, 1))
    return t * t * (3 - 2 * t)


def _shot(stage: Stage, way: float, time: float) -> list[Layer]:
    """Both clouds as the camera sees them; ``time`` runs from 0 to 1."""
    swing = Rotation.from_rotvec([0.0, SWING * np.sin(2 * np.pi * time), 0.0]).as_matrix()
    seen = replace(stage, view=swing @ stage.view)
    turn = Rotation.from_rotvec(way * Rotation.from_matrix(stage.rotation).as_rotvec()).as_matrix()
    start = _start(stage)
    source = layer_of("source", seen, stage.source, turn, start + way * (stage.after - start))
    return [source, layer_of("reference", seen, stage.reference, np.eye(3), np.zeros(3))]


def _start(stage: Stage) -> Float64[np.ndarray, " 3"]:
    """To the left of the reference: where the files put the pieces, one often hides the other."""
    apart = BESIDE * (stage.source.radius + stage.reference.radius)
    return np.array([-apart, 0.0, 0.0]) @ stage.view
