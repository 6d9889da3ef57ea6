"""Clouds as pixels, without a plotting library: fast enough for the frames of a film."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float64, Int64, UInt8

from bitr.pictures.picture import BACKGROUND, Layer, rgb, shaded

FINE = 2
"""Pixels are drawn so many times finer, and averaged: smooth rims."""
DOT = (1.5, 9.0)
"""Least and most diameter of a point, in pixels."""


def painted(
    layers: Sequence[Layer],
    colors: Sequence[Float64[np.ndarray, " 3"]],
    low: Float64[np.ndarray, " 2"],
    high: Float64[np.ndarray, " 2"],
    most: tuple[int, int],
) -> UInt8[np.ndarray, "h w 3"]:
    """The window from ``low`` to ``high``, in a picture of at most so many pixels; its sides are even.

    Points are dots, shaded by their surface; of all dots that cover a pixel the nearest is seen.
    """
    scale = float((np.array(most) / (high - low)).min())
    width, height = (max(2, 2 * round(side * scale / 2)) for side in (high - low).tolist())
    depth = np.concatenate([layer.points[:, 2] for layer in layers])
    shades = [
        shaded(layer, color, depth.max(), depth.min()) for layer, color in zip(layers, colors, strict=True)
    ]
    nearness = np.empty(len(depth), dtype=np.int64)
    nearness[depth.argsort(kind="stable")] = np.arange(len(depth))
    size = np.array([FINE * width, FINE * height])
    owner, begin = np.full(size.prod(), -1), 0
    for layer in layers:
        place = (layer.points[:, :2] - low) * FINE * scale
        place[:, 1] = size[1] - place[:, 1]
        dot = _disc(FINE * np.clip(1.6 * layer.spacing * scale, *DOT) / 2)
        pixel = np.clip(np.floor(place).astype(np.int64)[:, None] + dot, 0, size - 1)
        # numpy does not promise which of several values stays where they meet, so they are compared
        rank = nearness[begin : begin + len(place), None].repeat(len(dot), 1)
        np.maximum.at(owner, (pixel[..., 1] * size[0] + pixel[..., 0]).ravel(), rank.ravel())
        begin += len(place)
    shade = np.empty((len(depth) + 1, 3), dtype=np.uint16)
    shade[nearness] = np.rint(255 * np.concatenate(shades))
    shade[-1] = np.rint(255 * rgb(BACKGROUND))  # where nothing owns a pixel, its owner is −1
    fine = owner.reshape(height, FINE, width, FINE)
    parts = [shade[fine[:, i, :, j]] for i in range(FINE) for j in range(FINE)]
    return (sum(parts[1:], parts[0]) // FINE**2).astype(np.uint8)


def _disc(radius: float) -> Int64[np.ndarray, "m 2"]:
    """The pixels of a dot, relative to its middle."""
    reach = int(np.ceil(radius))
    grid = np.stack(np.meshgrid(*[np.arange(-reach, reach + 1)] * 2), axis=-1).reshape(-1, 2)
    return grid[np.square(grid).sum(1) <= radius**2].astype(np.int64)
