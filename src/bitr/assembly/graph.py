"""Parts of a puzzle and the hypotheses of their pairs: which hypotheses agree, and where the parts are then.

A hypothesis of chance w says: of all ways to lay these two parts together this one is right with chance w,
and the rest of the chance is spread over ``OTHERS`` other ways. Where the hypotheses of several pairs agree
on the place of a part it is placed surely, even if each of them alone is doubtful: loops that close are
evidence.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import combinations
from typing import Any

import numpy as np
from jaxtyping import Bool, Float64, Int64
from scipy.special import expit, logit

from bitr.assembly.align import (
    NO_MOTION,
    Frame,
    Matrix,
    Motions,
    Numbers,
    Points,
    angles,
    centroid,
    distinct,
    dot,
    moved_back,
    radius,
    root_mean_square,
)
from bitr.assembly.mate import CLOSED, STRAIGHT
from bitr.assembly.overlay import partners
from bitr.assembly.sample import DENSE, spread_draw
from bitr.assembly.seam import meet
from bitr.assembly.surface import Rows, Surface, common_spacing
from bitr.data.piece import MIN_POINTS
from bitr.data.poses import inverse
from bitr.errors import InputError
from bitr.io import Geometry, as_points, farthest_points

OTHERS = 1e3
"""Ways to lay two parts together that a right hypothesis is told from. Wrong hypotheses of three pairs agree
once in 500,000 times, but not independently: parts of a ball fit each other everywhere on it."""
TURN, SHIFT = np.radians(10), 0.13
"""Standard deviations of a right hypothesis: angle, and shift over the size of the two parts."""
AGREES = 0.05
"""Closeness from which on a hypothesis agrees with a pose; less counts as nothing."""
BESIDE = 0.01
"""Chance that a hypothesis beside the best has in addition to its confidence, as counted on pairs of puzzles
of the validation split; the verifier was calibrated for the best alone."""
SINGLE, MERGED = -0.3, 0.4
"""Log odds that a hypothesis gains, of two pieces and where one of the parts was merged, counted alike: the
verifier does not know which parts were, and those belong together more often."""
SUREST = 0.98
"""Most that the best hypothesis counts."""
STATES, LIKELY = 32, 6
"""Groups of each number of parts that the search keeps, and places of a part that it tries."""
GUESSES = 12
"""Places that are tried of a part that is left over."""
CREDIT, PROVEN, TRIED = 0.05, 12.0, 40
"""Least chance with which a part joins where loops or a trial may prove it later, log odds from which loops
prove a group, and groups of which that is asked, best first."""
OUTLINE = 400
"""Points of a part by which fits are measured."""
CROSSING, COVERING = 0.01, 0.12
"""Shares of two parts that may cross, and that may cover each other, without being a collision."""
COLLISION = 60.0
"""Loss for each share of the parts that collides beyond that."""
MEETING, CONTACT = 2.0, 4.0
"""Gains for a border of a part that meets others, and for a surface of a solid that lies against others."""
NEAR, FACING = 1.5, 0.7
"""Spacings within which borders and breaks are in contact, and the cosine between opposite normals there."""
DEEP = 1.5
"""Spacings behind the other surface from which on a point is inside a solid."""
STEPS = 20
"""Times that measurements are weighed again."""
OUTLIER = np.radians(10), 0.15
"""Residuals, in radians and over the size of the largest piece, at which a measurement counts a quarter."""

Key = tuple[int, int]
"""Two parts by number, the larger one first."""
Outline = tuple[Surface, Points | None]
"""A few points of a part, and the normals of a solid."""


@dataclass(frozen=True, eq=False)
class Part:
    """A piece, or pieces that were put together and are one piece from now on."""

    geometry: Geometry
    places: Mapping[int, Matrix]
    """The pieces by number, with the motion that takes each to its place in the part."""
    sample: Geometry
    """Points to measure by, chosen by the shape alone."""

    @classmethod
    def of(cls, geometry: Geometry, places: Mapping[int, Matrix]) -> Part:
        cloud = as_points(geometry, DENSE, seed=0)
        cloud = cloud.rows(spread_draw(cloud.points, DENSE))
        different = len(np.unique(cloud.points, axis=0))
        if different < MIN_POINTS:
            raise InputError(
                f"{geometry.name}: only {different} of {len(geometry.points)} points are at different "
                f"places, expected at least {MIN_POINTS}"
            )
        return cls(geometry, places, cloud)

    @cached_property
    def center(self) -> Float64[np.ndarray, " 3"]:
        return centroid(self.sample.points)

    @cached_property
    def size(self) -> float:
        """Root mean square distance from the centroid."""
        return radius(self.sample.points - self.center)

    @cached_property
    def is_solid(self) -> bool:
        """A closed surface with normals that point outwards."""
        normals = self.sample.normals
        return normals is not None and float(np.linalg.norm(normals.mean(0))) < CLOSED

    def outline(self, unit: float, most: int) -> Outline:
        """At most so many points about the centroid in lengths of ``unit``, and the normals of a solid."""
        rows = farthest_points(self.sample.points, min(most, len(self.sample.points)))
        normals = self.sample.normals
        surface = Surface.of((self.sample.points[rows] - self.center) / unit)
        return surface, normals[rows] if self.is_solid and normals is not None else None


def frame_of(first: Part, second: Part, unit: float) -> Frame:
    """Coordinates of a pose that takes the second part onto the first."""
    return Frame(second.center, first.center, unit)


@dataclass(frozen=True, eq=False)
class Edge:
    """The hypotheses of two parts, in coordinates about their centroids and lengths of the largest piece."""

    poses: Motions
    """Takes the second part onto the first."""
    chance: Numbers
    methods: tuple[str, ...]
    size: float
    """Root mean square of the two sizes."""
    row: Mapping[str, Any]
    """The row of the pair, as in a batch."""

    @classmethod
    def of(
        cls, first: Part, second: Part, unit: float, row: Mapping[str, Any], most: int | None = None
    ) -> Edge:
        """With the best ``most`` hypotheses; None: all. One alone is as likely as the verifier says."""
        listed = (row["hypotheses"] or [])[:most]
        size = root_mean_square(first.size, second.size) / unit
        if not listed or row["status"] == "degenerate":
            return cls(NO_MOTION, np.empty(0), (), size, row)
        poses = frame_of(first, second, unit).inside(np.array([each["transformation"] for each in listed]))
        chance = BESIDE + np.array([each["confidence"] for each in listed])
        chance[0] = row["confidence"]
        if most != 1:
            gain = MERGED if len(first.places) + len(second.places) > 2 else SINGLE
            chance = expit(logit(np.clip(chance, 1e-9, 1 - 1e-9)) + gain)
        chance[0] = min(chance[0], SUREST)
        chance[1:] *= min(1.0, (1 - chance[0]) / max(chance[1:].sum(), 1e-12))
        return cls(poses, chance, tuple(each["method"] for each in listed), size, row)

    def alone(self, h: int) -> float:
        """The chance of a hypothesis by this pair alone."""
        return max(float(self.row["confidence"]) if h == 0 else 0.0, float(self.chance[h]))

    @cached_property
    def back(self) -> Motions:
        return inverse(self.poses)

    @property
    def swapped(self) -> Edge:
        """The same of the first part onto the second."""
        return replace(self, poses=self.back)

    def closeness(self, poses: Motions) -> Float64[np.ndarray, "m k"]:
        """How near each pose is to each hypothesis, from 0 to 1; a swap of the parts does not change it."""
        turn = angles(poses[:, None, :3, :3] @ self.poses[:, :3, :3].swapaxes(1, 2))
        there = np.linalg.norm(poses[:, None, :3, 3] - self.poses[:, :3, 3], axis=2)
        back = np.linalg.norm(inverse(poses)[:, None, :3, 3] - self.back[:, :3, 3], axis=2)
        shift = (there + back) / (2 * self.size)
        near = np.exp(-(np.square(turn / TURN) + np.square(shift / SHIFT)) / 2)
        return np.where(near < AGREES, 0.0, near)

    def support(self, poses: Motions) -> Numbers:
        r"""Log of how much likelier poses are after the hypotheses than before them.

        :math:`\log(1 + M p / (1 - p))` for M other ways, where :math:`p = \sum_h w_h k(g, g_h)` is the chance
        of the hypotheses that are near: 0 where none is, and for the best of a single pair the log odds of
        its chance and log M.
        """
        near = self.chance_of(poses)
        return np.log1p(OTHERS * near / (1 - near))

    def chance_of(self, poses: Motions) -> Numbers:
        """The chance p of the hypotheses that are near."""
        if not len(self.poses):
            return np.zeros(len(poses))
        return np.minimum(self.closeness(poses) @ self.chance, SUREST)


@dataclass(frozen=True, eq=False)
class Graph:
    """Parts, largest first, with the hypotheses of their pairs."""

    parts: Sequence[Part]
    edges: Mapping[Key, Edge]
    outlines: Sequence[Outline]
    known: dict[tuple[int, ...], float] = field(default_factory=dict)
    """Fits that were measured already."""

    @classmethod
    def of(cls, parts: Sequence[Part], unit: float, rows: Mapping[Key, Mapping[str, Any]]) -> Graph:
        pieces = sum(len(part.places) for part in parts)
        most = 1 if pieces == 2 else None  # there is nothing that others could agree with
        edges = {(i, j): Edge.of(parts[i], parts[j], unit, row, most) for (i, j), row in rows.items()}
        return cls(parts, edges, [part.outline(unit, OUTLINE) for part in parts])

    def poses(self, first: int, second: int) -> Motions:
        """The hypotheses of a pair, whichever is the larger: motions of the second into the first's frame."""
        if (first, second) in self.edges:
            return self.edges[first, second].poses
        return self.edges[second, first].back if (second, first) in self.edges else NO_MOTION

    def support(self, places: Mapping[int, Matrix], k: int, poses: Motions) -> Numbers:
        """Evidence of all placed parts together on poses of part k."""
        total = np.zeros(len(poses))
        for i, place in places.items():
            if (edge := self.edges.get((min(i, k), max(i, k)))) is not None:
                relative = inverse(place) @ poses
                total += edge.support(relative if i < k else inverse(relative))
        return total

    def fit(self, places: Mapping[int, Matrix], k: int, pose: Matrix) -> float:
        """How well part k, at a pose, lies beside the placed parts: gains of contact, losses of collision."""
        return sum(self._fit(i, k, inverse(place) @ pose) for i, place in places.items())

    def _fit(self, i: int, k: int, pose: Matrix) -> float:
        if i > k:
            i, k, pose = k, i, inverse(pose)
        key = (i, k, *np.rint(pose[:3] * 50).astype(int).ravel().tolist())
        if key not in self.known:
            edge = self.edges.get((i, k))
            laid = [n for n, method in enumerate(edge.methods) if method == "overlap"] if edge else []
            overlaps = bool(edge and laid and edge.closeness(pose[None])[0, laid].max() > 0)
            self.known[key] = fit(self.outlines[k], self.outlines[i], pose, overlaps)
        return self.known[key]


