"""Of many doubtful correspondences, those that one rigid motion explains."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float64

from bitr.refine.frame import Points

SEEDS, TOGETHER, ROUNDS = 60, 24, 4
"""Correspondences that a motion is begun from; how many others each takes with it; and how often it is fitted
again to all that agree with it."""
WIDER = 1.5
"""What a correspondence may be off to agree with a motion, over what two lengths may differ."""
FEWEST = 4
"""Correspondences without which nothing is tried."""


Motion = tuple[Float64[np.ndarray, "3 3"], Float64[np.ndarray, " 3"]]
"""Rotation and translation."""


def best_motion(x: Points, y: Points, tolerance: float) -> Motion | None:
    """The motion that the most correspondences agree with, or None where nothing agrees.

    Two correspondences are compatible where their two points are as far apart on either side.

    Many that are right are compatible with each other, many that are wrong are not: each counts what its
    neighbours in that graph have in common with it, and the best of them begin a motion each.
    Swapping the sides inverts the motion, whichever is chosen.
    """
    if len(x) < FEWEST:
        return None
    of_x, of_y = _distances(x), _distances(y)
    compatible = (np.abs(of_x - of_y) < tolerance) & (np.minimum(of_x, of_y) > 2 * tolerance)
    links = compatible.astype(np.float32)  # whole numbers, so that no sum is rounded
    links = links * (links @ links)
    seeds = np.argsort(-links.sum(1), kind="stable")[:SEEDS]
    taken = np.argsort(-links[seeds], axis=1, kind="stable")[:, :TOGETHER]
    weights = np.take_along_axis(links[seeds], taken, axis=1).astype(np.float64)
    begun = weights.sum(1) > 0
    if not begun.any():
        return None
    rotation, translation = _fitted(x[taken[begun]], y[taken[begun]], weights[begun])
    for _ in range(ROUNDS):
        agreement = _agreement(x, y, rotation, translation, WIDER * tolerance)
        enough = (agreement > 0).sum(1) >= FEWEST
        if not enough.any():
            return None
        rotation, translation = _fitted(x[None], y[None], agreement[enough])
    support = _agreement(x, y, rotation, translation, WIDER * tolerance).sum(1)
    best = int(support.argmax())
    return rotation[best], translation[best]


def _distances(points: Points) -> Float64[np.ndarray, "n n"]:
    squares = np.square(points).sum(1)
    return np.sqrt(np.maximum(squares[:, None] + squares - 2 * points @ points.T, 0))


def _agreement(
    x: Points,
    y: Points,
    rotation: Float64[np.ndarray, "s 3 3"],
    translation: Float64[np.ndarray, "s 3"],
    width: float,
) -> Float64[np.ndarray, "s n"]:
    off = x @ rotation.swapaxes(1, 2) + translation[:, None] - y
    return np.maximum(1 - np.square(off).sum(2) / width**2, 0)


def _fitted(
    x: Float64[np.ndarray, "_ n 3"], y: Float64[np.ndarray, "_ n 3"], weights: Float64[np.ndarray, "s n"]
) -> tuple[Float64[np.ndarray, "s 3 3"], Float64[np.ndarray, "s 3"]]:
    """Arun's method for many sets at once."""
    share = (weights / weights.sum(1, keepdims=True))[..., None]
    mean_x, mean_y = (share * x).sum(1), (share * y).sum(1)
    u, _, vh = np.linalg.svd((share * (y - mean_y[:, None])).swapaxes(1, 2) @ (x - mean_x[:, None]))
    u[:, :, 2] *= np.linalg.det(u @ vh)[:, None]
    rotation = u @ vh
    return rotation, mean_y - (rotation @ mean_x[..., None])[..., 0]
