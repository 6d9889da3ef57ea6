"""Scenes of mug-hanging and bowl-placing: drawn from numbers, settled by simulation, and judged by it.

A scene is an object, a support, and the pose at which the object rests on it. Its id spells the numbers from
which all of it follows.
"""

from __future__ import annotations

import os
import re
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from jaxtyping import Float, Float64
from scipy.spatial.transform import Rotation

from bitr.data.poses import Pose, Vector, inverse, nearest_pose, pose
from bitr.data.sim.objects import (
    Body,
    Hole,
    Peg,
    find_hole,
    random_bowl,
    random_hanger,
    random_mug,
    random_plate,
    scanned_body,
)
from bitr.data.sim.world import open_world
from bitr.data.storage import SPLITS, Arrays, cache_home, data_root, load_or_make, recipe_key
from bitr.errors import InputError

RECIPE, MADE_WITH = "1e0ed8655ba8", "3.2.7"
"""Version of the way from an id to a scene and its clouds, and of PyBullet, in the names of folders of stored
ones. Change it whenever an id gives another scene."""
SCANNED_EVERY = 4
"""If scanned objects are at hand, each fourth scene has them; the others stay the same."""
ID = re.compile(
    r"(?P<task>[a-z-]+)/(?P<split>train|val|test)/(?P<seed>\d+)/(?P<index>\d+)(?P<scanned>/scanned)?"
)
ATTEMPTS = 50
"""Scenes to draw until one holds."""
STEADY = 0.003
"""Metres that an object may move from its target in a second: far less than success asks for."""
CALM = 5e-4
"""Metres a second, below which an object is at rest."""
SECONDS = 1.0
"""Time between the release of an object and the look at it."""
FARTHEST_MOVE, FARTHEST_TURN_DEG = 0.03, 30.0
"""Metres that the centre of mass, and degrees that the object, may move after the release."""
DEEPEST = 0.02
"""Deepest start in other bodies, relative to the object's own size: about 3 mm for a mug."""
TOUCHING = 0.001
"""Metres between bodies that count as contact."""
UPRIGHT_DEG = 15.0


@dataclass(frozen=True)
class SceneKey:
    """The numbers from which a scene follows, and the id that spells them."""

    task: str
    split: str
    seed: int
    index: int
    scanned: bool = False

    @classmethod
    def of(cls, id: str) -> SceneKey:
        """The key that an id spells, as "mug-hanging/test/0/3"."""
        found = ID.fullmatch(id)
        if found is None:
            raise InputError(f"{id!r} names no simulated scene, expected one as mug-hanging/test/0/3")
        seed, index = int(found["seed"]), int(found["index"])
        return cls(found["task"], found["split"], seed, index, found["scanned"] is not None)

    @property
    def id(self) -> str:
        return f"{self.task}/{self.split}/{self.seed}/{self.index}" + "/scanned" * self.scanned


@dataclass(frozen=True, eq=False)
class Draft:
    """A scene before its physics: the support stands in the world, the object is held at its start."""

    object: Body
    """Its centre of mass is at the origin."""
    support: Body
    unmet: Callable[[Pose], str | None]
    """The reason why the object at this pose, world from object, misses its goal; None if it meets it."""
    start: Pose
    """World from object, at the release that lets it find its place."""
    observed: Pose
    """Source from object, when it is seen."""


@dataclass(frozen=True, eq=False)
class Scene:
    """A scene with a target found by simulation. The world's frame is the reference's: z is up."""

    id: str
    draft: Draft
    target: Pose
    """World from object, at rest on the support."""

    @property
    def ref_from_src(self) -> Pose:
        return self.target @ inverse(self.draft.observed)


@dataclass(frozen=True)
class Task:
    """A kind of scene: the paper's numbers of pairs, and a function that draws one."""

    sizes: dict[str, int]
    draw: Callable[[np.random.Generator, str, int | None, Path | None], Draft]
    """(generator, split, choice, root) → draft, of scanned objects if a choice among them is given."""
    is_round: bool
    """Turning the object about its own z axis does not change the result."""


def about_z(angle: float) -> Float64[np.ndarray, "3 3"]:
    """The rotation by an angle about z."""
    c, s = np.cos(angle), np.sin(angle)
    return np.array([[c, -s, 0.0], [s, c, 0.0], [0.0, 0.0, 1.0]])


def random_place(rng: np.random.Generator) -> Pose:
    """A place on the table, turned about the vertical."""
    x, y = rng.uniform(-0.15, 0.15, 2)
    return pose(about_z(rng.uniform(0, 2 * np.pi)), np.array([x, y, 0.0]))