def fit(x: Outline, y: Outline, pose: Matrix, overlaps: bool) -> float:
    """Gains for the shares of two parts that are in contact, less losses for those that collide.

    Borders that meet and breaks of solids that lie against each other are contacts; to cross, to cover and to
    penetrate the other part is a collision. Parts that share a surface (``overlaps``) may cover each other.
    """
    (a, normals_a), (b, normals_b) = x, y
    reach = [np.linalg.norm(surface.points, axis=1).max() for surface in (a, b)]
    if np.linalg.norm(pose[:3, 3]) > sum(reach):
        return 0.0
    found, spacing, count = partners(a, b, pose), common_spacing(a, b), len(a.points)
    gap = found.p - found.q
    away = np.linalg.norm(gap, axis=1)
    if normals_a is not None and normals_b is not None:
        near_b, near_a = b.nearest(found.p[:count]), a.nearest(moved_back(found.q[count:], pose))
        turned = normals_a @ pose[:3, :3].T
        outward = np.concatenate([normals_b[near_b], -turned[near_a]])
        depth = -dot(gap, outward)
        inside = (depth > DEEP * spacing) & (depth > STRAIGHT * away)
        facing = np.concatenate([dot(turned, normals_b[near_b]), dot(turned[near_a], normals_b)]) < -FACING
        contact = _shares((away < NEAR * spacing) & facing, count)
        return CONTACT * sum(contact) - COLLISION * max(0.0, max(_shares(inside, count)) - CROSSING)
    near = np.concatenate([a.interior, b.interior]) & found.inside & (away < spacing)
    crossing = max(_shares(near & (found.alike < 0.6), count))
    covering = 0.0 if overlaps else max(_shares(near & (found.alike >= 0.6), count))
    loss = COLLISION * (max(0.0, crossing - CROSSING) + max(0.0, covering - COVERING))
    if overlaps or min(len(a.border), len(b.border)) < 4:
        return -loss
    met = meet(a.border, b.border, pose[None])
    agree = np.einsum("gmi,gmi->gm", met.normal_p, met.normal_q) > 0.5
    oppose = np.einsum("gmi,gmi->gm", met.outward_p, met.outward_q) < -0.3
    meets = (met.squared < (NEAR * spacing) ** 2) & agree & oppose
    return MEETING * sum(_shares(meets[0], len(a.border))) - loss


