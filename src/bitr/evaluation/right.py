"""Whether an answer is right."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float64

from bitr.data import AssemblyPair
from bitr.data.poses import move_points
from bitr.evaluation.metrics import displacement, nearest_truth, rotation_error_deg
from bitr.io import as_points

DEGREES, SHARE = 15.0, 0.1
"""A right pose is off by less: Δr, and the displacement over the assembled shape's radius."""
OF_A_MESH = 2000


def is_right(pair: AssemblyPair, pose: Float64[np.ndarray, "4 4"]) -> bool:
    """Whether Δr < 15° and the piece is less than 0.1 of the size from its place.

    The size is the radius of the assembled shape, its points' greatest distance from their centroid, which
    Sec. 6 brings to 1. Where the pair has symmetries, the right answer nearest to the pose counts. No pose of
    pieces that do not belong together is right.
    """
    if not pair.related:
        return False
    x, y = (as_points(side, OF_A_MESH, seed=0).points for side in (pair.source, pair.reference))
    symmetry = np.eye(4)[None] if pair.symmetry is None else pair.symmetry
    truth = nearest_truth(pose, pair.ref_from_src @ symmetry, x, y, pair.axis)
    whole = np.concatenate([move_points(truth, x), y])
    radius = np.linalg.norm(whole - whole.mean(0), axis=1).max()
    close = displacement(pose, truth, x, y) < SHARE * radius
    return bool(close and rotation_error_deg(pose, truth) < DEGREES)
