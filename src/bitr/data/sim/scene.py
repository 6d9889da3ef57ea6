"""A scene: an object, what it is to be put on, and where it belongs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float64
from scipy.spatial.transform import Rotation

from bitr.data.poses import inverse, pose
from bitr.data.sim.bodies import Body


@runtime_checkable
class Goal(Protocol):
    """What a task asks of the object beyond staying where it is."""

    def unmet(self, world_from_object: Float64[np.ndarray, "4 4"]) -> str | None:
        """In words, why the object at this pose does not meet the goal; None when it does."""
        ...


@dataclass(frozen=True, eq=False)
class Draft:
    """A scene before its physics: the support stands in the world, the object is held at its start."""

    object: Body
    """With its centre of mass at the origin."""
    support: Body
    goal: Goal
    start: Float64[np.ndarray, "4 4"]
    """World from object, from where it is let go to find its place."""
    observed: Float64[np.ndarray, "4 4"]
    """Source from object: the pose in which the object is seen."""


@dataclass(frozen=True, eq=False)
class Scene:
    """A scene whose target was found by simulation. The world's frame is the reference's: z is up."""

    id: str
    draft: Draft
    target: Float64[np.ndarray, "4 4"]
    """World from object, at rest on the support."""

    @property
    def ref_from_src(self) -> Float64[np.ndarray, "4 4"]:
        return self.target @ inverse(self.draft.observed)


@dataclass(frozen=True)
class Task:
    """A kind of scene: its name, the paper's number of pairs, and how one is drawn."""

    name: str
    sizes: dict[str, int]
    draw: Callable[[np.random.Generator, str, int | None, Path | None], Draft]
    """(generator, split, choice, root): from scanned objects when a choice among them is given."""
    round: bool
    """The object may be turned about its own z axis without changing the result."""


def about_z(angle: float) -> Float64[np.ndarray, "3 3"]:
    c, s = np.cos(angle), np.sin(angle)
    return np.array([[c, -s, 0.0], [s, c, 0.0], [0.0, 0.0, 1.0]])


def random_place(rng: np.random.Generator) -> Float64[np.ndarray, "4 4"]:
    """Somewhere on the table, turned about the vertical."""
    x, y = rng.uniform(-0.15, 0.15, 2)
    return pose(about_z(rng.uniform(0, 2 * np.pi)), np.array([x, y, 0.0]))


def random_grasp(rng: np.random.Generator) -> Float64[np.ndarray, "4 4"]:
    """Any orientation, as an arm may hold it, above the table."""
    rotation = Rotation.from_quat(rng.normal(size=4)).as_matrix()
    return pose(rotation, np.array([0.0, 0.0, 0.4]) + rng.uniform(-0.15, 0.15, 3))
