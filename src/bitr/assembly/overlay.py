"""Surfaces that lie on each other: how much of them does, and two-sided ICP that brings them there."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float64
from scipy.spatial import cKDTree

from bitr.assembly.align import (
    Frame,
    Matrix,
    Motions,
    Points,
    Poses,
    TwistFit,
    dot,
    lengths,
    moved,
    root_mean_square,
    squares,
)
from bitr.assembly.surface import Couples, Rows, Surface, common_noise, common_spacing, couple

NOISY = 2.5
"""Standard deviations of the noise that tolerances and last widths cover at least."""

ACROSS, NEAR = 0.5, 2.0
"""Spacings that a point may be off the other surface, and that its nearest point there may be away."""
ALIKE, LEANING = 0.85, 1.5
"""Least |n · n'|, and how much less it may be for noise of one spacing, which tilts the normals."""
FEWEST = 10
"""Points on each other without which nothing is held."""
WITHIN = 2.0
"""Typical spacings that two points may be apart to count as partners in ``fit``."""

ALONG, DAMPING = 0.05, 1e-3
"""Weight of a distance along the surface beside one across it, so that a plane does not slide away, and the
damping of the twist, of two-sided ICP."""
NOTHING = 1e-12
"""A weight below this is none."""
WIDEST, NARROWING, AT_LAST = 0.25, 16, 6
"""First width of the kernel over the unit of length, steps while it shrinks, steps at the last width."""

LAY_WIDEST, LAY_NARROWEST = 4.0, 1.2
"""First and last width of the kernel in spacings, where many motions are laid at once."""
LAY_ALONG, LAY_DAMPING = 0.25, 1e-6
LEAST_ALIKE = 0.05
"""Smallest cosine between normals that counts, so that no motion is left without partners."""


@dataclass(frozen=True, eq=False)
class Partners:
    """Points of both pieces under one motion or many, each with its nearest point of the other piece."""

    p: Float64[np.ndarray, "*g m 3"]
    """Places of the source, moved."""
    q: Float64[np.ndarray, "*g m 3"]
    normal: Float64[np.ndarray, "*g m 3"]
    """(n_p ± n_q)/2, the sign such that it is the longer one."""
    alike: Float64[np.ndarray, "*g m"]
    """|n_p · n_q|."""
    inside: Bool[np.ndarray, "*g m"]
    """True where the nearest point is no border point."""
    share: Float64[np.ndarray, " m"]
    """Weights of the points; either piece's have sum 1/2."""

    @property
    def squared(self) -> Float64[np.ndarray, "*g m"]:
        return squares(self.p - self.q)


def partners(
    x: Surface,
    y: Surface,
    motions: Poses,
    rows_x: Rows | None = None,
    rows_y: Rows | None = None,
) -> Partners:
    """Partners of the source's points, or some of them, then of the reference's."""
    return partners_of(x, y, motions, couple(x, y, motions, rows_x, rows_y))


def partners_of(x: Surface, y: Surface, motions: Poses, found: Couples) -> Partners:
    """The same, by couples that have been found already."""
    n_p, n_q = x.normals[found.i] @ motions[..., :3, :3].swapaxes(-1, -2), y.normals[found.j]
    cosine = dot(n_p, n_q)
    normal = (n_p + np.sign(cosine)[..., None] * n_q) / 2
    inside = np.where(found.of_x, y.interior[found.j], x.interior[found.i])
    return Partners(found.p, found.q, normal, np.abs(cosine), inside, found.share)


@dataclass(frozen=True)
class Overlap:
    """The common surface of two pieces under a pose; unchanged by a swap, by motions and by scale."""

    larger: float
    """Share of points that lie on the other piece's surface, of the piece that has more of them."""
    smaller: float
    """The same of the other piece."""
    residual: float
    """Root mean square distance of these points across the surface, in spacings."""
    firmness: float
    """How firmly the common surface holds the pose: 0 where it can slide along itself, as anything round."""


