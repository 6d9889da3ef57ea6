"""``python -m benchmarks.fractures --n 40`` compares generated fractures with Breaking Bad's, as a table.

It needs Breaking Bad below BITR_DATA for its rows, and manifold3d for the generated ones.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Bool, Float64, Int64
from scipy.spatial import cKDTree

from bitr.data.fragments import BOTTLES, CLASSES, fractures
from bitr.data.generated.dataset import MIXES, ShapesConfig
from bitr.data.generated.fracture import FIRST, OUTSIDE, ShapeCache, cache_folder
from bitr.data.storage import data_root
from bitr.io import Geometry, sample_surface

SAMPLES = 600
"""Points of a break that its roughness is measured on."""
NEAR = 0.05
"""Distance of the points whose normals are compared, in radii of the shape."""
SAME = 1e-5
"""Corners of two pieces that are closer are one."""


@dataclass(frozen=True, eq=False)
class Piece:
    """A piece in its place, and which of its faces the break made."""

    points: Float64[np.ndarray, "v 3"]
    faces: Int64[np.ndarray, "f 3"]
    is_broken: Bool[np.ndarray, " f"]

    @property
    def areas(self) -> Float64[np.ndarray, " f"]:
        return np.linalg.norm(self.vectors, axis=1)

    @property
    def vectors(self) -> Float64[np.ndarray, "f 3"]:
        a, b, c = (self.points[self.faces[:, i]] for i in range(3))
        return np.cross(b - a, c - a) / 2

    @property
    def volume(self) -> float:
        a, b, c = (self.points[self.faces[:, i]] for i in range(3))
        return float(np.einsum("ni,ni->", a, np.cross(b, c))) / 6


Pair = tuple[Piece, Piece]


@dataclass(frozen=True)
class Numbers:
    """Measures of one pair; angles in degrees, the others as shares."""

    smaller: float
    """The smaller piece's share of both surfaces."""
    broken: float
    """Share of both surfaces that is break."""
    thickness: float
    """Twice the volume over the surface of the whole, in radii: of a shell its wall."""
    bow: float
    """Root mean square distance of the break from its best plane, in radii."""
    rough: float
    """Mean angle between the normals of points of the break that are 5% of the radius apart."""
    crease: float
    """Median angle inside the material between the break and the old surface."""
    sharp: float
    """Share of the crease, by length, whose angle is below 120°."""


COLUMNS = {
    "smaller piece, share of area": ("smaller", 100, "%"),
    "break, share of area": ("broken", 100, "%"),
    "2 V/A": ("thickness", 100, "% of radius"),
    "break off its plane": ("bow", 100, "% of radius"),
    "normals at 5% of radius": ("rough", 1, "°"),
    "angle at the crease": ("crease", 1, "°"),
    "crease below 120°": ("sharp", 100, "%"),
}


