"""Mug-hanging and bowl-placing as data sets: scenes by their ids, and pairs of what cameras see of them."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bitr.data.info import DatasetInfo, Open
from bitr.data.pair import AssemblyPair
from bitr.data.pairs import Pairs
from bitr.data.poses import acted
from bitr.data.root import data_root
from bitr.data.sim import bowl_placing, mug_hanging, scanned
from bitr.data.sim.camera import Cameras, Sensor
from bitr.data.sim.keys import SCANNED_EVERY, SceneKey
from bitr.data.sim.making import draft_of, make_scene
from bitr.data.sim.scene import Scene, Task
from bitr.data.sim.store import Arrays, stored
from bitr.data.splits import SPLITS
from bitr.errors import InputError
from bitr.io import Geometry

TASKS = {task.name: task for task in (mug_hanging.TASK, bowl_placing.TASK)}
ALL_AROUND = (30.0, -30.0) * 3
"""Degrees above the horizon of the views of an object that is held in the air."""
FROM_ABOVE = (20.0, 50.0) * 3
"""Of what stands on a table."""
OWN_AXIS = np.array([[0.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
"""Two points of the axis of a round object, in its own frame."""


@dataclass(frozen=True)
class _Seen:
    """Makes the pairs of a split."""

    task: Task
    split: str
    seed: int
    root: Path | None
    sensor: Sensor

    def __call__(self, i: int, rng: np.random.Generator) -> AssemblyPair:
        from_scans = scanned.present(self.root) and i % SCANNED_EVERY == SCANNED_EVERY - 1
        key = SceneKey(self.task.name, self.split, self.seed, i, from_scans)
        found = stored(self.sensor.name, key.id, lambda: self.look(scene_of(key.id, self.root), rng))
        source, reference = (
            Geometry(found[f"{side}_points"], found.get(f"{side}_normals"), name=f"{key.id}/{side}")
            for side in ("source", "reference")
        )
        axis = acted(found["observed"], OWN_AXIS) if self.task.round else None
        return AssemblyPair(source, reference, found["ref_from_src"], key.id, unit="m", axis=axis)

    def look(self, scene: Scene, rng: np.random.Generator) -> Arrays:
        """All that a pair of this scene needs."""
        draft = scene.draft
        seen = {
            "source": self.sensor.see(draft.object.moved(draft.observed), ALL_AROUND, rng),
            "reference": self.sensor.see(draft.support, FROM_ABOVE, rng),
        }
        points = {f"{side}_points": cloud.points for side, cloud in seen.items()}
        normals = {f"{side}_normals": c.normals for side, c in seen.items() if c.normals is not None}
        return points | normals | {"ref_from_src": scene.ref_from_src, "observed": draft.observed}


def scene_of(id: str, root: str | os.PathLike[str] | None = None) -> Scene:
    """The scene of a pair, from its id alone; one of scanned objects needs the folder of data."""
    key, folder = SceneKey.of(id), data_root(root)
    if key.task not in TASKS:
        raise InputError(f"{id}: no simulated data set {key.task}, expected one of {', '.join(TASKS)}")
    task = TASKS[key.task]

    def make() -> Arrays:
        scene, attempt = make_scene(task, key, folder)
        return {"attempt": np.array(attempt), "target": scene.target}

    found = stored("scenes", key.id, make)
    return Scene(key.id, draft_of(task, key, int(found["attempt"]), folder), found["target"])


def sim_pairs(
    name: str,
    split: str,
    root: Path | None = None,
    seed: int = 0,
    n: int | None = None,
    sensor: Sensor | None = None,
) -> Pairs:
    """The first ``n`` pairs of a simulated data set, by default as many as the paper has.

    No object is in two splits. Where the root has scanned tableware, each fourth scene is of it.
    """
    if split not in SPLITS:
        raise InputError(f"{name}: no split {split!r}, expected one of {', '.join(SPLITS)}")
    task = TASKS[name]
    make = _Seen(task, split, seed, root, sensor or Cameras())
    return Pairs(name, split, seed, make, range(task.sizes[split] if n is None else n))


def _opened(name: str) -> Open:
    return lambda split, root, seed: sim_pairs(name, split, root, seed)


def _info(name: str, title: str) -> DatasetInfo:
    return DatasetInfo(
        name=name,
        title=title,
        section="Sec. 6.6",
        licence="MIT, as this package; scanned tableware where it is used: CC BY 4.0, Downs et al. 2022",
        source='made here, and stored as it is needed; making it needs pip install "bitr[sim]"',
        splits=SPLITS,
        present=lambda root: True,
        open=_opened(name),
        joints=("touch", "model"),
    )


MUG_HANGING = _info("mug-hanging", "simulated mugs to hang on stands by their handles")
BOWL_PLACING = _info("bowl-placing", "simulated bowls to put on plates")
