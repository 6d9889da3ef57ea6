"""Mug-hanging and bowl-placing (Sec. 6.6): scenes drawn from numbers, settled and judged by simulation.

A scene is an object, a support, and the pose at which the object rests on it. Its id spells the numbers from
which all of it follows. Pairs are scenes as cameras see them; EDF's recordings are a data set beside them.
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

from bitr.data import storage
from bitr.data.poses import AssemblyPair, Pairs, Pose, inverse, move_points, nearest_pose, pose
from bitr.data.sim import objects
from bitr.data.sim.objects import Body, Hole, Peg, scanned_body
from bitr.data.sim.world import PIXELS, POINTS, open_world, see
from bitr.data.storage import SPLITS, Arrays, find_below
from bitr.errors import InputError, require
from bitr.io import Geometry

RECIPE, MADE_WITH = "1e0ed8655ba8", "3.2.7"
"""Version of the way from an id to a scene and its clouds, and of PyBullet, in the names of folders of stored
ones. Change it whenever an id gives another scene."""
SCANNED_EVERY = 4  # if scanned objects are at hand, each fourth scene has them; the others stay the same
ID = re.compile(r"(mug-hanging|bowl-placing)/(train|val|test)/\d+/\d+(/scanned)?")
ATTEMPTS = 50  # scenes to draw until one holds
FARTHEST_MOVE, FARTHEST_TURN_DEG = 0.03, 30.0
"""Metres that the centre of mass, and degrees that the object, may move after the release."""
TOUCHING = 0.001  # metres between bodies that count as contact
UPRIGHT_DEG = 15.0
RECORDINGS = {
    "train": "manipulation/edf_demos/test_demo_demo_*.npz",
    "test": "manipulation/edf_demos/test_unseen_demo_demo_*.npz",
}
"""Ten demonstrations with one set of objects, two with mugs that were not seen."""


@dataclass(frozen=True, eq=False)
class Draft:
    """A scene before its physics: the support stands in the world, the object is held at its start."""

    object: Body  # its centre of mass is at the origin
    support: Body
    unmet: Callable[[Pose], str | None]
    """The reason why the object at this pose, world from object, misses its goal; None if it meets it."""
    start: Pose  # world from object, at the release that lets it find its place
    observed: Pose  # source from object, when it is seen


@dataclass(frozen=True, eq=False)
class Scene:
    """A scene with a target found by simulation. The world's frame is the reference's: z is up."""

    id: str
    draft: Draft
    target: Pose  # world from object, at rest on the support

    @property
    def ref_from_src(self) -> Pose:
        return self.target @ inverse(self.draft.observed)


def scene_of(id: str, root: str | os.PathLike[str] | None = None) -> Scene:
    """The scene of a pair, by its id; one of scanned objects needs the folder of data."""
    folder = storage.data_root(root)
    found = _load("scenes", id, lambda: _find_target(id, folder))
    return Scene(id, _draft_of(id, int(found["attempt"]), folder), found["target"])


def _load(folder: str, id: str, make: Callable[[], Arrays]) -> Arrays:
    """Read the arrays of a scene, or make and store them."""
    require(ID.fullmatch(id), f"{id!r} names no simulated scene, expected one as mug-hanging/test/0/3")
    home = storage.cache_home() / "sim" / storage.recipe_key(RECIPE, "pybullet", MADE_WITH)
    return storage.load_or_make(home / folder / f"{id.replace('/', '-')}.arrays", make)


def _find_target(id: str, root: Path | None) -> Arrays:
    """The first attempt whose scene holds, mostly the first of all, and its target."""
    for attempt in range(ATTEMPTS):
        draft = _draft_of(id, attempt, root)
        target = _settle(draft)
        if target is not None:
            outcome = release(draft, target)
            if outcome.succeeded and outcome.moved < 0.003:  # far less than success asks for
                return {"attempt": np.array(attempt), "target": target}
    raise InputError(f"{id}: none of {ATTEMPTS} drawn scenes holds")


def _draft_of(id: str, attempt: int, root: Path | None) -> Draft:
    """The scene of an id, TASK/SPLIT/SEED/INDEX and, of scanned objects, /scanned, before its physics."""
    task, split, seed, index, *scanned = id.split("/")
    numbers = [zlib.crc32(task.encode()), SPLITS.index(split), int(seed), int(index), len(scanned), attempt]
    choice = int(index) // SCANNED_EVERY if scanned else None
    return TASKS[task].draw(np.random.default_rng(numbers), split, choice, root)


def _settle(draft: Draft) -> Pose | None:
    """The pose at which the object comes to rest after its release from the start; None if it does not."""
    with open_world() as world:
        world.add_table()
        world.add(draft.support, np.eye(4), fixed=True)
        number = world.add(draft.object, draft.start, fixed=False)
        # take away most of the speed each second, as honey does
        world.do("changeDynamics", number, -1, linearDamping=0.95, angularDamping=0.95)
        for _ in range(60):  # up to 15 seconds
            world.run(0.25)
            if world.speed(number, draft.object.size) < 5e-4:
                return world.pose(number)
    return None


@dataclass(frozen=True)
class Outcome:
    """Result of a release; lengths in metres."""

    succeeded: bool
    reason: str  # the reason of a failure; "stays" for a success
    penetration: float  # depth of the object in others when it was placed
    moved: float
    turned_deg: float


def success(
    scene: Scene | str, ref_from_src: Float[np.ndarray, "4 4"], root: str | os.PathLike[str] | None = None
) -> Outcome:
    """Place the object of a scene by this pose between its clouds, let it go, and tell if it stays."""
    found = scene_of(scene, root) if isinstance(scene, str) else scene
    checked = nearest_pose(ref_from_src.astype(np.float64), found.id)
    return release(found.draft, checked @ found.draft.observed)


def release(draft: Draft, start: Pose) -> Outcome:
    """Let the object go at this pose, world from object, and judge where it is a second later."""
    with open_world() as world:
        table, support = world.add_table(), world.add(draft.support, np.eye(4), fixed=True)
        number = world.add(draft.object, start, fixed=False)
        penetration = max(0.0, -min(world.gap(number, table), world.gap(number, support)))
        deepest = 0.02 * draft.object.size  # about 3 mm for a mug
        if penetration > deepest:
            depth = f"{1e3 * penetration:.1f} mm deep in what is there, at most {1e3 * deepest:.1f} mm"
            return Outcome(False, f"placed {depth}", penetration, 0.0, 0.0)
        world.run(1.0)
        end = world.pose(number)
        to_table, to_support = world.gap(number, table), world.gap(number, support)
    moved = float(np.linalg.norm(end[:3, 3] - start[:3, 3]))
    turned = float(np.rad2deg(Rotation.from_matrix(end[:3, :3] @ start[:3, :3].T).magnitude()))
    reason: str | None
    if moved > FARTHEST_MOVE:
        verb = "fell" if start[2, 3] - end[2, 3] > 0.5 * moved else "moved"
        reason = f"{verb} by {1e2 * moved:.1f} cm, at most {1e2 * FARTHEST_MOVE:.0f} cm"
    elif turned > FARTHEST_TURN_DEG:
        reason = f"turned by {turned:.0f}°, at most {FARTHEST_TURN_DEG:.0f}°"
    elif to_table < TOUCHING:
        reason = f"rests on the table, not only on the {draft.support.name}"
    elif to_support > TOUCHING:
        reason = f"does not touch the {draft.support.name}"
    else:
        reason = draft.unmet(end)
    return Outcome(reason is None, reason or "stays", penetration, moved, turned)


@dataclass(frozen=True)
class Task:
    """A kind of scene: the paper's numbers of pairs, and a function that draws one."""

    sizes: dict[str, int]
    draw: Callable[[np.random.Generator, str, int | None, Path | None], Draft]
    """(generator, split, choice, root) → draft, of scanned objects if a choice among them is given."""
    is_round: bool  # turning the object about its own z axis does not change the result


