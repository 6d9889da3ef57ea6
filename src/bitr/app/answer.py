"""What the model, the shapes and the refinement say of one pair."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Float64

from bitr.app.confidence import Signals, signals_of
from bitr.app.fitness import Fit, fit
from bitr.app.network import Network
from bitr.app.settings import BUDGET, Settings
from bitr.data.piece import Piece, as_cloud, as_piece, with_features
from bitr.data.poses import acted
from bitr.errors import InputError
from bitr.hypotheses import Nearness, Proposals, Ranked, Symmetries, merged, proposals, ranked, symmetries
from bitr.io import Geometry
from bitr.model import BITR, Solution
from bitr.refine import REFINEMENTS, Refinement, Separation, separate

log = logging.getLogger("bitr")

Pose = Float64[np.ndarray, "4 4"]


@dataclass(frozen=True, eq=False)
class Answer:
    """The hypotheses of one pair, and all that they were made of."""

    source: Geometry
    """What the model saw of it, as of the reference."""
    reference: Geometry
    solution: Solution
    symmetries: tuple[Symmetries, Symmetries]
    """Of the source and of the reference."""
    hypotheses: Ranked
    """The first is the answer."""
    refinement: Refinement
    """Of the answer."""
    separation: Separation | None
    """Of the answer, where it was asked for."""
    before: Fit
    """Of the model's own pose."""
    refined: Fit
    """Of the answer before it was separated."""
    after: Fit
    """Of the answer."""

    @property
    def pose(self) -> Pose:
        return self.hypotheses.poses[0]

    @property
    def signals(self) -> Signals | None:
        """What tells how likely the answer is right; None where it is not the model's own pose, refined.

        Of the answer before it was separated, as those that confidences are fitted on.
        """
        if self.hypotheses.proposal[0] != 0:
            return None
        x, y = self.source.points, self.reference.points
        return signals_of(self.solution, self.refinement.pose, x, y, self.before, self.refined)


def answer(source: Geometry, reference: Geometry, network: Network, settings: Settings) -> Answer:
    """One hypothesis is the model's own pose, refined; of several, the best may be another."""
    budget = settings.budget or network.points or BUDGET
    pieces = [as_piece(side, budget, settings.seed) for side in (source, reference)]
    x, y = with_features(pieces[0], pieces[1], network.model.config)
    solution = _solve(x, y, network.model)
    several = settings.hypotheses > 1
    last = _solve(x, y, network.last) if several and network.last is not None else None
    proposed = proposals(solution, last)
    found = _Search(pieces[0], pieces[1], x, y, settings)
    shapes = symmetries(x.points), symmetries(y.points)
    chosen, refinement = found.several(proposed, shapes) if several else found.one(proposed.poses[0])
    refined, separation = found.fit(refinement.pose), None
    if settings.separate:
        freed = [separate(source, reference, pose) for pose in chosen.poses]
        chosen, separation = replace(chosen, poses=np.stack([each.pose for each in freed])), freed[0]
    return Answer(
        x,
        y,
        solution,
        shapes,
        chosen,
        refinement,
        separation,
        found.fit(proposed.poses[0]),
        refined,
        refined if separation is None else found.fit(separation.pose),
    )


@dataclass(frozen=True, eq=False)
class _Search:
    """Refinement and fitness of poses of one pair."""

    source: Piece
    reference: Piece
    x: Geometry
    y: Geometry
    settings: Settings

    def refine(self, pose: Pose) -> Refinement:
        log.info("refining with %s", self.settings.refine)
        return REFINEMENTS[self.settings.refine](self.source.dense.points, self.reference.dense.points, pose)

    def fit(self, pose: Pose) -> Fit:
        return fit(acted(pose, self.x.points), self.y.points)

    def one(self, pose: Pose) -> tuple[Ranked, Refinement]:
        refinement = self.refine(pose)
        return Ranked(refinement.pose[None], np.ones(1), (0,)), refinement

    def several(
        self, proposed: Proposals, shapes: tuple[Symmetries, Symmetries]
    ) -> tuple[Ranked, Refinement]:
        """Proposals are refined and scored, then their images under symmetries refined too.

        An image keeps its weight: a symmetric piece gives no reason to prefer one.
        """
        most = self.settings.hypotheses
        nearness = Nearness.of(self.x.points, self.y.points)
        refined = [self.refine(pose) for pose in proposed.poses]
        poses = np.stack([refinement.pose for refinement in refined])
        fitness = [self.fit(pose).fitness for pose in poses]
        for kind, value in zip(proposed.kinds, fitness, strict=True):
            log.info("fitness %.3f: %s", value, kind)
        chosen = ranked(poses, fitness, shapes[0].listed(), shapes[1].listed(), nearness, most)
        first = chosen.proposal[0]
        assert first is not None  # what symmetries make of a proposal comes after it
        ended = [
            pose if number is not None else self._near(pose, nearness)
            for pose, number in zip(chosen.poses, chosen.proposal, strict=True)
        ]
        return merged(replace(chosen, poses=np.stack(ended)), nearness), refined[first]

    def _near(self, pose: Pose, nearness: Nearness) -> Pose:
        """Refined, or as it was where the search leads to another assembly."""
        ended = self.refine(pose).pose
        return ended if nearness.gaps(ended[None], pose)[0] <= 1 else pose


def _solve(x: Geometry, y: Geometry, model: BITR) -> Solution:
    log.info("solving with %d and %d points", len(x.points), len(y.points))
    device = next(model.parameters()).device
    try:
        with torch.inference_mode():
            return model.solve(as_cloud(x, device), as_cloud(y, device))
    except InputError as error:
        raise InputError(f"{x.name} and {y.name}: {error}") from error
