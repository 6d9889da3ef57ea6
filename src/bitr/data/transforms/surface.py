"""What a shape gets before it is cut: a standard size, and normals."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from bitr.io import Geometry, estimate_normals


def to_unit_sphere(shape: Geometry) -> Geometry:
    """The shape with the middle of its bounding box at the origin, and its farthest point at distance 1."""
    points = shape.points - (shape.points.min(axis=0) / 2 + shape.points.max(axis=0) / 2)
    return replace(shape, points=points / np.linalg.norm(points, axis=1).max())


def with_normals(cloud: Geometry) -> Geometry:
    """The cloud with normals estimated from its own points, pointing away from their mean."""
    return replace(cloud, normals=estimate_normals(cloud.points, cloud.points))
