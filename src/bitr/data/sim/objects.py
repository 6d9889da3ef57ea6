"""Mugs, bowls, plates and hangers, in metres with z up: surfaces that are seen, convex pieces that touch."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from pathlib import Path

import numpy as np
from jaxtyping import Float64
from scipy import ndimage
from scipy.spatial import ConvexHull

from bitr.data.poses import Points, Pose, Vector, move_points, pose
from bitr.data.storage import frozen_splits, open_npz
from bitr.errors import InputError
from bitr.io import Geometry, join, sample_surface

SECTORS = 24  # pieces around the axis of a turned body: a chord lies 1% of the radius inside its circle
AROUND = 72  # faces of the seen surface around the axis
SCANS = Path("manipulation") / "gso_tableware_meshes.npz"
"""Tableware of Google Scanned Objects, in metres, standing at z = 0, under "<name>/v" and "<name>/f"."""
CELL = 0.01  # size of a piece of a scan, in metres: larger holes stay open, walls are off by at most 0.5 mm
SAMPLES = 40_000
PIXEL = 0.0015  # of the picture from the side that shows a hole, in metres

Piece = Float64[np.ndarray, "_ 3"]  # corners of a convex piece
Profile = Float64[np.ndarray, "m 2"]  # radii and heights


@dataclass(frozen=True, eq=False)
class Body:
    """An object in its own frame, in metres, with the z axis up as it stands."""

    name: str
    surface: Geometry
    pieces: tuple[Piece, ...]  # convex pieces that together fill the body; holes between them stay open

    @property
    def size(self) -> float:
        """The diagonal of its box."""
        return float(np.linalg.norm(np.ptp(self.surface.points, axis=0)))

    def moved(self, matrix: Pose) -> Body:
        return Body(self.name, self.surface.moved(matrix), tuple(move_points(matrix, p) for p in self.pieces))

    def about_center(self) -> Body:
        """The body with its centre of mass at the origin, as the simulator counts poses."""
        return self.moved(pose(np.eye(3), -center_of_mass(self.pieces)))


def center_of_mass(pieces: tuple[Piece, ...]) -> Vector:
    """Centre of convex pieces of one density; overlaps of pieces count twice."""
    weights = np.array([ConvexHull(piece).volume for piece in pieces])
    # the mean of the corners is close enough to the centre of a wedge or prism
    centers = np.stack([piece.mean(axis=0) for piece in pieces])
    return weights @ centers / weights.sum()


def join_bodies(name: str, *bodies: Body) -> Body:
    """Stick bodies together as they lie."""
    surface = join([body.surface for body in bodies], name)
    return Body(name, surface, tuple(piece for body in bodies for piece in body.pieces))


def revolve(name: str, outer: Profile, inner: Profile, floor: float) -> Body:
    """A vessel between two profiles of the wall, point by point, from a bottom ``floor`` thick to the rim."""
    outer = np.concatenate([[[0.0, 0.0]], outer])
    inner = np.concatenate([[[0.0, floor]], inner])
    outline = np.concatenate([outer, inner[::-1]])
    surface = _surface_through(_rings(outline, np.linspace(0, 2 * np.pi, AROUND, endpoint=False)), name)
    angles = np.linspace(0, 2 * np.pi, SECTORS + 1)
    quads = [np.concatenate([outer[i : i + 2], inner[i : i + 2]]) for i in range(len(outer) - 1)]
    pieces = [_rings(quads[0], angles[:-1]).reshape(-1, 3)]  # at the axis all sectors make one disc
    pieces += [_rings(q, angles[j : j + 2]).reshape(-1, 3) for q in quads[1:] for j in range(SECTORS)]
    return Body(name, surface, tuple(pieces))


def tube(name: str, line: Points, side: Vector, half_widths: tuple[float, float], around: int = 12) -> Body:
    """A bar of elliptic section along a curve, with half widths in its plane and along ``side``."""
    along = np.gradient(line, axis=0)
    along /= np.linalg.norm(along, axis=1, keepdims=True)
    across = np.cross(side, along)
    angles = np.linspace(0, 2 * np.pi, around, endpoint=False)[:, None]
    flat = half_widths[0] * np.cos(angles) * across[:, None] + half_widths[1] * np.sin(angles) * side
    rings = line[:, None] + flat
    ends = line[[0, -1], None].repeat(around, axis=1)
    surface = _surface_through(np.concatenate([ends[:1], rings, ends[1:]]).swapaxes(0, 1), name)
    return Body(name, surface, tuple(np.concatenate([a, b]) for a, b in pairwise(rings)))


def _rings(profile: Profile, angles: Float64[np.ndarray, " a"]) -> Float64[np.ndarray, "a m 3"]:
    """The profile at each of the angles about the z axis."""
    radius, height = profile[:, 0], profile[:, 1]
    x, y = np.cos(angles)[:, None] * radius, np.sin(angles)[:, None] * radius
    return np.stack([x, y, np.broadcast_to(height, x.shape)], axis=-1)


def _surface_through(lines: Float64[np.ndarray, "a m 3"], name: str) -> Geometry:
    """The surface through lines side by side, the last beside the first, without degenerate faces."""
    here = np.arange(lines.shape[0] * lines.shape[1]).reshape(lines.shape[:2])
    following = np.roll(here, -1, axis=0)
    p, q, r, s = here[:, :-1], following[:, :-1], following[:, 1:], here[:, 1:]
    points = lines.reshape(-1, 3)
    faces = np.concatenate([np.stack([p, q, r], axis=-1), np.stack([p, r, s], axis=-1)]).reshape(-1, 3)
    edges = points[faces[:, 1]] - points[faces[:, 0]], points[faces[:, 2]] - points[faces[:, 0]]
    return Geometry(points, faces=faces[np.linalg.norm(np.cross(*edges), axis=1) > 1e-12], name=name)


def random_mug(name: str, rng: np.random.Generator) -> Body:
    """A turned body and a handle towards +x, with a loop for a finger."""
    height, foot, rim = rng.uniform(0.075, 0.115), rng.uniform(0.028, 0.042), rng.uniform(0.034, 0.046)
    belly, wall = rng.uniform(-0.003, 0.006), rng.uniform(0.003, 0.005)
    up = np.linspace(0, 1, 7)
    radius = foot + (rim - foot) * up + belly * np.sin(np.pi * up)
    outer = np.stack([radius, height * up], axis=1)
    inner = np.stack([radius - wall, np.maximum(height * up, 1.2 * wall)], axis=1)
    low, high = height * rng.uniform(0.15, 0.25), height * rng.uniform(0.78, 0.9)
    line = _bow(low, high, rng.uniform(0.032, 0.045), rng.uniform(2.0, 4.0))
    line[:, 0] += np.interp(line[:, 2], height * up, radius) - wall / 2
    thick = rng.uniform(0.003, 0.005), rng.uniform(0.004, 0.008)
    handle = tube(name, line, np.array([0.0, 1.0, 0.0]), thick)
    return join_bodies(name, revolve(name, outer, inner, 1.2 * wall), handle)


def _bow(low: float, high: float, reach: float, power: float) -> Points:
    """Half of a superellipse in the plane y = 0, from ``low`` to ``high`` and out to ``reach``."""
    angle = np.linspace(-np.pi / 2, np.pi / 2, 15)
    cosine, sine = np.cos(angle).clip(0), np.sin(angle)
    x = reach * cosine ** (2 / power)
    z = (low + high) / 2 + (high - low) / 2 * np.sign(sine) * np.abs(sine) ** (2 / power)
    return np.stack([x, np.zeros_like(x), z], axis=1)


def random_bowl(name: str, rng: np.random.Generator) -> Body:
    """A turned bowl on a flat bottom."""
    foot, rim = rng.uniform(0.028, 0.04), rng.uniform(0.055, 0.085)
    height, wall = rim * rng.uniform(0.6, 0.95), rng.uniform(0.003, 0.005)
    angle = np.linspace(0, np.pi / 2, 8)
    curve = rng.uniform(0.7, 1.4)  # of the wall: below 1 it opens early, above 1 late
    radius = foot + (rim - foot) * np.sin(angle) ** curve
    return _vessel(name, np.stack([radius, height * (1 - np.cos(angle))], axis=1), wall, 1.3 * wall)


def random_plate(name: str, rng: np.random.Generator) -> Body:
    """A turned plate: a flat middle, wide enough for any bowl's bottom, and a raised rim."""
    flat, width = rng.uniform(0.055, 0.075), rng.uniform(0.025, 0.05)
    rise, wall = rng.uniform(0.008, 0.025), rng.uniform(0.003, 0.005)
    out = np.linspace(0, 1, 5)
    outer = np.stack([flat + width * out, rise * out ** rng.uniform(0.8, 1.8)], axis=1)
    return _vessel(name, outer, wall, wall)


