"""Pairs and sessions for the tests of the viewer."""

from __future__ import annotations

import numpy as np
from scipy.spatial.transform import Rotation

from bitr.cli.demo import REFERENCE, SOURCE
from bitr.data.poses import random_pose
from bitr.io import Geometry, read
from bitr.viewer.piece import Piece
from bitr.viewer.session import Place, Problem, Session

BUDGET = 150


def demo_pair() -> tuple[Geometry, Geometry]:
    return read(SOURCE), read(REFERENCE)


def problem(refine: str = "none") -> Problem:
    x, y = demo_pair()
    return Problem((Piece(x, budget=BUDGET), Piece(y, budget=BUDGET)), refine)


def place(rng: np.random.Generator, size: float = 5.0) -> Place:
    pose = random_pose(rng, size)
    return Place(pose[:3, :3], pose[:3, 3])


def session(rng: np.random.Generator, refine: str = "none") -> Session:
    return Session(problem(refine), (place(rng), place(rng)))


def turned(session: Session, index: int, degrees: float) -> Place:
    """A place a little on from where a piece stands."""
    there = session.places[index]
    turn = Rotation.from_euler("y", degrees, degrees=True).as_matrix()
    return Place(turn @ there.rotation, there.middle + 0.1)