def _shares(of: Bool[np.ndarray, " n"], count: int) -> tuple[float, float]:
    """The shares of two parts' points, of which the first has ``count``."""
    return float(of[:count].mean()), float(of[count:].mean())


# groups


@dataclass(frozen=True, eq=False)
class Group:
    """Parts that belong together, with their places; the last one was added last."""

    places: Mapping[int, Matrix]
    score: float = 0.0
    """Log of the odds that they are placed right, against all apart."""
    gain: float = 0.0
    """The last one's share of the score: log of the odds that it is placed right, given the others."""

    @property
    def root(self) -> int:
        """The largest part."""
        return min(self.places)


def find_groups(graph: Graph, least: float) -> list[Group]:
    """The group that the hypotheses speak for most, then the same of the parts that are left.

    Each part joins with a chance of at least ``least``. Where none does, loops of doubtful joints may.
    """
    free, found = set(range(len(graph.parts))), list[Group]()
    while (group := _best_group(graph, free, least)) is not None:
        found.append(group)
        free -= set(group.places)
    if not found and (proven := _proven_group(graph, least)) is not None:
        found.append(proven)
    return sorted(found, key=lambda group: group.root)


def _best_group(graph: Graph, free: set[int], least: float) -> Group | None:
    """The best of all groups whose parts join with a chance of at least ``least``."""
    best = max(_grown(graph, free, float(logit(least))), key=lambda group: group.score, default=None)
    return best if best is not None and best.score > 0 else None


