"""A small world with gravity, over PyBullet: bodies are put down, let go and looked at."""

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

from bitr.data.sim.bodies import Body
from bitr.errors import InputError

RATE = 240
"""Steps a second."""
DENSITY = 2000.0
"""Of earthenware, kg/m³."""
FRICTION = 0.7
"""Of each body; of two that touch, the product counts."""
MARGIN = 2e-4
"""Metres by which the simulator keeps pieces apart: its own 1 mm would be seen as a gap."""


def bullet() -> Any:
    """The simulator, or one line that says how to get it."""
    try:
        import pybullet
    except ImportError as error:
        raise InputError('simulated scenes need pybullet: pip install "bitr[sim]"') from error
    return pybullet


@dataclass(frozen=True)
class World:
    """One simulation; ``open_world`` makes it and ends it. Poses are 4×4 and take a body into the world."""

    engine: Any
    client: int

    def add(self, body: Body, pose: Float64[np.ndarray, "4 4"], *, fixed: bool) -> int:
        """The body's number; one that is not fixed must have its centre of mass at the origin."""
        p, client = self.engine, self.client
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "pieces.obj"
            path.write_text(pieces_obj(body.pieces))
            shape = p.createCollisionShape(p.GEOM_MESH, fileName=str(path), physicsClientId=client)
            mass = 0.0 if fixed else DENSITY * sum(ConvexHull(piece).volume for piece in body.pieces)
            number: int = p.createMultiBody(mass, shape, **_place(pose), physicsClientId=client)
        p.changeDynamics(number, -1, lateralFriction=FRICTION, collisionMargin=MARGIN, physicsClientId=client)
        return number

    def add_table(self) -> int:
        """A table top at z = 0, thick enough that nothing comes out at the other side."""
        p, client = self.engine, self.client
        shape = p.createCollisionShape(p.GEOM_BOX, halfExtents=[2.0, 2.0, 0.5], physicsClientId=client)
        return int(p.createMultiBody(0.0, shape, basePosition=[0.0, 0.0, -0.5], physicsClientId=client))

    def pose(self, number: int) -> Float64[np.ndarray, "4 4"]:
        position, quaternion = self.engine.getBasePositionAndOrientation(number, physicsClientId=self.client)
        pose = np.eye(4)
        pose[:3, :3] = Rotation.from_quat(quaternion).as_matrix()
        pose[:3, 3] = position
        return pose

    def run(self, seconds: float) -> None:
        for _ in range(round(seconds * RATE)):
            self.engine.stepSimulation(physicsClientId=self.client)

    def damp(self, number: int, amount: float) -> None:
        """Take away this share of the body's speed each second, as honey would."""
        self.engine.changeDynamics(
            number, -1, linearDamping=amount, angularDamping=amount, physicsClientId=self.client
        )

    def speed(self, number: int, size: float) -> float:
        """Of the fastest point of a body of this size, m/s."""
        linear, angular = self.engine.getBaseVelocity(number, physicsClientId=self.client)
        return float(np.linalg.norm(linear) + np.linalg.norm(angular) * size / 2)

    def gap(self, one: int, other: int) -> float:
        """The distance of two bodies; below 0, how deep they are in each other; infinite from 1 cm on."""
        found = self.engine.getClosestPoints(one, other, 0.01, physicsClientId=self.client)
        return min((float(contact[8]) for contact in found), default=float("inf"))


@contextmanager
def open_world() -> Iterator[World]:
    """An empty world with gravity along −z."""
    p = bullet()
    client = p.connect(p.DIRECT)
    try:
        p.setGravity(0, 0, -9.81, physicsClientId=client)
        # bodies are written to files that are gone a moment later: nothing may be remembered by name
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


def pieces_obj(pieces: tuple[Float64[np.ndarray, "_ 3"], ...]) -> str:
    """The text of an obj file in which each piece is an object of its own, as the simulator wants them."""
    lines, start = [], 1
    for i, piece in enumerate(pieces):
        lines.append(f"o piece{i}")
        lines += [f"v {x:.9g} {y:.9g} {z:.9g}" for x, y, z in piece]
        lines += [f"f {a + start} {b + start} {c + start}" for a, b, c in ConvexHull(piece).simplices]
        start += len(piece)
    return "\n".join(lines) + "\n"


def _place(pose: Float64[np.ndarray, "4 4"]) -> dict[str, list[float]]:
    quaternion = Rotation.from_matrix(pose[:3, :3]).as_quat()  # x, y, z, w, as PyBullet has it
    return {"basePosition": pose[:3, 3].tolist(), "baseOrientation": quaternion.tolist()}
