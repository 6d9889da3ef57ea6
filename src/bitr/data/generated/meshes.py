"""Pairs drawn from meshes of the user's: to test on shapes that no generator made."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bitr.data.generated.config import ShapesConfig
from bitr.data.generated.drawing import draw_kind
from bitr.data.generated.fracture import Fracture
from bitr.data.info import DatasetInfo
from bitr.data.pair import AssemblyPair
from bitr.data.pairs import Pairs
from bitr.data.root import below
from bitr.data.transforms import to_unit_sphere
from bitr.errors import InputError
from bitr.io import Geometry, read

MESHES = "meshes"
FILES = ("shapes/*.obj", "shapes/*.off", "shapes/*.ply", "shapes/*.stl")
KINDS = ("cut", "crop")
"""In turn. Meshes need not be solids, so that none is broken."""
EACH = 12
"""Pairs of each mesh."""


@dataclass(frozen=True)
class _Drawn:
    meshes: tuple[tuple[str, Fracture], ...]

    def __call__(self, i: int, rng: np.random.Generator) -> AssemblyPair:
        turn, number = divmod(i, len(self.meshes))
        name, mesh = self.meshes[number]
        return draw_kind(mesh, KINDS[turn % len(KINDS)], ShapesConfig(), f"{name}/{turn}", rng)


def _open(split: str, root: Path | None, seed: int) -> Pairs:
    meshes = tuple((path.stem, unbroken(to_unit_sphere(read(path)))) for path in below(root, *FILES))
    return Pairs("shapes:meshes", split, seed, _Drawn(meshes), range(EACH * len(meshes)))


def unbroken(mesh: Geometry) -> Fracture:
    """A mesh as it is, solid or not: the whole is its only node."""
    if mesh.faces is None:
        raise InputError(f"{mesh.name}: is a cloud of points, expected a mesh")
    faces = mesh.faces.astype(np.int32)
    one, none = np.zeros(len(faces), np.int16), np.full(len(faces), -1, np.int16)
    return Fracture(
        mesh.points.astype(np.float32), faces, one, none, np.zeros(0, np.int16), np.zeros((0, 2), np.int16)
    )


MESHES_INFO = DatasetInfo(
    name="shapes:meshes",
    title="meshes of the user's, cut and cropped",
    section="",
    licence="that of the meshes",
    source="put meshes (obj, off, ply, stl) into the folder shapes/",
    splits=("test",),
    present=lambda root: bool(below(root, *FILES)),
    open=_open,
)
