"""Boolean combinations: machine parts, furniture, craft with wings, tools and stones."""

from __future__ import annotations

import numpy as np

from bitr.data.generated.solids.directions import random_direction, random_rotation
from bitr.data.generated.solids.kernel import Solid, kernel, union
from bitr.data.generated.solids.superquadrics import superquadric
from bitr.data.generated.solids.tubes import ring_section, swept, turned


def machine_part(rng: np.random.Generator) -> Solid:
    """Blocks, drums and odd bodies stuck together, with holes and slots through them."""
    body = _primitive(rng, 1.0)
    for _ in range(int(rng.integers(1, 4))):
        beside = (
            random_direction(rng) if rng.random() < 0.4 else np.eye(3)[rng.integers(3)] * rng.choice([-1, 1])
        )
        body += _primitive(rng, 0.6).translate(tuple(0.6 * beside))
    for _ in range(int(rng.integers(1, 4))):
        body -= _drill(rng)
    return body


def furniture(rng: np.random.Generator) -> Solid:
    """A top on legs, many with a back, arms or a drawer: no two legs need be alike."""
    x, y, tall = rng.uniform(0.5, 1.0), rng.uniform(0.4, 0.8), rng.uniform(0.5, 1.2)
    thick = rng.uniform(0.08, 0.16)
    top = turned(np.ones(2), np.array([0.0, thick]), ring_section(rng, 40, plain=0.3) * np.array([x, y]))
    if rng.random() < 0.6:
        top = _box(2 * x, 2 * y, thick)
    parts = [top]
    lean = rng.uniform(-0.1, 0.25)
    for sx, sy in ((1, 1), (1, -1), (-1, 1), (-1, -1))[: 4 if rng.random() < 0.8 else 3]:
        foot = np.array([sx * x * (0.65 + lean), sy * y * (0.65 + lean), -tall])
        head = np.array([sx * x * 0.6, sy * y * 0.6, thick / 2])
        parts.append(_rod(rng, head, foot, rng.uniform(0.07, 0.11)))
    if rng.random() < 0.6:
        back = _box(0.1, 1.9 * y, rng.uniform(0.5, 1.1)).rotate((0, rng.uniform(-20, 0), 0))
        parts.append(back.translate((-0.9 * x, 0, thick / 2)))
    if rng.random() < 0.4:
        drawer = _box(x, y, rng.uniform(0.2, 0.35))
        parts.append(drawer.translate((rng.uniform(-0.3, 0.3) * x, 0, -0.25)))
    return union(parts)


def craft(rng: np.random.Generator) -> Solid:
    """A long hull with wings, a tail and perhaps pods: something that flies or swims."""
    at = np.linspace(0, 1, 30)
    girth = np.sin(np.pi * (0.04 + 0.92 * at)) ** rng.uniform(0.3, 0.8) * (1 - rng.uniform(0, 0.6) * at)
    path = np.stack([np.zeros(30), rng.uniform(-0.1, 0.2) * at**2, 2.4 * at - 1.2], axis=1)
    parts = [swept(path, rng.uniform(0.16, 0.3) * girth, ring_section(rng, 28, plain=0.7, squash=0.3))]
    span, place = rng.uniform(0.6, 1.3), rng.uniform(-0.3, 0.2)
    parts += _wings(rng, span, rng.uniform(0.3, 0.7), place)
    parts += _wings(rng, span * rng.uniform(0.3, 0.5), rng.uniform(0.2, 0.35), 0.85)
    fin = np.array([[0, 0.0, 0.75], [0, 0.0, 1.1], [0, rng.uniform(0.4, 0.7), 1.15]])
    aside = np.array([0.045, 0, 0])
    parts.append(kernel().Manifold.hull_points(np.concatenate([fin + aside, fin - aside])))
    if rng.random() < 0.6:
        girth, along = rng.uniform(0.09, 0.13) * np.array([0.7, 1, 1, 0.6]), np.array([-0.2, -0.1, 0.1, 0.25])
        pod = turned(girth, along + place + 0.05, ring_section(rng, 20, plain=1.0))
        parts += [pod.translate((side * 0.45 * span, -0.03, 0)) for side in (-1, 1)]
    return union(parts)


