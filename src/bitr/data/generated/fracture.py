"""Solids broken into pieces that fit, cut after cut; each is made once and stored."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from itertools import combinations, count
from pathlib import Path

import numpy as np
from jaxtyping import Bool, Float32, Float64, Int16, Int32, Int64
from scipy.spatial import cKDTree

from bitr.data.generated.kernel import Fractal, Solid, frame_about, solid, two_triangles, vertices_of
from bitr.data.generated.solids import random_solid
from bitr.data.generated.vessels import thin_vessel
from bitr.data.poses import Points
from bitr.data.storage import cache_home, load_or_make, recipe_key
from bitr.data.transforms import area_of, sample_by_area, share_by_area
from bitr.errors import InputError
from bitr.io import Geometry, area_vectors, join, sample_surface

RECIPE, MADE_WITH = "46a660f3549e", "3.5.4"
"""Version of the way from a seed to a broken solid, and of manifold3d, in the names of folders of them.
Change it whenever a seed gives another solid; a test compares some."""
VESSELS = "1"  # version of the way from a seed to a broken vessel or a chip; change it as RECIPE
FIRST = {"train": 0, "val": 10**9, "test": 2 * 10**9}
"""Seed of each split's first solid: the ranges have no seed in common."""
OUTSIDE = -1  # stands in place of a cut for the surface of the solid before it broke
WHOLE = 0  # the node that is the whole solid

SHARE = (0.2, 0.8)  # least and greatest share of its volume on either side of a cut
CHIP = (0.005, 0.1)  # least and greatest share of a chip in the surface of both pieces


@dataclass(frozen=True)
class Relief:
    """Looks of a cutting surface."""

    planar: float  # share of cuts that are planes
    spacing: float  # distance of the corners of a surface that is none, where the whole solid has size 1
    roughness: tuple[float, float]  # range of the roughness of its fractal relief: 0 smooth, 1 jagged
    steep: tuple[float, float]  # range of its greatest slope


SMOOTH = Relief(0.2, 0.06, (0.3, 1.0), (0.15, 0.9))  # cuts through solids
ROUGH = Relief(0.05, 0.04, (0.8, 1.3), (0.8, 1.8))  # cuts through vessels, and those that take a chip off
WIDE = 1.35  # half the width of a cutter's surface, in radii of the solid: with a margin
LEAST_WEAR, MOST_WEAR = 0.3, 2.0  # in multiples of the mean

Height = Callable[[np.ndarray], np.ndarray]  # (n, 2) places in the plane → (n,) heights


@dataclass(frozen=True, eq=False)
class Fracture:
    """All faces of all pieces, each with the piece that it bounds and the cut that made it.

    The solids before, between and after the cuts are nodes: 0 is the whole, cut c broke ``broke[c]`` into the
    nodes 2c + 1 and 2c + 2, and the pieces are the nodes that were not broken.
    """

    points: Float32[np.ndarray, "v 3"]
    faces: Int32[np.ndarray, "f 3"]
    piece: Int16[np.ndarray, " f"]
    cut: Int16[np.ndarray, " f"]
    broke: Int16[np.ndarray, " c"]
    fits: Int16[np.ndarray, "p 2"]
    """Pairs of nodes that have nothing in common and touch along much of their broken surface."""

    @property
    def pieces(self) -> list[int]:
        """The nodes that were not broken."""
        return [node for node in range(2 * len(self.broke) + 1) if node not in self.broke]

    def pieces_of(self, node: int) -> list[int]:
        """The pieces that a node broke into; a piece is its own."""
        cuts = np.flatnonzero(self.broke == node)
        found = [p for c in cuts for side in (2 * c + 1, 2 * c + 2) for p in self.pieces_of(int(side))]
        return found or [node]

    def cuts_within(self, node: int) -> list[int]:
        """The cuts through a node."""
        cuts = [int(c) for c in np.flatnonzero(self.broke == node)]
        inner = [c for cut in cuts for side in (2 * cut + 1, 2 * cut + 2) for c in self.cuts_within(side)]
        return cuts + inner

    def bounding(self, node: int) -> Bool[np.ndarray, " f"]:
        """Mask of the faces that bound a node: those of its pieces, except for the cuts within it."""
        return np.isin(self.piece, self.pieces_of(node)) & ~np.isin(self.cut, self.cuts_within(node))

    def surface(self, node: int, cut: int | None = None, is_broken: bool | None = None) -> Geometry:
        """The surface of a node; only the part that ``cut`` made, or that is a break or not, if asked for."""
        chosen = self.bounding(node)
        if cut is not None:
            chosen &= self.cut == cut
        if is_broken is not None:
            chosen &= (self.cut != OUTSIDE) == is_broken
        return Geometry(self.points.astype(np.float64), faces=self.faces[chosen].astype(np.int64))


