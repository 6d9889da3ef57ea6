"""From proposed poses and symmetries to a few weighted hypotheses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float64

from bitr.hypotheses.orbit import Nearness, Orbit, Poses

FLOOR = 0.01
"""Added to every fitness: poses of pieces that nowhere meet still have a weight."""


@dataclass(frozen=True, eq=False)
class Ranked:
    """Poses with weights that add up to 1, the heaviest first."""

    poses: Poses
    weights: Float64[np.ndarray, " k"]
    proposal: tuple[int | None, ...]
    """The number of the proposal that a pose is; None for what symmetries make of one."""


@dataclass(frozen=True, eq=False)
class _Assembly:
    """One way to put the pieces together: poses that symmetries of the pieces cannot tell apart."""

    orbit: Orbit
    proposal: int
    """The first of the orbit is this one."""
    fitness: float
    votes: int = 1

    def weight(self) -> float:
        """Of each pose, whether or not all come back."""
        return self.votes * (self.fitness + FLOOR) / self.orbit.size


def ranked(
    poses: Poses, fitness: Sequence[float], source: Poses, reference: Poses, nearness: Nearness, most: int
) -> Ranked:
    """Proposed poses that agree up to symmetries are one assembly, and share its weight with their images.

    An assembly weighs its fitness times the number of proposals that agree on it, and every pose of it the
    same. The first pose proposed stands for its assembly; of the others, the one that fits best. Only at the
    end it matters how many are asked for: fewer are the first of more, with weights in the same proportions.
    """
    found: list[_Assembly] = []
    for i in [0, *sorted(range(1, len(poses)), key=lambda i: -fitness[i])]:
        for number, known in enumerate(found):
            if known.orbit.has(poses[i]):
                found[number] = replace(known, votes=known.votes + 1)
                break
        else:
            found.append(_Assembly(Orbit.of(poses[i], source, reference, nearness), i, fitness[i]))
    found = sorted(found, key=lambda assembly: -assembly.weight())[:most]
    images = [assembly.orbit.images(most) for assembly in found]
    counts = [len(each) for each in images]
    weights = np.repeat([assembly.weight() for assembly in found], counts)[:most]
    proposal = [
        known.proposal if i == 0 else None
        for known, count in zip(found, counts, strict=True)
        for i in range(count)
    ]
    return Ranked(np.concatenate(images)[:most], weights / weights.sum(), tuple(proposal[:most]))


def merged(found: Ranked, nearness: Nearness) -> Ranked:
    """Without poses that give the same assembly as one before them."""
    kept: list[int] = []
    for i, pose in enumerate(found.poses):
        if not kept or nearness.gaps(found.poses[kept], pose).min() > 1:
            kept.append(i)
    weights = found.weights[kept]
    return Ranked(found.poses[kept], weights / weights.sum(), tuple(found.proposal[i] for i in kept))
