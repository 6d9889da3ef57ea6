"""Breaking Bad: fractures of a shape, each with its pieces in their assembled place."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from bitr.data.packed import opened
from bitr.data.root import below
from bitr.errors import InputError
from bitr.io import Geometry, join, read

SAME_PLACE = 1e-6
"""Vertices of two pieces that are closer, along each axis, are one vertex of the shape."""
PIECES = (".obj", ".glb", ".ply", ".stl", ".off")


@dataclass(frozen=True)
class Fracture:
    """A shape in two fragments; its id says "native" if it broke in two, "merged" if pieces were joined."""

    id: str
    shape: str
    load: Callable[[], tuple[Geometry, Geometry]]

    @property
    def native(self) -> bool:
        return "/native/" in f"/{self.id}/"


def packed_fractures(root: Path | None, name: str) -> list[Fracture]:
    """Those of ``NAME_meshes.npz``, in the bipartitions that ``NAME_index.json`` lists."""
    found = below(root, f"breaking_bad/{name}_index.json")
    if not found:
        return []
    meshes = found[0].with_name(f"{name}_meshes.npz")
    if not meshes.is_file():
        raise InputError(f"{meshes}: no such file, expected the meshes that {found[0].name} lists")
    return [
        fracture
        for entry in json.loads(found[0].read_text(encoding="utf-8"))
        for fracture in _bipartitions(meshes, entry)
    ]


def _bipartitions(path: Path, entry: dict[str, Any]) -> list[Fracture]:
    where = f"{entry['shape']}/{entry['fracture']}"
    kind = "native" if entry["pieces"] == 2 else "merged"
    fractures = []
    for sides in entry["bipartitions"]:
        label = "+".join(".".join(map(str, sides[side])) for side in "ab")
        load = partial(_merged_pieces, path, where, tuple(sides["a"]), tuple(sides["b"]))
        fractures.append(Fracture(f"{where}/{kind}/{label}", entry["shape"], load))
    return fractures


def _merged_pieces(
    path: Path, where: str, a: tuple[int, ...], b: tuple[int, ...]
) -> tuple[Geometry, Geometry]:
    with opened(path) as arrays:

        def piece(number: int) -> Geometry:
            key = f"{where}/{number}"
            if f"{key}/v" not in arrays:
                raise InputError(f"{path}: holds no {key}/v, which the index lists")
            vertices, faces = arrays[f"{key}/v"], arrays[f"{key}/f"]
            return Geometry(vertices.astype(np.float64), faces=faces.astype(np.int64), name=key)

        first, second = (merge([piece(number) for number in side], where) for side in (a, b))
    return first, second


def folder_fractures(root: Path | None, category: str) -> list[Fracture]:
    """Those of ``CATEGORY/SHAPE/FRACTURE/`` that have two files, one for each piece."""
    found = []
    for folder in below(root, f"breaking_bad/{category}/*/*", f"breaking_bad/*/{category}/*/*"):
        pieces = sorted(p for p in folder.glob("*") if p.suffix.lower() in PIECES) if folder.is_dir() else []
        if len(pieces) == 2:
            shape = folder.parent.name
            found.append(Fracture(f"{shape}/{folder.name}/native/0+1", shape, partial(_two_files, *pieces)))
    return found


def _two_files(a: Path, b: Path) -> tuple[Geometry, Geometry]:
    return merge([read(a)], str(a)), merge([read(b)], str(b))


def merge(pieces: Sequence[Geometry], name: str) -> Geometry:
    """The surface of several pieces together.

    A face that is there twice has the fragment on both sides: it is inside, and dropped. Single pieces have
    such faces too, left by the cells that they were put together from.
    """
    whole = join(pieces, name)
    if whole.faces is None:
        raise InputError(f"{name}: has no faces, expected a mesh")
    cells = np.round(whole.points / SAME_PLACE).astype(np.int64)
    _, first, same = np.unique(cells, axis=0, return_index=True, return_inverse=True)
    faces = same.reshape(-1)[whole.faces]
    faces = faces[(faces != np.roll(faces, 1, axis=1)).all(axis=1)]
    _, index, counts = np.unique(np.sort(faces, axis=1), axis=0, return_inverse=True, return_counts=True)
    outside = faces[counts[index.reshape(-1)] == 1]
    if not len(outside):
        raise InputError(f"{name}: every face is there twice, expected the surface of a piece")
    used, renumbered = np.unique(outside, return_inverse=True)
    return Geometry(whole.points[first][used], faces=renumbered.reshape(-1, 3), name=name)
