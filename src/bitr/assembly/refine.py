"""The paper's BITR+ICP and BITR+OT: a pose made better where the pieces overlap, and left elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float64

from bitr.assembly.align import Frame, Matrix, Numbers, Points, angles, check_finite, moved
from bitr.assembly.overlay import NOTHING, Matches, bring_together, descend, overlaps
from bitr.assembly.surface import NO_SURFACE, NUM_NEIGHBORS, Surface, common_spacing
from bitr.io import even_draw, farthest_points

MOST_POINTS = 2000
"""Most points of either cloud; of a larger one, an even draw."""
LEAST = 0.2
"""Overlap from which a refined pose is taken. Two halves that touch along a cut, once a search has pulled
them over each other, stay below it."""
FARTHEST_TURN = 40.0
"""Degrees. A search that goes farther has lost its start, and found some other place to rest."""
CERTAIN = 0.5
"""Overlap from which on a pose is taken however far the search went: chance does not find that much."""

TRANSPORTED = 400
"""Farthest points of either piece between which mass is transported; their normals come from more."""
WIDEST, NARROWEST, NARROWING = 0.15, 0.4, 14
"""First width of the affinity over the unit of length, last width in spacings, and steps between them."""
ROUNDS = 10
"""Rounds of Sinkhorn's iteration for each width."""


@dataclass(frozen=True, eq=False)
class Refinement:
    """A pose after refinement; where ``moved`` is False it is the pose that came in, to the last bit."""

    pose: Matrix
    moved: bool
    reason: str
    """Why the pose was moved or left, in words."""
    overlap: float = 0.0
    """Share of the points that lie on the other piece's surface where the search ended, from 0 to 1: of the
    piece that has more of them."""


def none(source: Points, reference: Points, ref_from_src: Matrix) -> Refinement:
    """The pose as it is."""
    return Refinement(ref_from_src, False, "no refinement was asked for")


def icp(source: Points, reference: Points, ref_from_src: Matrix) -> Refinement:
    """The pose that brings the surfaces of both pieces together, near the given one, by two-sided ICP.

    Moving or scaling the pieces moves or scales the answer; icp(Y, X, g⁻¹) is the inverse of icp(X, Y, g).
    Where too little overlaps, the pose stays as it is.
    """
    return refine(source, reference, ref_from_src, bring_together)


def ot(source: Points, reference: Points, ref_from_src: Matrix) -> Refinement:
    """The same as ``icp`` by entropic partial optimal transport: soft matches instead of nearest points."""
    return refine(source, reference, ref_from_src, _transport)


REFINEMENTS: dict[str, Callable[[Points, Points, Matrix], Refinement]] = {"none": none, "icp": icp, "ot": ot}
"""Refinements by the names that settings and commands use."""


def refine(
    source: Points,
    reference: Points,
    ref_from_src: Matrix,
    search: Callable[[Surface, Surface, Matrix], Matrix],
) -> Refinement:
    """The pose where a search ends, if the pieces overlap enough there for how far it is; else the given."""
    check_finite(source, reference, ref_from_src)
    x, y = (points[even_draw(len(points), MOST_POINTS, 0)] for points in (source, reference))
    frame = Frame.of(x, y)
    if min(len(x), len(y)) < NUM_NEIGHBORS or not frame.unit > 0:
        return Refinement(ref_from_src, False, NO_SURFACE)
    a, b = Surface.of(frame.source(x)), Surface.of(frame.reference(y))
    found = search(a, b, frame.inside(ref_from_src))
    share, doubt = overlaps(a, b, found).larger, ""
    turn = np.degrees(angles(found[None, :3, :3] @ ref_from_src[:3, :3].T)[0])
    if share < LEAST:
        doubt = f", and below {LEAST:.0%} that does not tell a pose"
    elif share < CERTAIN and turn > FARTHEST_TURN:
        doubt = f", but only after a turn by {turn:.0f} degrees, which is no refinement"
    reason = f"the pieces overlap by {share:.0%}{doubt}"
    return Refinement(ref_from_src if doubt else frame.outside(found), not doubt, reason, share)