def random_grasp(rng: np.random.Generator) -> Pose:
    """Any orientation above the table, as in a gripper."""
    rotation = Rotation.from_quat(rng.normal(size=4)).as_matrix()
    return pose(rotation, np.array([0.0, 0.0, 0.4]) + rng.uniform(-0.15, 0.15, 3))


# making: drawn, let go to find the place, and kept if the place holds


def scene_of(id: str, root: str | os.PathLike[str] | None = None) -> Scene:
    """The scene of a pair, by its id; one of scanned objects needs the folder of data."""
    key, folder = SceneKey.of(id), data_root(root)
    if key.task not in TASKS:
        raise InputError(f"{id}: no simulated data set {key.task}, expected one of {', '.join(TASKS)}")
    found = load_arrays("scenes", key.id, lambda: _find_target(key, folder))
    return Scene(key.id, _draft_of(key, int(found["attempt"]), folder), found["target"])


def load_arrays(folder: str, name: str, make: Callable[[], Arrays]) -> Arrays:
    """Read the arrays of a scene, or make and store them."""
    key = recipe_key(RECIPE, "pybullet", MADE_WITH)
    return load_or_make(cache_home() / "sim" / key / folder / f"{name.replace('/', '-')}.npz", make)


def _find_target(key: SceneKey, root: Path | None) -> Arrays:
    """The first attempt whose scene holds, mostly the first of all, and its target."""
    for attempt in range(ATTEMPTS):
        draft = _draft_of(key, attempt, root)
        target = _settle(draft)
        if target is None:
            continue
        outcome = release(draft, target)
        if outcome.succeeded and outcome.moved < STEADY:
            return {"attempt": np.array(attempt), "target": target}
    raise InputError(f"{key.id}: none of {ATTEMPTS} drawn scenes holds")


def _draft_of(key: SceneKey, attempt: int, root: Path | None) -> Draft:
    """The scene of a key, before its physics."""
    name, split = zlib.crc32(key.task.encode()), SPLITS.index(key.split)
    rng = np.random.default_rng([name, split, key.seed, key.index, int(key.scanned), attempt])
    choice = key.index // SCANNED_EVERY if key.scanned else None
    return TASKS[key.task].draw(rng, key.split, choice, root)


def _settle(draft: Draft, seconds: float = 15.0) -> Pose | None:
    """The pose at which the object comes to rest after its release from the start; None if it does not."""
    with open_world() as world:
        world.add_table()
        world.add(draft.support, np.eye(4), fixed=True)
        number = world.add(draft.object, draft.start, fixed=False)
        world.damp(number, 0.95)
        for _ in range(round(seconds / 0.25)):
            world.run(0.25)
            if world.speed(number, draft.object.size) < CALM:
                return world.pose(number)
    return None


# judging: an object is placed, let go, and looked at a second later


@dataclass(frozen=True)
class Outcome:
    """Result of a release; lengths in metres."""

    succeeded: bool
    reason: str
    """The reason of a failure; "stays" for a success."""
    penetration: float
    """Depth of the object in others when it was placed."""
    moved: float
    turned_deg: float


def release(draft: Draft, start: Pose) -> Outcome:
    """Let the object go at this pose, world from object, and judge where it ends."""
    with open_world() as world:
        table, support = world.add_table(), world.add(draft.support, np.eye(4), fixed=True)
        number = world.add(draft.object, start, fixed=False)
        penetration = max(0.0, -min(world.gap(number, table), world.gap(number, support)))
        deepest = DEEPEST * draft.object.size
        if penetration > deepest:
            depth = f"{1e3 * penetration:.1f} mm deep in what is there, at most {1e3 * deepest:.1f} mm"
            return Outcome(False, f"placed {depth}", penetration, 0.0, 0.0)
        world.run(SECONDS)
        end = world.pose(number)
        moved = float(np.linalg.norm(end[:3, 3] - start[:3, 3]))
        turned = float(np.rad2deg(Rotation.from_matrix(end[:3, :3] @ start[:3, :3].T).magnitude()))
        reason = _describe_move(start, end, moved, turned)
        if reason is None and world.gap(number, table) < TOUCHING:
            reason = f"rests on the table, not only on the {draft.support.name}"
        if reason is None and world.gap(number, support) > TOUCHING:
            reason = f"does not touch the {draft.support.name}"
        reason = reason or draft.unmet(end)
        return Outcome(reason is None, reason or "stays", penetration, moved, turned)


