"""Thin-walled vessels: turned profiles with handles and spouts, whose wall is 2 to 10% of the radius."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float64
from scipy.interpolate import PchipInterpolator

from bitr.data.generated.kernel import (
    Fractal,
    Solid,
    largest_part,
    random_section,
    revolve,
    sweep_section,
    union,
    vertices_of,
    with_vertices,
)

AROUND, LEVELS = 48, 30
"""Corners around a vessel, and rings from its foot to its rim."""
WALL = (0.02, 0.10)
"""Range of the thickness of the wall, in largest radii."""
STRETCH = 0.15
"""Largest stretch or squeeze by which a vessel differs from a turned one, so that its wall stays as thin."""
NARROWEST = 0.03
"""Least radius of a hollow."""

Range = tuple[float, float]
PROFILES: dict[str, tuple[tuple[Range, ...], Range]] = {
    "bottle": (((0.7, 1.0), (0.85, 1.0), (0.85, 1.0), (0.25, 0.6), (0.2, 0.35), (0.22, 0.38)), (3.0, 5.0)),
    "jar": (((0.5, 0.8), (0.8, 1.0), (0.8, 1.0), (0.5, 0.8), (0.5, 0.85)), (1.6, 3.0)),
    "vase": (((0.35, 0.7), (0.6, 1.0), (0.6, 1.0), (0.3, 0.6), (0.4, 0.9)), (2.2, 4.0)),
    "bowl": (((0.3, 0.5), (0.6, 0.85), (0.8, 0.95), (0.95, 1.0)), (0.6, 1.2)),
    "cup": (((0.6, 0.9), (0.8, 1.0), (0.8, 1.0), (0.8, 1.0)), (1.4, 2.4)),
    "dish": (((0.5, 0.7), (0.75, 0.9), (0.95, 1.0)), (0.25, 0.5)),
}
"""Kinds of vessels: ranges of the radius at equal steps from foot to rim, and of the height."""
HANDLES = {"jar": (0.5, 0.25, 0.25), "vase": (0.6, 0.2, 0.2), "cup": (0.2, 0.7, 0.1)}
"""Probabilities of none, one and two; other kinds have none."""
SPOUTS = {"jar": 0.35, "cup": 0.15, "vase": 0.15}
"""Probability of a beak or a tube to pour from."""


def thin_vessel(rng: np.random.Generator) -> Solid:
    """A vessel that fits the unit ball around the mean of its corners, nearly turned but not quite."""
    plain = largest_part(_vessel(rng))
    points = vertices_of(plain)
    points = (points - points.mean(0)) / np.linalg.norm(points - points.mean(0), axis=1).max()
    field = Fractal.random(rng, 3, 3, rng.uniform(1.5, 3.0), 1, 0.5)
    points = points + field.times(rng.uniform(0.2, 1.0) * STRETCH / field.slope(points))(points)
    points -= points.mean(0)
    return with_vertices(plain, points / np.linalg.norm(points, axis=1).max())


def _vessel(rng: np.random.Generator) -> Solid:
    """The outside with handles and spout, less the hollow."""
    kind = str(rng.choice(list(PROFILES)))
    radii, heights = PROFILES[kind]
    height, up = rng.uniform(*heights), np.linspace(0, 1, LEVELS)
    profile = PchipInterpolator(np.linspace(0, 1, len(radii)), [rng.uniform(*limits) for limits in radii])
    wall = rng.uniform(*WALL) * profile(up).max()
    pours = rng.random() < SPOUTS.get(kind, 0.0)
    is_beak = pours and rng.random() < 0.5
    section = random_section(rng, AROUND, plain=0.75, squash=0.2)
    if is_beak:
        toward = (1 - section[:, 0] / np.linalg.norm(section, axis=1)) / 2
        section = section * (1 + rng.uniform(0.15, 0.4) * toward**10)[:, None]
    added = [revolve(profile(up), height * up, section)]
    removed = [_hollow(profile, height, wall, wall * rng.uniform(1.0, 2.0), section)]
    for number in range(int(rng.choice(3, p=HANDLES.get(kind, (1.0, 0.0, 0.0))))):
        added.append(_handle(rng, profile, height, np.pi * number + np.pi / 2 * pours))
    if pours and not is_beak:
        outside, bore = _tube(rng, profile, height, wall)
        added.append(outside)
        removed.append(bore)
    return union(added) - union(removed)


def _hollow(
    profile: PchipInterpolator, height: float, wall: float, floor: float, section: Float64[np.ndarray, "s 2"]
) -> Solid:
    """The inside, which goes on above the rim; the wall is measured across, not along the radius."""
    at = floor / height + (1.15 - floor / height) * np.linspace(0, 1, LEVELS)
    inside = np.minimum(at, 1.0)
    lean = np.abs(profile.derivative()(inside)) / height
    across = wall * np.minimum(np.sqrt(1 + lean**2), 2.5)
    return revolve(np.maximum(profile(inside) - across, NARROWEST), height * at, section)


def _handle(rng: np.random.Generator, profile: PchipInterpolator, height: float, turn: float) -> Solid:
    """A bow from low to high on the body; what reaches into the hollow is taken away with it."""
    low, high = rng.uniform(0.15, 0.4), rng.uniform(0.65, 0.9)
    along = np.linspace(0, np.pi, 28)
    up = low + (high - low) * (1 - np.cos(along)) / 2
    out = profile(up) - 0.05 + rng.uniform(0.3, 0.6) * np.sin(along) ** rng.uniform(0.5, 1.0)
    path = np.stack([out * np.cos(turn), out * np.sin(turn), height * up], axis=1)
    section = random_section(rng, 16, plain=0.7, squash=0.5)
    return sweep_section(path, np.full(len(path), rng.uniform(0.07, 0.13)), section)


def _tube(
    rng: np.random.Generator, profile: PchipInterpolator, height: float, wall: float
) -> tuple[Solid, Solid]:
    """A tube from the body outwards and up towards −x, and its bore, which goes on at either end."""
    start = rng.uniform(0.35, 0.6)
    foot = np.array([-0.6 * float(profile(start)), 0.0, start * height])
    out, rise = rng.uniform(0.4, 0.8), rng.uniform(0.2, 0.4)
    tip = np.array([-float(profile(start)) - out, 0.0, (start + rise) * height])
    at = np.linspace(0, 1, 12)[:, None]
    wide = np.linspace(1.0, 0.6, 12) * rng.uniform(0.18, 0.28)
    ring = random_section(rng, 24, plain=1.0)
    bore = np.maximum(wide - wall, 0.4 * wide)
    longer = foot + (1.2 * at - 0.1) * (tip - foot)
    return sweep_section(foot + at * (tip - foot), wide, ring), sweep_section(longer, bore, ring)
