"""Tools of all families of solids: closed surfaces, rings, level sets, fractal fields; by manifold3d."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib import import_module
from typing import Any

import numpy as np
from jaxtyping import Float64, Int64

from bitr.data.poses import Points, Vector, random_pose
from bitr.errors import InputError

Solid = Any
"""A ``manifold3d.Manifold``, closed and without boundary; a + b is the union, a - b the difference."""
Field = Callable[[np.ndarray], np.ndarray]  # (n, 3) points → (n,) signed distances, positive inside
Faces = Int64[np.ndarray, "f 3"]
Grid = Int64[np.ndarray, "_ _"]
Section = Float64[np.ndarray, "s 2"]  # a closed curve in the plane

CELL = 0.11  # cell of the grid on which fields are evaluated, and length of the edges of the faces
REACH = 1.45  # half the width of the grid; fields must be outside, below 0, at its border
WAVES = 7  # plane waves in an octave of a fractal field: enough that no direction stands out


def kernel() -> Any:
    """The module manifold3d; only making solids needs it, not sampling stored ones."""
    try:
        return import_module("manifold3d")
    except ImportError as error:
        need = 'making shapes needs manifold3d, which is not installed: pip install -e ".[data]"'
        raise InputError(need) from error


def solid(vertices: Points, faces: Faces) -> Solid:
    """The solid inside a closed surface whose faces turn counter-clockwise, seen from outside."""
    module = kernel()
    corners = np.ascontiguousarray(faces.astype(np.uint64))
    made = module.Manifold(module.Mesh64(np.ascontiguousarray(vertices), corners))
    if made.status() != module.Error.NoError or made.volume() <= 0:
        raise ValueError(f"{len(faces)} faces bound no solid: {made.status()}, volume {made.volume():.3g}")
    return made


def solid_of_mesh(vertices: Points, faces: Faces, least: float) -> Solid | None:
    """The solid of a mesh, its shells united, if a share ``least`` of its volume is connected; else None."""
    for oriented in (faces, faces[:, ::-1]):
        try:
            whole = union(solid(vertices, oriented).decompose())
        except ValueError:
            continue
        main = largest_part(whole)
        return main if main.volume() >= least * whole.volume() else None
    return None


def vertices_of(given: Solid) -> Points:
    """The corners of the surface."""
    return np.array(given.to_mesh64().vert_properties[:, :3])


def with_vertices(given: Solid, vertices: Points) -> Solid:
    """The same faces with other corners, one for each of ``vertices_of``."""
    return solid(vertices, given.to_mesh64().tri_verts.astype(np.int64))


def largest_part(given: Solid) -> Solid:
    """The connected part with most volume."""
    return max(given.decompose(), key=lambda part: part.volume())


def union(parts: list[Solid]) -> Solid:
    """All that lies in any of the parts."""
    module = kernel()
    return module.Manifold.batch_boolean(parts, module.OpType.Add)


def random_direction(rng: np.random.Generator) -> Vector:
    """Uniform on the sphere."""
    v = rng.normal(size=3)
    return v / np.linalg.norm(v)


def random_rotation(rng: np.random.Generator) -> Float64[np.ndarray, "3 3"]:
    """Uniform over all rotations."""
    return random_pose(rng, 0.0)[:3, :3]


def frame_about(axis: Vector, rng: np.random.Generator) -> Float64[np.ndarray, "3 3"]:
    """A rotation that takes z to the axis, turned about it at random: its columns are x, y and z."""
    z = axis / np.linalg.norm(axis)
    x = np.cross(random_direction(rng), z)
    x /= np.linalg.norm(x)
    return np.stack([x, np.cross(z, x), z], axis=1)


def from_rings(rings: Float64[np.ndarray, "m s 3"]) -> Solid:
    """The solid through m rings, closed at both ends; rings turn counter-clockwise, seen from the next."""
    m, s, _ = rings.shape
    at = np.arange(m * s).reshape(m, s)
    following = np.roll(at, -1, axis=1)
    first, last = np.full(s, m * s), np.full(s, m * s + 1)  # the middles of both ends
    faces = [
        two_triangles(at[:-1], following[:-1], following[1:], at[1:]),
        np.stack([first, following[0], at[0]], -1),
        np.stack([last, at[-1], following[-1]], -1),
    ]
    ends = np.stack([rings[0].mean(0), rings[-1].mean(0)])
    return solid(np.concatenate([rings.reshape(-1, 3), ends]), np.concatenate(faces))


def two_triangles(a: Grid, b: Grid, c: Grid, d: Grid) -> Faces:
    """The faces of quadrangles, given by their corners in turn."""
    return np.concatenate([np.stack([a, b, c], -1), np.stack([a, c, d], -1)]).reshape(-1, 3)


def revolve(radius: Float64[np.ndarray, " m"], height: Float64[np.ndarray, " m"], section: Section) -> Solid:
    """A body around the z axis: the section, scaled by the radius, at each height."""
    flat = radius[:, None, None] * section
    up = np.broadcast_to(height[:, None, None], (*flat.shape[:2], 1))
    return from_rings(np.concatenate([flat, up], axis=-1))


def sweep_section(
    path: Points, radius: Float64[np.ndarray, " n"], section: Section, twist: float = 0.0
) -> Solid:
    """A tube along a path: the section across it, scaled, and turned by up to ``twist`` radians."""
    along = np.gradient(path, axis=0)
    along /= np.linalg.norm(along, axis=1, keepdims=True)
    across = np.empty_like(path)
    across[0] = np.cross(along[0], np.eye(3)[np.abs(along[0]).argmin()])
    for i in range(1, len(path)):  # carried along without turning about the path
        across[i] = across[i - 1] - (across[i - 1] @ along[i]) * along[i]
    across /= np.linalg.norm(across, axis=1, keepdims=True)
    third = np.cross(along, across)
    angle, (x, y) = np.linspace(0, twist, len(path))[:, None], section.T
    u, v = x * np.cos(angle) - y * np.sin(angle), x * np.sin(angle) + y * np.cos(angle)
    flat = u[..., None] * across[:, None] + v[..., None] * third[:, None]
    return from_rings(path[:, None] + radius[:, None, None] * flat)


def random_section(rng: np.random.Generator, points: int, *, plain: float, squash: float = 0.0) -> Section:
    """A closed curve of size about 1: round with probability ``plain``, else lobed or a rounded polygon."""
    angle = 2 * np.pi * np.arange(points) / points
    radius = np.ones(points)
    if rng.random() > plain:
        corners = int(rng.integers(3, 9))
        turn = rng.uniform(0, 2 * np.pi)
        if rng.random() < 0.5:
            radius += rng.uniform(0.05, 0.6 / corners) * np.cos(corners * angle + turn)
        else:
            within = (angle + turn) % (2 * np.pi / corners) - np.pi / corners
            radius = (np.cos(np.pi / corners) / np.cos(within)) ** rng.uniform(0.5, 1.0)
    width = 1 - squash * rng.random()
    return np.stack([radius * np.cos(angle), width * radius * np.sin(angle)], -1)


def level_set(field: Field) -> Solid:
    """The solid on which a field is positive."""
    grid = _grid()
    outside = np.abs(grid).max(axis=1) > REACH - CELL
    values = iter(np.where(outside, -1.0, field(grid)).tolist())
    made = kernel().Manifold.level_set(lambda *_: next(values), [-REACH] * 3 + [REACH] * 3, CELL)
    if next(values, None) is not None:
        raise RuntimeError("manifold3d asked for other points than on its first visit of the grid")
    return made


@lru_cache(maxsize=1)
def _grid() -> Points:
    """The points that ``Manifold.level_set`` visits, in its order: evaluated all at once, not one by one."""
    points: list[tuple[float, ...]] = []

    def visit(*point: float) -> float:
        points.append(point)
        return -1.0

    kernel().Manifold.level_set(visit, [-REACH] * 3 + [REACH] * 3, CELL)
    return np.array(points)


@dataclass(frozen=True, eq=False)
class Fractal:
    """A smooth field x ↦ Σ gain · cos(wave·x + phase); wave lengths halve from octave to octave."""

    wave: Float64[np.ndarray, "w d"]
    phase: Float64[np.ndarray, " w"]
    gain: Float64[np.ndarray, "w c"]

    @classmethod
    def random(
        cls, rng: np.random.Generator, d: int, c: int, longest: float, octaves: int, roughness: float
    ) -> Fractal:
        """Wave lengths ``longest``, /2, /4, …; amplitudes length^(1.5 − roughness): 0 smooth, 1 jagged."""
        direction = rng.normal(size=(octaves, WAVES, d))
        direction /= np.linalg.norm(direction, axis=-1, keepdims=True)
        length = longest * 0.5 ** np.arange(octaves)[:, None] * rng.uniform(0.75, 1.3, (octaves, WAVES))
        gain = rng.normal(size=(octaves, WAVES, c)) * (length ** (1.5 - roughness))[..., None]
        phase = rng.uniform(0, 2 * np.pi, octaves * WAVES)
        wave = (2 * np.pi / length[..., None] * direction).reshape(-1, d)
        return cls(wave, phase, gain.reshape(-1, c))

    def __call__(self, points: Float64[np.ndarray, "n d"]) -> Float64[np.ndarray, "n c"]:
        return np.cos(points @ self.wave.T + self.phase) @ self.gain

    def slope(self, points: Float64[np.ndarray, "n d"]) -> float:
        """The largest stretch of the field at the points: the greatest singular value of its derivative."""
        rate = -np.sin(points @ self.wave.T + self.phase)
        return float(np.linalg.norm(np.einsum("nw,wc,wd->ncd", rate, self.gain, self.wave), 2, (1, 2)).max())

    def times(self, factor: float) -> Fractal:
        return replace(self, gain=self.gain * factor)
