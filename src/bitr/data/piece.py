"""One side of a pair as the model sees it; made by rules that move with it and are the same on both sides."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Int64

from bitr.errors import InputError
from bitr.groups import Cloud
from bitr.io import Geometry, as_points, estimate_normals, even_draw, farthest_points
from bitr.io.sample import CANDIDATES
from bitr.model import BITRConfig

SAMPLES = 16
"""Points drawn on a mesh for each point that the model sees."""
MIN_POINTS = 4
"""What the model needs."""

log = logging.getLogger("bitr")


@dataclass(frozen=True)
class Piece:
    """A cloud that samples the piece densely, and the few of its points that the model sees."""

    dense: Geometry
    seen: Geometry


def as_piece(geometry: Geometry, budget: int, seed: int) -> Piece:
    """Meshes are sampled by area, large clouds drawn from evenly; then the farthest points are taken.

    Of points at one place the first stays, with its normal and colour: copies would hide how far apart the
    points are.
    """
    log.info("choosing up to %d points of %s", budget, geometry.name)
    cloud = as_points(geometry, SAMPLES * budget, seed)
    dense = _rows(cloud, even_draw(len(cloud.points), CANDIDATES * budget, seed))
    if geometry.faces is None:
        dense = _rows(dense, np.sort(np.unique(dense.points, axis=0, return_index=True)[1]))
    few = len(dense.points) <= budget
    seen = dense if few else _rows(dense, farthest_points(dense.points, budget))
    if len(seen.points) < MIN_POINTS:
        raise InputError(
            f"{geometry.name}: only {len(seen.points)} of {len(geometry.points)} points are at different "
            f"places, expected at least {MIN_POINTS}"
        )
    return Piece(dense, seen)


def with_features(x: Piece, y: Piece, config: BITRConfig) -> tuple[Geometry, Geometry]:
    """What the model sees of both pieces, with the normals and colours that it was made for, and no others.

    Normals of the files are used when both have them; else both get estimated ones, oriented alike.
    """
    seen = [replace(p.seen, colors=p.seen.colors if config.colors else None) for p in (x, y)]
    if config.colors:
        for geometry in seen:
            if geometry.colors is None:
                raise InputError(
                    f"{geometry.name}: has no colours, and the model was made for clouds with colours"
                )
    if not config.normals:
        seen = [replace(geometry, normals=None) for geometry in seen]
    elif any(geometry.normals is None for geometry in seen):
        seen = [
            replace(geometry, normals=estimate_normals(geometry.points, piece.dense.points))
            for geometry, piece in zip(seen, (x, y), strict=True)
        ]
    return seen[0], seen[1]


def as_cloud(geometry: Geometry, device: torch.device) -> Cloud:
    """What a model is called with: on its device, as a batch of one."""
    points, normals, colors = (
        None if part is None else torch.tensor(part[None], device=device)
        for part in (geometry.points, geometry.normals, geometry.colors)
    )
    assert points is not None
    return Cloud(points, normals, colors)


def _rows(cloud: Geometry, index: Int64[np.ndarray, " m"]) -> Geometry:
    if len(index) == len(cloud.points):
        return cloud
    normals = None if cloud.normals is None else cloud.normals[index]
    colors = None if cloud.colors is None else cloud.colors[index]
    return replace(cloud, points=cloud.points[index], normals=normals, colors=colors)