def main() -> None:
    """Print medians and quartiles over pairs of the nine classes and of generated shapes."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.fractures", description=main.__doc__)
    parser.add_argument("--n", type=int, default=40, help="pairs of each row")
    parser.add_argument("--root", type=Path, help="folder of data sets, by default that of BITR_DATA")
    given = parser.parse_args()
    root = data_root(given.root)
    others = tuple(name for name in CLASSES if name not in BOTTLES)
    rows = {
        "Breaking Bad, four kinds of bottles": breaking_bad(root, BOTTLES, given.n),
        "Breaking Bad, glasses, vases, mugs, bowls": breaking_bad(root, others, given.n),
        "`shapes:vessel`": generated(root, MIXES["vessel"][0], True, given.n),
        "`shapes:fracture`": generated(root, MIXES["fracture"][0], False, given.n),
        "`shapes:chip`, vessels": generated(root, MIXES["chip"][0], True, given.n),
    }
    heads = [f"{head} ({unit})" for head, (_, _, unit) in COLUMNS.items()]
    print(f"| | pairs | {' | '.join(heads)} |")
    print("| --- " * (len(heads) + 2) + "|")
    for name, pairs in rows.items():
        found = [measure(pair) for pair in pairs]
        cells = [
            _quartiles([getattr(each, key) for each in found], times) for key, times, _ in COLUMNS.values()
        ]
        print(f"| {name} | {len(found)} | {' | '.join(cells)} |", flush=True)


def _quartiles(values: list[float], times: float) -> str:
    if not values:
        return "–"
    low, middle, high = np.nanquantile(values, (0.25, 0.5, 0.75)) * times
    return f"{middle:.3g} ({low:.3g} to {high:.3g})"


def breaking_bad(root: Path | None, names: tuple[str, ...], n: int) -> Iterator[Pair]:
    """Pairs of these classes, evenly chosen; a face whose corners are all on the other piece is a break."""
    found = [fracture for name in names for fracture in fractures(name, root)]
    for row in np.unique(np.linspace(0, len(found) - 1, n).round().astype(int)) if found else ():
        a, b = found[row].load()
        yield _of_mesh(a, b), _of_mesh(b, a)


def _of_mesh(mesh: Geometry, other: Geometry) -> Piece:
    assert mesh.faces is not None
    shared = cKDTree(other.points).query(mesh.points)[0] < SAME
    return Piece(mesh.points, mesh.faces, shared[mesh.faces].all(axis=1))


def generated(root: Path | None, config: ShapesConfig, is_vessel: bool, n: int) -> Iterator[Pair]:
    """Pairs of test shapes, one of each, as the data set draws them."""
    cache = ShapeCache(cache_folder(root), config.pieces, is_vessel, config.is_chipped)
    for number in range(n):
        given = cache.get(FIRST["test"] + number)
        a, b = given.fits[int(np.random.default_rng(number).integers(len(given.fits)))]
        sides = []
        for node in (int(a), int(b)):
            chosen = given.bounding(node)
            faces = given.faces[chosen].astype(np.int64)
            sides.append(Piece(given.points.astype(np.float64), faces, given.cut[chosen] != OUTSIDE))
        yield sides[0], sides[1]


def measure(pair: Pair) -> Numbers:
    area = np.array([piece.areas.sum() for piece in pair])
    broken = np.array([piece.areas[piece.is_broken].sum() for piece in pair])
    clouds = [sample_surface(Geometry(p.points, faces=p.faces), 1000, seed=0).points for p in pair]
    whole = np.concatenate(clouds)
    radius = float(np.linalg.norm(whole - whole.mean(0), axis=1).max())
    old = area.sum() - broken.sum()
    bow, rough = _roughness(pair[int(broken.argmax())], radius)
    angles, lengths = (np.concatenate(each) for each in zip(*(crease_angles(p) for p in pair), strict=True))
    order = np.argsort(angles)
    weight = np.cumsum(lengths[order]) if len(order) else np.zeros(0)
    return Numbers(
        smaller=float(area.min() / area.sum()),
        broken=float(broken.sum() / area.sum()),
        thickness=2 * sum(piece.volume for piece in pair) / old / radius if old > 0 else np.nan,
        bow=bow,
        rough=rough,
        crease=float(angles[order][np.searchsorted(weight, weight[-1] / 2)]) if len(order) else np.nan,
        sharp=float(lengths[angles < 120].sum() / lengths.sum()) if len(order) else np.nan,
    )


def _roughness(piece: Piece, radius: float) -> tuple[float, float]:
    """Bow and roughness of a break, on points of it."""
    if not piece.is_broken.any():
        return np.nan, np.nan
    cloud = sample_surface(Geometry(piece.points, faces=piece.faces[piece.is_broken]), SAMPLES, seed=0)
    assert cloud.normals is not None
    centred = cloud.points - cloud.points.mean(0)
    bow = float(np.sqrt(np.linalg.eigvalsh(centred.T @ centred / len(centred))[0]))
    near = cKDTree(cloud.points).query_pairs(1.1 * NEAR * radius, output_type="ndarray")
    far = np.linalg.norm(cloud.points[near[:, 0]] - cloud.points[near[:, 1]], axis=1)
    near = near[far > 0.9 * NEAR * radius]
    cosine = np.einsum("ni,ni->n", cloud.normals[near[:, 0]], cloud.normals[near[:, 1]])
    angle = np.degrees(np.arccos(np.clip(cosine, -1, 1)))
    return bow / radius, float(angle.mean()) if len(angle) else np.nan


def crease_angles(piece: Piece) -> tuple[Float64[np.ndarray, " e"], Float64[np.ndarray, " e"]]:
    """Angles inside the material where break and old surface meet, in degrees, and lengths of these edges."""
    cells = np.round(piece.points / SAME).astype(np.int64)
    same = np.unique(cells, axis=0, return_inverse=True)[1].reshape(-1)
    ends = np.concatenate([piece.faces[:, [0, 1]], piece.faces[:, [1, 2]], piece.faces[:, [2, 0]]])
    face = np.tile(np.arange(len(piece.faces)), 3)
    names, edge = np.unique(np.sort(same[ends], axis=1), axis=0, return_inverse=True)
    edge = edge.reshape(-1)
    order = np.argsort(edge, kind="stable")
    starts = np.searchsorted(edge[order], np.arange(len(names)))
    twice = np.flatnonzero(np.bincount(edge, minlength=len(names)) == 2)
    first, second = order[starts[twice]], order[starts[twice] + 1]
    on = piece.is_broken[face[first]] != piece.is_broken[face[second]]
    first, second = first[on], second[on]
    normals = piece.vectors / np.maximum(piece.areas, 1e-300)[:, None]
    m, n = normals[face[first]], normals[face[second]]
    turn = np.degrees(np.arccos(np.clip(np.einsum("ni,ni->n", m, n), -1, 1)))
    # the third corner of the second face lies below the first face where the edge is convex
    third = piece.points[piece.faces[face[second]]].mean(1) - piece.points[ends[first, 0]]
    is_convex = np.einsum("ni,ni->n", third, m) <= 0
    lengths = np.linalg.norm(piece.points[ends[first, 0]] - piece.points[ends[first, 1]], axis=1)
    return np.where(is_convex, 180 - turn, 180 + turn), lengths


if __name__ == "__main__":
    main()
