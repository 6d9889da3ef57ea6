"""Random closed solids: nine families of objects, scaled to size 1, with fractal detail."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from bitr.data.generated.kernel import (
    Field,
    Fractal,
    Solid,
    kernel,
    largest_part,
    level_set,
    random_direction,
    random_rotation,
    random_section,
    revolve,
    sweep_section,
    union,
    vertices_of,
    with_vertices,
)
from bitr.data.generated.vessels import vessel
from bitr.data.poses import Points, Vector

EDGE = 0.1  # longest edge of a face, before the detail is added, where the largest radius is 1
STRETCH = 0.55  # largest stretch or squeeze by detail: below 1 it cannot fold a surface over
STEPS = 60  # rings along a sweep

Rng = np.random.Generator


def random_solid(rng: Rng) -> tuple[str, Solid]:
    """Draw a family and a solid of it in the unit ball; detail leaves none exactly symmetric."""
    names, shares = list(FAMILIES), np.array([share for share, _ in FAMILIES.values()])
    family = names[int(rng.choice(len(names), p=shares / shares.sum()))]
    plain = _to_unit_size(largest_part(FAMILIES[family][1](rng)))
    fine = plain.simplify(0.003).refine_to_length(EDGE)
    return family, _to_unit_size(with_vertices(fine, add_detail(vertices_of(fine), rng)))


def add_detail(points: Points, rng: Rng) -> Points:
    """Move points by a fractal field: long waves bend the whole, short ones roughen its surface.

    At the points the field stretches by at most ``STRETCH``. One that stretches by less than 1 takes no two
    points to one under x ↦ x + field(x): walls stay walls, and the surface does not cross itself.
    """
    octaves = int(rng.integers(1, 5))
    field = Fractal.random(rng, 3, 3, rng.uniform(1.2, 3.0), octaves, rng.uniform(0.05, 0.8))
    stretch = STRETCH * rng.uniform(0.45, 1.0)
    return points + field.times(stretch / field.slope(points))(points)


def _to_unit_size(given: Solid) -> Solid:
    """Centre on the mean of the corners, and scale the farthest of them to distance 1."""
    points = vertices_of(given)
    points -= points.mean(axis=0)
    return with_vertices(given, points / np.linalg.norm(points, axis=1).max())


def blob(rng: Rng) -> Solid:
    """Metaballs, a figure with limbs, or bodies melted together, some with a bite taken out."""
    parts = (_balls, _figure, _bodies)[int(rng.integers(3))](rng)
    sharp = rng.uniform(9, 22)
    bites = [_ball(rng.normal(size=3) * 0.45, rng.uniform(0.2, 0.4)) for _ in range(int(rng.integers(3)))]

    def field(points: Points) -> np.ndarray:
        inside = _soft_max([part(points) for part in parts], sharp)
        return -_soft_max([-inside, *(bite(points) for bite in bites)], sharp) if bites else inside

    return largest_part(level_set(field))


def _soft_max(values: list[np.ndarray], sharp: float) -> np.ndarray:
    """The largest of several fields, smooth where two are about equal."""
    stacked = np.stack(values)
    top = stacked.max(axis=0)
    return top + np.log(np.exp(sharp * (stacked - top)).sum(axis=0)) / sharp


def _balls(rng: Rng) -> list[Field]:
    """Balls, each touching an earlier one."""
    centers, radii = [np.zeros(3)], [rng.uniform(0.3, 0.45)]
    for _ in range(int(rng.integers(3, 8))):
        from_ = int(rng.integers(len(centers)))
        radius = rng.uniform(0.18, 0.4)
        step = random_direction(rng) * (radii[from_] + radius) * 0.8
        centers.append(np.clip(centers[from_] + step, -0.85, 0.85))
        radii.append(radius)
    return [_ball(center, radius) for center, radius in zip(centers, radii, strict=True)]


def _figure(rng: Rng) -> list[Field]:
    """A trunk with limbs, some of which carry a knob."""
    ends = rng.normal(size=(2, 3))
    trunk = 0.45 * ends / np.linalg.norm(ends, axis=1, keepdims=True) * np.array([[1], [-1]])
    parts = [_limb(trunk[0], trunk[1], *rng.uniform(0.2, 0.36, 2))]
    for _ in range(int(rng.integers(3, 7))):
        start = trunk[0] + rng.random() * (trunk[1] - trunk[0])
        end = np.clip(start + random_direction(rng) * rng.uniform(0.5, 1.0), -1.0, 1.0)
        parts.append(_limb(start, end, rng.uniform(0.14, 0.24), rng.uniform(0.11, 0.16)))
        if rng.random() < 0.4:
            parts.append(_ball(end, rng.uniform(0.17, 0.26)))
    return parts


def _bodies(rng: Rng) -> list[Field]:
    """Two to four bodies: boxes, rings, balls, limbs."""
    kinds: list[Callable[[], Field]] = [
        lambda: _random_box(rng),
        lambda: _random_ring(rng),
        lambda: _ball(rng.normal(size=3) * 0.3, rng.uniform(0.25, 0.5)),
        lambda: _limb(random_direction(rng) * 0.8, random_direction(rng) * 0.3, *rng.uniform(0.12, 0.25, 2)),
    ]
    return [kinds[int(rng.integers(4))]() for _ in range(int(rng.integers(2, 5)))]


def _random_box(rng: Rng) -> Field:
    center, half, turn = rng.normal(size=3) * 0.25, rng.uniform(0.15, 0.55, 3), random_rotation(rng)

    def field(p: Points) -> np.ndarray:
        beyond = np.abs((p - center) @ turn) - half
        return -np.linalg.norm(np.maximum(beyond, 0), axis=1) - np.minimum(beyond.max(axis=1), 0) + 0.04

    return field


def _random_ring(rng: Rng) -> Field:
    center, radius, thick = rng.normal(size=3) * 0.25, rng.uniform(0.4, 0.65), rng.uniform(0.13, 0.2)
    turn = random_rotation(rng)

    def field(p: Points) -> np.ndarray:
        x, y, z = ((p - center) @ turn).T
        return thick - np.hypot(np.hypot(x, y) - radius, z)

    return field


def _ball(center: Vector, radius: float) -> Field:
    return lambda p: radius - np.linalg.norm(p - center, axis=1)


def _limb(a: Vector, b: Vector, thick: float, thin: float) -> Field:
    def field(p: Points) -> np.ndarray:
        at = np.clip((p - a) @ (b - a) / max(float((b - a) @ (b - a)), 1e-9), 0, 1)
        return thick + (thin - thick) * at - np.linalg.norm(p - a - at[:, None] * (b - a), axis=1)

    return field


def sweep(rng: Rng) -> Solid:
    """A section along an arc, a wave or a coil, thinner towards its ends."""
    path = (_arc, _wave, _coil)[int(rng.integers(3))](rng)
    at = np.linspace(0, 1, len(path))
    thick = rng.uniform(0.16, 0.3)
    swell = 1 + rng.uniform(-0.35, 0.35) * np.cos(2 * np.pi * (rng.integers(1, 4) * at + rng.random()))
    taper = 1 - rng.uniform(0, 0.7) * at ** rng.uniform(0.7, 2)
    section = random_section(rng, 32, plain=0.25, squash=0.55)
    return sweep_section(path, thick * swell * taper, section, rng.uniform(-3, 3))


def _arc(rng: Rng) -> Points:
    """Part of a circle that leaves its plane."""
    angle = np.linspace(0, rng.uniform(1.0, 5.0), STEPS)
    return np.stack([np.cos(angle), np.sin(angle), rng.uniform(-0.15, 0.15) * angle], axis=1)


def _wave(rng: Rng) -> Points:
    """A line that swings in two directions."""
    z = np.linspace(-1.3, 1.3, STEPS)
    swing, turn = rng.uniform(0.1, 0.4, 2), rng.uniform(0, 2 * np.pi, 2)
    xy = swing * np.sin(rng.uniform(1.0, 2.2, 2) * z[:, None] + turn)
    return np.concatenate([xy, z[:, None]], axis=1)


def _coil(rng: Rng) -> Points:
    """One to two turns of a screw, too far apart to touch."""
    angle = np.linspace(0, 2 * np.pi * rng.uniform(1.0, 1.9), 2 * STEPS)
    wide = np.linspace(1.0, rng.uniform(0.8, 1.2), len(angle))
    rise = rng.uniform(0.95, 1.2) * angle / (2 * np.pi)
    return np.stack([wide * np.cos(angle), wide * np.sin(angle), rise], axis=1)


def superquadric(rng: Rng) -> Solid:
    """|x/a|, |y/b|, |z/c| with two random exponents, tapered along z and bent about y."""
    ball = kernel().Manifold.sphere(1.0, 56)
    direction = vertices_of(ball)
    size, (e1, e2) = rng.uniform(0.35, 1.0, 3), map(float, rng.choice([0.15, 0.4, 0.7, 1.0, 1.4], 2))
    x, y, z = np.maximum(np.abs(direction / size), 1e-12).T
    level = (x ** (2 / e2) + y ** (2 / e2)) ** (e2 / e1) + z ** (2 / e1)
    points = direction * (level ** (-e1 / 2))[:, None]
    points[:, :2] *= 1 + rng.uniform(-0.55, 0.55, 2) * (points[:, 2:] / size[2])
    return with_vertices(ball, _bend(points, rng.uniform(-1.0, 1.0)))


def _bend(points: Points, angle: float) -> Points:
    """Bend the z axis towards x, by ``angle`` per unit of length or as much as does not fold over."""
    most = 0.8 / np.abs(points[:, 0]).max()
    angle = float(np.clip(angle, -most, most))
    if abs(angle) < 1e-3:
        return points
    x, y, z = points.T
    arm = 1 / angle - x
    return np.stack([1 / angle - arm * np.cos(angle * z), y, arm * np.sin(angle * z)], axis=1)


def machine_part(rng: Rng) -> Solid:
    """Blocks, drums and odd bodies joined together, with holes and slots through them."""
    body = _primitive(rng, 1.0)
    for _ in range(int(rng.integers(1, 4))):
        is_aslant = rng.random() < 0.4
        beside = random_direction(rng) if is_aslant else np.eye(3)[rng.integers(3)] * rng.choice([-1, 1])
        body += _primitive(rng, 0.6).translate(tuple(0.6 * beside))
    for _ in range(int(rng.integers(1, 4))):
        body -= _drill(rng)
    return body


def furniture(rng: Rng) -> Solid:
    """A top on legs, often with a back or a drawer; the legs may differ."""
    x, y, tall = rng.uniform(0.5, 1.0), rng.uniform(0.4, 0.8), rng.uniform(0.5, 1.2)
    thick = rng.uniform(0.08, 0.16)
    top = revolve(np.ones(2), np.array([0.0, thick]), random_section(rng, 40, plain=0.3) * np.array([x, y]))
    if rng.random() < 0.6:
        top = _block(2 * x, 2 * y, thick)
    parts = [top]
    lean = rng.uniform(-0.1, 0.25)
    for sx, sy in ((1, 1), (1, -1), (-1, 1), (-1, -1))[: 4 if rng.random() < 0.8 else 3]:
        foot = np.array([sx * x * (0.65 + lean), sy * y * (0.65 + lean), -tall])
        head = np.array([sx * x * 0.6, sy * y * 0.6, thick / 2])
        parts.append(_rod(rng, head, foot, rng.uniform(0.07, 0.11)))
    if rng.random() < 0.6:
        back = _block(0.1, 1.9 * y, rng.uniform(0.5, 1.1)).rotate((0, rng.uniform(-20, 0), 0))
        parts.append(back.translate((-0.9 * x, 0, thick / 2)))
    if rng.random() < 0.4:
        drawer = _block(x, y, rng.uniform(0.2, 0.35))
        parts.append(drawer.translate((rng.uniform(-0.3, 0.3) * x, 0, -0.25)))
    return union(parts)


def craft(rng: Rng) -> Solid:
    """A long hull with wings, a tail and sometimes pods: something that flies or swims."""
    at = np.linspace(0, 1, 30)
    girth = np.sin(np.pi * (0.04 + 0.92 * at)) ** rng.uniform(0.3, 0.8) * (1 - rng.uniform(0, 0.6) * at)
    path = np.stack([np.zeros(30), rng.uniform(-0.1, 0.2) * at**2, 2.4 * at - 1.2], axis=1)
    wide = rng.uniform(0.16, 0.3) * girth
    parts = [sweep_section(path, wide, random_section(rng, 28, plain=0.7, squash=0.3))]
    span, place = rng.uniform(0.6, 1.3), rng.uniform(-0.3, 0.2)
    parts += _wings(rng, span, rng.uniform(0.3, 0.7), place)
    parts += _wings(rng, span * rng.uniform(0.3, 0.5), rng.uniform(0.2, 0.35), 0.85)
    fin = np.array([[0, 0.0, 0.75], [0, 0.0, 1.1], [0, rng.uniform(0.4, 0.7), 1.15]])
    aside = np.array([0.045, 0, 0])
    parts.append(kernel().Manifold.hull_points(np.concatenate([fin + aside, fin - aside])))
    if rng.random() < 0.6:
        girth, along = rng.uniform(0.09, 0.13) * np.array([0.7, 1, 1, 0.6]), np.array([-0.2, -0.1, 0.1, 0.25])
        pod = revolve(girth, along + place + 0.05, random_section(rng, 20, plain=1.0))
        parts += [pod.translate((side * 0.45 * span, -0.03, 0)) for side in (-1, 1)]
    return union(parts)


def tool(rng: Rng) -> Solid:
    """A handle with a head across it."""
    handle = _rod(rng, np.array([0, 0, -1.3]), np.array([0.1 * rng.normal(), 0, 0.5]), rng.uniform(0.1, 0.16))
    head = superquadric(rng).scale(tuple(rng.uniform(0.35, 0.8, 3))).rotate((0, 90, rng.uniform(0, 90)))
    made = handle + head.translate((rng.uniform(-0.15, 0.15), 0, 0.5))
    return made - _drill(rng).scale((0.4, 0.4, 0.4)) if rng.random() < 0.3 else made


def stone(rng: Rng) -> Solid:
    """A broken stone: the hull of random points, trimmed by a few planes."""
    points = rng.normal(size=(int(rng.integers(14, 40)), 3)) * rng.uniform(0.4, 1.0, 3)
    made = kernel().Manifold.hull_points(points)
    for _ in range(int(rng.integers(0, 3))):
        normal = random_direction(rng)
        struck = made.trim_by_plane(tuple(normal), float(np.quantile(points @ normal, 0.12)))
        made = struck if not struck.is_empty() else made
    return made


def _primitive(rng: Rng, size: float) -> Solid:
    """A block, a drum, a prism or a superquadric; half of them stand along an axis."""
    kind = int(rng.integers(4))
    if kind == 0:
        made = _block(*(2 * size * rng.uniform(0.25, 0.8, 3)))
    elif kind == 3:
        made = superquadric(rng).scale((size * 0.8,) * 3)
    else:
        section = random_section(rng, 36, plain=1.0 if kind == 1 else 0.0)
        low, high = size * rng.uniform(0.3, 0.7, 2)
        made = revolve(np.array([low, high]), size * np.array([-0.6, 0.6]), section)
    if rng.random() < 0.5:
        return made.rotate(tuple(90.0 * rng.integers(0, 2, 3)))
    return made.transform(np.concatenate([random_rotation(rng), np.zeros((3, 1))], axis=1))


def _drill(rng: Rng) -> Solid:
    """A long round or square bar through about the middle, to be subtracted."""
    section = random_section(rng, 28, plain=0.6)
    bar = revolve(np.full(2, rng.uniform(0.12, 0.3)), np.array([-3.0, 3.0]), section)
    return bar.transform(np.concatenate([random_rotation(rng), 0.35 * rng.normal(size=(3, 1))], axis=1))


def _rod(rng: Rng, a: np.ndarray, b: np.ndarray, radius: float) -> Solid:
    at = np.linspace(0, 1, 12)
    swell = 1 + rng.uniform(-0.25, 0.25) * np.cos(2 * np.pi * at * rng.uniform(0.5, 1.5))
    return sweep_section(a + at[:, None] * (b - a), radius * swell, random_section(rng, 18, plain=0.5))


def _wings(rng: Rng, span: float, chord: float, place: float) -> list[Solid]:
    """A wing to each side, thinner and shorter towards its tip, swept back and raised."""
    sweep, rise, tip = rng.uniform(0.0, 0.6), rng.uniform(-0.05, 0.2), rng.uniform(0.3, 0.8)
    thick = rng.uniform(0.04, 0.06)
    edge = np.array([[0, -thick, 0], [0, thick, 0], [0, -thick, chord], [0, thick, chord]])
    end = edge * np.array([1, 0.6, tip]) + np.array([span, rise, sweep * span])
    wing = np.concatenate([edge, end]) + np.array([0, 0, place])
    return [kernel().Manifold.hull_points(wing * np.array([side, 1, 1])) for side in (-1, 1)]


def _block(x: float, y: float, z: float) -> Solid:
    """A block that stands on z = 0, about the z axis."""
    return kernel().Manifold.cube((x, y, z), True).translate((0, 0, z / 2))


FAMILIES: dict[str, tuple[float, Callable[[Rng], Solid]]] = {
    "vessel": (0.28, vessel),
    "blob": (0.2, blob),
    "machine part": (0.14, machine_part),
    "superquadric": (0.08, superquadric),
    "sweep": (0.08, sweep),
    "craft": (0.08, craft),
    "furniture": (0.06, furniture),
    "tool": (0.04, tool),
    "stone": (0.04, stone),
}
"""Share of all solids, and function, of each family."""
