"""Reading and writing clouds and meshes."""

from bitr.io.geometry import Geometry
from bitr.io.objects import as_geometry
from bitr.io.reading import read
from bitr.io.sample import as_points, sample_surface
from bitr.io.writing import SUFFIXES, write, write_scene

__all__ = [
    "SUFFIXES",
    "Geometry",
    "as_geometry",
    "as_points",
    "read",
    "sample_surface",
    "write",
    "write_scene",
]