def _proven_group(graph: Graph, least: float) -> Group | None:
    """The best group that loops prove, though its parts joined on credit.

    Parts that the others do not place surely are dropped again.
    """
    groups = _grown(graph, set(range(len(graph.parts))), float(logit(CREDIT)))
    for group in sorted(groups, key=lambda group: -round(group.score, 9))[:TRIED]:
        places = dict(group.places)
        while len(places) > 2:
            sure = {k: certainty(graph, Group(places), k, alone=False) for k in places}
            worst = min(sure, key=sure.__getitem__)
            if sure[worst] >= least:
                break
            del places[worst]
        if len(places) > 2 and (score := _score(graph, places)) > PROVEN:
            return Group(places, score)
    return None


def _grown(graph: Graph, free: set[int], needed: float) -> Iterator[Group]:
    """Grow groups from all hypotheses of all pairs at once, keeping the best of each number of parts."""
    groups = [Group({i: np.eye(4)}) for i in sorted(free)]
    while groups:
        grown = [
            each
            for group in groups
            for k in sorted(free - set(group.places))
            for each in _with(graph, group, k)
        ]
        fitted = (_fitted(graph, group) for group in _different(grown, 2 * STATES))
        groups = _different([group for group in fitted if group.gain > needed], STATES)
        yield from groups


def _score(graph: Graph, places: Mapping[int, Matrix]) -> float:
    """Log of the odds that parts are placed right, against all apart."""
    (first, *others), total = places, -(len(places) - 1) * float(np.log(OTHERS))
    placed = {first: places[first]}
    for k in others:
        total += float(graph.support(placed, k, places[k][None])[0]) + graph.fit(placed, k, places[k])
        placed[k] = places[k]
    return total


