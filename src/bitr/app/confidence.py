"""What tells how likely a pose is right."""

from __future__ import annotations

from dataclasses import astuple, dataclass, fields

import numpy as np
from jaxtyping import Float64

from bitr.app.fitness import Fit
from bitr.evaluation.metrics import displacement, rotation_error_deg
from bitr.hypotheses.proposals import of_halves
from bitr.model import Solution
from bitr.refine.frame import Frame, Matrix, Points, centroid, moved, radius

FLOORS = {"gap": 1e-3, "length": 1e-3, "turn": 0.1, "shift": 1e-3, "correction": 0.1}
"""Signals that are read on a logarithmic scale, and below what they hardly count."""


@dataclass(frozen=True)
class Signals:
    """A few numbers of an answer. Motions of the pieces, a swap and a scale change none of them.

    Lengths are over the pieces' size, the root mean square distance of their points from their centroids.
    """

    gap: float
    """The singular gap of r̂: near 0 the rotation is not determined."""
    length: float
    """‖r̂‖/√3, 1 for a rotation: after training by least squares, r̂ is short where much is possible."""
    turn: float
    """Mean angle in degrees between the model's pose and those of half of its votes."""
    shift: float
    """Mean displacement between the same."""
    spread: float
    """Of the key points about their centre, both pieces together."""
    balance: float
    """Size of the smaller piece over that of the larger."""
    distance: float
    """Between the centroids of the assembled pieces."""
    fitness_before: float
    """Of the model's pose."""
    fitness_after: float
    """Of the answer: refined, or chosen among several."""
    correction: float
    """Angle in degrees between the model's pose and the answer."""

    def features(self) -> Float64[np.ndarray, " s"]:
        """What the map to a probability is linear in."""
        floors = [FLOORS.get(name) for name in NAMES]
        values = zip(astuple(self), floors, strict=True)
        return np.array([value if floor is None else np.log(value + floor) for value, floor in values])


NAMES = tuple(field.name for field in fields(Signals))


def signals_of(
    solution: Solution, pose: Matrix, source: Points, reference: Points, before: Fit, after: Fit
) -> Signals | None:
    """Of the answer ``pose`` to one pair, with its fitness and that of the model's own pose.

    None for a model whose key points have no votes.
    """
    if solution.votes is None:
        return None
    own = solution.pose.matrix()[0].double().cpu().numpy()
    frame = Frame.of(source, reference)
    halves = [half.matrix()[0].double().cpu().numpy() for _, half in of_halves(solution.votes)]
    keys = (solution.source_keypoints[0].cpu().numpy(), solution.reference_keypoints[0].cpu().numpy())
    sizes = [_size(points) for points in (source, reference)]
    centers_apart = moved(frame.source_center[None], pose)[0] - frame.reference_center
    return Signals(
        gap=float(solution.singular_gap[0]),
        length=float(solution.votes.r_hat[0].mean(0).norm()) / np.sqrt(3),
        turn=float(np.mean([rotation_error_deg(half, own) for half in halves])),
        shift=float(np.mean([displacement(half, own, source, reference) for half in halves])) / frame.unit,
        spread=float(np.hypot(_size(keys[0]), _size(keys[1]))) / frame.unit,
        balance=min(sizes) / max(sizes),
        distance=float(np.linalg.norm(centers_apart)) / frame.unit,
        fitness_before=before.fitness,
        fitness_after=after.fitness,
        correction=rotation_error_deg(pose, own),
    )


def _size(points: Points) -> float:
    return radius(points - centroid(points))
