"""Points of one piece matched with points of the other, and the step that brings them together."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float64
from scipy.spatial.transform import Rotation

from bitr.data.poses import pose
from bitr.refine.frame import Matrix, Points, dot, moved, moved_back
from bitr.refine.surface import Surface

ALONG = 0.05
"""Weight of a distance along the surface beside one across it: a plane must not slide away."""
DAMPING = 1e-3
"""Of the mean curvature of the score: what the matches do not tell stays as it is."""
NOTHING = 1e-12
"""A weight below this is none."""


@dataclass(frozen=True, eq=False)
class Matches:
    """Places p of the source, under the current pose, that belong to places q of the reference."""

    p: Points
    q: Points
    normal: Points
    """(n_p ± n_q)/2, the sign such that it is the longer one."""
    weight: Float64[np.ndarray, " m"]


Match = Callable[[Surface, Surface, Matrix, float], Matches]
"""(source, reference, pose, width) → matches; a swap of the sides swaps p with q and changes nothing else."""


@dataclass(frozen=True, eq=False)
class Partners:
    """Every point of both pieces with the nearest point of the other: p and q as in ``Matches``."""

    p: Points
    q: Points
    normal: Points
    alike: Float64[np.ndarray, " m"]
    """|n_p · n_q|."""
    inside: Bool[np.ndarray, " m"]
    """Whether the nearest point is no border point."""


def partners(x: Surface, y: Surface, ref_from_src: Matrix) -> Partners:
    """Those of the source's points, then those of the reference's."""
    points, normals = moved(x.points, ref_from_src), x.normals @ ref_from_src[:3, :3].T
    to_y, to_x = y.nearest(points), x.nearest(moved_back(y.points, ref_from_src))
    n_p, n_q = np.concatenate([normals, normals[to_x]]), np.concatenate([y.normals[to_y], y.normals])
    cosine = dot(n_p, n_q)
    return Partners(
        np.concatenate([points, points[to_x]]),
        np.concatenate([y.points[to_y], y.points]),
        (n_p + np.sign(cosine)[:, None] * n_q) / 2,
        np.abs(cosine),
        np.concatenate([y.interior[to_y], x.interior[to_x]]),
    )


def step(found: Matches) -> Matrix:
    r"""The motion D that lessens :math:`\sum w\,\bigl(((p-q)\cdot n)^2 + \epsilon\|p-q\|^2\bigr)`.

    With p turned by ω/2 and q by −ω/2 about the mean c of all midpoints, and shifted by ±v/2, to first order
    :math:`p - q` becomes :math:`p - q + \omega\times(\tfrac{p+q}{2} - c) + v`: a linear least-squares problem
    for (ω, v), Rusinkiewicz' symmetric objective with the normals held. D shifts by v/2, turns by ω about c
    and shifts by v/2. Swapping p and q changes the sign of ω and v, and so inverts D, exactly.
    """
    weight = found.weight / found.weight.sum()
    middle = (found.p + found.q) / 2
    center = weight @ middle
    along = np.broadcast_to(np.sqrt(ALONG) * np.eye(3), (len(weight), 3, 3))
    directions = np.concatenate([found.normal[:, None], along], axis=1)
    turns = np.cross((middle - center)[:, None], directions)
    rows = np.concatenate([turns, directions], axis=2).reshape(-1, 6)
    residual = (directions @ (found.p - found.q)[:, :, None]).reshape(-1)
    weighted = np.repeat(weight, 4)[:, None] * rows
    solved = -np.linalg.solve(weighted.T @ rows + DAMPING * np.eye(6), weighted.T @ residual)
    turn, half = Rotation.from_rotvec(solved[:3]).as_matrix(), solved[3:] / 2
    return pose(turn, center + half + turn @ (half - center))


def descend(
    x: Surface, y: Surface, ref_from_src: Matrix, match: Match, widths: Iterable[float]
) -> tuple[Matrix, int]:
    """One step for each width, and how many were made; the search ends early where nothing matches."""
    made = 0
    for width in widths:
        found = match(x, y, ref_from_src, width)
        if found.weight.sum() < NOTHING:
            break
        ref_from_src, made = step(found) @ ref_from_src, made + 1
    return ref_from_src, made