def _with(graph: Graph, group: Group, k: int) -> list[Group]:
    """The group with one part more, at its likeliest places."""
    if len(group.places) == 1 and k < group.root:
        return []  # the same two the other way round
    found = []
    for pose, support in placements(graph, group.places, k):
        gain = support - float(np.log(OTHERS))
        found.append(Group({**group.places, k: pose}, group.score + gain, gain))
    return found


def _fitted(graph: Graph, group: Group) -> Group:
    """The group with what the fit of its last part adds.

    Where one pair alone speaks for the part the verifier has seen their contact, and only collisions count;
    in a graph of two parts it has seen those, too.
    """
    if len(graph.parts) == 2:
        return group
    *others, last = group.places
    fit = graph.fit({k: group.places[k] for k in others}, last, group.places[last])
    if sum(last in (i, j) for i, j, _ in agreeing(graph, group.places)) < 2:
        fit = min(fit, 0.0)
    return replace(group, score=group.score + fit, gain=group.gain + fit)


def placements(graph: Graph, places: Mapping[int, Matrix], k: int) -> list[tuple[Matrix, float]]:
    """The likeliest different places of a part beside placed ones, by any hypothesis, with their support."""
    poses = np.concatenate([NO_MOTION, *(place @ graph.poses(i, k) for i, place in places.items())])
    support = np.round(graph.support(places, k, poses), 9)
    shift = SHIFT * graph.parts[k].size / graph.parts[0].size
    return [(poses[n], float(support[n])) for n in distinct(poses, support, LIKELY, TURN, shift)]


def _different(groups: Sequence[Group], most: int) -> list[Group]:
    """The best groups; two that place the same parts alike are one."""
    kept: list[Group] = []
    for group in sorted(groups, key=lambda group: -round(group.score, 9)):
        if not any(is_same(group, other) for other in kept):
            kept.append(group)
            if len(kept) == most:
                break
    return kept


def is_same(a: Group, b: Group) -> bool:
    """True for groups that place the same parts alike."""
    if a.places.keys() != b.places.keys():
        return False
    order = sorted(a.places)
    own, other = (inverse(g.places[order[0]]) @ np.stack([g.places[k] for k in order[1:]]) for g in (a, b))
    turn = angles(own[:, :3, :3] @ other[:, :3, :3].swapaxes(1, 2))
    return bool(turn.max() < TURN and np.linalg.norm(own[:, :3, 3] - other[:, :3, 3], axis=1).max() < SHIFT)


def certainty(graph: Graph, group: Group, k: int, alone: bool = True) -> float:
    """The chance that a part of a group is placed right, as the other parts see it: all together, or the
    surest pair ``alone``."""
    each = [graph.edges[i, j].alone(h) for i, j, h in agreeing(graph, group.places) if k in (i, j)]
    if len(graph.parts) == 2:
        return max(each)
    others = {i: place for i, place in group.places.items() if i != k}
    own = float(graph.support(others, k, group.places[k][None])[0])
    own += graph.fit(others, k, group.places[k])
    rivals = [
        support + graph.fit(others, k, pose)
        for pose, support in placements(graph, others, k)
        if not is_same(Group({**others, k: pose}), group)
    ]
    chance = float(1 / np.exp(np.array([own, np.log(OTHERS), *rivals]) - own).sum())
    return max([chance, *each]) if alone else chance


# guesses


@dataclass(frozen=True, eq=False)
class Link:
    """Hypotheses that some look had about what is in two parts by now."""

    edge: Edge
    first_from_own: Matrix
    """Takes coordinates about the centroid of what was compared into those about the part's."""
    second_from_own: Matrix

    @property
    def poses(self) -> Motions:
        """Takes the second part onto the first."""
        return self.first_from_own @ self.edge.poses @ inverse(self.second_from_own)

    def support(self, poses: Motions) -> Numbers:
        return self.edge.support(inverse(self.first_from_own) @ poses @ self.second_from_own)