def about_z(angle: float) -> Float64[np.ndarray, "3 3"]:
    """The rotation by an angle about z."""
    c, s = np.cos(angle), np.sin(angle)
    return np.array([[c, -s, 0.0], [s, c, 0.0], [0.0, 0.0, 1.0]])


def _random_place(rng: np.random.Generator) -> Pose:
    """A place on the table, turned about the vertical."""
    x, y = rng.uniform(-0.15, 0.15, 2)
    return pose(about_z(rng.uniform(0, 2 * np.pi)), np.array([x, y, 0.0]))


def _random_grasp(rng: np.random.Generator) -> Pose:
    """Any orientation above the table, as in a gripper."""
    rotation = Rotation.from_quat(rng.normal(size=4)).as_matrix()
    return pose(rotation, np.array([0.0, 0.0, 0.4]) + rng.uniform(-0.15, 0.15, 3))


def _draw_mug(rng: np.random.Generator, split: str, choice: int | None, root: Path | None) -> Draft:
    """A mug to be hung on the highest peg of a stand, by its handle."""
    mug = objects.random_mug("mug", rng) if choice is None else scanned_body("mug", split, choice, root)
    mug = mug.about_center()
    hole = objects.find_hole(mug)
    if hole is None:
        raise InputError(f"{mug.name}: no hole of a handle is seen from any side, expected a mug")
    stand, pegs = objects.random_hanger("hanger", rng)
    place = _random_place(rng)
    pegs = tuple(peg.moved(place) for peg in pegs)
    width = float(np.ptp(mug.surface.points @ hole.axis))
    start = _hanging_pose(hole, pegs[0], along=width / 2 + rng.uniform(0.015, 0.03))
    return Draft(mug, stand.moved(place), partial(_not_hanging, hole, pegs), start, _random_grasp(rng))


