"""The nearest point of a triangle, and which of its parts that lies on."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float64, Int64

from bitr.refine.frame import Points, dot

FACE, EDGES, CORNERS = 0, (1, 2, 3), (4, 5, 6)
"""Numbers of the parts: the face, the edges ab, bc and ca, the corners a, b and c."""


def nearest_on_triangles(
    points: Points, triangles: Float64[np.ndarray, "_ 3 3"]
) -> tuple[Points, Int64[np.ndarray, " _"]]:
    """Row by row: the nearest place of the triangle, and the number of the part on which it lies.

    Ericson's case analysis (Real-Time Collision Detection, 5.1.5), all rows at once.
    """
    a, b, c = triangles[:, 0], triangles[:, 1], triangles[:, 2]
    ab, ac = b - a, c - a
    ab_a, ac_a = dot(ab, points - a), dot(ac, points - a)
    ab_b, ac_b = dot(ab, points - b), dot(ac, points - b)
    ab_c, ac_c = dot(ab, points - c), dot(ac, points - c)
    beyond_ab, beyond_ca, beyond_bc = (
        ab_a * ac_b - ab_b * ac_a,
        ab_c * ac_a - ab_a * ac_c,
        ab_b * ac_c - ab_c * ac_b,
    )
    cases = [
        (ab_a <= 0) & (ac_a <= 0),
        (ab_b >= 0) & (ac_b <= ab_b),
        (ac_c >= 0) & (ab_c <= ac_c),
        (beyond_ab <= 0) & (ab_a >= 0) & (ab_b <= 0),
        (beyond_bc <= 0) & (ac_b >= ab_b) & (ab_c >= ac_c),
        (beyond_ca <= 0) & (ac_a >= 0) & (ac_c <= 0),
    ]
    along_ab, along_ca = _share(ab_a, -ab_b), _share(ac_a, -ac_c)
    along_bc, whole = _share(ac_b - ab_b, ab_c - ac_c), beyond_ab + beyond_bc + beyond_ca
    zero, one = np.zeros(len(points)), np.ones(len(points))
    to_b = np.select(cases, [zero, one, zero, along_ab, 1 - along_bc, zero], _ratio(beyond_ca, whole))
    to_c = np.select(cases, [zero, zero, one, zero, along_bc, along_ca], _ratio(beyond_ab, whole))
    part = np.select(cases, [*CORNERS, *EDGES], FACE)
    return a + to_b[:, None] * ab + to_c[:, None] * ac, part


def _share(before: Float64[np.ndarray, " n"], after: Float64[np.ndarray, " n"]) -> Float64[np.ndarray, " n"]:
    """How far along an edge, from 0 to 1."""
    return _ratio(before, before + after)


def _ratio(part: Float64[np.ndarray, " n"], whole: Float64[np.ndarray, " n"]) -> Float64[np.ndarray, " n"]:
    """0 where there is no whole: rows that another case takes."""
    return np.divide(part, whole, out=np.zeros_like(part), where=whole != 0)