def links_of(
    parts: Sequence[Part], unit: float, edges: Mapping[tuple[Part, Part, bool], Edge]
) -> dict[Key, list[Link]]:
    """The hypotheses between two parts, both ways, of all that was compared."""
    home = {number: k for k, part in enumerate(parts) for number in part.places}
    found: dict[Key, list[Link]] = {}
    for (first, second, _), edge in edges.items():
        (i, to_first), (j, to_second) = (_now(parts, home, own, unit) for own in (first, second))
        if i != j and len(edge.poses):
            found.setdefault((i, j), []).append(Link(edge, to_first, to_second))
            found.setdefault((j, i), []).append(Link(edge.swapped, to_second, to_first))
    return found


def _now(parts: Sequence[Part], home: Mapping[int, int], own: Part, unit: float) -> tuple[int, Matrix]:
    """The number of the part that holds what was compared, and the motion into its coordinates."""
    number = next(iter(own.places))
    part = parts[home[number]]
    return home[number], frame_of(part, own, unit).inside(part.places[number] @ inverse(own.places[number]))


@dataclass(frozen=True, eq=False)
class Guess:
    """The likeliest place of a part beside others, however doubtful."""

    pose: Matrix
    chance: float
    evidence: float
    beside: int
    """The placed part whose hypotheses speak for it most; the first part is beside itself."""


def completed(
    graph: Graph,
    links: Mapping[Key, Sequence[Link]],
    members: Sequence[int],
    base: int,
    least: float = 0.0,
) -> dict[int, Guess]:
    """The likeliest places of parts beside one of them, each with a chance of at least ``least``.

    What is placed surest is placed first, and speaks for the places of the others. A part that no hypothesis
    speaks for has no place.
    """
    found = {base: Guess(np.eye(4), 1.0, 0.0, base)}
    while True:
        placed = {k: guess.pose for k, guess in found.items()}
        near = {k: [i for i in placed if (i, k) in links] for k in members if k not in found}
        guesses = {k: _likeliest(graph, links, placed, near[k], k) for k in near if near[k]}
        best = max(guesses, key=lambda k: guesses[k].evidence, default=-1)
        if best < 0 or guesses[best].chance < least:
            return found
        found[best] = guesses[best]


def hanging(guesses: Mapping[int, Guess], k: int) -> list[int]:
    """A part and all that were placed beside it, directly or not."""
    found = [k]
    for n, guess in guesses.items():  # in the order in which they were placed
        if n != k and guess.beside in found:
            found.append(n)
    return found


def _likeliest(
    graph: Graph,
    links: Mapping[Key, Sequence[Link]],
    placed: Mapping[int, Matrix],
    near: Sequence[int],
    k: int,
) -> Guess:
    """The likeliest place of part k beside placed ones.

    Looks at the same two parts repeat each other: the surest counts. Different placed parts add up.
    """
    poses = np.concatenate([placed[i] @ link.poses for i in near for link in links[i, k]])
    each = np.array(
        [np.max([link.support(inverse(placed[i]) @ poses) for link in links[i, k]], axis=0) for i in near]
    )
    support = np.round(each.sum(0), 9)
    shift = SHIFT * graph.parts[k].size / graph.parts[0].size
    tried = distinct(poses, support, GUESSES, TURN, shift)
    evidence = np.round([support[n] + graph.fit(placed, k, poses[n]) for n in tried], 9)
    best = int(np.argmax(evidence))
    chance = 1 / np.exp(np.append(evidence, np.log(OTHERS)) - evidence[best]).sum()
    beside = near[int(np.argmax(np.round(each[:, tried[best]], 9)))]
    return Guess(poses[tried[best]], float(chance), float(evidence[best]), beside)


# synchronisation


def agreeing(graph: Graph, places: Mapping[int, Matrix]) -> list[tuple[int, int, int]]:
    """The hypotheses that agree with places: pair and number."""
    found = []
    for i, j in combinations(sorted(places), 2):
        edge = graph.edges.get((i, j))
        if edge is not None and len(edge.poses):
            near = edge.closeness((inverse(places[i]) @ places[j])[None])[0] * edge.chance
            if near.max() > 0:
                found.append((i, j, int(np.argmax(near))))
    return found


