"""A small world with gravity, over PyBullet: bodies are put down, let go, and seen by depth cameras."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float64
from scipy.spatial import ConvexHull
from scipy.spatial.transform import Rotation

from bitr.data.poses import Pose, Vector
from bitr.data.poses import pose as as_pose
from bitr.data.sim.objects import Body, Piece
from bitr.data.transforms import sample_grid, sample_uniform
from bitr.errors import InputError
from bitr.io import Geometry

POINTS, PIXELS = 1024, 160
"""Points of a cloud, and width and height of each depth image."""
RATE = 240
"""Steps a second."""
DENSITY = 2000.0
"""Density of earthenware, kg/m³."""
FRICTION = 0.7
"""Friction of each body; between two, the product counts."""
MARGIN = 2e-4
"""Metres by which the simulator keeps pieces apart: its default of 1 mm would be a visible gap."""


def bullet() -> Any:
    """Import the simulator, or say in one line how to get it."""
    try:
        import pybullet
    except ImportError as error:
        raise InputError('simulated scenes need pybullet: pip install -e ".[sim]"') from error
    return pybullet


@dataclass(frozen=True)
class World:
    """One simulation, made and ended by ``open_world``. Poses are 4×4 and take a body into the world."""

    engine: Any
    client: int

    def add(self, body: Body, pose: Pose, *, fixed: bool) -> int:
        """Add a body and return its number; unless fixed, its centre of mass must be at the origin."""
        p, client = self.engine, self.client
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "pieces.obj"
            path.write_text(_pieces_as_obj(body.pieces))
            shape = p.createCollisionShape(p.GEOM_MESH, fileName=str(path), physicsClientId=client)
            mass = 0.0 if fixed else DENSITY * sum(ConvexHull(piece).volume for piece in body.pieces)
            number: int = p.createMultiBody(mass, shape, **_place(pose), physicsClientId=client)
        p.changeDynamics(number, -1, lateralFriction=FRICTION, collisionMargin=MARGIN, physicsClientId=client)
        return number

    def add_table(self) -> int:
        """Add a table top at z = 0, thick enough that nothing falls through."""
        p, client = self.engine, self.client
        shape = p.createCollisionShape(p.GEOM_BOX, halfExtents=[2.0, 2.0, 0.5], physicsClientId=client)
        return int(p.createMultiBody(0.0, shape, basePosition=[0.0, 0.0, -0.5], physicsClientId=client))

    def pose(self, number: int) -> Pose:
        position, quaternion = self.engine.getBasePositionAndOrientation(number, physicsClientId=self.client)
        return as_pose(Rotation.from_quat(quaternion).as_matrix(), np.array(position))

    def run(self, seconds: float) -> None:
        for _ in range(round(seconds * RATE)):
            self.engine.stepSimulation(physicsClientId=self.client)

    def damp(self, number: int, amount: float) -> None:
        """Take away this share of the body's speed each second, as honey does."""
        self.engine.changeDynamics(
            number, -1, linearDamping=amount, angularDamping=amount, physicsClientId=self.client
        )

    def speed(self, number: int, size: float) -> float:
        """Speed of the fastest point of a body of this size, m/s."""
        linear, angular = self.engine.getBaseVelocity(number, physicsClientId=self.client)
        return float(np.linalg.norm(linear) + np.linalg.norm(angular) * size / 2)

    def gap(self, one: int, other: int) -> float:
        """Distance of two bodies, negative for the depth of an overlap, infinite from 1 cm on."""
        found = self.engine.getClosestPoints(one, other, 0.01, physicsClientId=self.client)
        return min((float(contact[8]) for contact in found), default=float("inf"))


@contextmanager
def open_world() -> Iterator[World]:
    """An empty world with gravity along −z."""
    p = bullet()
    client = p.connect(p.DIRECT)
    try:
        p.setGravity(0, 0, -9.81, physicsClientId=client)
        # files of bodies are deleted at once, so that caching by name would mix them up
        p.setPhysicsEngineParameter(
            fixedTimeStep=1 / RATE,
            numSolverIterations=100,
            enableFileCaching=0,
            deterministicOverlappingPairs=1,
            physicsClientId=client,
        )
        yield World(p, client)
    finally:
        p.disconnect(client)