def _vessel(name: str, outer: Profile, wall: float, floor: float) -> Body:
    """A vessel of even wall with this outer profile."""
    along = np.gradient(outer, axis=0)
    along /= np.linalg.norm(along, axis=1, keepdims=True)
    inner = outer + wall * np.stack([-along[:, 1], along[:, 0]], axis=1)  # to the left of the way up
    inner[:, 1] = np.maximum(inner[:, 1], floor)
    inner[0] = outer[0, 0] - 0.3 * wall, floor
    return revolve(name, outer, inner, floor)


@dataclass(frozen=True, eq=False)
class Peg:
    """The middle line of a peg, from the post to its tip."""

    base: Vector
    tip: Vector
    radius: float

    @property
    def direction(self) -> Vector:
        along = self.tip - self.base
        return along / np.linalg.norm(along)

    def moved(self, matrix: Pose) -> Peg:
        turn, shift = matrix[:3, :3], matrix[:3, 3]
        return Peg(turn @ self.base + shift, turn @ self.tip + shift, self.radius)


def random_hanger(name: str, rng: np.random.Generator) -> tuple[Body, tuple[Peg, ...]]:
    """A stand on z = 0 with the post on the z axis; the highest peg, the one to use, comes first."""
    post, height = rng.uniform(0.006, 0.011), rng.uniform(0.26, 0.36)
    foot, thickness = rng.uniform(0.06, 0.1), rng.uniform(0.008, 0.018)
    first = _random_peg(0.0, height - rng.uniform(0.02, 0.06), post, rng)
    pegs = [first]
    if rng.random() < 1 / 3:  # a second one to ignore, lower and on the other side
        away = np.pi + rng.uniform(-0.5, 0.5)
        pegs.append(_random_peg(away, first.base[2] - rng.uniform(0.04, 0.08), post, rng))
    bars = [
        _bar(name, np.zeros(3), np.array([0, 0, thickness]), foot, around=32),
        _bar(name, np.zeros(3), np.array([0, 0, height]), post),
        *(_bar(name, peg.base, peg.tip, peg.radius) for peg in pegs),
    ]
    return join_bodies(name, *bars), tuple(pegs)


