"""Refinement by entropic partial optimal transport: soft matches instead of nearest points."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from jaxtyping import Float64

from bitr.io import farthest_points
from bitr.refine.frame import Matrix, Points, moved
from bitr.refine.matches import NOTHING, Matches, descend
from bitr.refine.refinement import Refinement
from bitr.refine.search import refined
from bitr.refine.surface import Surface, common_spacing

TRANSPORTED = 400
"""Farthest points of either piece between which mass is transported; their normals come from more."""
WIDEST = 0.15
"""First width of the affinity, of the unit of length."""
NARROWEST = 0.4
"""Last width, of the spacing of the transported points."""
NARROWING = 14
ROUNDS = 10
"""Of Sinkhorn's iteration for each width."""


def ot(source: Points, reference: Points, ref_from_src: Matrix) -> Refinement:
    """The pose that brings the surfaces of both pieces together, near the given one.

    Moving or scaling the pieces moves or scales the answer; ot(Y, X, g⁻¹) is the inverse of ot(X, Y, g).
    Where too little overlaps, the pose stays as it is.
    """
    return refined(source, reference, ref_from_src, _search)


def _search(x: Surface, y: Surface, ref_from_src: Matrix) -> tuple[Matrix, int]:
    x, y = _fewer(x), _fewer(y)
    last = NARROWEST * common_spacing(x, y)
    widths = np.geomspace(max(WIDEST, last), last, NARROWING)
    return descend(x, y, ref_from_src, transported, widths)


def _fewer(surface: Surface) -> Surface:
    """The farthest points, with the normals and borders of all, and their own spacing."""
    rows = farthest_points(surface.points, min(TRANSPORTED, len(surface.points)))
    alone = Surface.of(surface.points[rows])
    return replace(alone, normals=surface.normals[rows], interior=surface.interior[rows])


def transported(x: Surface, y: Surface, ref_from_src: Matrix, width: float) -> Matches:
    r"""Each point of both pieces and the mean of where its mass goes, weighted by that mass.

    The affinity is :math:`K_{ij} = e^{-d_{ij}^2/2\sigma^2}\,|n_i\cdot n_j|^4`; staying at home has 1.
    What would go to border points is left out, as it is in ``nearest_points``.
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
) -> tuple[Points, Points, Float64[np.ndarray, " n"]]:
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