def tool(rng: np.random.Generator) -> Solid:
    """A handle with a head across it."""
    handle = _rod(rng, np.array([0, 0, -1.3]), np.array([0.1 * rng.normal(), 0, 0.5]), rng.uniform(0.1, 0.16))
    head = superquadric(rng).scale(tuple(rng.uniform(0.35, 0.8, 3))).rotate((0, 90, rng.uniform(0, 90)))
    made = handle + head.translate((rng.uniform(-0.15, 0.15), 0, 0.5))
    return made - _drill(rng).scale((0.4, 0.4, 0.4)) if rng.random() < 0.3 else made


def stone(rng: np.random.Generator) -> Solid:
    """A broken stone: the hull of random points, less what a few planes strike off."""
    points = rng.normal(size=(int(rng.integers(14, 40)), 3)) * rng.uniform(0.4, 1.0, 3)
    made = kernel().Manifold.hull_points(points)
    for _ in range(int(rng.integers(0, 3))):
        normal = random_direction(rng)
        struck = made.trim_by_plane(tuple(normal), float(np.quantile(points @ normal, 0.12)))
        made = struck if not struck.is_empty() else made
    return made


def _primitive(rng: np.random.Generator, size: float) -> Solid:
    """A block, a drum, a prism or a superquadric; half of them stand along an axis."""
    kind = int(rng.integers(4))
    if kind == 0:
        made = _box(*(2 * size * rng.uniform(0.25, 0.8, 3)))
    elif kind == 3:
        made = superquadric(rng).scale((size * 0.8,) * 3)
    else:
        section = ring_section(rng, 36, plain=1.0 if kind == 1 else 0.0)
        low, high = size * rng.uniform(0.3, 0.7, 2)
        made = turned(np.array([low, high]), size * np.array([-0.6, 0.6]), section)
    if rng.random() < 0.5:
        return made.rotate(tuple(90.0 * rng.integers(0, 2, 3)))
    turn = np.concatenate([random_rotation(rng), np.zeros((3, 1))], axis=1)
    return made.transform(turn)


def _drill(rng: np.random.Generator) -> Solid:
    """A long round or square bar through about the middle, to be taken away."""
    section = ring_section(rng, 28, plain=0.6)
    bar = turned(np.full(2, rng.uniform(0.12, 0.3)), np.array([-3.0, 3.0]), section)
    turn = np.concatenate([random_rotation(rng), 0.35 * rng.normal(size=(3, 1))], axis=1)
    return bar.transform(turn)


def _rod(rng: np.random.Generator, a: np.ndarray, b: np.ndarray, radius: float) -> Solid:
    at = np.linspace(0, 1, 12)
    swell = 1 + rng.uniform(-0.25, 0.25) * np.cos(2 * np.pi * at * rng.uniform(0.5, 1.5))
    return swept(a + at[:, None] * (b - a), radius * swell, ring_section(rng, 18, plain=0.5))


def _wings(rng: np.random.Generator, span: float, chord: float, place: float) -> list[Solid]:
    """A wing to each side, thinner and shorter towards its tip, swept back and raised."""
    sweep, rise, tip = rng.uniform(0.0, 0.6), rng.uniform(-0.05, 0.2), rng.uniform(0.3, 0.8)
    thick = rng.uniform(0.04, 0.06)
    root = np.array([[0, -thick, 0], [0, thick, 0], [0, -thick, chord], [0, thick, chord]])
    end = np.array(
        [
            [0, -0.6 * thick, 0],
            [0, 0.6 * thick, 0],
            [0, -0.6 * thick, tip * chord],
            [0, 0.6 * thick, tip * chord],
        ]
    )
    end = end + np.array([span, rise, sweep * span])
    wing = np.concatenate([root, end]) + np.array([0, 0, place])
    return [kernel().Manifold.hull_points(wing * np.array([side, 1, 1])) for side in (-1, 1)]


def _box(x: float, y: float, z: float) -> Solid:
    """Standing on z = 0, about the z axis."""
    return kernel().Manifold.cube((x, y, z), True).translate((0, 0, z / 2))
