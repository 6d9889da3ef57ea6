"""Pairs and sessions for the tests of the viewer."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy.spatial.transform import Rotation

from bitr.cli.demo import REFERENCE, SOURCE
from bitr.data.poses import random_pose
from bitr.io import Geometry, read
from bitr.viewer.piece import Piece
from bitr.viewer.session import Place, Problem, Session

POINTS = 150


def demo_pair() -> tuple[Geometry, Geometry]:
    return read(SOURCE), read(REFERENCE)


def few_points(step: int = 4) -> tuple[Geometry, Geometry]:
    """The demo's pair with some of its points: the engine is faster on them."""
    x, y = (replace(side, points=side.points[::step]) for side in demo_pair())
    return x, y


def problem(method: str = "model", hypotheses: int = 1) -> Problem:
    x, y = few_points()
    return Problem((Piece(x), Piece(y)), method, hypotheses, POINTS)


def place(rng: np.random.Generator, size: float = 5.0) -> Place:
    pose = random_pose(rng, size)
    return Place(pose[:3, :3], pose[:3, 3])


def session(rng: np.random.Generator, method: str = "model", hypotheses: int = 1) -> Session:
    return Session(problem(method, hypotheses), (place(rng), place(rng)))


def turned(session: Session, index: int, degrees: float) -> Place:
    """A place a little on from where a piece stands."""
    there = session.places[index]
    turn = Rotation.from_euler("y", degrees, degrees=True).as_matrix()
    return Place(turn @ there.rotation, there.middle + 0.1)