def keep_whole(mesh: Geometry) -> Fracture:
    """A mesh as it is, solid or not: the whole is its only node."""
    if mesh.faces is None:
        raise InputError(f"{mesh.name}: is a cloud of points, expected a mesh")
    faces = mesh.faces.astype(np.int32)
    piece, cut = np.zeros(len(faces), np.int16), np.full(len(faces), OUTSIDE, np.int16)
    none = np.zeros(0, np.int16), np.zeros((0, 2), np.int16)
    return Fracture(mesh.points.astype(np.float32), faces, piece, cut, *none)


@dataclass(frozen=True)
class ShapeCache:
    """A folder of broken solids by seed; missing or damaged ones are made and stored."""

    folder: Path
    pieces: tuple[int, int]
    is_vessel: bool = False
    is_chipped: bool = False

    def get(self, seed: int) -> Fracture:
        """The broken solid of a seed."""
        kind = {"is_vessel": self.is_vessel, "is_chipped": self.is_chipped}
        return load_fracture(self.path(seed), lambda: broken_solid(seed, self.pieces, **kind))

    def path(self, seed: int) -> Path:
        """Its file, in a folder for the recipe and its settings."""
        kind = ""
        if self.is_vessel or self.is_chipped:
            kind = f"-{'vessel' if self.is_vessel else 'solid'}{'-chip' * self.is_chipped}-{VESSELS}"
        return self.folder / f"{fracture_key()}-{self.pieces[0]}-{self.pieces[1]}{kind}" / f"{seed}.shape"


def load_fracture(path: Path, make: Callable[[], Fracture]) -> Fracture:
    """Read a fracture; make and store it if the file is missing or damaged."""
    return Fracture(**load_or_make(path, lambda: asdict(make())))


def fracture_key() -> str:
    return recipe_key(RECIPE, "manifold3d", MADE_WITH)


def cache_folder(root: Path | None) -> Path:
    """The folder ``generated`` below the root if there is one, else one among the user's cached files."""
    if root is not None and (root / "generated").is_dir():
        return root / "generated"
    return cache_home() / "shapes"


def broken_solid(
    seed: int, pieces: tuple[int, int], *, is_vessel: bool = False, is_chipped: bool = False
) -> Fracture:
    """Break a random solid or thin-walled vessel at random; of a chipped one a chip is broken off."""
    for attempt in count():  # one in hundreds cannot be broken into enough pieces, and is passed over
        rng = np.random.default_rng([seed, attempt])
        whole = thin_vessel(rng) if is_vessel else random_solid(rng)[1]
        if is_chipped:
            found = break_solid(whole, 2, rng, is_rough=True, is_chipped=True)
        else:
            found = break_at_random(whole, pieces, rng, is_rough=is_vessel)
        if len(found.pieces) >= (2 if is_chipped else pieces[0]):
            break
    return found


def break_at_random(
    whole: Solid, pieces: tuple[int, int], rng: np.random.Generator, is_rough: bool = False
) -> Fracture:
    """Break a solid into a random number of pieces, few more often than many, or fewer if it cannot be."""
    counts = np.arange(pieces[0], pieces[1] + 1)
    chance = 1 / (counts - 1)
    return break_solid(whole, int(rng.choice(counts, p=chance / chance.sum())), rng, is_rough)


