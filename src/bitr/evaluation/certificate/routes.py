"""The ways from a pair to a pose: what a law is checked on end to end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from bitr.evaluation.certificate.bounds import BOUNDS
from bitr.evaluation.certificate.certificate import Row, rows_of
from bitr.evaluation.certificate.laws import pose_errors
from bitr.evaluation.certificate.pairs import PairMaker, Trial
from bitr.io import Geometry

FEWEST_FOR_A_MEDIAN, MOST_TRIALS = 5, 1000
Solve = Callable[[Geometry, Geometry], Any]
"""From two pieces to a pose, as a ``Rigid`` or a 4×4 matrix."""


@dataclass(frozen=True)
class Route:
    """A way to solve pairs and what to call it, the bounds it is held to, and the pairs it is tried on."""

    path: str
    solve: Solve
    precision: str
    make: PairMaker
    most: int = MOST_TRIALS
    """Trials of a slow route, however many are asked for."""

    def rows(self, trials: int, seed: int) -> list[Row]:
        """The three laws; where the median counts, there are at least enough trials to have one."""
        generator = torch.Generator().manual_seed(seed)
        least = FEWEST_FOR_A_MEDIAN if BOUNDS[self.precision].judged == "median" else 1
        laws = []
        for _ in range(max(least, min(trials, self.most))):
            trial = Trial.draw(self.make, generator)
            laws.append(pose_errors(trial, [self.solve(*pair) for pair in trial.pairs()]))
        return rows_of("end to end", self.path, self.precision, laws)
