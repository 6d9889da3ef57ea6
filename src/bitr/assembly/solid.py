"""A piece as a solid: places on its surface, and how deep in it the places of another piece are."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from jaxtyping import Float64, Int64
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from scipy.spatial import cKDTree
from small_gicp import KdTree

from bitr.assembly.align import Numbers, Points, dot
from bitr.assembly.surface import NUM_NEIGHBORS, Surface, unit_rows
from bitr.io import Geometry, even_draw, sample_surface

PROBES = 2000
"""Places on a mesh, beside as many of its corners; points of a cloud."""
EXACT, NOISY = 1e-4, 0.5
"""Depth that is none: over the unit of length where distances are exact, in spacings for a cloud, whose
points scatter and whose planes stand for curved surfaces."""
LONELY = 2
"""The deepest places of a cloud that are not believed: stray points."""

NEIGHBORS = 12
"""Nearest points of a cloud whose planes tell a side."""
ALONG = 1.5
"""Spacings that a point may be beside its nearest one: farther, it is beyond a border of the surface."""
CONFUSED = 0.1
"""Share of points whose nearest one faces the other way, from which on the normals tell no side."""

FACE, EDGES, CORNERS = 0, (1, 2, 3), (4, 5, 6)
"""Numbers of the parts of a triangle: the face, the edges ab, bc and ca, the corners a, b and c."""
AT_ONCE = 512
"""Points whose candidate triangles are held in memory together."""
ON = 1e-9
"""Distance, over the unit of length, below which the way out is the surface's normal."""
FLAT = 1e-9
"""Volume that is none, over that of a cube as wide as the part."""

Faces = Int64[np.ndarray, "_ 3"]
Triangles = Float64[np.ndarray, "_ 3 3"]


@dataclass(frozen=True, eq=False)
class Signed:
    """Signed distances to a surface, one row for each point asked for."""

    distance: Numbers
    """Negative inside; infinite where nothing is known, or the point is far outside."""
    outward: Points
    """Unit vectors along which the distance grows."""


@dataclass(frozen=True, eq=False)
class Solid:
    """A piece as a solid, in coordinates without a unit; it turns with the piece."""

    probes: Points
    inside: Shells | OrientedPoints | None
    """The surface that tells inside from outside; None where nothing does."""
    tolerance: float
    lonely: int

    @classmethod
    def of(cls, geometry: Geometry) -> Solid:
        """A closed mesh; or an oriented mesh that is open, or a cloud with normals, as oriented points."""
        if geometry.faces is not None:
            points, faces = weld(geometry.points, geometry.faces)
            sample = sample_surface(geometry, PROBES, seed=0)
            if is_closed(faces):
                corners = points[even_draw(len(points), PROBES, seed=0)]
                return cls(np.concatenate([corners, sample.points]), Shells.of(points, faces), EXACT, 0)
            geometry = sample if is_oriented(faces) else replace(sample, normals=None)
        rows = even_draw(len(geometry.points), PROBES, seed=0)
        surface = Surface.of(geometry.points[rows])
        inside = None if geometry.normals is None else OrientedPoints.of(surface, geometry.normals[rows])
        return cls(surface.points, inside, NOISY * surface.spacing, LONELY)

    @cached_property
    def neighbors(self) -> Int64[np.ndarray, "n _"]:
        """Numbers of the probes that are nearest to each, itself among them."""
        most = min(NUM_NEIGHBORS, len(self.probes))
        return KdTree(self.probes).batch_knn_search(self.probes, most)[0].view(np.int64)


