"""Pairs with a known answer that the tests of refinement share."""

from __future__ import annotations

import numpy as np
import torch

from bitr.data import AssemblyPair, bumpy_shape
from bitr.data.transforms import assembled, crop, move_randomly, split, two_samples
from bitr.io import Geometry


def overlapping(seed: int, keep: float = 0.7, n: int = 1000) -> AssemblyPair:
    """Two samples of one shape, each cropped by a plane of its own to n points."""
    rng, full = np.random.default_rng(seed), round(n / keep)
    one, other = (crop(side, keep, rng) for side in two_samples(_shape(seed, 2 * full), full, rng))
    return move_randomly(assembled(one, other, f"overlapping/{seed}"), rng)


def halves(seed: int, n: int = 1000) -> AssemblyPair:
    """The two sides of a cut, n points each: nothing in common but where they touch."""
    rng = np.random.default_rng(seed)
    return move_randomly(assembled(*split(_shape(seed, 2 * n), 0.5, rng), f"halves/{seed}"), rng)


def _shape(seed: int, n: int) -> Geometry:
    return Geometry(bumpy_shape(n, torch.Generator().manual_seed(seed)).numpy())
