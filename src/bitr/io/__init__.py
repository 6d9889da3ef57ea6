"""Reading, sampling and writing clouds and meshes."""

from bitr.io.geometry import (
    Geometry,
    area_vectors,
    as_points,
    estimate_normals,
    even_draw,
    farthest_points,
    join,
    sample_surface,
    spacing_of,
)
from bitr.io.guard import check
from bitr.io.read import as_geometry, read
from bitr.io.write import SUFFIXES, write, write_scene

__all__ = [
    "SUFFIXES", "Geometry", "area_vectors", "as_geometry", "as_points", "check", "estimate_normals",
    "even_draw", "farthest_points", "join", "read", "sample_surface", "spacing_of", "write", "write_scene",
]  # fmt: skip
