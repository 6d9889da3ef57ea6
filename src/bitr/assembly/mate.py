"""Closed surfaces that broke apart: rims meet, breaks lie against each other, and nothing penetrates.

A piece of a broken solid is a set of smooth sheets that end at sharp creases. The old surface ends where the
break begins, like the border of an open surface, but with a normal whose sign is known. At a joint the rims
of the old sheets meet as borders do (normals agree, outward directions oppose), and the breaks lie against
each other with opposite normals.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
import torch
from jaxtyping import Float64, Int64
from small_gicp import KdTree

from bitr.assembly.align import (
    NO_MOTION,
    Motions,
    Numbers,
    Points,
    TwistFit,
    distinct,
    dot,
    motions_between,
    moved,
    root_mean_square,
    squares,
)
from bitr.assembly.match import Correspondences, match_motions, ranks
from bitr.assembly.seam import Met
from bitr.assembly.surface import (
    SPACING_RANK,
    Border,
    Couples,
    Rows,
    Sample,
    Surface,
    couple,
    spacing_of,
    unit_rows,
)
from bitr.data.poses import inverse
from bitr.groups import Cloud
from bitr.io import farthest_points
from bitr.model import BITR
from bitr.model.checkpoint import load
from bitr.model.mating import match_scores

CLOSED = 0.15
"""Length of the mean normal up to which a surface counts as closed: for a closed one it is 0."""
SHEET = 0.6
"""Cosine between normals above which neighbours lie on one sheet."""
FEWEST = 4
"""Rim points without which nothing is tried."""
POST = 2.0
"""Spacings by which a rim point is lifted along its normal before partners are sought: the two rims at a
crease are then apart."""
AROUND, CREASE_REACH = 18, 1.75
"""Points around a rim point that tell the two sheets at its crease, and the spacings within which they count
most."""
APART, LEAST_BEYOND, STRAIGHTEST = 0.8, 0.15, 0.95
"""Cosine between normals below which a point lies beyond the crease, the least weight of such points, and the
cosine between the two sheets from which on there is no crease."""
LIKELY = 0.25
"""Share of the points, or creases, that are the likeliest to lie on, or at, a break."""
ANCHORS, RIM_ANCHORS = 144, 64
"""Creases and rim points of either piece that are laid onto each other."""
SUPPLEMENT = 0.35
"""Most that the sum of the cosines at two creases may differ from 0: at a joint the angles add up to 180°."""
LOCAL, LOCAL_REACH = 12, 3.0
"""Creases beside an anchor that tell whether it is laid well, and the spacings within which they meet."""
GLIMPSED, PROMISING, LEARNED, KEPT = 500, 75, 64, 72
"""Motions that a first and a second look leave, by each judgement; of learned matches that are settled
roughly, too; and that are settled well."""
POINTS = 1000
"""Points of the larger piece that the network sees."""
MATCHES, AGREED = 300, 40
"""Likeliest matches that are each other's best, each of which gives a motion, and most motions that several
of them agree on."""
NEAR_MATCH = 4.0
"""Spacings within which a match agrees with a motion."""
FIRST, SECOND, ROUGH, FINE = (16, 16), (32, 64), (40, 64), (160, 400)
"""Rim points and surface points of either piece that a first and a second look, a rough and a fine step go
by."""
WIDEST, WIDE, MIDDLE, NARROWEST = 5.0, 3.5, 2.5, 1.2
"""Spacings within which rims are near at a look; spacings of the first, a middle and the last kernel."""
ROUGH_STEPS, STEPS = 6, 10
TOUCHING, FACING = 2.5, 0.5
"""Spacings within which breaks are in contact, and the least cosine between one normal and the other's
opposite."""
DEEP, STRAIGHT = 1.5, 0.85
"""Spacings behind the other surface from which on a point penetrates it, and the least cosine between the way
there and the normal: outside, beside a crease, it is less."""
MEETING = 2.0
"""Spacings within which rims meet."""
UNCOVERED, LIKELIHOOD = 2.0, 2.0
"""Weights of what lies beside a contact on the same sheet without being in contact, and of how likely a
network finds what is in contact."""
BESIDE = 8
"""Neighbours on the same sheet that tell where a contact ends."""
ACROSS, OUT, ALONG, CONTACT = 0.3, 0.6, 4.0, 0.4
"""Standard deviations in spacings: of a rim point across its sheet, across the rim in the sheet and along the
rim, and of the distance between two breaks."""
TURNED = 0.6
"""Standard deviation of directions, in radians."""
DAMPING = 1e-3
SAME_TURN, SAME_SHIFT = np.radians(6), 1.5
"""Motions that are closer, in radians and in spacings, are one."""


@dataclass(frozen=True, eq=False)
class Rim(Sample):
    """Points where sheets end, lifted along their normals; each has a frame (tangent, normal, outward)."""

    points: Points
    feet: Points
    """The points themselves, on the surface."""
    normals: Points
    outward: Points
    order: Rows
    """Numbers of points that are far from each other; the first few cover the rim."""
    tree: KdTree

    @classmethod
    def of(cls, border: Border, normals: Points, spacing: float) -> Rim:
        lifted = border.points + POST * spacing * normals
        order = farthest_points(border.points, min(FINE[0], len(border)))
        return cls(lifted, border.points, normals, border.outward, order, KdTree(lifted))


@dataclass(frozen=True, eq=False)
class Creases(Sample):
    """Rim points where two sheets meet at an angle, with the mean normals of both.

    At a joint the old surfaces of both pieces continue each other and the breaks face each other: at matching
    creases the ``normals`` agree and those ``beyond`` oppose, which fixes a rotation.
    """

    points: Points
    """Lifted along their normals, as those of a rim: both sheets at a crease end there."""
    feet: Points
    normals: Points
    """Normals of the sheet that ends here."""
    beyond: Points
    """Normals of the other sheet."""
    beside: Int64[np.ndarray, "n k"]
    """Numbers of the nearest creases, the own one among them."""
    anchors: Rows
    """Numbers of creases that are far from each other."""
    tree: KdTree

    @classmethod
    def of(cls, rim: Rim, surface: Surface, outward: Points, broken: Numbers) -> Creases | None:
        """The clear creases of a rim, by the surface's normals that point outwards; None where few are.

        Half of the anchors are among those that have an old surface here and a break beyond, by ``broken``.
        """
        count = min(AROUND, len(surface.points))
        rows, squared = surface.tree.batch_knn_search(rim.feet, count)
        normals = outward[rows.view(np.int64)]
        cosine = np.einsum("mki,mi->mk", normals, rim.normals)
        weight = np.exp(-squared / (CREASE_REACH * surface.spacing) ** 2)
        far = weight * (cosine < APART)
        own = unit_rows(np.einsum("mk,mki->mi", weight - far, normals) + 1e-6 * rim.normals)
        beyond = unit_rows(np.einsum("mk,mki->mi", far, normals) + 1e-12 * rim.outward)
        clear = np.flatnonzero((far.sum(1) > LEAST_BEYOND) & (np.abs(dot(own, beyond)) < STRAIGHTEST))
        if len(clear) < FEWEST:
            return None
        feet, own = rim.feet[clear], own[clear]
        points = feet + POST * surface.spacing * own
        tree = KdTree(points)
        beside = tree.batch_knn_search(points, min(LOCAL, len(points)))[0].view(np.int64)
        here, there = (
            (part * broken[rows]).sum(1) / part.sum(1) for part in (weight - far + 1e-12, far + 1e-12)
        )
        anchors = _spread(feet, (there * (1 - here))[clear], ANCHORS)
        return cls(points, feet, own, beyond[clear], beside, anchors, tree)


@dataclass(frozen=True, eq=False)
class Sheets(Sample):
    """A closed surface with normals that point outwards, as sheets that end at rims."""

    points: Points
    normals: Points
    spacing: float
    broken: Numbers
    """Chance of each point to lie on a break."""
    rim: Rim
    creases: Creases | None
    """None where hardly any two sheets meet."""
    order: Rows
    """Numbers of points that are far from each other; the first few cover the surface."""
    beside: Int64[np.ndarray, "n k"]
    """Numbers of the neighbours of each point; its own number in place of those on other sheets."""
    tree: KdTree

    @classmethod
    def of(cls, points: Points, normals: Points, broken: Numbers) -> Sheets | None:
        """The sheets of a closed surface by its ``closed_normals``; None where it has no creases."""
        surface = Surface.of(points, normals, SHEET)
        border, tree = surface.border, surface.tree
        if len(border) < FEWEST:
            return None
        around = tree.batch_knn_search(points, min(BESIDE + 1, len(points)))[0].view(np.int64)
        same = np.einsum("nki,ni->nk", normals[around], normals) > SHEET
        beside = np.where(same, around, np.arange(len(points))[:, None])
        near = tree.batch_knn_search(border.points, min(6, len(points)))[0].view(np.int64)
        cosine = np.einsum("bki,bi->bk", normals[near], border.normals)
        clearest = np.take_along_axis(cosine, np.abs(cosine).argmax(1)[:, None], 1)
        rim = Rim.of(border, border.normals * np.where(clearest < 0, -1.0, 1.0), surface.spacing)
        order = _spread(points, broken, FINE[1])
        creases = Creases.of(rim, surface, normals, broken)
        return cls(points, normals, surface.spacing, broken, rim, creases, order, beside, tree)


def closed_normals(points: Points, normals: Points) -> Points | None:
    """The normals, turned so that they point outwards; None where the surface is open."""
    if np.linalg.norm(normals.mean(0)) > CLOSED:
        return None
    volume = np.einsum("ni,ni->", points - points.mean(0), normals)  # three times, by Gauss' theorem
    return normals if volume >= 0 else -normals


def _spread(points: Points, likely: Numbers, most: int) -> Rows:
    """Numbers of points that are far from each other, in turns of the likeliest ones and of all."""
    best = np.argsort(-likely, kind="stable")[: max(FEWEST, round(LIKELY * len(points)))]
    each = min(most // 2, len(best))
    chosen = best[farthest_points(points[best], each)], farthest_points(points, each)
    return np.stack(chosen, axis=1).reshape(-1)


@dataclass(frozen=True, eq=False)
class Mates:
    """How well breaks fit under motions: numbers from 0 to 1 that no law changes."""

    rims: Numbers
    """Share of both rims that meets. Rims that are no part of the break meet nothing."""
    contact_smaller: Numbers
    """Share of the surface in contact with the other, of the piece that has less."""
    contact_larger: Numbers
    uncovered: Numbers
    """Share of both surfaces right beside a contact, on the same sheet, but not in contact."""
    depth: Numbers
    """Share of both surfaces that penetrates the other, more for what reaches deeper."""
    broken_smaller: Numbers
    """Share of what looks broken that is in contact, of the piece that has less."""
    broken_larger: Numbers
    broken_contact: Numbers
    """Mean chance of what is in contact to be a break; 0 where nothing is."""
    likely: Numbers
    """Share of both surfaces in contact, each point counted by its log ratio of ``Matched``."""
    likely_mean: Numbers
    """Mean log ratio of what is in contact."""

    @property
    def score(self) -> Numbers:
        contact = (self.contact_smaller + self.contact_larger) / 2
        return self.rims + contact - self.depth - UNCOVERED * self.uncovered

    @property
    def turns(self) -> Numbers:
        """The order in which motions are kept, the largest first."""
        return _in_turns(self.score, self.score + LIKELIHOOD * self.likely)


def mate_motions(x: Sheets, y: Sheets, most: int, matched: Matched | None = None) -> Motions:
    """Motions under which breaks of both pieces lie against each other, best first.

    One crease of each piece already gives a motion, and so does one rim point with its frame. All such
    motions are judged by some points of rims and surfaces, and by the creases beside the two; the best of
    them and of the ``matched`` ones are settled, roughly and then finely. Both pieces are treated alike: the
    motions move with the pieces, and a swap inverts them.
    """
    spacing = _spacing(x, y)
    motions, beside = _crease_motions(x.creases, y.creases, spacing)
    frames = _frame_motions(x.rim, y.rim)
    motions, beside = np.concatenate([motions, frames]), np.append(beside, np.zeros(len(frames)))
    for counts, left in ((FIRST, GLIMPSED), (SECOND, PROMISING)):
        rows = _promising(_look(x, y, motions, matched, counts, WIDEST), beside, left)
        motions, beside = motions[rows], beside[rows]
    if matched is not None:
        order = np.argsort(-_look(x, y, matched.motions, matched, SECOND, WIDEST).turns, kind="stable")
        motions = np.concatenate([motions, matched.motions[order[:LEARNED]]])
    if not len(motions):
        return NO_MOTION
    motions = settle_mates(x, y, motions, counts=ROUGH, widest=WIDE, narrowest=MIDDLE, steps=ROUGH_STEPS)
    turns = _look(x, y, motions, matched, (ROUGH[0], 2 * ROUGH[1]), MIDDLE).turns
    motions = motions[distinct(motions, turns, KEPT, SAME_TURN, SAME_SHIFT * spacing)]
    motions = settle_mates(x, y, motions)
    turns = mates(x, y, motions, matched).turns
    return motions[distinct(motions, turns, most, SAME_TURN, SAME_SHIFT * spacing)]


@dataclass(frozen=True, eq=False)
class Matched:
    """How a network matches the breaks of two pieces, and the poses that it holds possible."""

    motions: Motions
    """Motions that several matches agree on, and those of single matches."""
    likely: Float64[np.ndarray, "n m"]
    """Log of how much more likely two points touch each other than two that are drawn by chance."""
    rows_x: Rows
    """For each point of the source the row of ``likely`` that it has."""
    rows_y: Rows
    """For each point of the reference the column."""
    poses: Motions
    belief: Numbers
    """The network's belief in each of its poses; the sum is 1."""

    def log_ratio(self, found: Couples) -> Float64[np.ndarray, "*g m"]:
        """The logarithm for each couple of points."""
        return self.likely[self.rows_x[found.i], self.rows_y[found.j]]


