"""Closed meshes that the tests of contact share, and the laws of what separates them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from scipy.spatial import ConvexHull
from scipy.spatial.transform import Rotation

from bitr.assembly.separate import separate
from bitr.data import bumpy_shape
from bitr.data.poses import inverse, pose, random_pose
from bitr.groups import Rigid
from bitr.io import Geometry
from bitr.testing import Laws, as_rigid, pose_gap

CORNERS = np.array([[x, y, z] for x in (-0.5, 0.5) for y in (-0.5, 0.5) for z in (-0.5, 0.5)])
FACES = np.array([int(corner) for corner in "013032467475045051237276026064157173"]).reshape(-1, 3)


def box(*size: float) -> Geometry:
    """A box about the origin; without a size, of edge 1."""
    return Geometry(CORNERS * (size or 1.0), faces=FACES, name="box")


def bumpy(seed: int, n: int = 400) -> Geometry:
    """A closed mesh with bumps and dents; all its points are seen from the middle."""
    points = bumpy_shape(n, torch.Generator().manual_seed(seed)).numpy()
    rays = points / np.linalg.norm(points, axis=1, keepdims=True)
    faces = ConvexHull(rays).simplices.astype(np.int64)
    turned = np.linalg.det(rays[faces]) < 0
    faces[turned] = faces[turned, ::-1]
    return Geometry(points, faces=faces, name=f"bumpy {seed}")


def tube(radius: float = 1.0, around: int = 64, along: int = 20) -> Geometry:
    """One wall that faces outwards, open at both ends, of height 2."""
    turn, height = 2 * np.pi * np.arange(around) / around, np.linspace(-1, 1, along)
    ring = np.stack([radius * np.cos(turn), radius * np.sin(turn)], axis=1)
    points = np.concatenate([np.column_stack([ring, np.full(around, z)]) for z in height])
    a = np.arange(around * (along - 1))
    b = a - a % around + (a + 1) % around
    lower, upper = np.stack([a, b, a + around], axis=1), np.stack([b, b + around, a + around], axis=1)
    return Geometry(points, faces=np.concatenate([lower, upper]), name="tube")


def joined(a: Geometry, b: Geometry) -> Geometry:
    """Both in one mesh, as they lie."""
    faces = np.concatenate([a.faces, b.faces + len(a.points)])
    return Geometry(np.concatenate([a.points, b.points]), faces=faces)


def shifted(*shift: float, degrees: float = 0.0) -> np.ndarray:
    """A turn about the axis (1, 2, 3), then a shift."""
    axis = np.radians(degrees) * np.array([1.0, 2.0, 3.0]) / np.sqrt(14)
    return pose(Rotation.from_rotvec(axis).as_matrix(), np.array(shift, dtype=np.float64))


def pushed(x: Geometry, y: Geometry, degrees: float = 40.0, overlap: float = 0.25) -> np.ndarray:
    """The source turned, and set beside the reference so that their extents along x overlap."""
    left = x.moved(shifted(0, 0, 0, degrees=degrees)).points[:, 0].min()
    return shifted(y.points[:, 0].max() - left - overlap, 0, 0, degrees=degrees)


def larger(geometry: Geometry, factor: float) -> Geometry:
    return replace(geometry, points=factor * geometry.points)


def separation_laws(x: Geometry, y: Geometry, start: np.ndarray, seed: int = 0, factor: float = 30.0) -> Laws:
    """How far the answers for the moved, swapped and scaled pieces are from what they must be."""
    rng = np.random.default_rng(seed)
    g1, g2 = random_pose(rng, 2.0), random_pose(rng, 2.0)
    found = as_rigid(separate(x, y, start).pose)

    def gap(x: Geometry, y: Geometry, start: np.ndarray, expected: Rigid) -> float:
        return pose_gap(as_rigid(separate(x, y, start).pose), expected, x.points)

    scaled = Rigid.from_matrix(torch.from_numpy(start)).scaled(factor).matrix().numpy()
    return Laws(
        bi=gap(
            x.moved(g1),
            y.moved(g2),
            g2 @ start @ inverse(g1),
            as_rigid(g2) @ found @ as_rigid(inverse(g1)),
        ),
        swap=gap(y, x, inverse(start), found.inverse()),
        scale=gap(larger(x, factor), larger(y, factor), scaled, found.scaled(factor)),
    )
