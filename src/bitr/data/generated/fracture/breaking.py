"""Breaking a solid into pieces that fit: cut after cut, always through the largest piece."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import numpy as np
from jaxtyping import Float64, Int64
from scipy.spatial import cKDTree

from bitr.data.generated.fracture.cutters import random_cutter
from bitr.data.generated.fracture.pieces import OUTSIDE, Fracture
from bitr.data.generated.solids.kernel import Solid
from bitr.io import Geometry, area_vectors, sample_surface

TRIES = 12
"""Cuts that are tried through a piece before it is left as it is."""
SHARE = (0.2, 0.8)
"""Of its volume, what either side of a cut may have."""
TOUCHING = 0.25
"""Two nodes fit when they touch along this share of the smaller one's broken surface."""
SAMPLES = 400
"""Points by which it is told which pieces touch along a cut."""


def broken(whole: Solid, pieces: int, rng: np.random.Generator) -> Fracture:
    """The solid in that many connected pieces; fewer where no cut leaves both of its sides connected."""
    parts: dict[int, Solid] = {0: whole}
    cutters: dict[int, int] = {}
    broke: list[int] = []
    while len(parts) < pieces:
        node = max(parts, key=lambda key: parts[key].volume())
        halves = _halves(parts[node], rng)
        if halves is None:
            break
        cutters[halves[0]] = len(broke)
        parts[2 * len(broke) + 1], parts[2 * len(broke) + 2] = halves[1:]
        broke.append(node)
        del parts[node]
    return _fitted(_gathered(parts, cutters, broke))


def _halves(given: Solid, rng: np.random.Generator) -> tuple[int, Solid, Solid] | None:
    """The cutter's number and the solid's two sides, both connected and neither too small."""
    for _ in range(TRIES):
        cutter = random_cutter(given, rng, rng.uniform(*SHARE))
        below, above = given.split(cutter)
        share = below.volume() / given.volume()
        if SHARE[0] <= share <= SHARE[1] and len(below.decompose()) == len(above.decompose()) == 1:
            return cutter.original_id(), below, above
    return None


def _gathered(parts: dict[int, Solid], cutters: dict[int, int], broke: list[int]) -> Fracture:
    """The faces of all parts in one list, each with its piece and its cut; manifold3d keeps track of it."""
    points, faces, piece, cut = [], [], [], []
    start = 0
    for node, part in parts.items():
        mesh = part.to_mesh64()
        runs = np.diff(mesh.run_index) // 3
        origin = [cutters.get(int(number), OUTSIDE) for number in mesh.run_original_id]
        cut.append(np.repeat(np.array(origin, dtype=np.int16), runs))
        piece.append(np.full(len(mesh.tri_verts), node, dtype=np.int16))
        points.append(mesh.vert_properties[:, :3].astype(np.float32))
        faces.append(mesh.tri_verts.astype(np.int32) + start)
        start += len(points[-1])
    return Fracture(
        np.concatenate(points),
        np.concatenate(faces),
        np.concatenate(piece),
        np.concatenate(cut),
        np.array(broke, dtype=np.int16),
        np.zeros((0, 2), dtype=np.int16),
    )


def _fitted(found: Fracture) -> Fracture:
    """The fracture with the pairs of nodes that fit."""
    touch = _touching(found)
    nodes = range(1, len(touch))
    own = {node: found.pieces_of(node) for node in nodes}
    rest = {node: [p for p in found.pieces if p not in own[node]] for node in nodes}
    edge = {node: touch[np.ix_(own[node], rest[node])].sum() for node in nodes}
    fits = [
        (a, b)
        for a, b in combinations(nodes, 2)
        if not set(own[a]) & set(own[b])
        and touch[np.ix_(own[a], own[b])].sum() >= TOUCHING * min(edge[a], edge[b])
    ]
    return replace(found, fits=np.array(fits, dtype=np.int16).reshape(-1, 2))


def _touching(found: Fracture) -> Float64[np.ndarray, "m m"]:
    """The area along which two pieces touch, estimated from points of either side of each cut."""
    touch = np.zeros((2 * len(found.broke) + 1,) * 2)
    for cut in range(len(found.broke)):
        a, pieces_a, area = _side(found, 2 * cut + 1, cut)
        b, pieces_b, _ = _side(found, 2 * cut + 2, cut)
        # the two sides are the same surface: a point's nearest on the other side is of the piece it touches
        np.add.at(touch, (pieces_a, pieces_b[cKDTree(b).query(a)[1]]), area / len(a))
    return touch + touch.T


def _side(
    found: Fracture, node: int, cut: int
) -> tuple[Float64[np.ndarray, "n 3"], Int64[np.ndarray, " n"], float]:
    """Points of one side of a cut, even by area, the piece that each belongs to, and the whole area."""
    surfaces = {piece: found.surface(piece, cut) for piece in found.pieces_of(node)}
    areas = {piece: _area(surface) for piece, surface in surfaces.items()}
    total = sum(areas.values())
    counts = {piece: round(SAMPLES * area / total) for piece, area in areas.items()}
    points = [sample_surface(surfaces[p], n, seed=0).points for p, n in counts.items() if n]
    return np.concatenate(points), np.repeat(list(counts), list(counts.values())), total


def _area(surface: Geometry) -> float:
    """Of all faces together, up to one factor for all surfaces of a fracture."""
    assert surface.faces is not None
    return float(np.linalg.norm(area_vectors(surface.points, surface.faces), axis=1).sum() / 2)