@cache
def shipped_mating() -> BITR:
    """The weights ``fracture``, which know breaks."""
    return load("fracture").double().requires_grad_(False)


def find_breaks(
    x: tuple[Points, Points], y: tuple[Points, Points], model: BITR
) -> tuple[tuple[Numbers, Numbers], Matched]:
    r"""The chance of each point of two closed pieces to lie on a break, and how the breaks match.

    A piece is given by its points and normals that point outwards. With the scores S of the mating head the
    log ratio of two points is the mean of :math:`\log(M\,e^{S_{ij}}/\sum_k e^{S_{ik}})`, over the M points of
    y, and of the same over those of x. At a match the normals oppose and the predicted directions agree,
    which fixes a rotation. Swapping the pieces transposes the ratios and inverts all motions.
    """
    share = min(1.0, POINTS / max(len(x[0]), len(y[0])))
    rows = [farthest_points(points, round(share * len(points))) for points, _ in (x, y)]
    device = next(model.parameters()).device
    few = [(points[own], normals[own]) for (points, normals), own in zip((x, y), rows, strict=True)]
    with torch.inference_mode():
        solution = model.solve(*(Cloud(*(torch.from_numpy(v[None]).to(device) for v in own)) for own in few))
        of_x, of_y, heads = solution.source_mating, solution.reference_mating, solution.heads
        assert of_x is not None
        assert of_y is not None
        scores = match_scores(of_x, of_y)[0].double()
        told = [
            scores.log_softmax(1) + np.log(len(few[1][0])),
            scores.log_softmax(0) + np.log(len(few[0][0])),
        ]
        told += [each[0] for each in (of_x.contact.sigmoid(), of_y.contact.sigmoid(), of_x.along, of_y.along)]
        told += [solution.pose.matrix() if heads is None else heads.pose.matrix()[0]]
        told += [torch.ones(1) if heads is None else heads.belief[0].softmax(0)]
    row, column, first, second, along_x, along_y, poses, belief = (v.double().cpu().numpy() for v in told)
    likely = (row + column) / 2
    i, j = np.nonzero((likely == likely.max(1, keepdims=True)) & (likely == likely.max(0)))
    best = np.argsort(-likely[i, j], kind="stable")[:MATCHES]
    i, j = i[best], j[best]
    (p, n), (q, m) = few
    turns = _turned_frames(-m[j], along_y[j]) @ _turned_frames(n[i], along_x[i]).swapaxes(1, 2)
    near = [KdTree(points).batch_knn_search(points, SPACING_RANK + 1)[1] for points in (p, q)]
    spacing = root_mean_square(*map(spacing_of, near))
    agreed = match_motions(Correspondences(p[i], q[j], NEAR_MATCH * spacing), AGREED)
    motions = np.concatenate([agreed, motions_between(turns, p[i], q[j])])
    rows_x, rows_y = _nearest_alike(*x, rows[0]), _nearest_alike(*y, rows[1])
    return (first[rows_x], second[rows_y]), Matched(motions, likely, rows_x, rows_y, poses, belief)


