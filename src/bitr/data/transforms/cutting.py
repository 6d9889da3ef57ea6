"""Cutting by planes of random direction."""

from __future__ import annotations

import numpy as np

from bitr.data.transforms.sampling import take
from bitr.errors import InputError
from bitr.io import Geometry


def split(cloud: Geometry, share: float, rng: np.random.Generator) -> tuple[Geometry, Geometry]:
    """The two sides of a plane of random direction; the first has ``share`` of the points."""
    count = round(share * len(cloud.points))
    if not 0 < count < len(cloud.points):
        raise InputError(
            f"{cloud.name}: a share of {share!r} of {len(cloud.points)} points leaves an empty piece"
        )
    order = np.argsort(cloud.points @ rng.normal(size=3), kind="stable")
    return take(cloud, order[:count]), take(cloud, order[count:])


def crop(cloud: Geometry, keep: float, rng: np.random.Generator) -> Geometry:
    """The part of a cloud on one side of a plane of random direction: a share ``keep`` of its points.

    For one state of the generator, a smaller share is a part of a larger one.
    """
    if not 0 < keep <= 1:
        raise InputError(f"{cloud.name}: cannot keep a share of {keep!r}, expected more than 0 and at most 1")
    order = np.argsort(cloud.points @ rng.normal(size=3), kind="stable")
    return take(cloud, order[: max(1, round(keep * len(order)))])
