"""Mug-hanging and bowl-placing (Sec. 6.6): simulated scenes as cameras see them, and EDF's recordings."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np

from bitr.data.pair import AssemblyPair, Pairs
from bitr.data.poses import move_points, nearest_pose
from bitr.data.sim.objects import has_scans
from bitr.data.sim.scenes import SCANNED_EVERY, TASKS, Scene, SceneKey, load_arrays, scene_of
from bitr.data.sim.world import PIXELS, POINTS, see
from bitr.data.storage import SPLITS, Arrays, find_below, open_npz
from bitr.errors import InputError
from bitr.io import Geometry

ALL_AROUND = (30.0, -30.0) * 3
"""Degrees above the horizon of the views of an object that is held in the air."""
FROM_ABOVE = (20.0, 50.0) * 3
"""Degrees above the horizon of the views of a support on the table."""
OWN_AXIS = np.array([[0.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
"""Two points of the axis of a round object, in its own frame."""
RECORDINGS = {
    "train": "manipulation/edf_demos/test_demo_demo_*.npz",
    "test": "manipulation/edf_demos/test_unseen_demo_demo_*.npz",
}
"""Ten demonstrations with one set of objects, two with mugs that were not seen."""


def _make(
    name: str, split: str, seed: int, root: Path | None, i: int, rng: np.random.Generator
) -> AssemblyPair:
    from_scans = has_scans(root) and i % SCANNED_EVERY == SCANNED_EVERY - 1
    key = SceneKey(name, split, seed, i, from_scans)
    found = load_arrays(f"cameras-{POINTS}-{PIXELS}", key.id, lambda: _look_at(scene_of(key.id, root), rng))
    source, reference = (
        Geometry(found[f"{side}_points"], name=f"{key.id}/{side}") for side in ("source", "reference")
    )
    axis = move_points(found["observed"], OWN_AXIS) if TASKS[name].is_round else None
    return AssemblyPair(source, reference, found["ref_from_src"], key.id, unit="m", axis=axis)


def _look_at(scene: Scene, rng: np.random.Generator) -> Arrays:
    """All that a pair of this scene needs."""
    draft = scene.draft
    return {
        "source_points": see(draft.object.moved(draft.observed), ALL_AROUND, rng),
        "reference_points": see(draft.support, FROM_ABOVE, rng),
        "ref_from_src": scene.ref_from_src,
        "observed": draft.observed,
    }


def sim_pairs(name: str, split: str, root: Path | None = None, seed: int = 0, n: int | None = None) -> Pairs:
    """The first ``n`` pairs of a simulated data set, by default as many as the paper has.

    No object is in two splits. If the root has scanned tableware, each fourth scene has it.
    """
    if split not in SPLITS:
        raise InputError(f"{name}: no split {split!r}, expected one of {', '.join(SPLITS)}")
    rows = range(TASKS[name].sizes[split] if n is None else n)
    return Pairs(name, split, seed, partial(_make, name, split, seed, root), rows)


# recorded demonstrations of EDF (Ryu et al. 2023): a mug in a gripper, a table with a stand


def read_demonstration(path: Path) -> AssemblyPair:
    """The gripper with its mug, in the gripper's frame, onto the table with the stand, in metres."""
    sides = ("grasp", "scene")
    needed = [f"place_{side}_{part}" for side in sides for part in ("points", "rgb")]
    with open_npz(path, *needed, "place_target_T") as file:
        held, scene = (_cloud(file[f"place_{s}_points"], file[f"place_{s}_rgb"], path) for s in sides)
        target = np.asarray(file["place_target_T"], dtype=np.float64)
    if target.shape != (4, 4):
        raise InputError(f"{path}: place_target_T has the shape {target.shape}, expected a 4×4 pose")
    return AssemblyPair(held, scene, nearest_pose(target, str(path)), path.stem, unit="m")


def _cloud(points: np.ndarray, colors: np.ndarray, path: Path) -> Geometry:
    if points.ndim != 2 or points.shape[1] != 3 or colors.shape != points.shape:
        raise InputError(
            f"{path}: points of the shape {points.shape} and colours of {colors.shape}, expected n×3 each"
        )
    return Geometry(points.astype(np.float64), colors=colors.astype(np.float64) / 255, name=str(path))


def _open_recorded(split: str, root: Path | None, seed: int) -> Pairs:
    paths = tuple(find_below(root, RECORDINGS[split]))
    return Pairs("mug-hanging-edf", split, seed, partial(_make_recorded, paths), range(len(paths)))


def _make_recorded(paths: tuple[Path, ...], i: int, rng: np.random.Generator) -> AssemblyPair:
    return read_demonstration(paths[i])


OPEN = {**{name: partial(sim_pairs, name) for name in TASKS}, "mug-hanging-edf": _open_recorded}
PRESENT = {"mug-hanging-edf": lambda root: bool(find_below(root, *RECORDINGS.values()))}