def _nearest_alike(points: Points, normals: Points, rows: Rows) -> Rows:
    """For each point the place in ``rows`` of the nearest of these, of those on its sheet if one is near."""
    near, squared = KdTree(points[rows]).batch_knn_search(points, min(BESIDE + 1, len(rows)))
    near = near.view(np.int64)
    other = np.einsum("nki,ni->nk", normals[rows][near], normals) < SHEET
    best = np.argmin(squared + other * (squared[:, -1:] + squared[:, :1]), axis=1)
    return near[np.arange(len(points)), best]


def _turned_frames(normals: Points, along: Points) -> Float64[np.ndarray, "n 3 3"]:
    """Frames of the direction across the normal, the normal, and their product, as columns."""
    across = unit_rows(along - dot(along, normals)[:, None] * normals)
    return np.stack([across, normals, np.cross(across, normals)], axis=2)


def settle_mates(
    x: Sheets,
    y: Sheets,
    motions: Motions,
    *,
    counts: tuple[int, int] = FINE,
    widest: float = MIDDLE,
    narrowest: float = NARROWEST,
    steps: int = STEPS,
) -> Motions:
    """Move motions to where rims meet and breaks lie against each other, by robust two-sided steps.

    Widths of the kernel are in spacings.
    """
    for width in np.geomspace(widest, narrowest, steps):
        motions = _steps(x, y, motions, counts, width) @ motions
    return motions


