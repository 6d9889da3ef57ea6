"""Several geometries as one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from bitr.errors import InputError
from bitr.io.geometry import Geometry


def join(parts: Sequence[Geometry], name: str) -> Geometry:
    """All points one after the other; normals, colours and faces where every part has them."""
    starts = np.cumsum([0, *(len(p.points) for p in parts[:-1])])
    faces = [None if p.faces is None else p.faces + start for p, start in zip(parts, starts, strict=True)]
    return Geometry(
        np.concatenate([p.points for p in parts]),
        _all([p.normals for p in parts]),
        _all([p.colors for p in parts]),
        _all(faces),
        name,
        tuple(w for p in parts for w in p.warnings),
    )


def join_scene(parts: Sequence[Geometry], name: str) -> Geometry:
    """The meshes of a scene as one, or its points where it has no mesh."""
    if not parts:
        raise InputError(f"{name}: a scene without meshes or points, expected some")
    meshes = [p for p in parts if p.faces is not None]
    if not meshes or len(meshes) == len(parts):
        return join(parts, name)
    loose = sum(len(p.points) for p in parts if p.faces is None)
    joined = join(meshes, name)
    return replace(joined, warnings=(*joined.warnings, f"{loose} loose points beside the meshes: ignored"))


def placed(geometry: Geometry, matrix: NDArray[np.float64]) -> Geometry:
    """The geometry under any affine map; normals stay orthogonal to the surface and of length 1."""
    linear = matrix[:3, :3]
    mirrored = bool(np.linalg.det(linear) < 0)
    normals, faces = geometry.normals, geometry.faces
    if normals is not None and not np.array_equal(linear, np.eye(3)):
        # the cofactors are the inverse transpose times the determinant, and exist for every map
        cofactors = np.stack([np.cross(linear[i - 2], linear[i - 1]) for i in range(3)])
        turned = normals @ (-cofactors if mirrored else cofactors).T
        length = np.linalg.norm(turned, axis=1, keepdims=True)
        normals = turned / np.where(length > 0, length, 1)
    if faces is not None and mirrored:
        faces = faces[:, ::-1].copy()  # else the surface would turn inside out
    return replace(geometry, points=geometry.points @ linear.T + matrix[:3, 3], normals=normals, faces=faces)


def _all(arrays: Sequence[NDArray[np.generic] | None]) -> NDArray[np.generic] | None:
    known = [a for a in arrays if a is not None]
    return np.concatenate(known) if len(known) == len(arrays) else None
