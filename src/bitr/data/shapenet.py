"""Shapes of ShapeNet: airplanes (Sec. 6.3.1), and cars beside motorbikes (Sec. 6.3.2); npz files go first."""

from __future__ import annotations

import csv
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bitr.data.poses import AssemblyPair, Pairs, pose
from bitr.data.storage import SPLITS, find_below, open_npz, split_of
from bitr.data.transforms import both, crop, move_randomly, sample, to_unit_sphere, two_samples, with_normals
from bitr.errors import require
from bitr.io import Geometry, read

NUM_POINTS = 1024
AIRPLANES = "airplane/*.npz"
VEHICLES = {"vehicles/*.npz": "", "motorbikes_github/*.npz": "motorbike/", "cars_apolloscape/*.npz": "car/"}
"""Files of vehicles, and their kind where a file does not tell it; the first alone has test shapes."""
INCOMPLETE = "sanjay-sripada+voice-recognition-ar:assets/bike.glb"
"""A motorbike that is left out: half of its handlebar is missing."""
KEEP = {"airplane": 0.7, "car-motorbike": 1.0}  # default share of each cloud that a crop keeps
CAR_AT = np.array([0.0, 0.0, 1.0])  # the car's place on the motorbike's right: forward is +x, up is +y

AIRPLANE, CAR, MOTORBIKE = "02691156", "02958343", "03790512"
ROOTS = ("shapenet", "ShapeNetCore.v2", "ShapeNetCore.v1")
FILES = ("models/model_normalized.obj", "model.obj")  # mesh of a model in version 2 and in version 1

Shapes = Mapping[str, Callable[[], Geometry]]
"""Shapes of radius 1 by id, read on demand. Vehicles all head the same way."""


def _make(
    shapes: Shapes, ids: list[tuple[str, ...]], keep: float, i: int, rng: np.random.Generator
) -> AssemblyPair:
    """Two samples of an airplane, or a car beside a motorbike; each is cropped by a plane of its own."""
    chosen = [shapes[id]() for id in ids[i]]
    if len(chosen) == 1:
        sides, place = two_samples(chosen[0], NUM_POINTS, rng), np.zeros(3)
    else:
        sides, place = (sample(chosen[0], NUM_POINTS, rng), sample(chosen[1], NUM_POINTS, rng)), CAR_AT
    pair = AssemblyPair(*sides, pose(np.eye(3), place), "+".join(ids[i]))
    cropped = both(pair, lambda side: crop(side, keep, rng))
    return move_randomly(both(cropped, with_normals), rng)


def airplanes(root: Path | None) -> Shapes:
    """All airplanes below the root: those of npz files, or else ShapeNetCore's."""
    packed = {
        f"{path.stem}:{name}": load
        for path in find_below(root, AIRPLANES)
        for name, load in packed_shapes(path).items()
    }
    return packed or shapenet_models(root, AIRPLANE)


def vehicles(root: Path | None) -> Shapes:
    """All cars and motorbikes, by ids that begin with "car/" or "motorbike/"."""
    packed = {
        kind + name.replace("motorcycle/", "motorbike/").replace("+", "/"): load
        for pattern, kind in VEHICLES.items()
        for path in find_below(root, pattern)
        for name, load in packed_shapes(path, *([] if kind else ["cls"])).items()
        if name != INCOMPLETE
    }
    return packed or {
        f"{kind}/{id}": load
        for kind, synset in (("car", CAR), ("motorbike", MOTORBIKE))
        for id, load in shapenet_models(root, synset).items()
    }


def _open(name: str, keep: float, split: str, root: Path | None, seed: int) -> Pairs:
    shapes, official = (airplanes if name == "airplane" else vehicles)(root), shapenet_splits(root)

    def of_split(kind: str) -> list[str]:
        known = ((id, official.get(id.removeprefix(kind))) for id in sorted(shapes) if id.startswith(kind))
        return [id for id, listed in known if (listed or split_of(name, id)) == split]

    ids: list[tuple[str, ...]] = [(id,) for id in of_split("")]
    if name == "car-motorbike":
        ids = [(car, bike) for bike in of_split("motorbike/") for car in of_split("car/")]
    return Pairs(name, split, seed, partial(_make, shapes, ids, keep), range(len(ids)))


def packed_shapes(path: Path, *labels: str) -> Shapes:
    """Shapes of an npz file's ``points``, by ids of their labels and ``names``, joined by slashes."""
    with open_npz(path, "points", "names", *labels) as arrays:
        points, names = arrays["points"], arrays["names"]
        columns: list[NDArray[np.generic]] = [arrays[label] for label in labels]
    fits = points.ndim == 3 and points.shape[2] == 3 and {len(c) for c in (names, *columns)} == {len(points)}
    require(fits, f"{path}: points have the shape {points.shape}, expected ({len(names)}, n, 3)")
    ids = ["/".join(str(value) for value in row) for row in zip(*columns, names, strict=True)]
    clouds = points.astype(np.float32).astype(np.float64)
    return {id: partial(Geometry, cloud, name=id) for id, cloud in zip(ids, clouds, strict=True)}


def shapenet_models(root: Path | None, synset: str) -> Shapes:
    """The models of a class of ShapeNetCore; an id is the synset and the model's name."""
    for folder in find_below(root, *(f"{name}/{synset}" for name in ROOTS)):
        found = {model.name: find_below(model, *FILES) for model in sorted(folder.glob("*"))}
        return {f"{synset}/{name}": partial(_load_model, paths[0]) for name, paths in found.items() if paths}
    return {}


def _load_model(path: Path) -> Geometry:
    """The mesh, of radius 1: forward +x, up +y, right +z."""
    mesh = replace(read(path), normals=None, colors=None)
    if path.match(FILES[0]):  # version 2 has the front of a shape at −z, version 1 at +x
        forward_to_x = np.array([[0.0, 0.0, -1.0], [0.0, 1.0, 0.0], [1.0, 0.0, 0.0]])
        mesh = replace(mesh, points=mesh.points @ forward_to_x.T)
    return to_unit_sphere(mesh)


def shapenet_splits(root: Path | None) -> dict[str, str]:
    """The official split of each model, if the file ``all.csv`` lies beside the classes."""
    for path in find_below(root, *(f"{name}/all.csv" for name in ROOTS)):
        with open(path, encoding="utf-8", newline="") as file:
            rows = csv.DictReader(file)
            is_known = {"synsetId", "modelId", "split"} <= set(rows.fieldnames or ())
            require(is_known, f"{path}: found {rows.fieldnames}, expected synsetId, modelId and split")
            found = {f"{row['synsetId'].zfill(8)}/{row['modelId']}": row["split"] for row in rows}
        return {id: split for id, split in found.items() if split in SPLITS}
    return {}


def _variant(name: str, title: str, option: str) -> dict[str, Any]:
    """``airplane:0.5`` keeps half of each cloud."""
    try:
        keep = float(option)
    except ValueError:
        keep = 0.0
    expected = f"expected the share of each cloud to keep, as in {name}:0.5"
    require(0 < keep <= 1, f"{name}:{option}: {expected}")
    if keep == KEEP[name]:
        return {"name": name}
    title = title.replace(f"a share {KEEP[name]:g} ", f"a share {keep:g} ")
    return {"name": f"{name}:{keep:g}", "title": title, "open": partial(_open, name, keep)}


OPEN = {name: partial(_open, name, keep) for name, keep in KEEP.items()}
VARIANTS = {name: partial(_variant, name) for name in KEEP}