def _describe_move(start: Pose, end: Pose, moved: float, turned: float) -> str | None:
    """A phrase for the way the object left its place; None if it is still there."""
    if moved > FARTHEST_MOVE:
        verb = "fell" if start[2, 3] - end[2, 3] > 0.5 * moved else "moved"
        return f"{verb} by {1e2 * moved:.1f} cm, at most {1e2 * FARTHEST_MOVE:.0f} cm"
    is_turned = turned > FARTHEST_TURN_DEG
    return f"turned by {turned:.0f}°, at most {FARTHEST_TURN_DEG:.0f}°" if is_turned else None


def success(
    scene: Scene | str, ref_from_src: Float[np.ndarray, "4 4"], root: str | os.PathLike[str] | None = None
) -> Outcome:
    """Place the object of a scene by this pose, let it go, and tell if it stays; a pair's id names its scene.

    The pose is between the clouds of the data set: if they were moved, undo that first.
    """
    found = scene_of(scene, root) if isinstance(scene, str) else scene
    checked = nearest_pose(ref_from_src.astype(np.float64), found.id)
    return release(found.draft, checked @ found.draft.observed)


# mug-hanging: a mug is hung on the highest peg of a stand, by its handle


def _not_hanging(hole: Hole, pegs: tuple[Peg, ...], world_from_object: Pose) -> str | None:
    """None if a peg goes through the hole of the handle."""
    rotation, translation = world_from_object[:3, :3], world_from_object[:3, 3]
    center, axis = rotation @ hole.center + translation, rotation @ hole.axis
    is_through = any(_crosses(peg, center, axis, hole.reach) for peg in pegs)
    return None if is_through else "no peg goes through the handle"


def _crosses(peg: Peg, center: Vector, axis: Vector, reach: float) -> bool:
    """Tell if the peg's middle line goes through the disc of this centre, normal and radius."""
    base, tip = (peg.base - center) @ axis, (peg.tip - center) @ axis
    if base * tip >= 0:
        return False
    through = peg.base + (peg.tip - peg.base) * base / (base - tip)
    return float(np.linalg.norm(through - center)) <= reach


def _draw_mug(rng: np.random.Generator, split: str, choice: int | None, root: Path | None) -> Draft:
    mug = random_mug("mug", rng) if choice is None else scanned_body("mug", split, choice, root)
    mug = mug.about_center()
    hole = find_hole(mug)
    if hole is None:
        raise InputError(f"{mug.name}: no hole of a handle is seen from any side, expected a mug")
    hanger = random_hanger("hanger", rng)
    place = random_place(rng)
    pegs = tuple(_move_peg(place, peg) for peg in hanger.pegs)
    width = float(np.ptp(mug.surface.points @ hole.axis))
    start = _hanging_pose(hole, pegs[0], along=width / 2 + rng.uniform(0.015, 0.03))
    support = hanger.body.moved(place)
    return Draft(mug, support, partial(_not_hanging, hole, pegs), start, random_grasp(rng))


def _hanging_pose(hole: Hole, peg: Peg, along: float) -> Pose:
    """The pose with the peg through the middle of the hole at this distance from the post, the body below.

    There are two ways to hang a mug. The hole's axis always points outwards along the peg: contradictory
    demonstrations teach nothing.
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


def _move_peg(place: Pose, peg: Peg) -> Peg:
    turn, shift = place[:3, :3], place[:3, 3]
    return Peg(turn @ peg.base + shift, turn @ peg.tip + shift, peg.radius)


# bowl-placing: a bowl is set upright on a plate


def _not_upright(world_from_object: Pose) -> str | None:
    """None if the z axis of the object points up, within a few degrees."""
    tilt = float(np.rad2deg(np.arccos(np.clip(world_from_object[2, 2], -1, 1))))
    if tilt <= UPRIGHT_DEG:
        return None
    return f"it leans by {tilt:.0f}° from upright, at most {UPRIGHT_DEG:.0f}° were expected"


def _draw_bowl(rng: np.random.Generator, split: str, choice: int | None, root: Path | None) -> Draft:
    if choice is None:
        bowl, plate = random_bowl("bowl", rng), random_plate("plate", rng)
    else:
        bowl = scanned_body("bowl", split, choice, root)
        plate = scanned_body("plate", split, int(rng.integers(1000)), root)
    bowl = bowl.about_center()
    place = random_place(rng)
    lowest = -float(bowl.surface.points[:, 2].min())
    drop = float(plate.surface.points[:, 2].max()) + 0.002  # above the rim: it slides to where it rests
    start = place @ pose(np.eye(3), np.array([0.0, 0.0, lowest + drop]))
    return Draft(bowl, plate.moved(place), _not_upright, start, random_grasp(rng))


TASKS = {
    "mug-hanging": Task({"train": 30, "val": 5, "test": 5}, _draw_mug, is_round=False),
    "bowl-placing": Task({"train": 40, "val": 10, "test": 10}, _draw_bowl, is_round=True),
}
