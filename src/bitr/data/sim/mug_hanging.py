"""Mug-hanging: a mug is hung on the highest peg of a stand, by its handle."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Float64

from bitr.data.poses import pose
from bitr.data.sim.hangers import Peg, random_hanger
from bitr.data.sim.hole import Hole, find_hole
from bitr.data.sim.scanned import scanned
from bitr.data.sim.scene import Draft, Task, random_grasp, random_place
from bitr.data.sim.tableware import random_mug
from bitr.errors import InputError


@dataclass(frozen=True, eq=False)
class HangsByItsHandle:
    """A peg goes through the hole of the handle."""

    hole: Hole
    pegs: tuple[Peg, ...]

    def unmet(self, world_from_object: Float64[np.ndarray, "4 4"]) -> str | None:
        rotation, translation = world_from_object[:3, :3], world_from_object[:3, 3]
        center, axis = rotation @ self.hole.center + translation, rotation @ self.hole.axis
        if any(_crosses(peg, center, axis, self.hole.reach) for peg in self.pegs):
            return None
        return "no peg goes through the handle"


def _crosses(
    peg: Peg, center: Float64[np.ndarray, " 3"], axis: Float64[np.ndarray, " 3"], reach: float
) -> bool:
    """Whether the peg's middle line goes through the disc of this centre, normal and radius."""
    base, tip = (peg.base - center) @ axis, (peg.tip - center) @ axis
    if base * tip >= 0:
        return False
    through = peg.base + (peg.tip - peg.base) * base / (base - tip)
    return float(np.linalg.norm(through - center)) <= reach


def draw(rng: np.random.Generator, split: str, choice: int | None, root: Path | None) -> Draft:
    mug = random_mug("mug", rng) if choice is None else scanned("mug", split, choice, root)
    mug = mug.about_center()
    hole = find_hole(mug)
    if hole is None:
        raise InputError(f"{mug.name}: no hole of a handle is seen from any side, expected a mug")
    hanger = random_hanger("hanger", rng)
    place = random_place(rng)
    pegs = tuple(_placed(peg, place) for peg in hanger.pegs)
    width = float(np.ptp(mug.surface.points @ hole.axis))
    start = _start(hole, pegs[0], along=width / 2 + rng.uniform(0.015, 0.03))
    support = hanger.body.moved(place)
    return Draft(mug, support, HangsByItsHandle(hole, pegs), start, random_grasp(rng))


def _start(hole: Hole, peg: Peg, along: float) -> Float64[np.ndarray, "4 4"]:
    """The peg through the middle of the hole at this distance from the post, the body straight below.

    Of the two ways to hang a mug, always that with the hole's axis outwards along the peg:
    demonstrations that contradict each other teach nothing.
    """
    out = peg.direction
    up = np.array([0.0, 0.0, 1.0]) - out * out[2]
    up /= np.linalg.norm(up)
    handle = hole.center - hole.axis * (hole.axis @ hole.center)  # from the centre of mass
    handle /= np.linalg.norm(handle)
    world = np.stack([out, up, np.cross(out, up)], axis=1)
    own = np.stack([hole.axis, handle, np.cross(hole.axis, handle)], axis=1)
    rotation = world @ own.T
    return pose(rotation, peg.base + along * out - rotation @ hole.center)


def _placed(peg: Peg, place: Float64[np.ndarray, "4 4"]) -> Peg:
    turn, shift = place[:3, :3], place[:3, 3]
    return Peg(turn @ peg.base + shift, turn @ peg.tip + shift, peg.radius)


TASK = Task("mug-hanging", {"train": 30, "val": 5, "test": 5}, draw, round=False)
