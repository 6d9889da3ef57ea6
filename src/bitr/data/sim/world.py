"""A small world with gravity, over PyBullet: bodies are put down, let go, and seen by depth cameras."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.spatial import ConvexHull
from scipy.spatial.transform import Rotation

from bitr.data.poses import Points, Pose, Vector
from bitr.data.poses import pose as as_pose
from bitr.data.sim.objects import Body, Piece
from bitr.data.transforms import sample_grid, sample_uniform
from bitr.errors import InputError
from bitr.io import Geometry

POINTS, PIXELS = 1024, 160  # points of a cloud, and width and height of each depth image
RATE = 240  # steps a second


@dataclass(frozen=True)
class World:
    """One simulation, made and ended by ``open_world``. Poses are 4×4 and take a body into the world."""

    engine: Any
    client: int

    def do(self, name: str, *values: Any, **named: Any) -> Any:
        """Call a function of the simulator in this world."""
        return getattr(self.engine, name)(*values, **named, physicsClientId=self.client)

    def add(self, body: Body, pose: Pose, *, fixed: bool) -> int:
        """Add a body and return its number; unless fixed, its centre of mass must be at the origin."""
        quaternion = Rotation.from_matrix(pose[:3, :3]).as_quat()  # x, y, z, w, as PyBullet has it
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "pieces.obj"
            path.write_text(_pieces_as_obj(body.pieces))
            shape = self.do("createCollisionShape", self.engine.GEOM_MESH, fileName=str(path))
            volume = sum(ConvexHull(piece).volume for piece in body.pieces)
            mass = 0.0 if fixed else 2000.0 * volume  # of earthenware, in kg
            place = {"basePosition": pose[:3, 3].tolist(), "baseOrientation": quaternion.tolist()}
            number: int = self.do("createMultiBody", mass, shape, **place)
        # the margin keeps pieces apart, in metres: the default of 1 mm would be a visible gap
        self.do("changeDynamics", number, -1, lateralFriction=0.7, collisionMargin=2e-4)
        return number

    def add_table(self) -> int:
        """Add a table top at z = 0, thick enough that nothing falls through."""
        shape = self.do("createCollisionShape", self.engine.GEOM_BOX, halfExtents=[2.0, 2.0, 0.5])
        return int(self.do("createMultiBody", 0.0, shape, basePosition=[0.0, 0.0, -0.5]))

    def pose(self, number: int) -> Pose:
        position, quaternion = self.do("getBasePositionAndOrientation", number)
        return as_pose(Rotation.from_quat(quaternion).as_matrix(), np.array(position))

    def run(self, seconds: float) -> None:
        for _ in range(round(seconds * RATE)):
            self.do("stepSimulation")

    def speed(self, number: int, size: float) -> float:
        """Speed of the fastest point of a body of this size, m/s."""
        linear, angular = self.do("getBaseVelocity", number)
        return float(np.linalg.norm(linear) + np.linalg.norm(angular) * size / 2)

    def gap(self, one: int, other: int) -> float:
        """Distance of two bodies, negative for the depth of an overlap, infinite from 1 cm on."""
        found = self.do("getClosestPoints", one, other, 0.01)
        return min((float(contact[8]) for contact in found), default=float("inf"))


@contextmanager
def open_world() -> Iterator[World]:
    """An empty world with gravity along −z."""
    try:
        import pybullet
    except ImportError as error:
        raise InputError('simulated scenes need pybullet: pip install -e ".[sim]"') from error
    world = World(pybullet, pybullet.connect(pybullet.DIRECT))
    try:
        world.do("setGravity", 0, 0, -9.81)
        # files of bodies are deleted at once, so that caching by name would mix them up
        settings = {"enableFileCaching": 0, "numSolverIterations": 100, "deterministicOverlappingPairs": 1}
        world.do("setPhysicsEngineParameter", fixedTimeStep=1 / RATE, **settings)
        yield world
    finally:
        pybullet.disconnect(world.client)


def _pieces_as_obj(pieces: tuple[Piece, ...]) -> str:
    """The text of an obj file with each piece as an object of its own, as the simulator wants them."""
    lines, start = [], 1
    for i, piece in enumerate(pieces):
        lines.append(f"o piece{i}")
        lines += [f"v {x:.9g} {y:.9g} {z:.9g}" for x, y, z in piece]
        lines += [f"f {a + start} {b + start} {c + start}" for a, b, c in ConvexHull(piece).simplices]
        start += len(piece)
    return "\n".join(lines) + "\n"


def see(body: Body, elevations: tuple[float, ...], rng: np.random.Generator, points: int = POINTS) -> Points:
    """See a body by depth cameras all around, at these elevations (degrees); hidden parts are missing."""
    first = rng.uniform(0, 360)
    with open_world() as world:
        assert body.surface.faces is not None
        mesh = {"vertices": body.surface.points.tolist(), "indices": body.surface.faces.ravel().tolist()}
        picture = world.do("createVisualShape", world.engine.GEOM_MESH, **mesh)
        number = int(world.do("createMultiBody", 0.0, -1, picture))
        views = [
            _depth_view(world, number, body, elevation, first + 360 * i / len(elevations))
            for i, elevation in enumerate(elevations)
        ]
    # views overlap, and surfaces that face a camera are dense: one point a cube evens that out
    even = sample_grid(Geometry(np.concatenate(views), name=body.name), body.size / 100, pick="first")
    return sample_uniform(even, min(points, len(even.points)), rng).points


def _depth_view(world: World, number: int, body: Body, elevation: float, azimuth: float) -> Points:
    """The points of one body in a depth image, in the world; angles in degrees."""
    p, corners = world.engine, body.surface.points
    middle: Vector = (corners.max(axis=0) + corners.min(axis=0)) / 2
    a, e, size = np.deg2rad(azimuth), np.deg2rad(elevation), body.size
    back = np.array([np.cos(a) * np.cos(e), np.sin(a) * np.cos(e), np.sin(e)])
    view = p.computeViewMatrix((middle + 2 * size * back).tolist(), middle.tolist(), [0, 0, 1])
    projection = p.computeProjectionMatrixFOV(30, 1, size, 3 * size)  # 2 sizes away, 1.07 sizes wide
    image = world.do("getCameraImage", PIXELS, PIXELS, view, projection, renderer=p.ER_TINY_RENDERER)
    depth, seen = np.asarray(image[3], np.float64), np.asarray(image[4]) == number
    row, column = np.nonzero(seen)
    # TinyRenderer looks through the lower left corner of each pixel; its cube goes from -1 to 1
    x, y = 2 * column / PIXELS - 1, 1 - 2 * (row + 1) / PIXELS
    cube = np.stack([x, y, 2 * depth[seen] - 1, np.ones(len(row))])
    both = np.reshape(projection, (4, 4)).T @ np.reshape(view, (4, 4)).T
    points = np.linalg.solve(both, cube)
    return np.ascontiguousarray((points[:3] / points[3]).T)
