"""Vessels: turned profiles with a wall, handles and spouts. Thin-walled ones have a wall of 2 to 10%."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.interpolate import PchipInterpolator

from bitr.data.generated import kernel
from bitr.data.generated.kernel import Section, Solid, random_section, revolve, sweep_section, union
from bitr.settings import from_mapping, read_toml

AROUND, LEVELS, THIN_LEVELS = 48, 26, 30  # corners around a vessel, and rings from its foot to its rim
NARROWEST = 0.03  # least radius of a hollow

Range = tuple[float, float]
Rng = np.random.Generator


@dataclass(frozen=True)
class Style:
    """A kind of vessel, as ``vessels.toml`` and ``thin_vessels.toml`` describe it."""

    radii: tuple[Range, ...]
    height: Range
    floor: Range = (0.05, 0.12)
    handles: tuple[float, float, float] = (1.0, 0.0, 0.0)
    spout: float = 0.0
    wall: Range = (0.045, 0.09)


@dataclass(frozen=True)
class Handle:
    """Looks of handles."""

    highest: float  # of their upper ends, as a share of the height
    inside: float  # depth of their ends in the wall
    steps: int
    around: int
    thick: Range


STYLES, THIN_STYLES = (
    [from_mapping(Style, entry, name) for name, entry in read_toml(Path(__file__).with_name(file)).items()]
    for file in ("vessels.toml", "thin_vessels.toml")
)


def vessel(rng: Rng) -> Solid:
    """A vessel of a random kind: the outside with its handles, less the hollow."""
    style = STYLES[rng.choice(len(STYLES))]
    section = random_section(rng, AROUND, plain=0.6, squash=0.3)
    height = rng.uniform(*style.height)
    profile = _random_profile(rng, style)
    up = np.linspace(0, 1, LEVELS)
    if rng.random() < style.spout:
        section = _with_beak(section, rng.uniform(0.3, 0.6), 8)
    outside = revolve(profile(up), height * up, section)
    count = int(rng.choice(3, p=style.handles))
    look = Handle(0.92, 0.03, 24, 14, (0.06, 0.1))
    body = union([outside, *(_handle(rng, profile, height, np.pi * i, look) for i in range(count))])
    floor = rng.uniform(*style.floor)
    if floor >= 1:
        return body
    wall = rng.uniform(*style.wall)
    inside = floor + (1.2 - floor) * up  # goes on above the rim
    hollow = np.maximum(profile(np.minimum(inside, 1.0)) - wall, NARROWEST)
    return body - revolve(hollow, height * inside, section)


def thin_vessel(rng: Rng) -> Solid:
    """A thin-walled vessel that fits the unit ball around the mean of its corners, nearly turned."""
    plain = kernel.largest_part(_plain_thin_vessel(rng))
    points = kernel.vertices_of(plain)
    points = (points - points.mean(0)) / np.linalg.norm(points - points.mean(0), axis=1).max()
    field = kernel.Fractal.random(rng, 3, 3, rng.uniform(1.5, 3.0), 1, 0.5)
    points = points + field.times(rng.uniform(0.2, 1.0) * 0.15 / field.slope(points))(points)
    points -= points.mean(0)
    return kernel.with_vertices(plain, points / np.linalg.norm(points, axis=1).max())


def _plain_thin_vessel(rng: Rng) -> Solid:
    """The outside with handles and spout, less the hollow; its wall is measured across it."""
    style = THIN_STYLES[rng.choice(len(THIN_STYLES))]
    height, up = rng.uniform(*style.height), np.linspace(0, 1, THIN_LEVELS)
    profile = _random_profile(rng, style)
    wall = rng.uniform(0.02, 0.10) * profile(up).max()
    pours = rng.random() < style.spout
    is_beak = pours and rng.random() < 0.5
    section = random_section(rng, AROUND, plain=0.75, squash=0.2)
    if is_beak:
        section = _with_beak(section, rng.uniform(0.15, 0.4), 10)
    floor = wall * rng.uniform(1.0, 2.0) / height
    at = floor + (1.15 - floor) * up  # goes on above the rim
    inside = np.minimum(at, 1.0)
    across = wall * np.minimum(np.sqrt(1 + (np.abs(profile.derivative()(inside)) / height) ** 2), 2.5)
    hollow = revolve(np.maximum(profile(inside) - across, NARROWEST), height * at, section)
    added, removed = [revolve(profile(up), height * up, section)], [hollow]
    look = Handle(0.9, 0.05, 28, 16, (0.07, 0.13))
    for number in range(int(rng.choice(3, p=style.handles))):
        added.append(_handle(rng, profile, height, np.pi * number + np.pi / 2 * pours, look))
    if pours and not is_beak:
        outside, bore = _tube(rng, profile, height, wall)
        added.append(outside)
        removed.append(bore)
    return union(added) - union(removed)


def _random_profile(rng: Rng, style: Style) -> PchipInterpolator:
    """The radius at a share of the height, smooth between random radii."""
    steps = np.linspace(0, 1, len(style.radii))
    return PchipInterpolator(steps, [rng.uniform(*limits) for limits in style.radii])


def _with_beak(section: Section, size: float, power: int) -> Section:
    """A section with a beak towards −x."""
    toward = (1 - section[:, 0] / np.linalg.norm(section, axis=1)) / 2
    return section * (1 + size * toward**power)[:, None]


def _handle(rng: Rng, profile: PchipInterpolator, height: float, turn: float, look: Handle) -> Solid:
    """A bow from low to high on the body, its ends inside the wall."""
    low, high = rng.uniform(0.15, 0.4), rng.uniform(0.65, look.highest)
    along = np.linspace(0, np.pi, look.steps)
    up = low + (high - low) * (1 - np.cos(along)) / 2
    out = profile(up) - look.inside + rng.uniform(0.3, 0.6) * np.sin(along) ** rng.uniform(0.5, 1.0)
    path = np.stack([out * np.cos(turn), out * np.sin(turn), height * up], axis=1)
    section = random_section(rng, look.around, plain=0.7, squash=0.5)
    return sweep_section(path, np.full(len(path), rng.uniform(*look.thick)), section)


def _tube(rng: Rng, profile: PchipInterpolator, height: float, wall: float) -> tuple[Solid, Solid]:
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
