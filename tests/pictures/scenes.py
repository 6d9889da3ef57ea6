"""Scenes for the tests of reports and pictures, and what colours a picture has."""

from __future__ import annotations

import numpy as np
import torch
from matplotlib.colors import rgb_to_hsv

from bitr.data import bumpy_shape, cut
from bitr.groups import Rigid
from bitr.pictures.scene import Scene

HUES = {"red": (0.96, 1.05), "yellow": (0.09, 0.16), "blue": (0.55, 0.64)}


def cut_scene(n: int = 600, *, seed: int = 0, at: float = 0.0, **more: object) -> Scene:
    """A shape cut in two, the source moved, both ``at`` a distance from the origin; with the true pose."""
    rng = torch.Generator().manual_seed(seed)
    source, reference = cut(bumpy_shape(n, rng), 0.4, rng)
    shift = Rigid(torch.eye(3, dtype=torch.float64), at * torch.ones(3, dtype=torch.float64))
    src_from_ref = shift @ Rigid.random(rng)
    return Scene(
        src_from_ref.act(source).numpy(),
        shift.act(reference).numpy(),
        (shift @ src_from_ref.inverse()).matrix().numpy(),
        **more,
    )


def with_keypoints(scene: Scene) -> dict[str, np.ndarray]:
    return {"source_keypoints": scene.source[::40], "reference_keypoints": scene.reference[::60]}


def colored(pixels: np.ndarray, name: str) -> np.ndarray:
    """Which pixels, (h, w, 3) from 0 to 255, have the hue of that name, clearly."""
    hue, saturation, value = np.moveaxis(rgb_to_hsv(pixels / 255), -1, 0)
    low, high = HUES[name]
    return ((hue - low) % 1 <= high - low) & (saturation > 0.3) & (value > 0.25)
