"""Scenes, answers and sessions for the tests of what is shown, and the colours of a picture."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from matplotlib.colors import rgb_to_hsv
from scipy.spatial.transform import Rotation

from bitr.assembly.assemble import Assembly, Hypothesis
from bitr.cli.demo import REFERENCE, SOURCE
from bitr.data import bumpy_shape, cut
from bitr.data.poses import random_pose
from bitr.groups import Rigid
from bitr.io import Geometry, read
from bitr.show.stage import Scene
from bitr.show.viewer.session import Piece, Place, Problem, Session

HUES = {"red": (0.96, 1.05), "yellow": (0.09, 0.16), "blue": (0.55, 0.64)}


def cut_scene(n: int = 600, *, seed: int = 0, at: float = 0.0, **more: object) -> Scene:
    """A shape cut in two, the source moved, both ``at`` a distance from the origin; with the true pose."""
    rng = torch.Generator().manual_seed(seed)
    source, reference = cut(bumpy_shape(n, rng), 0.4, rng)
    shift = Rigid(torch.eye(3, dtype=torch.float64), at * torch.ones(3, dtype=torch.float64))
    src_from_ref = shift @ Rigid.random(rng)
    return Scene(
        src_from_ref.act(source).numpy(),
        shift.act(reference).numpy(),
        (shift @ src_from_ref.inverse()).matrix().numpy(),
        **more,
    )


def with_keypoints(scene: Scene) -> dict[str, np.ndarray]:
    return {"source_keypoints": scene.source[::40], "reference_keypoints": scene.reference[::60]}


def colored(pixels: np.ndarray, name: str) -> np.ndarray:
    """True for the pixels, (h, w, 3) from 0 to 255, that clearly have the hue of that name."""
    hue, saturation, value = np.moveaxis(rgb_to_hsv(pixels / 255), -1, 0)
    low, high = HUES[name]
    return ((hue - low) % 1 <= high - low) & (saturation > 0.3) & (value > 0.25)


def hypothesis(pose: np.ndarray, weight: float = 1.0, method: str = "seam") -> Hypothesis:
    """One as the engine makes it, with numbers of its own."""
    evidence = {"overlap_larger": 0.25, "seam": 0.75, "mate_larger": 0.125}
    return Hypothesis(pose, weight, method, "match", 0.5, 0.1, evidence)


def assembly_of(poses: Sequence[np.ndarray], **more: Any) -> Assembly:
    """An answer with these hypotheses, all of equal weight."""
    hypotheses = tuple(hypothesis(pose, 1 / len(poses)) for pose in poses)
    known: dict[str, Any] = {"status": "ok", "reason": None} | more
    return Assembly(
        transformation=hypotheses[0].transformation,
        confidence=0.5,
        method="seam",
        evidence=hypotheses[0].evidence,
        hypotheses=hypotheses,
        fitness=0.1,
        inlier_rmse=None,
        penetration_before=None,
        penetration_after=None,
        seconds=1.0,
        model="default",
        source="x.ply",
        reference="y.ply",
        warnings=(),
        source_keypoints=np.zeros((4, 3)),
        reference_keypoints=np.zeros((4, 3)),
        singular_gap=1.0,
        **known,
    )


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
