"""A cloud laid onto itself after a turn: made to fit, and how badly it fits; many turns at once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64
from scipy.spatial.transform import Rotation

from bitr.hypotheses.outline import Outline
from bitr.hypotheses.turns import Turns

ALONG = 0.05
"""Weight of a distance along the surface beside one across it: a plane must not slide away."""
DAMPING = 1e-2
"""Of the mean curvature of the score: what the matches do not tell stays as it is."""
FAR, FARTHEST = 2.5, 3.0
"""Spacings from which a point has nothing near it; and what a point may at most count in the misfit."""
ROUGH, FINE = (48, (4.0, 2.5, 1.5)), (120, (2.5, 2.0, 1.5))
"""Probes of a search, and the widths of its steps in spacings."""
WORSE, BESIDES = 1.5, 0.25
"""What a misfit may be: this many times the usual one, and so many spacings on top of it."""
PROMISING = 2.5
"""Misfit over the largest that is allowed, from which a turn is given up before the last search."""
ALONE = 0.03
"""Share of the points that may have nothing near them."""
OFF_CENTER = 2.0
"""Spacings that a symmetry may move the centre."""

Points = Float64[np.ndarray, "c m 3"]


@dataclass(frozen=True, eq=False)
class Partners:
    """Turned probes with the planes they come to lie at, and the same seen from the other side."""

    p: Points
    q: Points
    normal: Points
    alike: Float64[np.ndarray, "c m"]
    """|n · n'| of both surfaces."""
    apart: Float64[np.ndarray, "c m"]
    """From a turned probe to the nearest point."""

    @property
    def across(self) -> Float64[np.ndarray, "c m"]:
        return np.einsum("cmi,cmi->cm", self.p - self.q, self.normal)


def partners(outline: Outline, turns: Turns, count: int) -> Partners:
    """Of the first ``count`` probes; those of the inverse turns are the same, with p and q swapped."""
    chosen = outline.probes[:count]
    x, n = outline.points[chosen], outline.normals[chosen]
    there, back = turns.act(x), turns.inverse().act(x)
    j, k = outline.nearest(there), outline.nearest(back)
    turned = turns.rotations.swapaxes(1, 2)
    n_j, n_k = outline.normals[j], outline.normals[k] @ turned
    cosine = [np.einsum("cmi,cmi->cm", n @ turned, n_j), np.einsum("cmi,mi->cm", n_k, n)]
    return Partners(
        np.concatenate([there, turns.act(outline.middles[k])], axis=1),
        np.concatenate([outline.middles[j], np.broadcast_to(x, there.shape)], axis=1),
        np.concatenate([n_j, n_k], axis=1),
        np.abs(np.concatenate(cosine, axis=1)),
        np.concatenate(
            [
                np.linalg.norm(there - outline.points[j], axis=2),
                np.linalg.norm(back - outline.points[k], axis=2),
            ],
            axis=1,
        ),
    )


def settled(outline: Outline, turns: Turns, search: tuple[int, tuple[float, ...]]) -> Turns:
    r"""The turns moved to where the cloud fits itself best, nearby.

    Every step lessens :math:`\sum w\,\bigl(((p-q)\cdot n)^2 + \epsilon\|p-q\|^2\bigr)`, as in ICP,
    for ever smaller widths of the kernel. The inverse of a turn ends at the inverse of where the turn ends.
    """
    if not len(turns):
        return turns
    count, widths = search
    for width in widths:
        turns = _step(partners(outline, turns, count), width * outline.spacing, turns)
    return turns


def _step(found: Partners, width: float, turns: Turns) -> Turns:
    weight = found.alike**2 / np.square(1 + np.square(found.apart / width))
    weight /= weight.sum(1, keepdims=True)
    middle = (found.p + found.q) / 2
    center = np.einsum("cm,cmi->ci", weight, middle)
    arm, gap = middle - center[:, None], found.p - found.q
    rows = np.concatenate([np.cross(arm, found.normal), found.normal], axis=2)
    weighted = weight[:, :, None] * rows
    score = weighted.swapaxes(1, 2) @ rows + DAMPING * np.eye(6)
    slope = np.einsum("cmi,cm->ci", weighted, found.across)
    # the plain distance: its rows are [cross(arm, e), e] for the three axes e
    spread = np.einsum("cm,cmi,cmj->cij", weight, arm, arm)
    score[:, :3, :3] += ALONG * (np.trace(spread, axis1=1, axis2=2)[:, None, None] * np.eye(3) - spread)
    score[:, 3:, 3:] += ALONG * np.eye(3)
    slope[:, :3] += ALONG * np.einsum("cm,cmi->ci", weight, np.cross(arm, gap))
    slope[:, 3:] += ALONG * np.einsum("cm,cmi->ci", weight, gap)
    solved = -np.linalg.solve(score, slope[:, :, None])[:, :, 0]
    turn, half = Rotation.from_rotvec(solved[:, :3]).as_matrix(), solved[:, 3:] / 2
    shift = np.einsum("cij,cj->ci", turn, turns.shifts + half - center) + center + half
    return Turns(turn @ turns.rotations, shift)


def misfit(found: Partners, outline: Outline) -> Float64[np.ndarray, " c"]:
    """Root mean square distance across the surface, in spacings; the same for a turn and its inverse."""
    off = np.minimum(np.abs(found.across) / outline.spacing, FARTHEST)
    return np.sqrt(np.square(off).mean(1))


def allowed(outline: Outline) -> float:
    """The misfit up to which a turn is a symmetry: what noise and edges of this cloud explain."""
    return float(np.hypot(WORSE * outline.usual, BESIDES))


def verdict(outline: Outline, turns: Turns) -> Float64[np.ndarray, " c"]:
    """The misfit of each turn; infinite where the cloud can be told from the turned one."""
    if not len(turns):
        return np.zeros(0)
    found = partners(outline, turns, len(outline.probes))
    score = misfit(found, outline)
    alone = (found.apart > FAR * outline.spacing).mean(1)
    moved = np.linalg.norm(turns.shifts, axis=1)
    fits = (score <= allowed(outline)) & (alone <= ALONE) & (moved <= OFF_CENTER * outline.spacing)
    return np.where(fits, score, np.inf)