def _hanging_pose(hole: Hole, peg: Peg, along: float) -> Pose:
    """The pose with the peg through the hole, the body below, the hole's axis outwards: one way of two."""
    out = peg.direction
    up = np.array([0.0, 0.0, 1.0]) - out * out[2]
    up /= np.linalg.norm(up)
    handle = hole.center - hole.axis * (hole.axis @ hole.center)  # from the centre of mass
    handle /= np.linalg.norm(handle)
    world = np.stack([out, up, np.cross(out, up)], axis=1)
    own = np.stack([hole.axis, handle, np.cross(hole.axis, handle)], axis=1)
    rotation = world @ own.T
    return pose(rotation, peg.base + along * out - rotation @ hole.center)


def _not_hanging(hole: Hole, pegs: tuple[Peg, ...], world_from_object: Pose) -> str | None:
    """None if the middle line of a peg goes through the hole of the handle."""
    rotation, translation = world_from_object[:3, :3], world_from_object[:3, 3]
    center, axis = rotation @ hole.center + translation, rotation @ hole.axis
    for peg in pegs:
        base, tip = (peg.base - center) @ axis, (peg.tip - center) @ axis
        if base * tip < 0:
            through = peg.base + (peg.tip - peg.base) * base / (base - tip)
            if float(np.linalg.norm(through - center)) <= hole.reach:
                return None
    return "no peg goes through the handle"


def _draw_bowl(rng: np.random.Generator, split: str, choice: int | None, root: Path | None) -> Draft:
    """A bowl to be set upright on a plate."""
    if choice is None:
        bowl, plate = objects.random_bowl("bowl", rng), objects.random_plate("plate", rng)
    else:
        bowl = scanned_body("bowl", split, choice, root)
        plate = scanned_body("plate", split, int(rng.integers(1000)), root)
    bowl = bowl.about_center()
    place = _random_place(rng)
    lowest = -float(bowl.surface.points[:, 2].min())
    drop = float(plate.surface.points[:, 2].max()) + 0.002  # above the rim: it slides to where it rests
    start = place @ pose(np.eye(3), np.array([0.0, 0.0, lowest + drop]))
    return Draft(bowl, plate.moved(place), _not_upright, start, _random_grasp(rng))