def break_solid(
    whole: Solid, pieces: int, rng: np.random.Generator, is_rough: bool = False, is_chipped: bool = False
) -> Fracture:
    """Break a solid into that many connected pieces, or fewer if no cut leaves both sides connected."""
    parts: dict[int, Solid] = {0: whole}
    cutters: dict[int, int] = {}
    broke: list[int] = []
    while len(parts) < pieces:
        node = max(parts, key=lambda key: parts[key].volume())
        halves = _divide(parts[node], rng, is_rough, is_chipped)
        if halves is None:
            break
        cutters[halves[0]] = len(broke)
        parts[2 * len(broke) + 1], parts[2 * len(broke) + 2] = halves[1:]
        broke.append(node)
        del parts[node]
    return _find_fits(_gather(parts, cutters, broke))


def _divide(
    given: Solid, rng: np.random.Generator, is_rough: bool, is_chipped: bool
) -> tuple[int, Solid, Solid] | None:
    """The cutter's number and the solid's two sides, both connected, neither too small; a chip is below."""
    low, high = CHIP if is_chipped else SHARE
    for _ in range(12):
        cutter = random_cutter(given, rng, rng.uniform(low, high), is_rough)
        below, above = given.split(cutter)
        if is_chipped:
            share = below.surface_area() / (below.surface_area() + above.surface_area())
        else:
            share = below.volume() / given.volume()
        if low <= share <= high and len(below.decompose()) == len(above.decompose()) == 1:
            return cutter.original_id(), below, above
    return None


