"""Swept profiles: horns, hooks, rings and rods with a shaped, tapering, twisting section."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float64

from bitr.data.generated.solids.kernel import Solid
from bitr.data.generated.solids.tubes import ring_section, swept

STEPS = 60


def sweep(rng: np.random.Generator) -> Solid:
    """A section along an arc, a wave or a coil, thinner towards its ends."""
    path = (_arc, _wave, _coil)[int(rng.integers(3))](rng)
    at = np.linspace(0, 1, len(path))
    thick = rng.uniform(0.16, 0.3)
    swell = 1 + rng.uniform(-0.35, 0.35) * np.cos(2 * np.pi * (rng.integers(1, 4) * at + rng.random()))
    taper = 1 - rng.uniform(0, 0.7) * at ** rng.uniform(0.7, 2)
    section = ring_section(rng, 32, plain=0.25, squash=0.55)
    return swept(path, thick * swell * taper, section, rng.uniform(-3, 3))


def _arc(rng: np.random.Generator) -> Float64[np.ndarray, "m 3"]:
    """Part of a circle that leaves its plane."""
    angle = np.linspace(0, rng.uniform(1.0, 5.0), STEPS)
    return np.stack([np.cos(angle), np.sin(angle), rng.uniform(-0.15, 0.15) * angle], axis=1)


def _wave(rng: np.random.Generator) -> Float64[np.ndarray, "m 3"]:
    """A line that swings to two sides."""
    z = np.linspace(-1.3, 1.3, STEPS)
    swing, turn = rng.uniform(0.1, 0.4, 2), rng.uniform(0, 2 * np.pi, 2)
    rate = rng.uniform(1.0, 2.2, 2)
    return np.stack(
        [swing[0] * np.sin(rate[0] * z + turn[0]), swing[1] * np.sin(rate[1] * z + turn[1]), z], axis=1
    )


def _coil(rng: np.random.Generator) -> Float64[np.ndarray, "m 3"]:
    """One to two turns of a screw, far enough apart that they do not touch."""
    turns = rng.uniform(1.0, 1.9)
    angle = np.linspace(0, 2 * np.pi * turns, 2 * STEPS)
    wide = np.linspace(1.0, rng.uniform(0.8, 1.2), len(angle))
    rise = rng.uniform(0.95, 1.2) * angle / (2 * np.pi)
    return np.stack([wide * np.cos(angle), wide * np.sin(angle), rise], axis=1)