def _random_peg(azimuth: float, height: float, post: float, rng: np.random.Generator) -> Peg:
    """A peg from the middle of the post, rising by 15° to 35°."""
    tilt, length = np.deg2rad(rng.uniform(15, 35)), post + rng.uniform(0.09, 0.12)
    out = np.array([np.cos(azimuth) * np.cos(tilt), np.sin(azimuth) * np.cos(tilt), np.sin(tilt)])
    base = np.array([0.0, 0.0, height])
    return Peg(base, base + length * out, rng.uniform(0.0035, 0.0055))


def _bar(name: str, start: Vector, end: Vector, radius: float, around: int = 16) -> Body:
    """A round bar from one point to another."""
    side = np.cross(end - start, (1.0, 0.0, 0.0) if abs((end - start)[0]) < 1e-9 else (0.0, 1.0, 0.0))
    return tube(name, np.stack([start, end]), side / np.linalg.norm(side), (radius, radius), around)


@dataclass(frozen=True, eq=False)
class Hole:
    """A hole for a peg, in the frame of its body. Centre and radius are those of the widest bar that fits."""

    center: Vector
    axis: Vector
    radius: float
    reach: float  # distance from the centre to the farthest point of the hole
    pixels: int


def find_hole(body: Body, directions: int = 18) -> Hole | None:
    """Find the largest hole seen from a side; (axis × up) points from the body to the handle."""
    points = sample_surface(body.surface, 60_000, seed=0).points
    angles = np.linspace(0, np.pi, directions, endpoint=False)
    found = (_hole_along(points, np.array([np.cos(angle), np.sin(angle), 0.0])) for angle in angles)
    return max((hole for hole in found if hole is not None), key=lambda hole: hole.pixels, default=None)


