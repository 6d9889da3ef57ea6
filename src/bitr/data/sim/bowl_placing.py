"""Bowl-placing: a bowl is set upright on a plate."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Float64

from bitr.data.poses import pose
from bitr.data.sim.scanned import scanned
from bitr.data.sim.scene import Draft, Task, random_grasp, random_place
from bitr.data.sim.tableware import random_bowl, random_plate

UPRIGHT_DEG = 15.0


@dataclass(frozen=True)
class StandsUpright:
    """The z axis of the object points up, within a few degrees."""

    def unmet(self, world_from_object: Float64[np.ndarray, "4 4"]) -> str | None:
        tilt = float(np.rad2deg(np.arccos(np.clip(world_from_object[2, 2], -1, 1))))
        if tilt <= UPRIGHT_DEG:
            return None
        return f"it leans by {tilt:.0f}° from upright, at most {UPRIGHT_DEG:.0f}° were expected"


def draw(rng: np.random.Generator, split: str, choice: int | None, root: Path | None) -> Draft:
    if choice is None:
        bowl, plate = random_bowl("bowl", rng), random_plate("plate", rng)
    else:
        bowl = scanned("bowl", split, choice, root)
        plate = scanned("plate", split, int(rng.integers(1000)), root)
    bowl = bowl.about_center()
    place = random_place(rng)
    lowest = -float(bowl.surface.points[:, 2].min())
    drop = float(plate.surface.points[:, 2].max()) + 0.002  # above the rim: it slides to where it rests
    start = place @ pose(np.eye(3), np.array([0.0, 0.0, lowest + drop]))
    return Draft(bowl, plate.moved(place), StandsUpright(), start, random_grasp(rng))


TASK = Task("bowl-placing", {"train": 40, "val": 10, "test": 10}, draw, round=True)