@dataclass(frozen=True, eq=False)
class OrientedPoints:
    """A sample of a surface whose outside is known by normals."""

    surface: Surface
    normals: Points
    reach: Numbers
    """How far the surface itself goes behind the plane of each point."""

    @classmethod
    def of(cls, surface: Surface, normals: Points) -> OrientedPoints | None:
        """None where neighbours do not face the same way: signs are random, or a wall is too thin."""
        normals = unit_rows(normals)
        nearest = surface.tree.batch_knn_search(surface.points, 2)[0].view(np.int64)[:, 1]
        if np.mean(dot(normals, normals[nearest]) <= 0) >= CONFUSED:
            return None
        reach = dot(normals, surface.points) - (normals @ surface.points.T).min(1)
        return cls(surface, normals, reach)

    def signed(self, points: Points) -> Signed:
        r"""The largest of :math:`n_i\cdot(p - q_i)` over the twelve nearest points.

        A place is inside only if it is behind all planes around: so an edge, where the nearest point may be
        on either face, and scatter make no false depth. Exact where the surface is convex, too shallow by
        what it curves away within a few spacings where it is not. Nothing is known beyond a border, nor
        behind all of the surface: a sheet that is flat has no inside.
        """
        index, _ = self.surface.tree.batch_knn_search(points, min(NEIGHBORS, len(self.normals)))
        index = index.view(np.int64)
        across = np.einsum("nki,nki->nk", self.normals[index], points[:, None] - self.surface.points[index])
        largest = np.argmax(across, axis=1)[:, None]
        distance = np.take_along_axis(across, largest, axis=1)[:, 0]
        plane = np.take_along_axis(index, largest, axis=1)[:, 0]
        away, normal = points - self.surface.points[index[:, 0]], self.normals[index[:, 0]]
        beside = np.linalg.norm(away - dot(away, normal)[:, None] * normal, axis=1)
        known = (beside <= ALONG * self.surface.spacing) & self.surface.interior[index[:, 0]]
        known &= distance >= -self.reach[plane]
        return Signed(np.where(known, distance, np.inf), self.normals[plane])


@dataclass(frozen=True, eq=False)
class Shells:
    """Parts of one mesh that may overlap, as a mug and its handle: the solid is what any of them holds."""

    shells: tuple[Shell, ...]
    low: Float64[np.ndarray, " 3"]
    high: Float64[np.ndarray, " 3"]
    """Corners of a box around all."""

    @classmethod
    def of(cls, points: Points, faces: Faces) -> Shells | None:
        """The shells of a mesh for which ``is_closed``; None where no part of it holds a volume.

        A part is a hollow if it lies in another part, faces the other way, and that one is no hollow. All
        else is solid, and turned where it is inside out.
        """
        parts = [part for part in _parts(faces) if not _is_flat(points[part])]
        if not parts:
            return None
        parts.sort(key=lambda part: -abs(volume(points[part])))
        proper = [volume(points[part]) > 0 for part in parts]
        parts = [part if right else part[:, ::-1] for part, right in zip(parts, proper, strict=True)]
        shells = [Shell.of(points, part) for part in parts]
        hollows: dict[int, list[int]] = {i: [] for i in range(len(parts))}
        for i, around in enumerate(_surroundings(shells)):
            if around in hollows and proper[i] != proper[around]:
                hollows[around].append(i)
                del hollows[i]
        for i, own in hollows.items():
            if own:
                shells[i] = Shell.of(points, np.concatenate([parts[i], *(parts[j][:, ::-1] for j in own)]))
        used = points[np.concatenate(parts)].reshape(-1, 3)
        return cls(tuple(shells[i] for i in hollows), used.min(0), used.max(0))

    def signed(self, points: Points) -> Signed:
        """The smallest of the shells' distances: inside, out of the deepest; infinite outside the box."""
        near = np.flatnonzero(((points >= self.low) & (points <= self.high)).all(1))
        distance, outward = np.full(len(points), np.inf), np.zeros_like(points)
        for shell in self.shells:
            found = shell.signed(points[near])
            smaller = found.distance < distance[near]
            distance[near[smaller]] = found.distance[smaller]
            outward[near[smaller]] = found.outward[smaller]
        return Signed(distance, outward)


def _surroundings(shells: list[Shell]) -> list[int | None]:
    """The number of the smallest shell that holds all of each, for shells from large to small."""
    low = np.stack([shell.triangles.min((0, 1)) for shell in shells])
    high = np.stack([shell.triangles.max((0, 1)) for shell in shells])
    found: list[int | None] = []
    for i, shell in enumerate(shells):
        boxes = ((low[:i] <= low[i] + ON) & (high[:i] >= high[i] - ON)).all(1)
        corners = shell.triangles.reshape(-1, 3)
        around = (j for j in np.flatnonzero(boxes)[::-1] if (shells[j].signed(corners).distance <= ON).all())
        found.append(next(map(int, around), None))
    return found


def _parts(faces: Faces) -> list[Faces]:
    """The faces of each part that hangs together."""
    edges, n = _directed_edges(faces), int(faces.max()) + 1
    graph = coo_array((np.ones(len(edges)), (edges[:, 0], edges[:, 1])), shape=(n, n))
    label = connected_components(graph, directed=False)[1][faces[:, 0]]
    return [faces[label == each] for each in np.unique(label)]


