"""What every geometry must pass, whether it came from a file or from memory."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from jaxtyping import Bool, Float64

from bitr.errors import InputError
from bitr.io.faces import area_vectors
from bitr.io.geometry import Geometry

MIN_POINTS = 4
"""Fewer say nothing about a pose: three points have a mirror symmetry."""
LARGEST, SMALLEST = 1e100, 1e-100
"""Between these, squares of lengths neither overflow nor vanish."""


def checked(geometry: Geometry) -> Geometry:
    """The geometry without its NaN and infinite rows, told in a warning; raises if it says nothing."""
    _check_faces(geometry)
    geometry = _finite(geometry)
    name, points = geometry.name, geometry.points
    if len(points) < MIN_POINTS and geometry.faces is None:
        raise InputError(
            f"{name}: only {len(points)} points with finite coordinates, expected {MIN_POINTS} or more"
        )
    largest = float(np.abs(points).max(initial=0.0))
    if largest > LARGEST:
        raise InputError(f"{name}: coordinates up to {largest:.3g}, expected less than {LARGEST:g}")
    if geometry.faces is not None and not len(geometry.faces):
        raise InputError(f"{name}: no face has three finite corners, expected a mesh with faces")
    extent = float(np.ptp(points, axis=0).max())
    if extent < SMALLEST:
        raise InputError(
            f"{name}: zero extent, all {len(points)} points are equal; expected points of a shape"
        )
    if geometry.faces is not None and not area_vectors(points, geometry.faces).any():
        raise InputError(f"{name}: the mesh has no area, all {len(geometry.faces)} faces are degenerate")
    return geometry


def _check_faces(geometry: Geometry) -> None:
    if geometry.faces is None or not len(geometry.faces):
        return
    low, high, n = int(geometry.faces.min()), int(geometry.faces.max()), len(geometry.points)
    if low < 0 or high >= n:
        wrong = low if low < 0 else high
        raise InputError(
            f"{geometry.name}: a face uses vertex {wrong} (counted from 0), expected 0 to {n - 1}: "
            f"there are {n} vertices"
        )


def _finite(geometry: Geometry) -> Geometry:
    """All rows finite; where most normals or colours are missing, those go and the points stay."""
    keep = np.isfinite(geometry.points).all(axis=1)
    if geometry.normals is not None and _mostly_missing(geometry.normals, keep):
        geometry = _warned(replace(geometry, normals=None), "most normals are NaN or infinite: ignored")
    if geometry.colors is not None and _mostly_missing(geometry.colors, keep):
        geometry = _warned(replace(geometry, colors=None), "most colours are NaN or infinite: ignored")
    for rows in (geometry.normals, geometry.colors):
        keep = keep if rows is None else keep & np.isfinite(rows).all(axis=1)
    dropped = len(keep) - int(keep.sum())
    if not dropped:
        return geometry
    return _warned(_keep(geometry, keep), f"{dropped} of {len(keep)} rows are NaN or infinite: dropped")


def _mostly_missing(rows: Float64[np.ndarray, "n 3"], keep: Bool[np.ndarray, " n"]) -> bool:
    return 2 * int(np.isfinite(rows[keep]).all(axis=1).sum()) < int(keep.sum())


def _warned(geometry: Geometry, warning: str) -> Geometry:
    return replace(geometry, warnings=(*geometry.warnings, warning))


def _keep(geometry: Geometry, keep: Bool[np.ndarray, " n"]) -> Geometry:
    """The kept rows and the faces among them, renumbered."""
    faces = geometry.faces
    if faces is not None:
        faces = (np.cumsum(keep) - 1)[faces[keep[faces].all(axis=1)]]
    return replace(
        geometry,
        points=geometry.points[keep],
        normals=None if geometry.normals is None else geometry.normals[keep],
        colors=None if geometry.colors is None else geometry.colors[keep],
        faces=faces,
    )
