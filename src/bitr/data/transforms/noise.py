"""What sensors add."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from jaxtyping import Float64

from bitr.io import Geometry


def jitter(cloud: Geometry, std: float, rng: np.random.Generator, clip: float | None = None) -> Geometry:
    """Normal noise of standard deviation ``std`` on every coordinate, none of it larger than ``clip``."""
    noise = std * rng.normal(size=cloud.points.shape)
    if clip is not None:
        noise = np.clip(noise, -clip, clip)
    return replace(cloud, points=cloud.points + noise)


def add_outliers(
    cloud: Geometry, count: int, rng: np.random.Generator, low: float = -1.0, high: float = 1.0
) -> Geometry:
    """The cloud and after it ``count`` points, uniform in the cube from ``low`` to ``high`` along each axis.

    They get random normals and colours where the cloud has some.
    """
    direction = rng.normal(size=(count, 3))
    direction /= np.linalg.norm(direction, axis=1, keepdims=True)
    return replace(
        cloud,
        points=np.concatenate([cloud.points, rng.uniform(low, high, (count, 3))]),
        normals=_more(cloud.normals, direction),
        colors=_more(cloud.colors, rng.random((count, 3))),
    )


def _more(
    rows: Float64[np.ndarray, "n 3"] | None, others: Float64[np.ndarray, "m 3"]
) -> Float64[np.ndarray, "k 3"] | None:
    return None if rows is None else np.concatenate([rows, others])