def _transport(x: Surface, y: Surface, ref_from_src: Matrix) -> Matrix:
    x, y = _fewer(x), _fewer(y)
    last = NARROWEST * common_spacing(x, y)
    widths = np.geomspace(max(WIDEST, last), last, NARROWING)
    return descend(ref_from_src, lambda pose, width: match_by_transport(x, y, pose, width), widths)


def _fewer(surface: Surface) -> Surface:
    """The farthest points, with the normals and borders of all, and their own spacing."""
    rows = farthest_points(surface.points, min(TRANSPORTED, len(surface.points)))
    alone = Surface.of(surface.points[rows])
    return replace(alone, normals=surface.normals[rows], interior=surface.interior[rows])


def match_by_transport(x: Surface, y: Surface, ref_from_src: Matrix, width: float) -> Matches:
    r"""Each point of both pieces and the mean of where its mass goes, weighted by that mass.

    The affinity is :math:`K_{ij} = e^{-d_{ij}^2/2\sigma^2}\,|n_i\cdot n_j|^4`; staying at home has 1.
    What would go to border points is left out, as it is in ``match_nearest``.
    """
    p, n_p = moved(x.points, ref_from_src), x.normals @ ref_from_src[:3, :3].T
    # numbers of order 1: the square of a difference needs no care
    squared = np.square(p).sum(1)[:, None] + np.square(y.points).sum(1) - 2 * p @ y.points.T
    cosine = n_p @ y.normals.T
    plan = slack_plan(np.exp(squared / (-2 * width**2)) * np.square(np.square(cosine)))
    to_y, to_x = plan * y.interior, (plan * x.interior[:, None]).T
    sign = np.sign(cosine)
    q, n_q, mass_p = _means(to_y, to_y * sign, y.points, y.normals)
    back, n_back, mass_q = _means(to_x, to_x * sign.T, p, n_p)
    return Matches(
        np.concatenate([p, back]),
        np.concatenate([q, y.points]),
        np.concatenate([n_p + n_q, n_back + y.normals]) / 2,
        np.concatenate([mass_p / len(p), mass_q / len(q)]),
    )


def _means(
    weights: Float64[np.ndarray, "n m"], signed: Float64[np.ndarray, "n m"], points: Points, normals: Points
) -> tuple[Points, Points, Numbers]:
    """Weighted means of points and of normals for each row, and the row's sum; zeros where there is none."""
    mass = weights.sum(1)
    mass = np.where(mass > NOTHING, mass, 0)
    share = (mass > 0) / np.maximum(mass, NOTHING)
    return share[:, None] * (weights @ points), share[:, None] * (signed @ normals), mass


def slack_plan(
    affinity: Float64[np.ndarray, "*b n m"], rounds: int = ROUNDS
) -> Float64[np.ndarray, "*b n m"]:
    r"""Entropic partial transport: :math:`P_{ij} = u_i K_{ij} v_j`, its rows and columns of sum 1 with slack.

    A slack column takes u_i of row i, and a slack row v_j of column j:
    :math:`u_i (1 + \sum_j K_{ij} v_j) = 1 = v_j (1 + \sum_i u_i K_{ij})`. All u and v lie in (0, 1], so no
    logarithms are needed. Both sides are renewed at once, by the geometric mean of old and new, which makes
    the transposed affinity give the transposed plan after any number of rounds.
    """
    u = 1 / np.sqrt(1 + affinity.sum(-1))
    v = 1 / np.sqrt(1 + affinity.sum(-2))
    for _ in range(rounds):
        to, fro = (affinity @ v[..., None])[..., 0], (u[..., None, :] @ affinity)[..., 0, :]
        u, v = np.sqrt(u / (1 + to)), np.sqrt(v / (1 + fro))
    return u[..., None] * affinity * v[..., None, :]
