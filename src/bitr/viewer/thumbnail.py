"""A pair in a small picture."""

from __future__ import annotations

import numpy as np
from jaxtyping import UInt8

from bitr.pictures.picture import BACKGROUND, COLORS, box_of, layer_of, rgb
from bitr.pictures.raster import painted
from bitr.pictures.scene import Scene
from bitr.pictures.stage import staged

WIDTH, HEIGHT = 320, 240
MOST_POINTS = 2000
"""Of a cloud, in a picture as small as this."""
EMPTY = np.full((HEIGHT, WIDTH, 3), np.rint(255 * rgb(BACKGROUND)), dtype=np.uint8)


def thumbnail(scene: Scene) -> UInt8[np.ndarray, "h w 3"]:
    """The source in its place (yellow) and the reference (blue), seen from their broad side."""
    stage, size = staged(scene, MOST_POINTS), np.array([WIDTH, HEIGHT])
    layers = [
        layer_of("source, moved", stage, stage.source, stage.rotation, stage.after),
        layer_of("reference", stage, stage.reference, np.eye(3), np.zeros(3)),
    ]
    low, high = box_of(layers)
    reach = size * ((high - low) / size).max() / 2
    middle = (low + high) / 2
    colors = [rgb(COLORS[layer.name]) for layer in layers]
    return painted(layers, colors, middle - reach, middle + reach, (WIDTH, HEIGHT))
