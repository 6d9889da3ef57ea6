"""What the surface around a point looks like, in numbers that no motion changes."""

from __future__ import annotations

from itertools import product

import numpy as np
from jaxtyping import Bool, Float64

from bitr.refine.surface import Surface

REACH = 8.0
"""Spacings around a point that its numbers tell of."""
MOST = 256
"""Neighbours within that reach that count; a plane has 200."""
BINS = (6, 9, 3)
"""Of distances from the normal's line, of heights above the tangent plane, of angles between normals."""


def descriptors(surface: Surface, spacing: float) -> Float64[np.ndarray, "n d"]:
    """Rows of length 1: square roots of shares, so that a product of two rows is 1 where they are equal.

    A histogram of where the neighbours are (a spin image) and of how their normals lean. Which side is up
    is where the neighbours are, since the sign of a normal means nothing.
    """
    points, normals, reach = surface.points, surface.normals, REACH * spacing
    index, squared = surface.tree.batch_knn_search(points, min(MOST, len(points)))
    index, squared = index.view(np.int64)[:, 1:], squared[:, 1:] / reach**2
    near = squared < 1
    height = np.einsum("nki,ni->nk", points[index] - points[:, None], normals) / reach
    up = np.where((height * near).sum(1) < 0, -1.0, 1.0)
    height *= up[:, None]
    away = np.sqrt(np.clip(squared - height**2, 0, None))
    lean = np.abs(np.einsum("nki,ni->nk", normals[index], normals))
    # heights are small where a surface is smooth: their square roots are told apart better
    places = (away, (np.sign(height) * np.sqrt(np.abs(height)) + 1) / 2, lean)
    counts = _histogram([np.clip(place, 0, 1)[near] for place in places], near)
    return np.sqrt(counts / np.maximum(counts.sum(1, keepdims=True), 1))


def _histogram(
    places: list[Float64[np.ndarray, " e"]], near: Bool[np.ndarray, "n k"]
) -> Float64[np.ndarray, "n d"]:
    """Numbers from 0 to 1, each shared by the two bins next to it, so that no bin fills at a jump."""
    rows, size = np.repeat(np.arange(len(near)), near.sum(1)), int(np.prod(BINS))
    cells = []
    for place, bins in zip(places, BINS, strict=True):
        low = np.minimum((place * (bins - 1)).astype(np.int64), bins - 2)
        part = place * (bins - 1) - low
        cells.append(((low, 1 - part), (low + 1, part)))
    counts = np.zeros(len(near) * size)
    for (a, share_a), (b, share_b), (c, share_c) in product(*cells):
        cell = rows * size + (a * BINS[1] + b) * BINS[2] + c
        counts += np.bincount(cell, share_a * share_b * share_c, minlength=len(counts))
    return counts.reshape(len(near), size)