def mates(
    x: Sheets,
    y: Sheets,
    motions: Motions,
    matched: Matched | None = None,
    couples: Couples | None = None,
) -> Mates:
    """Judge motions by all points of both surfaces; their ``couples`` may have been found already."""
    spacing = _spacing(x, y)
    couples = couple(x, y, motions) if couples is None else couples
    found = _Faced.by(x, y, motions, couples, matched)
    contact = np.clip(3 * found.contact(spacing), 0, 1) * (np.abs(found.height) < spacing)
    shares, bare, covered, likely = [], [], [], []
    for side, own in ((x, contact[:, : len(x.points)]), (y, contact[:, len(x.points) :])):
        beside = np.clip(own[:, side.beside].mean(2) - own, 0, 1)
        shares.append(own.mean(1))
        bare.append((beside * (1 - own)).mean(1))
        covered.append(own @ side.broken / side.broken.sum())
        likely.append(own @ side.broken / np.maximum(own.sum(1), 1))
    return Mates(
        _rims(x, y, motions, FINE[0], MEETING),
        np.minimum(*shares),
        np.maximum(*shares),
        (bare[0] + bare[1]) / 2,
        found.depth(spacing) @ found.share,
        np.minimum(*covered),
        np.maximum(*covered),
        (likely[0] + likely[1]) / 2,
        (contact * found.likely) @ found.share,
        (contact * found.likely).sum(1) / np.maximum(contact.sum(1), 1),
    )


