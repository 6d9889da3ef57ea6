"""One side of a pair as the model sees it; made by rules that move with it and are the same on both sides."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace

import numpy as np
import torch

from bitr.errors import require
from bitr.groups import Cloud
from bitr.io import Geometry, as_points, estimate_normals, even_draw, farthest_points
from bitr.io.geometry import CANDIDATES
from bitr.model import BITRConfig

SAMPLES = 16  # points drawn on a mesh for each point that the model sees
MIN_POINTS = 4  # fewest points that the model accepts

log = logging.getLogger("bitr")


@dataclass(frozen=True)
class Piece:
    """A dense cloud of the piece, and the few of its points that the model sees."""

    dense: Geometry
    seen: Geometry


def as_piece(geometry: Geometry, budget: int, seed: int) -> Piece:
    """Sample a mesh or thin a cloud evenly, drop copies of points, and take the farthest points."""
    log.info("choosing up to %d points of %s", budget, geometry.name)
    cloud = as_points(geometry, SAMPLES * budget, seed)
    dense = cloud.rows(even_draw(len(cloud.points), CANDIDATES * budget, seed))
    if geometry.faces is None:
        dense = dense.rows(np.sort(np.unique(dense.points, axis=0, return_index=True)[1]))
    is_small = len(dense.points) <= budget
    seen = dense if is_small else dense.rows(farthest_points(dense.points, budget))
    found = f"only {len(seen.points)} of {len(geometry.points)} points are at different places"
    require(len(seen.points) >= MIN_POINTS, f"{geometry.name}: {found}, expected at least {MIN_POINTS}")
    return Piece(dense, seen)


def with_features(x: Piece, y: Piece, config: BITRConfig) -> tuple[Geometry, Geometry]:
    """The seen points with the features that the model needs; normals are the files' if both have them."""
    seen = [replace(p.seen, colors=p.seen.colors if config.colors else None) for p in (x, y)]
    for geometry in seen if config.colors else ():
        problem = f"{geometry.name}: has no colours, and the model was made for clouds with colours"
        require(geometry.colors is not None, problem)
    if not config.normals:
        seen = [replace(geometry, normals=None) for geometry in seen]
    elif any(geometry.normals is None for geometry in seen):
        seen = [
            replace(geometry, normals=estimate_normals(geometry.points, piece.dense.points))
            for geometry, piece in zip(seen, (x, y), strict=True)
        ]
    return seen[0], seen[1]


def as_cloud(geometry: Geometry, device: torch.device) -> Cloud:
    """The input of a model: a batch of one, on its device."""
    points, normals, colors = (
        None if part is None else torch.tensor(part[None], device=device)
        for part in (geometry.points, geometry.normals, geometry.colors)
    )
    assert points is not None
    return Cloud(points, normals, colors)