def _is_flat(triangles: Triangles) -> bool:
    """True for closed triangles that enclose nothing, as the two sides of a sheet."""
    width = float(np.ptp(triangles.reshape(-1, 3), axis=0).max())
    return abs(volume(triangles)) <= FLAT * width**3


def volume(triangles: Triangles) -> float:
    """The volume that closed triangles enclose; negative where they are seen clockwise from outside."""
    near = triangles - triangles[0, 0]  # far from the origin, large terms cancel and little is left
    return float(np.linalg.det(near).sum() / 6)


def weld(points: Points, faces: Faces) -> tuple[Points, Faces]:
    """Corners at one place as one, by their first use in the faces; faces that lose a corner are dropped."""
    corners = points[faces].reshape(-1, 3)
    _, first, same = np.unique(corners, axis=0, return_index=True, return_inverse=True)
    order = np.argsort(first)  # of places by coordinates, which change as the piece turns
    renamed = np.argsort(order)[same.reshape(-1, 3)]
    proper = (renamed != np.roll(renamed, 1, axis=1)).all(1)
    return corners[first[order]], renamed[proper]


def _directed_edges(faces: Faces) -> Int64[np.ndarray, "e 2"]:
    """The edges ab, bc and ca of every triangle."""
    return np.stack([faces, np.roll(faces, -1, axis=1)], axis=2).reshape(-1, 2)


def is_oriented(faces: Faces) -> bool:
    """True where neighbours agree on which side is outside: no edge is used twice in one direction."""
    edges = _directed_edges(faces)
    return len(np.unique(edges, axis=0)) == len(edges)


def is_closed(faces: Faces) -> bool:
    """True where there are faces, and every edge is used as often in one direction as in the other."""
    there = _directed_edges(faces)
    back = there[:, ::-1]
    return len(faces) > 0 and np.array_equal(there[np.lexsort(there.T)], back[np.lexsort(back.T)])


@dataclass(frozen=True, eq=False)
class Shell:
    """Triangles that close, seen counter-clockwise from outside."""

    triangles: Triangles
    normals: Float64[np.ndarray, "f 7 3"]
    """Normals of the parts of each triangle."""
    centers: cKDTree
    levels: tuple[tuple[cKDTree, Int64[np.ndarray, " _"], float], ...]
    """Triangles of about one size: a tree of their centres, their numbers, and the largest radius."""

    @classmethod
    def of(cls, points: Points, faces: Faces) -> Shell:
        sides = np.diff(points[faces], axis=1)
        area = np.linalg.norm(np.cross(sides[:, 0], sides[:, 1]), axis=1)
        faces = faces[area > 0]  # what has no area has no normal, and its edges are its neighbours', too
        triangles = points[faces]
        center = triangles.mean(1)
        radius = np.linalg.norm(triangles - center[:, None], axis=2).max(1)
        size = np.frexp(radius)[1]
        rows = [np.flatnonzero(size == each) for each in np.unique(size)]
        levels = tuple((cKDTree(center[own]), own, float(radius[own].max())) for own in rows)
        return cls(triangles, _pseudonormals(triangles, faces), cKDTree(center), levels)

    def signed(self, points: Points) -> Signed:
        """Exact distances, negative inside, and the way to or from the nearest place, outwards."""
        nearest = np.zeros(len(points), dtype=np.int64)
        for i in range(0, len(points), AT_ONCE):
            nearest[i : i + AT_ONCE] = self._nearest(points[i : i + AT_ONCE])
        place, part = nearest_on_triangles(points, self.triangles[nearest])
        normal, off = self.normals[nearest, part], points - place
        sign = np.where(dot(off, normal) < 0, -1.0, 1.0)
        distance = sign * np.linalg.norm(off, axis=1)
        outward = np.where((np.abs(distance) > ON)[:, None], sign[:, None] * off, normal)
        return Signed(distance, unit_rows(outward))

    def _nearest(self, points: Points) -> Int64[np.ndarray, " n"]:
        """The number of each point's nearest triangle.

        The one with the nearest centre gives a bound; one that is nearer has its centre within this bound and
        its own radius. Sorting triangles by size keeps large ones from making that wide for all.
        """
        best = self.centers.query(points)[1]
        bound = self._distance(points, best)
        for tree, numbers, radius in self.levels:
            found = tree.query_ball_point(points, bound + radius)
            row = np.repeat(np.arange(len(points)), [len(each) for each in found])
            candidate = numbers[np.concatenate([np.zeros(0), *found]).astype(np.int64)]
            distance = self._distance(points[row], candidate)
            order = np.lexsort((distance, row))
            order = order[np.unique(row[order], return_index=True)[1]]  # the nearest of each row
            order = order[distance[order] < bound[row[order]]]
            best[row[order]], bound[row[order]] = candidate[order], distance[order]
        return best

    def _distance(self, points: Points, numbers: Int64[np.ndarray, " n"]) -> Numbers:
        return np.linalg.norm(points - nearest_on_triangles(points, self.triangles[numbers])[0], axis=1)