def _spacing(x: Sheets, y: Sheets) -> float:
    return root_mean_square(x.spacing, y.spacing)


def _best(score: Numbers, most: int) -> Rows:
    """Numbers of the best; those that nothing speaks for are left out, since their order means nothing."""
    order = np.argsort(-score, kind="stable")[:most]
    return order[score[order] > 0]


def _frame_motions(x: Rim, y: Rim) -> Motions:
    """The motions that lay the frame of a rim point of one piece onto that of the other."""
    rows_x, rows_y = x.order[:RIM_ANCHORS], y.order[:RIM_ANCHORS]
    frames_x, frames_y = (
        np.stack([np.cross(rim.normals, rim.outward), rim.normals, rim.outward], axis=2)[rows]
        for rim, rows in ((x, rows_x), (y, rows_y))
    )
    rotations = np.einsum("bik,k,ajk->abij", frames_y, np.array([-1.0, 1.0, -1.0]), frames_x)
    return motions_between(rotations, x.feet[rows_x][:, None], y.feet[rows_y]).reshape(-1, 4, 4)


def _crease_motions(x: Creases | None, y: Creases | None, spacing: float) -> tuple[Motions, Numbers]:
    """The motions that lay creases onto each other, and how many of the creases beside them then meet."""
    if x is None or y is None:
        return NO_MOTION, np.zeros(0)
    a, b = np.meshgrid(x.anchors, y.anchors, indexing="ij")
    cosines = [dot(side.normals, side.beyond) for side in (x, y)]
    fits = np.abs(cosines[0][a] + cosines[1][b]) < SUPPLEMENT
    i, j = a[fits], b[fits]
    turns = _crease_frames(y.normals, -y.beyond)[j] @ _crease_frames(x.normals, x.beyond)[i].swapaxes(1, 2)
    motions = motions_between(turns, x.feet[i], y.feet[j])
    there = _creases_meet(x, y, motions, x.beside[i], spacing)
    back = _creases_meet(y, x, inverse(motions), y.beside[j], spacing)
    return motions, (there + back) / 2


