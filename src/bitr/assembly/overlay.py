"""Many motions at once: how well two surfaces lie on each other, and steps that bring them there."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64, Int64
from scipy.spatial.transform import Rotation

from bitr.refine.surface import Surface, common_noise, common_spacing

WIDEST, NARROWEST = 4.0, 1.2
"""Spacings of the first and of the last kernel."""
NOISY = 2.5
"""Standard deviations of the noise that the last kernel covers at least."""
ALONG = 0.25
"""Weight of a distance along the surface beside one across it."""
LEAST_ALIKE = 0.05
"""Cosine between normals that counts at least, so that no motion is left without partners."""
DAMPING = 1e-6

Motions = Float64[np.ndarray, "g 4 4"]


@dataclass(frozen=True, eq=False)
class Laid:
    """Some points of both pieces under motions, each with its nearest point of the other piece."""

    p: Float64[np.ndarray, "g m 3"]
    q: Float64[np.ndarray, "g m 3"]
    normal: Float64[np.ndarray, "g m 3"]
    """(n_p ± n_q)/2, the sign such that it is the longer one."""
    alike: Float64[np.ndarray, "g m"]
    """|n_p · n_q|."""
    share: Float64[np.ndarray, " m"]
    """Either piece's points have sum 1/2."""

    @property
    def squared(self) -> Float64[np.ndarray, "g m"]:
        return np.square(self.p - self.q).sum(2)


def look(x: Surface, y: Surface, motions: Motions, points: int, reach: float) -> Float64[np.ndarray, " g"]:
    """How much of both pieces lies near the other with like normals, less what crosses it.

    ``points`` of either piece are looked at; ``reach`` is in spacings. Unchanged by the three laws.
    """
    laid, width = _laid(x, y, motions, points), reach * common_spacing(x, y)
    near = np.clip(1 - laid.squared / width**2, 0, None) * np.clip(2 * laid.alike - 1, 0, 1)
    crossing = (laid.squared < (width / 1.5) ** 2) & (laid.alike < 0.5)
    return (near - 2 * crossing) @ laid.share


def lay(x: Surface, y: Surface, motions: Motions, points: int, steps: int) -> Motions:
    """Moves motions to where the surfaces lie on each other: robust two-sided steps from wide to narrow."""
    spacing = common_spacing(x, y)
    last = max(NARROWEST * spacing, NOISY * common_noise(x, y))
    for width in np.geomspace(max(WIDEST * spacing, last), last, steps):
        motions = _steps(_laid(x, y, motions, points), width) @ motions
    return motions


def agreement(motions: Motions, turn: float, shift: float) -> Float64[np.ndarray, " g"]:
    """How many motions are like each one, counted from 0 to 1: less the more they differ."""
    rotation = motions[:, :3, :3].reshape(-1, 9)
    squared = (3 - rotation @ rotation.T) / turn**2  # 3 − tr(aᵀb) is the squared angle where it is small
    squared += (_squares(motions[:, :3, 3]) + _squares(_origins(motions))) / (2 * shift**2)
    return np.clip(1 - squared, 0, None).sum(1)


def distinct(
    motions: Motions, score: Float64[np.ndarray, " g"], most: int, turn: float, shift: float
) -> Int64[np.ndarray, " k"]:
    """Numbers of motions that differ from all better ones, best first.

    They differ by an angle or, at the origin, by a shift: the mean of there and back, so that a swap of the
    pieces changes no choice.
    """
    origins, kept = _origins(motions), list[int]()
    for i in np.argsort(-score, kind="stable"):
        trace = np.einsum("kij,ij->k", motions[kept, :3, :3], motions[i, :3, :3])
        angle = np.arccos(np.clip((trace - 1) / 2, -1, 1))
        there = np.linalg.norm(motions[kept, :3, 3] - motions[i, :3, 3], axis=1)
        back = np.linalg.norm(origins[kept] - origins[i], axis=1)
        if not ((angle < turn) & ((there + back) / 2 < shift)).any():
            kept.append(int(i))
            if len(kept) == most:
                break
    return np.array(kept, dtype=np.int64)