def _hole_along(points: Points, out: Vector) -> Hole | None:
    """The largest hole in the picture of (out, up)."""
    up = np.array([0.0, 0.0, 1.0])
    flat = np.stack([points @ out, points @ up], axis=1)
    low = flat.min(axis=0) - 2 * PIXEL
    cells = np.floor((flat - low) / PIXEL).astype(np.int64)
    filled = np.zeros(cells.max(axis=0) + 3, dtype=bool)
    filled[cells[:, 0], cells[:, 1]] = True
    regions, count = ndimage.label(ndimage.binary_fill_holes(filled) & ~filled)
    if not count:
        return None
    sizes = np.bincount(regions.ravel())
    sizes[0] = 0
    region = regions == sizes.argmax()
    depth = ndimage.distance_transform_edt(region)
    middle = np.array(np.unravel_index(depth.argmax(), depth.shape))
    center = low + (middle + 0.5) * PIXEL
    if center[0] < flat[:, 0].mean():  # the handle is on the other side: mirror the picture
        out, center, flat = -out, center * (-1, 1), flat * (-1, 1)
    reach = float(np.linalg.norm(np.argwhere(region) - middle, axis=1).max() * PIXEL)
    axis = np.cross(up, out)
    sideways = float(np.mean((points @ axis)[flat[:, 0] > center[0]]))  # place of the handle along the axis
    radius = float(depth.max() - 0.5) * PIXEL  # to the edge of the nearest filled pixel, not to its middle
    place = center[0] * out + center[1] * up + sideways * axis
    return Hole(place, axis, radius, reach, int(sizes.max()))


def has_scans(root: Path | None) -> bool:
    return root is not None and (root / SCANS).is_file()


def scanned_body(kind: str, split: str, choice: int, root: Path | None) -> Body:
    """One of the split's objects of this kind; ``choice`` wraps around."""
    homes = frozen_splits("tableware").items()
    names = [id for id, home in homes if home == split and id.startswith(f"{kind}/")]
    return load_scan(names[choice % len(names)].partition("/")[2], root)


@lru_cache(maxsize=8)
def load_scan(name: str, root: Path | None) -> Body:
    """A scanned object by name."""
    if root is None or not has_scans(root):
        raise InputError(f"{name}: needs the file {SCANS} of the folder of data; name it with BITR_DATA")
    with open_npz(root / SCANS, f"{name}/v", f"{name}/f") as file:
        points, faces = file[f"{name}/v"].astype(np.float64), file[f"{name}/f"].astype(np.int64)
    surface = Geometry(points, faces=faces, name=name)
    return Body(name, surface, convex_pieces(surface))


def convex_pieces(surface: Geometry) -> tuple[Piece, ...]:
    """The skin of a mesh in convex pieces: one for the points of the surface in each cell of a grid."""
    sample = sample_surface(surface, SAMPLES, seed=0)
    assert sample.normals is not None
    # neighbouring pieces overlap by 1 mm, so that nothing gets caught between them
    shifts = 0.001 * np.array(np.meshgrid(*[(-1, 1)] * 3)).reshape(3, -1).T
    cells = np.floor((sample.points[None] + shifts[:, None]) / CELL).astype(np.int64)
    cells -= cells.min(axis=(0, 1))
    numbers = np.ravel_multi_index(tuple(np.moveaxis(cells, 2, 0)), tuple(cells.max(axis=(0, 1)) + 1))
    pairs = np.unique(numbers * SAMPLES + np.arange(SAMPLES))  # a point and a cell, each once
    groups = np.split(pairs % SAMPLES, np.flatnonzero(np.diff(pairs // SAMPLES)) + 1)
    below = sample.points - 0.001 * sample.normals  # so that a flat face has a volume
    # a handful of points is a corner that neighbours cover
    clouds = (np.concatenate([sample.points[g], below[g]]) for g in groups if len(g) >= 8)
    return tuple(cloud[ConvexHull(cloud).vertices] for cloud in clouds)