def overlaps(x: Surface, y: Surface, ref_from_src: Matrix) -> Overlap:
    """The common surface of two pieces under a pose."""
    return overlaps_of(partners(x, y, ref_from_src), x, y)


def overlaps_of(found: Partners, x: Surface, y: Surface) -> Overlap:
    r"""The common surface, by partners that have been found already.

    A point lies on the other piece if its nearest point there is away from the borders, both normals agree,
    and it is off that surface by less than half a spacing, or than the noise explains. Points beyond a border
    have border points nearest: pieces that only touch hardly overlap. Firmness is the least mean square, over
    all motions (ω, v) of length 1, of how far such points come off the surface,
    :math:`(p\times n)\cdot\omega + n\cdot v` (Gelfand and Rusinkiewicz' slippage).
    """
    spacing, noise = common_spacing(x, y), common_noise(x, y)
    gap = found.p - found.q
    off = np.abs(dot(gap, found.normal))
    on = found.inside & (found.alike > ALIKE - LEANING * min(noise / spacing, 0.3))
    on &= off < np.hypot(ACROSS * spacing, NOISY * noise)
    on &= lengths(gap) < np.hypot(NEAR * spacing, NOISY * noise)
    shares = on[: len(x.points)].mean(), on[len(x.points) :].mean()
    residual, firmness = 0.0, 0.0
    if on.sum() >= FEWEST:
        residual = float(np.sqrt(np.square(off[on]).mean())) / spacing
        normal, middle = found.normal[on], (found.p + found.q)[on] / 2
        middle = middle - middle.mean(0)
        radius = np.sqrt(squares(middle).mean())
        rows = np.concatenate([np.cross(middle / radius, normal), normal], axis=1)
        firmness = max(0.0, float(np.linalg.eigvalsh(rows.T @ rows / len(rows))[0]))
    return Overlap(float(max(shares)), float(min(shares)), residual, firmness)


@dataclass(frozen=True)
class Fit:
    """Share of points with a partner, and the root mean square distance to it (None without partners)."""

    fitness: float
    inlier_rmse: float | None


def fit(source: Points, reference: Points, ref_from_src: Matrix) -> Fit:
    r"""How well two clouds lie on each other; unchanged by a swap, and free of any unit of length.

    A point's partner is the nearest point of the other cloud, if it is within
    :math:`\tau = 2\sqrt{(s_X^2 + s_Y^2)/2}`, where s is the median distance of a cloud's points to their
    nearest neighbour. ``fitness`` is the mean of both clouds' shares of points with a partner;
    ``inlier_rmse`` is over the partners of both clouds together.
    """
    frame = Frame.of(source, reference)
    trees = (
        cKDTree(moved(frame.source(source), frame.inside(ref_from_src))),
        cKDTree(frame.reference(reference)),
    )
    spacings = [float(np.median(tree.query(tree.data, k=2)[0][:, 1])) for tree in trees]
    apart = [trees[1].query(trees[0].data)[0], trees[0].query(trees[1].data)[0]]
    close = [each[each <= WITHIN * root_mean_square(*spacings)] for each in apart]
    fitness = np.mean([len(c) / len(each) for c, each in zip(close, apart, strict=True)])
    near = np.concatenate(close)
    return Fit(float(fitness), float(frame.unit * np.sqrt(np.mean(near**2))) if len(near) else None)


@dataclass(frozen=True, eq=False)
class Matches:
    """Places p of the source, under the current pose, that belong to places q of the reference."""

    p: Float64[np.ndarray, "*g m 3"]
    q: Float64[np.ndarray, "*g m 3"]
    normal: Float64[np.ndarray, "*g m 3"]
    weight: Float64[np.ndarray, "*g m"]

    def step(self, along: float = ALONG, damping: float = DAMPING) -> Poses:
        r"""The motion of ``TwistFit`` that lessens :math:`\sum w\,(((p-q)\cdot n)^2 + \epsilon\|p-q\|^2)`."""
        twist = TwistFit(self.p, self.q, self.weight)
        twist.add_distance(self.normal)
        twist.add_all_distances(along)
        return twist.solve(damping)