def _origins(motions: Motions) -> Float64[np.ndarray, "g 3"]:
    """Places that the motions take to the origin."""
    return -np.einsum("gji,gj->gi", motions[:, :3, :3], motions[:, :3, 3])


def _squares(places: Float64[np.ndarray, "g 3"]) -> Float64[np.ndarray, "g g"]:
    """Squared distances between all."""
    square = np.square(places).sum(1)
    return square[:, None] + square - 2 * places @ places.T


def _laid(x: Surface, y: Surface, motions: Motions, points: int) -> Laid:
    rows_x, rows_y = x.spread[:points], y.spread[:points]
    turned, t = motions[:, :3, :3].swapaxes(1, 2), motions[:, None, :3, 3]
    moved, back = x.points[rows_x] @ turned + t, (y.points[rows_y] - t) @ motions[:, :3, :3]
    to_y, to_x = _nearest(y, moved), _nearest(x, back)
    p = np.concatenate([moved, x.points[to_x] @ turned + t], axis=1)
    q = np.concatenate([y.points[to_y], np.broadcast_to(y.points[rows_y], back.shape)], axis=1)
    n_p = np.concatenate([np.broadcast_to(x.normals[rows_x], moved.shape), x.normals[to_x]], axis=1) @ turned
    n_q = np.concatenate([y.normals[to_y], np.broadcast_to(y.normals[rows_y], back.shape)], axis=1)
    cosine = np.einsum("gmi,gmi->gm", n_p, n_q)
    share = np.repeat([0.5 / len(rows_x), 0.5 / len(rows_y)], [len(rows_x), len(rows_y)])
    return Laid(p, q, (n_p + np.sign(cosine)[:, :, None] * n_q) / 2, np.abs(cosine), share)


def _nearest(surface: Surface, points: Float64[np.ndarray, "g m 3"]) -> Int64[np.ndarray, "g m"]:
    return surface.nearest(points.reshape(-1, 3)).reshape(points.shape[:2])


def _steps(laid: Laid, width: float) -> Motions:
    r"""The motions D that lessen :math:`\sum w\,(((p-q)\cdot n)^2 + \epsilon\|p-q\|^2)`, one for each motion.

    p turns by ω/2 and q by −ω/2 (Rusinkiewicz' symmetric objective), so that a swap inverts D exactly.
    """
    weight = laid.share * np.clip(laid.alike, LEAST_ALIKE, 1) ** 2 / np.square(1 + laid.squared / width**2)
    weight = weight / weight.sum(1, keepdims=True)
    middle, gap = (laid.p + laid.q) / 2, laid.p - laid.q
    center = np.einsum("gm,gmi->gi", weight, middle)
    arm = middle - center[:, None]
    rows = np.concatenate([np.cross(arm, laid.normal), laid.normal], axis=2)
    scaled = weight[:, :, None] * rows
    a = scaled.swapaxes(1, 2) @ rows
    b = np.einsum("gmi,gm->gi", scaled, np.einsum("gmi,gmi->gm", laid.normal, gap))
    inertia = (weight[:, :, None] * arm).swapaxes(1, 2) @ arm
    trace = np.trace(inertia, axis1=1, axis2=2)[:, None, None] * np.eye(3)
    a[:, :3, :3] += ALONG * (trace - inertia)
    a[:, 3:, 3:] += ALONG * np.eye(3)
    b[:, :3] += ALONG * np.einsum("gm,gmi->gi", weight, np.cross(arm, gap))
    b[:, 3:] += ALONG * np.einsum("gm,gmi->gi", weight, gap)
    a += DAMPING * np.trace(a, axis1=1, axis2=2)[:, None, None] / 6 * np.eye(6)
    solved = -np.linalg.solve(a, b[:, :, None])[:, :, 0]
    turn, half = Rotation.from_rotvec(solved[:, :3]).as_matrix(), solved[:, 3:] / 2
    steps = np.zeros((len(weight), 4, 4))
    steps[:, 3, 3] = 1
    steps[:, :3, :3] = turn
    steps[:, :3, 3] = center + half + np.einsum("gij,gj->gi", turn, half - center)
    return steps
