"""What a body looks like: points from depth images, or from its whole surface."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float64

from bitr.data.sim.bodies import Body
from bitr.data.sim.world import World, open_world
from bitr.data.transforms import sample_by_area, sample_grid, sample_uniform
from bitr.io import Geometry


@runtime_checkable
class Sensor(Protocol):
    """How bodies become point clouds."""

    @property
    def name(self) -> str:
        """Short, and different for different settings: clouds are stored under it."""
        ...

    def see(self, body: Body, elevations: tuple[float, ...], rng: np.random.Generator) -> Geometry:
        """The body as it lies in the world, from views at these elevations (degrees) all around."""
        ...


@dataclass(frozen=True)
class Cameras:
    """Depth cameras around the body; what no camera sees is missing, as from a robot's cameras."""

    points: int = 1024
    pixels: int = 160
    """Of each image, along each side."""

    @property
    def name(self) -> str:
        return f"cameras-{self.points}-{self.pixels}"

    def see(self, body: Body, elevations: tuple[float, ...], rng: np.random.Generator) -> Geometry:
        with open_world() as world:
            number = add_visible(world, body)
            middle = (body.surface.points.max(axis=0) + body.surface.points.min(axis=0)) / 2
            first = rng.uniform(0, 360)
            views = [
                depth_view(
                    world,
                    number,
                    middle,
                    body.size,
                    elevation,
                    first + 360 * i / len(elevations),
                    self.pixels,
                )
                for i, elevation in enumerate(elevations)
            ]
        # views overlap, and what faces a camera is seen densely: one point a cube evens that out
        even = sample_grid(Geometry(np.concatenate(views), name=body.name), body.size / 100, pick="first")
        return sample_uniform(even, min(self.points, len(even.points)), rng)


@dataclass(frozen=True)
class Surface:
    """Points of the whole surface, uniform by area, with normals: also of what no camera can see."""

    points: int = 1024

    @property
    def name(self) -> str:
        return f"surface-{self.points}"

    def see(self, body: Body, elevations: tuple[float, ...], rng: np.random.Generator) -> Geometry:
        return sample_by_area(body.surface, self.points, rng)


def add_visible(world: World, body: Body) -> int:
    """The surface of a body as it lies, for pictures only."""
    p, client, surface = world.engine, world.client, body.surface
    assert surface.faces is not None
    shape = p.createVisualShape(
        p.GEOM_MESH,
        vertices=surface.points.tolist(),
        indices=surface.faces.ravel().tolist(),
        physicsClientId=client,
    )
    return int(p.createMultiBody(0.0, -1, shape, physicsClientId=client))


def depth_view(
    world: World,
    number: int,
    middle: Float64[np.ndarray, " 3"],
    size: float,
    elevation: float,
    azimuth: float,
    pixels: int,
) -> Float64[np.ndarray, "n 3"]:
    """The points of one body that a depth image shows, in the world; angles in degrees."""
    p, client = world.engine, world.client
    a, e = np.deg2rad(azimuth), np.deg2rad(elevation)
    back = np.array([np.cos(a) * np.cos(e), np.sin(a) * np.cos(e), np.sin(e)])
    view = p.computeViewMatrix((middle + 2 * size * back).tolist(), middle.tolist(), [0, 0, 1])
    projection = p.computeProjectionMatrixFOV(30, 1, size, 3 * size)  # 2 sizes away, 1.07 sizes wide
    image = p.getCameraImage(
        pixels, pixels, view, projection, renderer=p.ER_TINY_RENDERER, physicsClientId=client
    )
    depth, seen = np.asarray(image[3], np.float64), np.asarray(image[4]) == number
    row, column = np.nonzero(seen)
    # TinyRenderer looks through the lower left corner of each pixel; its cube goes from -1 to 1
    cube = np.stack(
        [2 * column / pixels - 1, 1 - 2 * (row + 1) / pixels, 2 * depth[seen] - 1, np.ones(len(row))]
    )
    both = np.reshape(projection, (4, 4)).T @ np.reshape(view, (4, 4)).T
    points = np.linalg.solve(both, cube)
    return np.ascontiguousarray((points[:3] / points[3]).T)
