"""Random mugs, bowls and plates, no two alike, standing on z = 0."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float64

from bitr.data.sim.bodies import Body, joined
from bitr.data.sim.turned import tube, turned


def random_mug(name: str, rng: np.random.Generator) -> Body:
    """A turned body and a handle towards +x, with a loop that a finger goes through."""
    height, foot, rim = rng.uniform(0.075, 0.115), rng.uniform(0.028, 0.042), rng.uniform(0.034, 0.046)
    belly, wall = rng.uniform(-0.003, 0.006), rng.uniform(0.003, 0.005)
    bands = 7
    up = np.linspace(0, 1, bands)
    radius = foot + (rim - foot) * up + belly * np.sin(np.pi * up)
    outer = np.stack([radius, height * up], axis=1)
    inner = np.stack([radius - wall, np.maximum(height * up, 1.2 * wall)], axis=1)
    axis = np.array([[0.0, 0.0]]), np.array([[0.0, 1.2 * wall]])
    body = turned(name, np.concatenate([axis[0], outer]), np.concatenate([axis[1], inner]))

    low, high = height * rng.uniform(0.15, 0.25), height * rng.uniform(0.78, 0.9)
    line = _bow(low, high, rng.uniform(0.032, 0.045), rng.uniform(2.0, 4.0))
    line[:, 0] += np.interp(line[:, 2], height * up, radius) - wall / 2
    handle = tube(
        name, line, np.array([0.0, 1.0, 0.0]), (rng.uniform(0.003, 0.005), rng.uniform(0.004, 0.008))
    )
    return joined(name, body, handle)


def random_bowl(name: str, rng: np.random.Generator) -> Body:
    """A turned bowl on a flat bottom."""
    foot, rim = rng.uniform(0.028, 0.04), rng.uniform(0.055, 0.085)
    height, wall = rim * rng.uniform(0.6, 0.95), rng.uniform(0.003, 0.005)
    angle = np.linspace(0, np.pi / 2, 8)
    curve = rng.uniform(0.7, 1.4)  # of the wall: below 1 it opens early, above 1 late
    radius = foot + (rim - foot) * np.sin(angle) ** curve
    up = height * (1 - np.cos(angle))
    return _vessel(name, radius, up, wall, floor=1.3 * wall)


def random_plate(name: str, rng: np.random.Generator) -> Body:
    """A turned plate: a flat middle, wide enough for any bowl's bottom, and a raised rim."""
    flat, width = rng.uniform(0.055, 0.075), rng.uniform(0.025, 0.05)
    rise, wall = rng.uniform(0.008, 0.025), rng.uniform(0.003, 0.005)
    out = np.linspace(0, 1, 5)
    return _vessel(name, flat + width * out, rise * out ** rng.uniform(0.8, 1.8), wall, floor=wall)


def _vessel(
    name: str, radius: Float64[np.ndarray, " m"], up: Float64[np.ndarray, " m"], wall: float, floor: float
) -> Body:
    """A vessel of even wall whose outside has these radii at these heights."""
    outer = np.stack([radius, up], axis=1)
    along = np.gradient(outer, axis=0)
    along /= np.linalg.norm(along, axis=1, keepdims=True)
    inner = outer + wall * np.stack([-along[:, 1], along[:, 0]], axis=1)  # to the left of the way up
    inner[:, 1] = np.maximum(inner[:, 1], floor)
    inner[0] = radius[0] - 0.3 * wall, floor
    return turned(name, np.concatenate([[[0.0, 0.0]], outer]), np.concatenate([[[0.0, floor]], inner]))


def _bow(low: float, high: float, reach: float, power: float) -> Float64[np.ndarray, "m 3"]:
    """A curve in the plane y = 0 from height ``low`` to ``high`` that goes out to x = ``reach`` between them.

    Half of a superellipse: round for power 2, nearly square for 4.
    """
    angle = np.linspace(-np.pi / 2, np.pi / 2, 15)
    cosine, sine = np.cos(angle).clip(0), np.sin(angle)
    x = reach * cosine ** (2 / power)
    z = (low + high) / 2 + (high - low) / 2 * np.sign(sine) * np.abs(sine) ** (2 / power)
    return np.stack([x, np.zeros_like(x), z], axis=1)
