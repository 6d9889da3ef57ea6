"""Of many doubtful correspondences, those that one rigid motion explains."""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Float64
from scipy.spatial.distance import cdist
from torch import Tensor

from bitr.groups import Rigid
from bitr.refine.arun import arun
from bitr.refine.frame import Matrix, Points

SEEDS, TOGETHER, ROUNDS = 60, 24, 4
"""Correspondences that a motion is begun from; how many others each takes with it; and how often it is fitted
again to all that agree with it."""
WIDER = 1.5
"""What a correspondence may be off to agree with a motion, over what two lengths may differ."""
FEWEST = 4
"""Correspondences without which nothing is tried."""


def best_motion(x: Points, y: Points, tolerance: float) -> tuple[Matrix, float] | None:
    """The motion that the most correspondences agree with, and how many do; None where nothing agrees.

    Two correspondences are compatible where their two points are as far apart on either side. Many that are
    right are compatible with each other, many that are wrong are not: each counts what its neighbours in that
    graph have in common with it, and the best of them begin a motion each. Swapping the sides inverts the
    motion, whichever is chosen.
    """
    if len(x) < FEWEST:
        return None
    of_x, of_y = cdist(x, x), cdist(y, y)
    compatible = (np.abs(of_x - of_y) < tolerance) & (np.minimum(of_x, of_y) > 2 * tolerance)
    links = compatible.astype(np.float32)  # whole numbers, so that no sum is rounded
    links = links * (links @ links)
    seeds = np.argsort(-links.sum(1), kind="stable")[:SEEDS]
    taken = np.argsort(-links[seeds], axis=1, kind="stable")[:, :TOGETHER]
    weights = np.take_along_axis(links[seeds], taken, axis=1)
    begun = weights.sum(1) > 0
    if not begun.any():
        return None
    source, reference = torch.from_numpy(x), torch.from_numpy(y)
    first = torch.from_numpy(taken[begun])
    motions = arun(source[first], reference[first], torch.from_numpy(weights[begun]))
    for _ in range(ROUNDS):
        agreement = _agreement(motions, source, reference, WIDER * tolerance)
        enough = agreement[(agreement > 0).sum(1) >= FEWEST]
        if not len(enough):
            return None
        motions = arun(source.expand(len(enough), -1, -1), reference.expand(len(enough), -1, -1), enough)
    support = _agreement(motions, source, reference, WIDER * tolerance).sum(1)
    best = int(support.argmax())
    return motions[best].matrix().numpy(), float(support[best])


def _agreement(
    motions: Rigid, source: Float64[Tensor, "n 3"], reference: Float64[Tensor, "n 3"], width: float
) -> Float64[Tensor, "s n"]:
    """Of each correspondence with each motion: 1 where it is met, 0 from ``width`` on."""
    off = motions.act(source.expand(len(motions.rotation), -1, -1)) - reference
    return (1 - off.square().sum(2) / width**2).clamp_min(0)
