"""ShapeNetCore: a folder per class (synset), in it a folder per model, in it an obj file.

Below the root it may be called ``shapenet``, ``ShapeNetCore.v1`` or ``ShapeNetCore.v2``.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from bitr.data.splits import SPLITS
from bitr.data.transforms import to_unit_sphere
from bitr.errors import InputError
from bitr.io import Geometry, read

AIRPLANE, CAR, MOTORBIKE = "02691156", "02958343", "03790512"
ROOTS = ("shapenet", "ShapeNetCore.v2", "ShapeNetCore.v1")
FILES = ("models/model_normalized.obj", "model.obj")
"""Of version 2 and of version 1."""
FORWARD_TO_X = np.array([[0.0, 0.0, -1.0], [0.0, 1.0, 0.0], [1.0, 0.0, 0.0]])
"""Version 1 has the front of a shape at +x, version 2 at −z; up is +y in both."""


@dataclass(frozen=True)
class Model:
    """One shape of ShapeNetCore; its id is its synset and its name."""

    id: str
    path: Path

    def load(self) -> Geometry:
        """The mesh, of radius 1: forward +x, up +y, right +z."""
        mesh = replace(read(self.path), normals=None, colors=None)
        if self.path.match(FILES[0]):
            mesh = replace(mesh, points=mesh.points @ FORWARD_TO_X.T)
        return to_unit_sphere(mesh)


def shapenet_models(root: Path | None, synset: str) -> Iterator[Model]:
    """The models of a class, by name."""
    for folder in _folders(root):
        if (folder / synset).is_dir():
            for model in sorted((folder / synset).iterdir()):
                path = next((model / file for file in FILES if (model / file).is_file()), None)
                if path is not None:
                    yield Model(f"{synset}/{model.name}", path)
            return


def shapenet_splits(root: Path | None) -> dict[str, str]:
    """The official split of each model, where the file ``all.csv`` lies beside the classes."""
    for folder in _folders(root):
        path = folder / "all.csv"
        if path.is_file():
            with open(path, encoding="utf-8", newline="") as file:
                rows = csv.DictReader(file)
                if not {"synsetId", "modelId", "split"} <= set(rows.fieldnames or ()):
                    raise InputError(f"{path}: found {rows.fieldnames}, expected synsetId, modelId and split")
                found = {f"{row['synsetId'].zfill(8)}/{row['modelId']}": row["split"] for row in rows}
            return {id: split for id, split in found.items() if split in SPLITS}
    return {}


def _folders(root: Path | None) -> list[Path]:
    return [] if root is None else [root / name for name in ROOTS if (root / name).is_dir()]