def _gather(parts: dict[int, Solid], cutters: dict[int, int], broke: list[int]) -> Fracture:
    """The faces of all parts in one list, each with its piece and its cut; manifold3d tracks them."""
    points, faces, piece, cut = [], [], [], []
    start = 0
    for node, part in parts.items():
        mesh = part.to_mesh64()
        origin = [cutters.get(int(number), OUTSIDE) for number in mesh.run_original_id]
        cut.append(np.repeat(np.array(origin, dtype=np.int16), np.diff(mesh.run_index) // 3))
        piece.append(np.full(len(mesh.tri_verts), node, dtype=np.int16))
        points.append(mesh.vert_properties[:, :3].astype(np.float32))
        faces.append(mesh.tri_verts.astype(np.int32) + start)
        start += len(points[-1])
    vertices, corners, of_piece, of_cut = (np.concatenate(each) for each in (points, faces, piece, cut))
    none = np.zeros((0, 2), dtype=np.int16)
    return Fracture(vertices, corners, of_piece, of_cut, np.array(broke, dtype=np.int16), none)


def _find_fits(found: Fracture) -> Fracture:
    """Add the pairs of nodes that fit: they touch along a quarter of the smaller one's broken surface."""
    touch = _touching_areas(found)
    nodes = range(1, len(touch))
    own = {node: found.pieces_of(node) for node in nodes}
    rest = {node: [p for p in found.pieces if p not in own[node]] for node in nodes}
    edge = {node: touch[np.ix_(own[node], rest[node])].sum() for node in nodes}
    fits = [
        (a, b)
        for a, b in combinations(nodes, 2)
        if not set(own[a]) & set(own[b])
        and touch[np.ix_(own[a], own[b])].sum() >= 0.25 * min(edge[a], edge[b])
    ]
    return replace(found, fits=np.array(fits, dtype=np.int16).reshape(-1, 2))


def _touching_areas(found: Fracture) -> Float64[np.ndarray, "m m"]:
    """The area along which two pieces touch, estimated from points of either side of each cut."""
    touch = np.zeros((2 * len(found.broke) + 1,) * 2)
    for cut in range(len(found.broke)):
        a, pieces_a, area = _sample_side(found, 2 * cut + 1, cut)
        b, pieces_b, _ = _sample_side(found, 2 * cut + 2, cut)
        # the two sides are the same surface: a point's nearest on the other side is of the piece it touches
        np.add.at(touch, (pieces_a, pieces_b[cKDTree(b).query(a)[1]]), area / len(a))
    return touch + touch.T


def _sample_side(
    found: Fracture, node: int, cut: int
) -> tuple[Float64[np.ndarray, "n 3"], Int64[np.ndarray, " n"], float]:
    """Points of one side of a cut, even by area, the piece of each, and the whole area."""
    surfaces = {piece: found.surface(piece, cut) for piece in found.pieces_of(node)}
    areas = {piece: area_of(surface) for piece, surface in surfaces.items()}
    total = sum(areas.values())
    counts = {piece: round(400 * area / total) for piece, area in areas.items()}
    points = [sample_surface(surfaces[p], n, seed=0).points for p, n in counts.items() if n]
    return np.concatenate(points), np.repeat(list(counts), list(counts.values())), total


def find_crease(found: Fracture, node: int, spacing: float) -> tuple[Points, Points]:
    """Points along the edge of a break, one for each ``spacing``, and normals halfway between its sides."""
    bounding = found.bounding(node)
    faces, is_broken = found.faces[bounding].astype(np.int64), found.cut[bounding] != OUTSIDE
    points = found.points.astype(np.float64)
    normals = area_vectors(points, faces)
    normals /= np.maximum(np.linalg.norm(normals, axis=1, keepdims=True), 1e-300)
    # a node may be of several pieces, each with corners of its own in the same places
    same = np.unique(found.points, axis=0, return_inverse=True)[1].reshape(-1)
    ends = np.concatenate([faces[:, [0, 1]], faces[:, [1, 2]], faces[:, [2, 0]]])
    of_face = np.tile(np.arange(len(faces)), 3)
    names = np.sort(same[ends], axis=1)
    edges, first, edge = np.unique(names, axis=0, return_index=True, return_inverse=True)
    edge = edge.reshape(-1)
    broken, old = (np.bincount(edge[each[of_face]], minlength=len(edges)) for each in (is_broken, ~is_broken))
    outward = np.zeros((len(edges), 3))
    np.add.at(outward, edge, normals[of_face])
    on = (broken > 0) & (old > 0) & (np.linalg.norm(outward, axis=1) > 1e-6)
    a, b = (points[ends[first[on], i]] for i in range(2))
    number = np.maximum(np.ceil(np.linalg.norm(b - a, axis=1) / spacing), 1).astype(int)
    rows = np.repeat(np.arange(len(a)), number)
    at = (np.arange(len(rows)) - np.repeat(np.cumsum(number) - number, number) + 0.5) / number[rows]
    direction = outward[on] / np.linalg.norm(outward[on], axis=1, keepdims=True)
    return a[rows] + at[:, None] * (b - a)[rows], direction[rows]


def sample_worn(found: Fracture, node: int, n: int, width: float, rng: np.random.Generator) -> Geometry:
    """Points of a node whose break is worn: even by area before the wear, with normals.

    Edges of the break are rounded like a fillet whose radius has the mean ``width`` and changes along the
    edge, and the break is lower than a fresh one by a depth that changes over it. Two pieces wear on their
    own, so that they leave a groove and a gap between them.
    """
    parts = [found.surface(node, is_broken=is_broken) for is_broken in (False, True)]
    counts = share_by_area([area_of(part) for part in parts], n, 0)
    clouds = [sample_by_area(part, n, rng) for part, n in zip(parts, counts, strict=True) if n]
    cloud = join(clouds, "piece")
    assert cloud.normals is not None
    points, normals = cloud.points, cloud.normals
    wear = [_random_wear(rng) for _ in range(2)]
    is_broken = np.arange(len(points)) >= counts[0]
    points = points - (is_broken * 0.25 * width * wear[0](points))[:, None] * normals
    crease, directions = find_crease(found, node, LEAST_WEAR * width / 4)
    if not len(crease):
        return replace(cloud, points=points)
    far, nearest = cKDTree(crease).query(cloud.points)
    outward, radius = directions[nearest], width * wear[1](crease[nearest])[:, None]
    within = np.maximum(1 - far[:, None] / radius, 0.0)
    points = points - (2**0.5 - 1) * radius * within**2 * outward  # as deep as a fillet in a right angle
    normals = normals + within * outward  # halfway to the middle of the fillet, at the crease
    return replace(cloud, points=points, normals=normals / np.linalg.norm(normals, axis=1, keepdims=True))


def _random_wear(rng: np.random.Generator) -> Callable[[np.ndarray], np.ndarray]:
    """A smooth positive field with a mean of about 1: (n, 3) places → (n,) multiples of the mean wear."""
    field = Fractal.random(rng, 3, 1, 0.5, 2, 0.5)
    size = float(np.sqrt((field.gain**2).sum() / 2))
    return lambda at: np.clip(1 + 0.6 * field(at)[:, 0] / size, LEAST_WEAR, MOST_WEAR)


def random_cutter(given: Solid, rng: np.random.Generator, share: float, is_rough: bool = False) -> Solid:
    """A solid whose upper side, a plane or a rough sheet, has ``share`` of the corners below it."""
    relief = ROUGH if is_rough else SMOOTH
    points = vertices_of(given)
    # across the line between two corners: long things break across, not along
    first, second = rng.choice(len(points), 2, replace=False)
    turn = frame_about(points[first] - points[second], rng)
    center = (points.min(axis=0) + points.max(axis=0)) / 2
    local = (points - center) @ turn
    radius = float(np.linalg.norm(local, axis=1).max())
    height: Height = _flat if rng.random() < relief.planar else _random_relief(rng, radius, relief)
    lift = float(np.quantile(local[:, 2] - height(local[:, :2]), share))
    cells = 1 if height is _flat else max(8, round(2 * WIDE * radius / relief.spacing))
    edge = np.linspace(-WIDE * radius, WIDE * radius, cells + 1)
    u, v = (grid.ravel() for grid in np.meshgrid(edge, edge, indexing="ij"))
    sheet = np.stack([u, v, lift + height(np.stack([u, v], axis=1))], axis=1)
    made = _solid_below(sheet, cells + 1, -9.0 * radius)  # deeper than anything to be cut
    return made.transform(np.concatenate([turn, center[:, None]], axis=1)).as_original()


def _flat(at: Float64[np.ndarray, "n 2"]) -> Float64[np.ndarray, " n"]:
    return np.zeros(len(at))


def _random_relief(rng: np.random.Generator, radius: float, relief: Relief) -> Height:
    """A sheet bowed by a random quadratic form and, more or less, rough like broken clay or stone."""
    bow = rng.normal(size=(2, 2)) * rng.uniform(0, 0.35) / radius
    longest = radius * rng.uniform(0.6, 1.6)
    octaves = max(1, int(np.log2(longest / (3 * relief.spacing))) + 1)  # the shortest spans three corners
    rough = Fractal.random(rng, 2, 1, longest, octaves, rng.uniform(*relief.roughness))
    steep = rng.uniform(*relief.steep)
    rough = rough.times(steep / rough.slope(rng.uniform(-radius, radius, (500, 2))))

    def height(at: Float64[np.ndarray, "n 2"]) -> Float64[np.ndarray, " n"]:
        return np.einsum("ni,ij,nj->n", at, bow, at) + rough(at)[:, 0]

    return height


def _solid_below(sheet: Float64[np.ndarray, "n 3"], side: int, bottom: float) -> Solid:
    """The solid from a square sheet of side × side corners down to a point far below its middle."""
    at = np.arange(side * side).reshape(side, side)
    top = two_triangles(at[:-1, :-1], at[1:, :-1], at[1:, 1:], at[:-1, 1:])
    rim = np.concatenate([at[:-1, 0], at[-1, :-1], at[:0:-1, -1], at[0, :0:-1]])
    sides = np.stack([np.full(len(rim), side * side), np.roll(rim, -1), rim], -1)
    return solid(np.concatenate([sheet, [[0.0, 0.0, bottom]]]), np.concatenate([top, sides]))
