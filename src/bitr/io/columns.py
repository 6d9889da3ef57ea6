"""What the columns of a table of numbers mean: by their names, or else by their values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from jaxtyping import Float64
from numpy.typing import NDArray

from bitr.errors import InputError
from bitr.io.geometry import Geometry

POSITION = (("x", "y", "z"),)
NORMAL = (("nx", "ny", "nz"), ("normal_x", "normal_y", "normal_z"), ("normalx", "normaly", "normalz"))
COLOR = (("red", "green", "blue"), ("r", "g", "b"), ("diffuse_red", "diffuse_green", "diffuse_blue"))


def pick(names: Sequence[str], spellings: tuple[tuple[str, str, str], ...]) -> tuple[int, int, int] | None:
    """Where three named columns stand, in any of their spellings; None if they are not all there."""
    lower = [name.strip().lower() for name in names]
    for spelling in spellings:
        if all(lower.count(name) == 1 for name in spelling):
            i, j, k = (lower.index(name) for name in spelling)
            return i, j, k
    return None


def from_columns(
    table: Float64[np.ndarray, "n c"], name: str, names: Sequence[str] | None = None, suffix: str = ""
) -> Geometry:
    """Points, normals and colours of a table: three columns are x y z, a fourth is an intensity.

    Names decide where there are some. Else six columns are points with normals (suffix .xyzn) or colours
    (.xyzrgb); for other suffixes the last three are normals if all have length 1 (to 2 %), colours if all
    lie in 0..255, and otherwise are ignored with a warning. Seven are x y z intensity r g b, or x y z,
    normals and a curvature; nine have normals and colours in either order, told apart the same way.
    """
    columns = table.shape[1]
    if columns < 3:
        dimensions = "two dimensions only" if columns == 2 else "one column only"
        raise InputError(f"{name}: {dimensions}, expected at least three columns: x y z")
    if names is not None and (position := pick(names, POSITION)) is not None:
        geometry = Geometry(np.ascontiguousarray(table[:, position]), name=name)
        normal, color = pick(names, NORMAL), pick(names, COLOR)
        if normal is not None:
            geometry = replace(geometry, normals=np.ascontiguousarray(table[:, normal]))
        return geometry if color is None else with_colors(geometry, table[:, color])
    geometry = Geometry(np.ascontiguousarray(table[:, :3]), name=name)
    if suffix == ".xyzn" and columns >= 6:
        return replace(geometry, normals=np.ascontiguousarray(table[:, 3:6]))
    if suffix == ".xyzrgb" and columns >= 6:
        return with_colors(geometry, table[:, 3:6])
    if columns > 4:
        return _by_values(geometry, table)
    return geometry


def with_colors(geometry: Geometry, colors: NDArray[np.generic]) -> Geometry:
    """The geometry with colours brought to 0..1: integers by their type, numbers above 1 as 0..255."""
    values = colors.astype(np.float64)
    top = float(np.nanmax(values, initial=0.0, where=np.isfinite(values)))
    if colors.dtype.kind == "u" and colors.dtype.itemsize == 2 and top > 255:
        scale = 65535.0
    elif colors.dtype.kind in "ui":
        scale = 255.0  # many writers put 8 bits into wider integers
    else:
        scale = 1.0 if top <= 1 else 255.0
    low, values = float(np.nanmin(values, initial=0.0)), values / scale
    if (values < 0).any() or (values > 1).any():
        warning = f"colours from {low:g} to {top:g}, expected 0 to 1 or 0 to 255: colours ignored"
        return replace(geometry, warnings=(*geometry.warnings, warning))
    return replace(geometry, colors=values)


def _by_values(geometry: Geometry, table: Float64[np.ndarray, "n c"]) -> Geometry:
    columns = table.shape[1]
    triples = {6: (3,), 7: (3, 4), 9: (3, 6)}.get(columns, ())
    known = 0
    for start in triples:
        triple = table[:, start : start + 3]
        if geometry.normals is None and _unit_length(triple):
            geometry, known = replace(geometry, normals=np.ascontiguousarray(triple)), known + 1
            if columns == 7:
                break  # the seventh is a curvature
        elif geometry.colors is None and _in_color_range(triple) and not (columns == 7 and start == 3):
            geometry, known = with_colors(geometry, triple), known + 1
    if known < (2 if columns == 9 else 1):
        warning = (
            f"{columns} columns without names, of which some are neither normals of length 1 nor colours "
            "in 0..255: ignored (name them in a first line such as: x y z nx ny nz)"
        )
        geometry = replace(geometry, warnings=(*geometry.warnings, warning))
    return geometry


def _unit_length(triple: Float64[np.ndarray, "n 3"]) -> bool:
    rows = triple[np.isfinite(triple).all(axis=1)]
    if not len(rows) or np.abs(rows).max() > 2:
        return False
    return bool((np.abs(np.linalg.norm(rows, axis=1) - 1) < 0.02).all())


def _in_color_range(triple: Float64[np.ndarray, "n 3"]) -> bool:
    rows = triple[np.isfinite(triple).all(axis=1)]
    return len(rows) > 0 and bool(((rows >= 0) & (rows <= 255)).all())
