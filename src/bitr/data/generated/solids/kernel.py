"""Between arrays and manifold3d, which does the exact geometry: solids, their unions and differences."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np
from jaxtyping import Float64, Int64

from bitr.errors import InputError

Solid = Any
"""A ``manifold3d.Manifold``, closed and without boundary; a + b is its union, a - b its difference."""


def kernel() -> Any:
    """The module manifold3d; it is only needed where solids are made, not where stored ones are sampled."""
    try:
        return import_module("manifold3d")
    except ImportError as error:
        raise InputError(
            'making shapes needs manifold3d, which is not installed: pip install "bitr[data]"'
        ) from error


def solid(vertices: Float64[np.ndarray, "v 3"], faces: Int64[np.ndarray, "f 3"]) -> Solid:
    """The solid inside a closed surface whose faces turn counter-clockwise, seen from outside."""
    module = kernel()
    mesh = module.Mesh64(
        vert_properties=np.ascontiguousarray(vertices),
        tri_verts=np.ascontiguousarray(faces.astype(np.uint64)),
    )
    made = module.Manifold(mesh)
    if made.status() != module.Error.NoError or made.volume() <= 0:
        raise ValueError(f"{len(faces)} faces bound no solid: {made.status()}, volume {made.volume():.3g}")
    return made


def solid_of_mesh(
    vertices: Float64[np.ndarray, "v 3"], faces: Int64[np.ndarray, "f 3"], least: float
) -> Solid | None:
    """The solid inside a mesh of any origin: its overlapping shells united, its loose bits dropped.

    None where its faces bound no solid, or where less than a share ``least`` of the volume is connected.
    """
    for turned in (faces, faces[:, ::-1]):
        try:
            whole = union(solid(vertices, turned).decompose())
        except ValueError:
            continue
        main = largest_part(whole)
        return main if main.volume() >= least * whole.volume() else None
    return None


def vertices_of(given: Solid) -> Float64[np.ndarray, "v 3"]:
    """The corners of the surface."""
    return np.array(given.to_mesh64().vert_properties[:, :3])


def mapped(given: Solid, moved: Float64[np.ndarray, "v 3"]) -> Solid:
    """The same faces with other corners, one for each of ``vertices_of``."""
    return solid(moved, given.to_mesh64().tri_verts.astype(np.int64))


def largest_part(given: Solid) -> Solid:
    """Of several separate parts, the one with most volume."""
    return max(given.decompose(), key=lambda part: part.volume())


def union(parts: list[Solid]) -> Solid:
    """All that lies in any of the parts."""
    module = kernel()
    return module.Manifold.batch_boolean(parts, module.OpType.Add)
