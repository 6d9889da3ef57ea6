"""Vessels: turned bodies with a wall, some with handles, a spout or a foot."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64
from scipy.interpolate import PchipInterpolator

from bitr.data.generated.solids.kernel import Solid, union
from bitr.data.generated.solids.tubes import ring_section, swept, turned

AROUND = 48
"""Corners around a body."""
LEVELS = 26
"""Rings from the foot to the rim."""

Range = tuple[float, float]


@dataclass(frozen=True)
class Style:
    """A kind of vessel: what its radius may be at equal steps from foot to rim, and how tall it is."""

    radii: tuple[Range, ...]
    height: Range
    floor: Range = (0.05, 0.12)
    """Where the hollow begins, as a share of the height."""
    handles: tuple[float, float, float] = (1.0, 0.0, 0.0)
    """The chances of none, one and two."""
    spout: float = 0.0
    wall: Range = (0.045, 0.09)
    """Thickness, measured away from the axis."""


STYLES = {
    "vase": Style(
        ((0.3, 0.5), (0.5, 0.9), (0.5, 0.9), (0.25, 0.5), (0.3, 0.6)), (1.6, 2.4), handles=(0.6, 0.2, 0.2)
    ),
    "bottle": Style(
        ((0.36, 0.5), (0.4, 0.6), (0.4, 0.6), (0.14, 0.3), (0.13, 0.2), (0.14, 0.22)), (1.8, 2.8)
    ),
    "bowl": Style(((0.3, 0.5), (0.6, 0.85), (0.8, 1.0), (0.85, 1.1)), (0.5, 1.0), handles=(0.8, 0.1, 0.1)),
    "cup": Style(((0.35, 0.5), (0.45, 0.6), (0.45, 0.6), (0.45, 0.65)), (0.8, 1.4), handles=(0.1, 0.8, 0.1)),
    "jug": Style(
        ((0.35, 0.55), (0.6, 0.85), (0.6, 0.9), (0.3, 0.5), (0.35, 0.55)),
        (1.5, 2.2),
        handles=(0.0, 1.0, 0.0),
        spout=1.0,
    ),
    "goblet": Style(
        ((0.4, 0.55), (0.08, 0.12), (0.1, 0.16), (0.4, 0.6), (0.35, 0.6)), (1.4, 2.0), floor=(0.5, 0.6)
    ),
    "plate": Style(((0.5, 0.7), (0.8, 0.95), (1.0, 1.2)), (0.2, 0.4), floor=(0.3, 0.4), wall=(0.12, 0.2)),
    "turned": Style(tuple(((0.15, 0.6),) * 7), (1.6, 2.6), floor=(2.0, 2.0), handles=(0.7, 0.2, 0.1)),
}
"""The last has no hollow: a pawn, a baluster, a top."""


def vessel(rng: np.random.Generator) -> Solid:
    """A vessel of a random kind: the outside with its handles, less the hollow."""
    style = STYLES[str(rng.choice(list(STYLES)))]
    section = ring_section(rng, AROUND, plain=0.6, squash=0.3)
    height = rng.uniform(*style.height)
    steps = np.linspace(0, 1, len(style.radii))
    profile = PchipInterpolator(steps, [rng.uniform(*limits) for limits in style.radii])
    up = np.linspace(0, 1, LEVELS)
    radius = profile(up)
    if rng.random() < style.spout:
        section = _pulled(section, rng.uniform(0.3, 0.6))
    outside = turned(radius, height * up, section)
    count = int(rng.choice(3, p=style.handles))
    parts = [outside, *(_handle(rng, profile, height, np.pi * i) for i in range(count))]
    floor = rng.uniform(*style.floor)
    if floor >= 1:
        return union(parts)
    wall = rng.uniform(*style.wall)
    inside = floor + (1.2 - floor) * up  # goes on above the rim
    hollow = np.maximum(profile(np.minimum(inside, 1.0)) - wall, 0.03)
    return union(parts) - turned(hollow, height * inside, section)


def _pulled(section: Float64[np.ndarray, "s 2"], much: float) -> Float64[np.ndarray, "s 2"]:
    """The section with a beak towards −x."""
    toward = (1 - section[:, 0] / np.linalg.norm(section, axis=1)) / 2
    return section * (1 + much * toward**8)[:, None]


def _handle(rng: np.random.Generator, profile: PchipInterpolator, height: float, turn: float) -> Solid:
    """A bow from low to high on the body, its ends inside the wall."""
    low, high = rng.uniform(0.15, 0.4), rng.uniform(0.65, 0.92)
    along = np.linspace(0, np.pi, 24)
    up = low + (high - low) * (1 - np.cos(along)) / 2
    out = profile(up) - 0.03 + rng.uniform(0.3, 0.6) * np.sin(along) ** rng.uniform(0.5, 1.0)
    path = np.stack([out * np.cos(turn), out * np.sin(turn), height * up], axis=1)
    section = ring_section(rng, 14, plain=0.7, squash=0.5)
    return swept(path, np.full(len(path), rng.uniform(0.06, 0.1)), section)
