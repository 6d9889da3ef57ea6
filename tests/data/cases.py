"""Clouds whose colours tell where each point belongs, so that an answer can be checked after any change."""

from __future__ import annotations

import numpy as np
from scipy.spatial import cKDTree

from bitr.data import AssemblyPair
from bitr.data.poses import random_pose
from bitr.data.transforms import assembled, move
from bitr.io import Geometry


def shape(n: int, rng: np.random.Generator) -> Geometry:
    """Points in the cube from −½ to ½; their colours are their places, and their normals depend on them."""
    points = rng.uniform(-0.5, 0.5, (n, 3))
    return Geometry(points, normals=normal_at(points), colors=points + 0.5, name="shape")


def normal_at(points: np.ndarray) -> np.ndarray:
    direction = np.stack([1 + points[:, 0], points[:, 1] - 2, 0.5 + points[:, 2]], axis=1)
    return direction / np.linalg.norm(direction, axis=1, keepdims=True)


def pair_of(n: int, rng: np.random.Generator) -> AssemblyPair:
    """Two samples of the cube, either moved."""
    return move(assembled(shape(n, rng), shape(n, rng), "pair"), random_pose(rng, 1.0), random_pose(rng, 1.0))


def belonging(cloud: Geometry) -> np.ndarray:
    """Places of the points in the assembled shape."""
    assert cloud.colors is not None
    return cloud.colors - 0.5


def answer_error(pair: AssemblyPair) -> float:
    """Distance of the source from its place after the answer is applied; the reference tells the place."""
    reference_from_shape = fitted(belonging(pair.reference), pair.reference.points)
    place = Geometry(belonging(pair.source)).moved(reference_from_shape).points
    return float(np.abs(pair.source.moved(pair.ref_from_src).points - place).max())


def fitted(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The motion that takes the points x onto the points y, by Kabsch's method."""
    u, _, vt = np.linalg.svd((y - y.mean(0)).T @ (x - x.mean(0)))
    matrix = np.eye(4)
    matrix[:3, :3] = u @ np.diag([1, 1, np.linalg.det(u @ vt)]) @ vt
    matrix[:3, 3] = y.mean(0) - matrix[:3, :3] @ x.mean(0)
    return matrix


def gaps(pair: AssemblyPair) -> np.ndarray:
    """Distances of the source's points, in place, to the reference."""
    return cKDTree(pair.reference.points).query(pair.source.moved(pair.ref_from_src).points)[0]


def box(size=(1.0, 1.0, 1.0), at=(0.0, 0.0, 0.0)):
    """A closed box of twelve triangles."""
    corners = np.array([[x, y, z] for x in (0, 1) for y in (0, 1) for z in (0, 1)], dtype=float)
    quads = [(0, 1, 3, 2), (4, 6, 7, 5), (0, 4, 5, 1), (2, 3, 7, 6), (0, 2, 6, 4), (1, 5, 7, 3)]
    faces = np.array([t for a, b, c, d in quads for t in ((a, b, c), (a, c, d))])
    return Geometry(corners * size + at, faces=faces, name="box")
