"""Recorded mug-hanging demonstrations of EDF (Ryu et al. 2023): a mug in a gripper, a table with a stand."""

from __future__ import annotations

import zipfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bitr.data.info import DatasetInfo
from bitr.data.pair import AssemblyPair
from bitr.data.pairs import Pairs
from bitr.data.poses import nearest_pose
from bitr.data.root import below
from bitr.errors import InputError
from bitr.io import Geometry

FILES = {
    "train": "manipulation/edf_demos/test_demo_demo_*.npz",
    "test": "manipulation/edf_demos/test_unseen_demo_demo_*.npz",
}
"""Ten demonstrations with one set of objects, two with mugs that were not seen."""
SIDES = ("grasp", "scene")


@dataclass(frozen=True)
class _Demonstrated:
    paths: tuple[Path, ...]

    def __call__(self, i: int, rng: np.random.Generator) -> AssemblyPair:
        return demonstration(self.paths[i])


def demonstration(path: Path) -> AssemblyPair:
    """The gripper with its mug, in the gripper's frame, onto the table with the stand, in metres."""
    try:
        with np.load(path, allow_pickle=False) as file:
            held, scene = (
                _cloud(file[f"place_{side}_points"], file[f"place_{side}_rgb"], path) for side in SIDES
            )
            target = np.asarray(file["place_target_T"], dtype=np.float64)
            if target.shape != (4, 4):
                raise ValueError(f"place_target_T has the shape {target.shape}, expected a 4×4 pose")
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
        raise InputError(f"{path}: is no recorded demonstration ({error})") from error
    return AssemblyPair(held, scene, nearest_pose(target, str(path)), path.stem, unit="m")


def _cloud(points: np.ndarray, colors: np.ndarray, path: Path) -> Geometry:
    if points.ndim != 2 or points.shape != (len(points), 3) or colors.shape != points.shape:
        raise ValueError(
            f"points of the shape {points.shape} and colours of {colors.shape}, expected n×3 each"
        )
    return Geometry(points.astype(np.float64), colors=colors.astype(np.float64) / 255, name=str(path))


def _open(split: str, root: Path | None, seed: int) -> Pairs:
    paths = tuple(below(root, FILES[split]))
    return Pairs("mug-hanging-edf", split, seed, _Demonstrated(paths), range(len(paths)))


INFO = DatasetInfo(
    name="mug-hanging-edf",
    title="recorded demonstrations of hanging a mug with a gripper",
    section="",
    licence="MIT (EDF, Ryu et al. 2023)",
    source="the demonstrations of https://github.com/tomato1mule/edf, as npz below manipulation/edf_demos",
    splits=("train", "test"),
    present=lambda root: bool(below(root, *FILES.values())),
    open=_open,
    joints=("touch", "model"),
)