def _promising(seen: _Look, beside: Numbers, most: int) -> Rows:
    """Numbers of the best motions by all rims, by the network too, and by the creases beside those laid onto
    each other."""
    scores = seen.score, seen.score + LIKELIHOOD * seen.likely, beside + 2 * seen.contact - 3 * seen.depth
    return np.unique(np.concatenate([_best(score, most) for score in scores]))


def _in_turns(score: Numbers, other: Numbers) -> Numbers:
    """Values that sort motions by both scores in turns: a network may be wrong about pieces unlike those it
    knows, and geometry about those that fit in many ways."""
    return -np.minimum(2 * ranks(score), 2 * ranks(other) + 1).astype(np.float64)


def _crease_frames(normals: Points, beyond: Points) -> Float64[np.ndarray, "n 3 3"]:
    """Frames of a crease as columns: along it, between the two normals, and across both."""
    along, between = unit_rows(np.cross(normals, beyond)), unit_rows(normals + beyond)
    return np.stack([along, between, np.cross(along, between)], axis=2)


def _creases_meet(
    x: Creases, y: Creases, motions: Motions, rows: Int64[np.ndarray, "g k"], spacing: float
) -> Numbers:
    """Share of some creases of x, others for each motion, that meet creases of y."""
    turned, shift = motions[:, :3, :3].swapaxes(1, 2), motions[:, None, :3, 3]
    nearest = y.nearest(x.points[rows] @ turned + shift)
    squared = squares(x.feet[rows] @ turned + shift - y.feet[nearest])
    agree = dot(x.normals[rows] @ turned, y.normals[nearest])
    oppose = -dot(x.beyond[rows] @ turned, y.beyond[nearest])
    near = np.clip(1 - squared / (LOCAL_REACH * spacing) ** 2, 0, None)
    return (near * np.clip(agree, 0, 1) * np.clip(oppose, 0, 1)).mean(1)


def _meet(x: Rim, y: Rim, motions: Motions, most: int) -> Met:
    """Rim points of both pieces, each with its nearest on the other rim once both are lifted."""
    found, turned = couple(x, y, motions, x.order[:most], y.order[:most]), motions[:, :3, :3].swapaxes(1, 2)
    normals = x.normals[found.i] @ turned, y.normals[found.j]
    outward = x.outward[found.i] @ turned, y.outward[found.j]
    return Met(moved(x.feet[found.i], motions), y.feet[found.j], *normals, *outward, found.share)


@dataclass(frozen=True, eq=False)
class _Faced:
    """Surface points of both pieces under motions, each with its nearest of the other piece."""

    p: Float64[np.ndarray, "g m 3"]
    q: Float64[np.ndarray, "g m 3"]
    normal_p: Float64[np.ndarray, "g m 3"]
    normal_q: Float64[np.ndarray, "g m 3"]
    height: Float64[np.ndarray, "g m"]
    """Height of the point above the surface on which its nearest lies."""
    likely: Float64[np.ndarray, "g m"]
    """Log ratio of the two points; 0 without a network."""
    share: Float64[np.ndarray, " m"]

    @classmethod
    def of(cls, x: Sheets, y: Sheets, motions: Motions, most: int, matched: Matched | None = None) -> _Faced:
        """Pair so many points of either piece that are far from each other."""
        return cls.by(x, y, motions, couple(x, y, motions, x.order[:most], y.order[:most]), matched)

    @classmethod
    def by(
        cls, x: Sheets, y: Sheets, motions: Motions, found: Couples, matched: Matched | None = None
    ) -> _Faced:
        """Points that are coupled already."""
        normal_p, normal_q = x.normals[found.i] @ motions[:, :3, :3].swapaxes(1, 2), y.normals[found.j]
        above = np.where(found.of_x[:, None], normal_q, -normal_p)
        height = dot(found.p - found.q, above)
        likely = np.zeros(found.i.shape) if matched is None else matched.log_ratio(found)
        return cls(found.p, found.q, normal_p, normal_q, height, likely, found.share)

    @property
    def squared(self) -> Float64[np.ndarray, "g m"]:
        return squares(self.p - self.q)

    @property
    def opposed(self) -> Float64[np.ndarray, "g m"]:
        return np.clip(-dot(self.normal_p, self.normal_q), 0, 1)

    def contact(self, spacing: float) -> Float64[np.ndarray, "g m"]:
        """Contact of each point with the other surface, from 0 to 1."""
        near = np.clip(1 - self.squared / (TOUCHING * spacing) ** 2, 0, None)
        return near * np.clip((self.opposed - FACING) / (1 - FACING), 0, 1)

    def depth(self, spacing: float) -> Float64[np.ndarray, "g m"]:
        """Penetration of the other surface by each point, from 0 to 1."""
        behind = -self.height > STRAIGHT * np.sqrt(self.squared)
        return behind * np.clip(-self.height / spacing - DEEP, 0, 2) / 2