def synchronised(graph: Graph, group: Group) -> Group:
    """The group in the frame of its largest part, with the places that all its hypotheses agree on best."""
    order = sorted(group.places)
    places = {k: inverse(group.places[order[0]]) @ group.places[k] for k in order}
    measured = agreeing(graph, places)
    if len(measured) >= len(order):  # a tree has nothing to agree on
        number = {k: n for n, k in enumerate(order)}
        pairs = np.array([[number[i], number[j]] for i, j, _ in measured])
        poses = np.stack([graph.edges[i, j].poses[h] for i, j, h in measured])
        weight = np.array([graph.edges[i, j].chance[h] for i, j, h in measured])
        start = np.stack([places[k] for k in order])
        places = dict(zip(order, synchronise(pairs, poses, np.sqrt(weight), start), strict=True))
    return replace(group, places=places)


def synchronise(
    pairs: Int64[np.ndarray, "m 2"], poses: Motions, weight: Numbers, start: Motions | None = None
) -> Motions:
    r"""Poses :math:`g_i` in the frame of the first with :math:`g_i^{-1} g_j \approx g_{ij}`, robustly.

    Rotations are blocks of the three leading eigenvectors of the matrix of all measured ones, then shifts are
    least squares. Measurements are weighed again by their residuals, so that wrong ones lose their say.
    Without a ``start`` all count at first.
    """
    i, j = pairs.T
    count = int(pairs.max()) + 1
    now = weight if start is None else weight * _trust(start, i, j, poses)
    for _ in range(STEPS):
        found = _shifts(_turns(i, j, poses, now, count), i, j, poses, now)
        now = weight * _trust(found, i, j, poses)
    return inverse(found[0]) @ found


def _trust(found: Motions, i: Rows, j: Rows, poses: Motions) -> Numbers:
    """Weights by residuals, by Geman and McClure's kernel."""
    off = inverse(poses) @ inverse(found[i]) @ found[j]
    turn, shift = angles(off[:, :3, :3]), np.linalg.norm(off[:, :3, 3], axis=1)
    return 1 / np.square(1 + np.square(turn / OUTLIER[0]) + np.square(shift / OUTLIER[1])) + 1e-9


def _turns(i: Rows, j: Rows, poses: Motions, weight: Numbers, count: int) -> Float64[np.ndarray, "n 3 3"]:
    """Rotations that agree best with the measured ones, by eigenvectors; the first is the identity."""
    matrix, degree = np.zeros((count, count, 3, 3)), np.zeros(count)
    for a, b, pose, w in zip(i, j, poses, weight, strict=True):
        matrix[a, b] += w * pose[:3, :3]
        matrix[b, a] += w * pose[:3, :3].T
        degree[[a, b]] += w
    scale = 1 / np.sqrt(np.maximum(degree, 1e-12))
    matrix *= (scale[:, None] * scale)[:, :, None, None]
    vectors = np.linalg.eigh(matrix.swapaxes(1, 2).reshape(3 * count, 3 * count))[1][:, -3:]
    blocks = vectors.reshape(count, 3, 3)
    u, _, v = np.linalg.svd(blocks @ blocks[0].T)  # relative to the first: whatever the signs of the vectors
    u[:, :, 2] *= np.sign(np.linalg.det(u @ v))[:, None]
    return (u @ v).swapaxes(1, 2)


def _shifts(
    turns: Float64[np.ndarray, "n 3 3"], i: Rows, j: Rows, poses: Motions, weight: Numbers
) -> Motions:
    """Poses with these rotations whose shifts agree best with the measured ones, both ways alike."""
    there, back = poses[:, :3, 3], inverse(poses)[:, :3, 3]
    apart = (np.einsum("mij,mj->mi", turns[i], there) - np.einsum("mij,mj->mi", turns[j], back)) / 2
    incidence = np.zeros((len(i), len(turns)))
    incidence[np.arange(len(i)), j] += 1
    incidence[np.arange(len(i)), i] -= 1
    weighted = incidence.T * weight
    found = np.tile(np.eye(4), (len(turns), 1, 1))
    found[:, :3, :3] = turns
    found[1:, :3, 3] = np.linalg.lstsq((weighted @ incidence)[1:, 1:], (weighted @ apart)[1:], rcond=None)[0]
    return found