def descend(
    ref_from_src: Matrix, match: Callable[[Matrix, float], Matches], widths: Iterable[float]
) -> Matrix:
    """The pose after one step for each width; the search ends early where nothing matches."""
    for width in widths:
        found = match(ref_from_src, width)
        if found.weight.sum() < NOTHING:
            break
        ref_from_src = found.step() @ ref_from_src
    return ref_from_src


def bring_together(x: Surface, y: Surface, ref_from_src: Matrix) -> Matrix:
    """Two-sided ICP: the pose near the given one that brings the surfaces of both pieces together.

    Moving or scaling the pieces moves or scales the answer, and a swap inverts it.
    """
    last = _last_width(x, y)
    widths = [*np.geomspace(max(WIDEST, last), last, NARROWING), *[last] * AT_LAST]
    return descend(ref_from_src, lambda pose, width: match_nearest(x, y, pose, width), widths)


def polish(x: Surface, y: Surface, ref_from_src: Matrix) -> Matrix:
    """A few last steps of ``bring_together`` from a pose that is nearly right."""
    last = _last_width(x, y)
    return descend(ref_from_src, lambda pose, width: match_nearest(x, y, pose, width), [2 * last, last, last])


def match_nearest(x: Surface, y: Surface, ref_from_src: Matrix, width: float) -> Matches:
    r"""Each point of both pieces and its nearest, of weight :math:`(1 + d^2/\sigma^2)^{-2} (n_p\cdot n_q)^2`.

    Geman-McClure's kernel forgets what is farther than a few widths σ: outliers, and parts that the other
    piece lacks. So does the rule that a border point is nobody's match (Turk and Levoy).
    """
    found = partners(x, y, ref_from_src)
    weight = found.share * found.inside * found.alike**2 / np.square(1 + found.squared / width**2)
    return Matches(found.p, found.q, found.normal, weight)


def _last_width(x: Surface, y: Surface) -> float:
    return max(common_spacing(x, y), NOISY * common_noise(x, y))


def look(x: Surface, y: Surface, motions: Motions, points: int, reach: float) -> Float64[np.ndarray, " g"]:
    """How much of both pieces lies near the other with like normals, less what crosses it; many motions.

    ``points`` of either piece are looked at; ``reach`` is in spacings. Unchanged by the three laws.
    """
    found = partners(x, y, motions, x.spread[:points], y.spread[:points])
    width = reach * common_spacing(x, y)
    near = np.clip(1 - found.squared / width**2, 0, None) * np.clip(2 * found.alike - 1, 0, 1)
    crossing = (found.squared < (width / 1.5) ** 2) & (found.alike < 0.5)
    return (near - 2 * crossing) @ found.share


def lay(x: Surface, y: Surface, motions: Motions, points: int, steps: int) -> Motions:
    """Move many motions to where the surfaces lie on each other, by steps on few points, wide to narrow."""
    spacing = common_spacing(x, y)
    last = max(LAY_NARROWEST * spacing, NOISY * common_noise(x, y))
    for width in np.geomspace(max(LAY_WIDEST * spacing, last), last, steps):
        found = partners(x, y, motions, x.spread[:points], y.spread[:points])
        alike = np.clip(found.alike, LEAST_ALIKE, 1) ** 2
        weight = found.share * alike / np.square(1 + found.squared / width**2)
        twist = TwistFit(found.p, found.q, weight)
        twist.add_distance(found.normal)
        twist.add_all_distances(LAY_ALONG)
        motions = twist.solve(LAY_DAMPING * twist.curvature) @ motions
    return motions