def _not_upright(world_from_object: Pose) -> str | None:
    """None if the z axis of the object points up, within a few degrees."""
    tilt = float(np.rad2deg(np.arccos(np.clip(world_from_object[2, 2], -1, 1))))
    if tilt <= UPRIGHT_DEG:
        return None
    return f"it leans by {tilt:.0f}° from upright, at most {UPRIGHT_DEG:.0f}° were expected"


TASKS = {
    "mug-hanging": Task({"train": 400, "val": 40, "test": 60}, _draw_mug, is_round=False),
    "bowl-placing": Task({"train": 400, "val": 40, "test": 60}, _draw_bowl, is_round=True),
}


def sim_pairs(name: str, split: str, root: Path | None = None, seed: int = 0, n: int | None = None) -> Pairs:
    """Open the first ``n`` pairs (None: all); no object is in two splits."""
    storage.check_split(name, split)
    rows = range(TASKS[name].sizes[split] if n is None else n)
    return Pairs(name, split, seed, partial(_make, name, split, seed, root), rows)


def _make(
    name: str, split: str, seed: int, root: Path | None, i: int, rng: np.random.Generator
) -> AssemblyPair:
    is_scanned = objects.has_scans(root) and i % SCANNED_EVERY == SCANNED_EVERY - 1
    id = f"{name}/{split}/{seed}/{i}" + "/scanned" * is_scanned

    def look() -> Arrays:
        """The object from above and below, held in the air, and the support on the table from above."""
        scene = scene_of(id, root)
        held = scene.draft.object.moved(scene.draft.observed)
        return {
            "source_points": see(held, (30.0, -30.0) * 3, rng),
            "reference_points": see(scene.draft.support, (20.0, 50.0) * 3, rng),
            "ref_from_src": scene.ref_from_src,
            "observed": scene.draft.observed,
        }

    found = _load(f"cameras-{POINTS}-{PIXELS}", id, look)
    sides = ("source", "reference")
    source, reference = (Geometry(found[f"{side}_points"], name=f"{id}/{side}") for side in sides)
    axis = (
        move_points(found["observed"], np.array([[0.0, 0.0, 0.0], [0.0, 0.0, 1.0]]))
        if TASKS[name].is_round
        else None
    )
    return AssemblyPair(source, reference, found["ref_from_src"], id, unit="m", axis=axis)


def read_demonstration(path: Path) -> AssemblyPair:
    """A recording of EDF (Ryu et al. 2023): a gripper with its mug, onto a table with a stand, in metres."""
    needed = [f"place_{side}_{part}" for side in ("grasp", "scene") for part in ("points", "rgb")]
    with storage.open_npz(path, *needed, "place_target_T") as file:
        *sides, target = (np.asarray(file[key], dtype=np.float64) for key in (*needed, "place_target_T"))
    require(
        target.shape == (4, 4), f"{path}: place_target_T has the shape {target.shape}, expected a 4×4 pose"
    )
    clouds = []
    for points, colors in (sides[:2], sides[2:]):
        found = f"points of the shape {points.shape} and colours of {colors.shape}"
        require(points.shape == colors.shape == (len(points), 3), f"{path}: {found}, expected n×3 each")
        clouds.append(Geometry(points, colors=colors / 255, name=str(path)))
    return AssemblyPair(clouds[0], clouds[1], nearest_pose(target, str(path)), path.stem, unit="m")


def _open_recorded(split: str, root: Path | None, seed: int) -> Pairs:
    paths = find_below(root, RECORDINGS[split])
    return Pairs("mug-hanging-edf", split, seed, partial(_make_recorded, paths), range(len(paths)))


def _make_recorded(paths: list[Path], i: int, rng: np.random.Generator) -> AssemblyPair:
    return read_demonstration(paths[i])


OPEN = {**{name: partial(sim_pairs, name) for name in TASKS}, "mug-hanging-edf": _open_recorded}
