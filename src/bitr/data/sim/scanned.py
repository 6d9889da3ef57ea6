"""Scanned mugs, bowls and plates of Google Scanned Objects, where the folder of data has them."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

import numpy as np
from jaxtyping import Float64
from scipy.spatial import ConvexHull

from bitr.data.sim.bodies import Body
from bitr.data.splits import frozen_splits
from bitr.errors import InputError
from bitr.io import Geometry, sample_surface

FILE = Path("manipulation") / "gso_tableware_meshes.npz"
"""Below the folder of data: metres, z up, standing at z = 0, under "<name>/v" and "<name>/f"."""

CELL = 0.01
"""Metres of a grid's cell, and so of a piece: larger holes stay open, walls are off by 0.5 mm at most."""
OVERLAP = 0.001
SKIN = 0.001
"""Metres that pieces go below the surface, so that a flat face has a volume; scanned walls are thicker."""
SAMPLES = 40_000


def present(root: Path | None) -> bool:
    return root is not None and (root / FILE).is_file()


def scanned(kind: str, split: str, choice: int, root: Path | None) -> Body:
    """One of the split's objects of this kind; ``choice`` counts on from the last to the first."""
    names = [
        id for id, home in frozen_splits("tableware").items() if home == split and id.startswith(f"{kind}/")
    ]
    return load(names[choice % len(names)].partition("/")[2], root)


@lru_cache(maxsize=8)
def load(name: str, root: Path | None) -> Body:
    if root is None or not present(root):
        raise InputError(f"{name}: needs the file {FILE} of the folder of data; name it with BITR_DATA")
    path = root / FILE
    try:
        with np.load(path, allow_pickle=False) as file:
            points, faces = file[f"{name}/v"].astype(np.float64), file[f"{name}/f"].astype(np.int64)
    except (OSError, ValueError, KeyError) as error:
        raise InputError(f"{path}: has no mesh of {name} ({error})") from error
    surface = Geometry(points, faces=faces, name=name)
    return Body(name, surface, pieces_of(surface))


def pieces_of(surface: Geometry) -> tuple[Float64[np.ndarray, "_ 3"], ...]:
    """The skin of a mesh in convex pieces: of each cell of a grid, the points of the surface in it.

    Neighbouring pieces overlap a little, so that nothing gets caught between them.
    """
    sample = sample_surface(surface, SAMPLES, seed=0)
    assert sample.normals is not None
    shifts = OVERLAP * np.array(np.meshgrid(*[(-1, 1)] * 3)).reshape(3, -1).T
    cells = np.floor((sample.points[None] + shifts[:, None]) / CELL).astype(np.int64)
    cells -= cells.min(axis=(0, 1))
    numbers = np.ravel_multi_index(tuple(np.moveaxis(cells, 2, 0)), tuple(cells.max(axis=(0, 1)) + 1))
    pairs = np.unique(numbers * SAMPLES + np.arange(SAMPLES))  # a point and a cell, each once
    groups = np.split(pairs % SAMPLES, np.flatnonzero(np.diff(pairs // SAMPLES)) + 1)
    below = sample.points - SKIN * sample.normals
    # a handful of points is a corner that the neighbours' overlap covers
    return tuple(_corners(np.concatenate([sample.points[g], below[g]])) for g in groups if len(g) >= 8)


def _corners(points: Float64[np.ndarray, "n 3"]) -> Float64[np.ndarray, "m 3"]:
    return points[ConvexHull(points).vertices]