def _pseudonormals(triangles: Triangles, faces: Faces) -> Float64[np.ndarray, "f 7 3"]:
    """Face normals; at an edge the sum of its faces' normals, at a corner the sum weighted by their angles.

    With these the sign of (p − q)·n is right for every p and its nearest place q of the surface (Bærentzen
    and Aanæs 2005). Only the directions matter.
    """
    sides = np.roll(triangles, -1, axis=1) - triangles
    normal = unit_rows(np.cross(sides[:, 0], sides[:, 1]))
    back = -np.roll(sides, 1, axis=1)
    angles = np.arctan2(np.linalg.norm(np.cross(sides, back), axis=2), (sides * back).sum(2))
    corners = np.zeros((int(faces.max()) + 1, 3))
    np.add.at(corners, faces.ravel(), (angles[:, :, None] * normal[:, None]).reshape(-1, 3))
    _, edge = np.unique(np.sort(_directed_edges(faces), axis=1), axis=0, return_inverse=True)
    edges = np.zeros((int(edge.max()) + 1, 3))
    np.add.at(edges, edge.ravel(), np.repeat(normal, 3, axis=0))
    return np.concatenate([normal[:, None], edges[edge.reshape(-1, 3)], corners[faces]], axis=1)


def nearest_on_triangles(points: Points, triangles: Triangles) -> tuple[Points, Int64[np.ndarray, " _"]]:
    """Row by row: the nearest place of the triangle, and the number of the part on which it lies.

    Ericson's case analysis (Real-Time Collision Detection, 5.1.5), all rows at once.
    """
    a, b, c = triangles[:, 0], triangles[:, 1], triangles[:, 2]
    ab, ac = b - a, c - a
    ab_a, ac_a = dot(ab, points - a), dot(ac, points - a)
    ab_b, ac_b = dot(ab, points - b), dot(ac, points - b)
    ab_c, ac_c = dot(ab, points - c), dot(ac, points - c)
    beyond_ab, beyond_ca = ab_a * ac_b - ab_b * ac_a, ab_c * ac_a - ab_a * ac_c
    beyond_bc = ab_b * ac_c - ab_c * ac_b
    cases = [
        (ab_a <= 0) & (ac_a <= 0),
        (ab_b >= 0) & (ac_b <= ab_b),
        (ac_c >= 0) & (ab_c <= ac_c),
        (beyond_ab <= 0) & (ab_a >= 0) & (ab_b <= 0),
        (beyond_bc <= 0) & (ac_b >= ab_b) & (ab_c >= ac_c),
        (beyond_ca <= 0) & (ac_a >= 0) & (ac_c <= 0),
    ]
    along_ab, along_ca = _ratio(ab_a, ab_a - ab_b), _ratio(ac_a, ac_a - ac_c)
    along_bc, whole = _ratio(ac_b - ab_b, ac_b - ab_b + ab_c - ac_c), beyond_ab + beyond_bc + beyond_ca
    zero, one = np.zeros(len(points)), np.ones(len(points))
    to_b = np.select(cases, [zero, one, zero, along_ab, 1 - along_bc, zero], _ratio(beyond_ca, whole))
    to_c = np.select(cases, [zero, zero, one, zero, along_bc, along_ca], _ratio(beyond_ab, whole))
    part = np.select(cases, [*CORNERS, *EDGES], FACE)
    return a + to_b[:, None] * ab + to_c[:, None] * ac, part


def _ratio(part: Numbers, whole: Numbers) -> Numbers:
    """0 where there is no whole: rows that another case takes."""
    return np.divide(part, whole, out=np.zeros_like(part), where=whole != 0)
