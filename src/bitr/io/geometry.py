"""Clouds and meshes in memory: the form that every reader returns and every writer takes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float64, Int64
from numpy.typing import NDArray

from bitr.errors import InputError

POSITION = (("x", "y", "z"),)
NORMAL = (("nx", "ny", "nz"), ("normal_x", "normal_y", "normal_z"), ("normalx", "normaly", "normalz"))
COLOR = (("red", "green", "blue"), ("r", "g", "b"), ("diffuse_red", "diffuse_green", "diffuse_blue"))
"""Spellings of the columns that hold coordinates, normals and colours."""

Columns = Sequence[tuple[str, NDArray[np.generic]]]  # named columns of one length; a name may come twice


@dataclass(frozen=True)
class Geometry:
    """A point cloud or, with ``faces``, a mesh; all rows finite, in the unit of the file."""

    points: Float64[np.ndarray, "n 3"]
    normals: Float64[np.ndarray, "n 3"] | None = None
    colors: Float64[np.ndarray, "n 3"] | None = None
    """From 0 to 1."""
    faces: Int64[np.ndarray, "f 3"] | None = None
    name: str = "points"
    """The file it came from, for messages."""
    warnings: tuple[str, ...] = ()
    """Changes made on reading, one sentence each, such as dropped rows."""

    def moved(self, matrix: Float64[np.ndarray, "4 4"]) -> Geometry:
        """The geometry under a rigid motion: points move, normals turn, colours and faces stay."""
        turn = matrix[:3, :3].T
        normals = None if self.normals is None else self.normals @ turn
        return replace(self, points=self.points @ turn + matrix[:3, 3], normals=normals)

    def rows(self, chosen: NDArray[np.generic]) -> Geometry:
        """Some of its points with their normals and colours, by indices or a mask; faces stay as they are."""
        normals = None if self.normals is None else self.normals[chosen]
        colors = None if self.colors is None else self.colors[chosen]
        return replace(self, points=self.points[chosen], normals=normals, colors=colors)

    def warn(self, warning: str) -> Geometry:
        """The geometry with one more warning."""
        return replace(self, warnings=(*self.warnings, warning))

    def paint(self, colors: NDArray[np.generic]) -> Geometry:
        """The geometry with colours scaled to 0..1: integers by their type, numbers above 1 as 0..255."""
        values = colors.astype(np.float64)
        top = float(np.nanmax(values, initial=0.0, where=np.isfinite(values)))
        low = float(np.nanmin(values, initial=0.0))
        if colors.dtype.kind == "u" and colors.dtype.itemsize == 2 and top > 255:
            values /= 65535
        elif colors.dtype.kind in "ui" or top > 1:  # many writers put 8 bits into wider integers
            values /= 255
        if (values < 0).any() or (values > 1).any():
            return self.warn(f"colours from {low:g} to {top:g}, expected 0 to 1 or 0 to 255: colours ignored")
        return replace(self, colors=values)


def from_columns(columns: Columns, name: str) -> Geometry:
    """The geometry of named columns, with normals and colours where there are some."""
    points, normals, colors = (pick(columns, spellings) for spellings in (POSITION, NORMAL, COLOR))
    if points is None:
        names = [column for column, _ in columns]
        flat = "two dimensions only: " if {"x", "y"} <= set(names) else ""
        found = ", ".join(names)[:80] or "no columns"
        raise InputError(f"{name}: {flat}found {found}; expected x, y and z")
    geometry = Geometry(points.astype(np.float64), name=name)
    if normals is not None:
        geometry = replace(geometry, normals=normals.astype(np.float64))
    return geometry if colors is None else geometry.paint(colors)


def pick(columns: Columns, spellings: Iterable[tuple[str, str, str]]) -> NDArray[np.generic] | None:
    """Three named columns side by side, or None where no spelling has each of them just once."""
    names = [name.strip().lower() for name, _ in columns]
    for spelling in spellings:
        if all(names.count(name) == 1 for name in spelling):
            return np.stack([columns[names.index(name)][1] for name in spelling], axis=1)
    return None


def area_vectors(
    points: Float64[np.ndarray, "n 3"], faces: Int64[np.ndarray, "f 3"]
) -> Float64[np.ndarray, "f 3"]:
    """Face normals of length proportional to the area; the common factor keeps the numbers near 1."""
    a, b, c = (points[faces[:, i]] for i in range(3))
    unit = np.ptp(points, axis=0).max()
    return np.cross((b - a) / unit, (c - a) / unit)


def join(parts: Sequence[Geometry], name: str) -> Geometry:
    """All points one after the other; normals, colours and faces where every part has them."""
    starts = np.cumsum([0, *(len(p.points) for p in parts[:-1])])
    faces = [None if p.faces is None else p.faces + start for p, start in zip(parts, starts, strict=True)]
    return Geometry(
        np.concatenate([p.points for p in parts]),
        _concatenate([p.normals for p in parts]),
        _concatenate([p.colors for p in parts]),
        _concatenate(faces),
        name,
        tuple(w for p in parts for w in p.warnings),
    )


def _concatenate(arrays: Sequence[NDArray[np.generic] | None]) -> NDArray[np.generic] | None:
    known = [a for a in arrays if a is not None]
    return np.concatenate(known) if len(known) == len(arrays) else None


def join_scene(parts: Sequence[Geometry], name: str) -> Geometry:
    """The meshes of a scene as one, or its points where it has no mesh."""
    if not parts:
        raise InputError(f"{name}: a scene without meshes or points, expected some")
    meshes = [p for p in parts if p.faces is not None]
    if not meshes or len(meshes) == len(parts):
        return join(parts, name)
    loose = sum(len(p.points) for p in parts if p.faces is None)
    return join(meshes, name).warn(f"{loose} loose points beside the meshes: ignored")


def place(geometry: Geometry, matrix: NDArray[np.float64]) -> Geometry:
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