def _pieces_as_obj(pieces: tuple[Piece, ...]) -> str:
    """The text of an obj file with each piece as an object of its own, as the simulator wants them."""
    lines, start = [], 1
    for i, piece in enumerate(pieces):
        lines.append(f"o piece{i}")
        lines += [f"v {x:.9g} {y:.9g} {z:.9g}" for x, y, z in piece]
        lines += [f"f {a + start} {b + start} {c + start}" for a, b, c in ConvexHull(piece).simplices]
        start += len(piece)
    return "\n".join(lines) + "\n"


def _place(pose: Pose) -> dict[str, list[float]]:
    quaternion = Rotation.from_matrix(pose[:3, :3]).as_quat()  # x, y, z, w, as PyBullet has it
    return {"basePosition": pose[:3, 3].tolist(), "baseOrientation": quaternion.tolist()}


# depth cameras


def see(
    body: Body, elevations: tuple[float, ...], rng: np.random.Generator, points: int = POINTS
) -> Float64[np.ndarray, "n 3"]:
    """See a body as it lies in the world by depth cameras all around, at these elevations (degrees).

    Hidden parts are missing, as for a robot.
    """
    with open_world() as world:
        number = _add_visible(world, body)
        middle = (body.surface.points.max(axis=0) + body.surface.points.min(axis=0)) / 2
        first = rng.uniform(0, 360)
        turns = [first + 360 * i / len(elevations) for i in range(len(elevations))]
        views = [
            _depth_view(world, number, middle, body.size, elevation, turn)
            for elevation, turn in zip(elevations, turns, strict=True)
        ]
    # views overlap, and surfaces that face a camera are dense: one point a cube evens that out
    even = sample_grid(Geometry(np.concatenate(views), name=body.name), body.size / 100, pick="first")
    return sample_uniform(even, min(points, len(even.points)), rng).points


def _add_visible(world: World, body: Body) -> int:
    """Add the surface of a body as it lies, for pictures only."""
    p, client, surface = world.engine, world.client, body.surface
    assert surface.faces is not None
    shape = p.createVisualShape(
        p.GEOM_MESH,
        vertices=surface.points.tolist(),
        indices=surface.faces.ravel().tolist(),
        physicsClientId=client,
    )
    return int(p.createMultiBody(0.0, -1, shape, physicsClientId=client))


def _depth_view(
    world: World, number: int, middle: Vector, size: float, elevation: float, azimuth: float
) -> Float64[np.ndarray, "n 3"]:
    """The points of one body in a depth image, in the world; angles in degrees."""
    p, client = world.engine, world.client
    a, e = np.deg2rad(azimuth), np.deg2rad(elevation)
    back = np.array([np.cos(a) * np.cos(e), np.sin(a) * np.cos(e), np.sin(e)])
    view = p.computeViewMatrix((middle + 2 * size * back).tolist(), middle.tolist(), [0, 0, 1])
    projection = p.computeProjectionMatrixFOV(30, 1, size, 3 * size)  # 2 sizes away, 1.07 sizes wide
    image = p.getCameraImage(
        PIXELS, PIXELS, view, projection, renderer=p.ER_TINY_RENDERER, physicsClientId=client
    )
    depth, seen = np.asarray(image[3], np.float64), np.asarray(image[4]) == number
    row, column = np.nonzero(seen)
    # TinyRenderer looks through the lower left corner of each pixel; its cube goes from -1 to 1
    cube = np.stack(
        [2 * column / PIXELS - 1, 1 - 2 * (row + 1) / PIXELS, 2 * depth[seen] - 1, np.ones(len(row))]
    )
    both = np.reshape(projection, (4, 4)).T @ np.reshape(view, (4, 4)).T
    points = np.linalg.solve(both, cube)
    return np.ascontiguousarray((points[:3] / points[3]).T)