def _rims(x: Sheets, y: Sheets, motions: Motions, most: int, reach: float) -> Numbers:
    """Share of both rims that meets, from 0 to 1; ``reach`` is in spacings."""
    met = _meet(x.rim, y.rim, motions, most)
    squared = squares(met.p - met.q) / (reach * _spacing(x, y)) ** 2
    return (np.clip(1 - squared, 0, None) * met.alignment) @ met.share


@dataclass(frozen=True, eq=False)
class _Look:
    """A quick judgement of motions by some points."""

    rims: Numbers
    contact: Numbers
    depth: Numbers
    likely: Numbers

    @property
    def score(self) -> Numbers:
        return self.rims + self.contact - self.depth

    @property
    def turns(self) -> Numbers:
        """The order in which motions are kept, the largest first."""
        return _in_turns(self.score, self.score + LIKELIHOOD * self.likely)


def _look(
    x: Sheets, y: Sheets, motions: Motions, matched: Matched | None, counts: tuple[int, int], reach: float
) -> _Look:
    """Rims that meet and surface in contact, by so many points of either, and what penetrates."""
    found, spacing = _Faced.of(x, y, motions, counts[1], matched), _spacing(x, y)
    contact, depth = found.contact(spacing), found.depth(spacing) @ found.share
    likely = (contact * found.likely) @ found.share
    return _Look(_rims(x, y, motions, counts[0], reach), contact @ found.share, depth, likely)


def _steps(x: Sheets, y: Sheets, motions: Motions, counts: tuple[int, int], width: float) -> Motions:
    """The motions that lessen what separates rims and breaks; see ``TwistFit``."""
    spacing = _spacing(x, y)
    rims, faces = _meet(x.rim, y.rim, motions, counts[0]), _Faced.of(x, y, motions, counts[1])
    near, squared = (squares(each.p - each.q) / (width * spacing) ** 2 for each in (rims, faces))
    on_rim = rims.share * rims.alignment / np.square(1 + near)
    on_face = faces.share * faces.opposed**2 / np.square(1 + squared) * (squared < 4)

    def joined(
        a: Float64[np.ndarray, "g m *c"], b: Float64[np.ndarray, "g n *c"]
    ) -> Float64[np.ndarray, "g k *c"]:
        return np.concatenate([a, b], axis=1)

    def only_rims(vectors: Float64[np.ndarray, "g m 3"]) -> Float64[np.ndarray, "g k 3"]:
        return joined(vectors, np.zeros_like(faces.p))

    normal, outward = (rims.normal_p + rims.normal_q) / 2, (rims.outward_p - rims.outward_q) / 2
    facing = joined(np.zeros_like(rims.p), (faces.normal_p - faces.normal_q) / 2)
    twist = TwistFit(joined(rims.p, faces.p), joined(rims.q, faces.q), joined(on_rim, on_face) + 1e-12)
    twist.add_distance(only_rims(normal), (ACROSS * spacing) ** -2)
    twist.add_distance(only_rims(outward), (OUT * spacing) ** -2)
    twist.add_distance(facing, (CONTACT * spacing) ** -2)
    twist.add_all_distances((ALONG * spacing) ** -2)
    twist.add_turn(only_rims(normal), only_rims(rims.normal_p - rims.normal_q), TURNED**-2)
    twist.add_turn(only_rims(outward), only_rims(rims.outward_p + rims.outward_q), TURNED**-2)
    off = joined(np.zeros_like(rims.p), faces.normal_p + faces.normal_q)
    twist.add_turn(facing, off, TURNED**-2)
    return twist.solve(DAMPING * twist.curvature)
