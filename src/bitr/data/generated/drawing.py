"""A pair from a broken solid: which part of its surface either side sees, and with what faults."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from jaxtyping import Bool, Float64

from bitr.data.generated.config import KINDS, ShapesConfig
from bitr.data.generated.fracture import WHOLE, Fracture
from bitr.data.generated.solids.directions import random_direction
from bitr.data.pair import AssemblyPair
from bitr.data.transforms import add_outliers, assembled, jitter, move_randomly, sample_by_area, split, take
from bitr.io import Geometry

TRIES = 20
"""Pairs of planes that are tried for two crops that overlap, before one plane crops both."""
DENSER = 1.5
"""Times as many points are drawn evenly, to choose from unevenly."""

Sides = tuple[Geometry, Geometry]


def draw(given: Fracture, config: ShapesConfig, id: str, rng: np.random.Generator) -> AssemblyPair:
    """A random pair, each side moved on its own; its kind is the last word of its id."""
    kind = KINDS[int(rng.choice(len(KINDS), p=np.array(config.mix) / sum(config.mix)))]
    return draw_kind(given, kind, config, id, rng)


def draw_kind(
    given: Fracture, kind: str, config: ShapesConfig, id: str, rng: np.random.Generator
) -> AssemblyPair:
    """A random pair of one kind."""
    source, reference = (_faulty(side, config, rng) for side in DRAWN[kind](given, config, rng))
    return move_randomly(assembled(source, reference, f"{id}/{kind}"), rng)


def two_pieces(given: Fracture, config: ShapesConfig, rng: np.random.Generator) -> Sides:
    """Two pieces that fit, or groups of pieces that stayed together: either may be the source."""
    a, b = rng.permutation(given.fits[int(rng.integers(len(given.fits)))])
    first, second = (_sampled(given.surface(int(node)), config.points, config, rng) for node in (a, b))
    return first, second


def two_sides(given: Fracture, config: ShapesConfig, rng: np.random.Generator) -> Sides:
    """The surface of the whole, cut in two by a plane: open shells that have nothing in common."""
    cloud = _sampled(given.surface(WHOLE), 2 * config.points, config, rng)
    return split(cloud, rng.uniform(*config.share), rng)


def two_crops(given: Fracture, config: ShapesConfig, rng: np.random.Generator) -> Sides:
    """The surface of the whole, sampled twice, each time cropped by a plane of its own; the two overlap."""
    keep = rng.uniform(*config.keep, 2)
    counts = np.rint(config.points / keep).astype(int)
    even = sample_by_area(given.surface(WHOLE), int(DENSER * counts.sum()) + 2, rng)
    # all its points were drawn independently: one part for each side
    rows = np.split(np.arange(len(even.points)), [int(DENSER * counts[0]) + 1])
    samples = [_uneven(take(even, own), int(n), config, rng) for own, n in zip(rows, counts, strict=True)]
    one, other = _overlapping(samples[0].points, keep, config.overlap, rng)
    first, second = (
        take(sample, np.argsort(sample.points @ direction, kind="stable")[: config.points])
        for sample, direction in zip(samples, (one, other), strict=True)
    )
    return first, second


DRAWN: dict[str, Callable[[Fracture, ShapesConfig, np.random.Generator], Sides]] = {
    "fracture": two_pieces,
    "cut": two_sides,
    "crop": two_crops,
}


def _overlapping(
    points: Float64[np.ndarray, "n 3"],
    keep: Float64[np.ndarray, " 2"],
    least: float,
    rng: np.random.Generator,
) -> tuple[Float64[np.ndarray, " 3"], Float64[np.ndarray, " 3"]]:
    """Directions of two crops that share at least so much of the smaller one."""

    def inside(direction: Float64[np.ndarray, " 3"], share: float) -> Bool[np.ndarray, " n"]:
        along = points @ direction
        return along <= np.quantile(along, share)

    one = random_direction(rng)
    kept = inside(one, keep[0])
    for _ in range(TRIES):
        other = random_direction(rng)
        if np.mean(kept & inside(other, keep[1])) >= least * keep.min():
            return one, other
    return one, one


def _sampled(surface: Geometry, n: int, config: ShapesConfig, rng: np.random.Generator) -> Geometry:
    """Points of a surface, by area and by their place."""
    return _uneven(sample_by_area(surface, int(DENSER * n) + 1, rng), n, config, rng)


def _uneven(even: Geometry, n: int, config: ShapesConfig, rng: np.random.Generator) -> Geometry:
    """Some of the points, the more of them the farther they lie in some direction."""
    along = even.points @ random_direction(rng)
    weight = np.exp(rng.uniform(0, config.unevenness) * (along - along.mean()) / along.std())
    # the n largest of log(u)/w for uniform u are a draw without replacement by the weights w
    return take(even, np.argsort(np.log(rng.random(len(along))) / weight, kind="stable")[-n:])


def _faulty(cloud: Geometry, config: ShapesConfig, rng: np.random.Generator) -> Geometry:
    noise = config.least_noise + (config.noise - config.least_noise) * rng.random()
    outliers = config.outliers * rng.random()
    return add_outliers(jitter(cloud, noise, rng), round(outliers * len(cloud.points)), rng)
