"""Turns that may be symmetries of a cloud, from pairs of its points."""

from __future__ import annotations

import numpy as np
from jaxtyping import Bool, Float64, Int64

from bitr.hypotheses.outline import Outline
from bitr.hypotheses.turning import angles
from bitr.hypotheses.turns import Turns

BASES = 3
"""Pairs of points that are matched with all others."""
AMONG = 200
"""Probes that they are matched with."""
RADIUS, DISTANCE = 0.6, 1.0
"""How far lengths may be off, in the spacing of those probes."""
SMALLEST = np.radians(25)
"""A smaller turn alone is none: a piece can always slide along itself a little."""
SECOND, THIRD = 0.25, 0.4
"""How far the second and third moments may turn away from themselves, in the cloud's size."""
FIRST_LOOK, MOST_LOOKED_AT = 16, 600
"""Probes that tell which candidates are worth a search, and how many candidates they are shown."""
APART, MOST = np.radians(18), 48
"""Candidates are thinned until they are this far apart, the best first; and how many are kept."""


def candidates(outline: Outline) -> Turns:
    """Turns about the centre that take a pair of points near another pair, best first; no small ones.

    Such pairs have equal distances from the centre and from each other. The first pair has a point far from
    the centre, which few can match. Which pairs are chosen moves with the cloud.
    """
    found = [_half_turns(outline), *(_of_base(outline, first) for first in range(BASES))]
    turns, mismatch = (np.concatenate(part) for part in zip(*found, strict=True))
    likely = (angles(turns) > SMALLEST) & _keeps_moments(outline, turns)
    turns, mismatch = turns[likely], mismatch[likely]
    looked_at = Turns.about_center(turns[np.argsort(mismatch, kind="stable")[:MOST_LOOKED_AT]])
    if not len(looked_at):
        return looked_at
    few = outline.points[outline.probes[:FIRST_LOOK]]
    off = outline.off(looked_at.act(few)) + outline.off(looked_at.inverse().act(few))
    return looked_at[thinned(looked_at.rotations, off, APART, MOST)]


def frame(outline: Outline) -> Float64[np.ndarray, "3 3"]:
    """A rotation that turns with the cloud, from the first pair."""
    return _frames(*(p[None] for p in _base(outline, 0)))[0]


def thinned(
    rotations: Float64[np.ndarray, "c 3 3"], score: Float64[np.ndarray, " c"], apart: float, most: int
) -> Int64[np.ndarray, " k"]:
    """Numbers of rotations that are more than ``apart`` from each other; those of the least score first."""
    kept: list[int] = []
    open_ = np.ones(len(rotations), dtype=bool)
    for i in np.argsort(score, kind="stable"):
        if open_[i]:
            kept.append(int(i))
            open_ &= angles(rotations @ rotations[i].T) > apart
            if len(kept) == most:
                break
    return np.array(kept, dtype=np.int64)


def _base(outline: Outline, first: int) -> tuple[Float64[np.ndarray, " 3"], Float64[np.ndarray, " 3"]]:
    """A probe, and the one that spans the largest triangle with it and the centre."""
    q = outline.points[outline.probes[:AMONG]]
    return q[first], q[np.linalg.norm(np.cross(q[first], q), axis=1).argmax()]


def _half_turns(outline: Outline) -> tuple[Float64[np.ndarray, "3 3 3"], Float64[np.ndarray, " 3"]]:
    """About the principal axes, which all half turns of a body with three different ones are."""
    q = outline.points[outline.probes]
    axes = np.linalg.eigh(q.T @ q)[1].T
    return 2 * axes[:, :, None] * axes[:, None] - np.eye(3), np.zeros(3)


def _of_base(outline: Outline, first: int) -> tuple[Float64[np.ndarray, "c 3 3"], Float64[np.ndarray, " c"]]:
    """The turns that take a pair near others, and by how much the lengths of these differ."""
    q, (base, other) = outline.points[outline.probes[:AMONG]], _base(outline, first)
    spacing, radius = _spread(outline, len(q)), np.linalg.norm(q, axis=1)
    off_base, off_other = (np.abs(radius - np.linalg.norm(p)) / spacing for p in (base, other))
    ones, others = np.flatnonzero(off_base < RADIUS), np.flatnonzero(off_other < RADIUS)
    between = np.linalg.norm(q[ones][:, None] - q[others], axis=2) - np.linalg.norm(base - other)
    i, j = np.nonzero(np.abs(between) < DISTANCE * spacing)
    mismatch = np.abs(between[i, j]) / spacing + off_base[ones[i]] + off_other[others[j]]
    turns = _frames(q[ones[i]], q[others[j]]) @ _frames(base[None], other[None])[0].T
    whole = np.isfinite(turns).all((1, 2))
    return turns[whole], mismatch[whole]


def _spread(outline: Outline, count: int) -> float:
    """Spacing of the first probes, from that of all points."""
    return outline.spacing * float(np.sqrt(np.pi * len(outline.points) / count))


def _frames(a: Float64[np.ndarray, "c 3"], b: Float64[np.ndarray, "c 3"]) -> Float64[np.ndarray, "c 3 3"]:
    """Axes: in the middle between the directions of a and b, in their plane across it, and across both."""
    with np.errstate(invalid="ignore", divide="ignore"):  # parallel ones span no frame, and are dropped
        a, b = (v / np.linalg.norm(v, axis=1, keepdims=True) for v in (a, b))
        axes = [a + b, a - b, np.cross(b, a)]
        return np.stack([v / np.linalg.norm(v, axis=1, keepdims=True) for v in axes], axis=2)


def _keeps_moments(outline: Outline, turns: Float64[np.ndarray, "c 3 3"]) -> Bool[np.ndarray, " c"]:
    """Whether second and third moments are about those of the turned cloud."""
    q = outline.points[outline.probes]
    second, third = q.T @ q / len(q), np.einsum("ni,nj,nk->ijk", q, q, q) / len(q)
    back = turns.swapaxes(1, 2)
    off_second = turns @ second @ back - second
    off_third = turns[:, None] @ (turns @ third.reshape(3, 9)).reshape(-1, 3, 3, 3) @ back[:, None] - third
    return (np.square(off_second).sum((1, 2)) < SECOND**2) & (np.square(off_third).sum((1, 2, 3)) < THIRD**2)
