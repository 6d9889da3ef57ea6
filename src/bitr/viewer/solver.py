"""From a session to its answer, with how far it is from what the laws say."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Float64

from bitr.assembly.assemble import Assembly, Hypothesis, Settings, assemble_geometries
from bitr.assembly.network import Network
from bitr.data.piece import Piece as Seen
from bitr.data.piece import as_cloud, with_features
from bitr.io import Geometry
from bitr.refine import REFINEMENTS
from bitr.testing import as_rigid, pose_gap
from bitr.viewer.piece import SEED
from bitr.viewer.session import Problem, Session


@dataclass(frozen=True, eq=False)
class Answer:
    """What the model says of a session."""

    session: Session
    assembly: Assembly
    """Of the pieces as they stand."""
    law_error: float
    """|Φ(g₁X, g₂Y) − g₂ Φ(X, Y) g₁⁻¹| as ``bitr.testing.pose_gap`` measures it, with swap and scale in it.

    Large where the answer is ambiguous: which of several equals comes first is then chance."""

    @property
    def pose(self) -> Float64[np.ndarray, "4 4"]:
        """Of the hypothesis that is shown; takes the source, as it stands, onto the reference."""
        hypotheses = self.assembly.hypotheses
        return hypotheses[min(self.session.choice, len(hypotheses) - 1)].transformation

    @property
    def pose_of_files(self) -> Float64[np.ndarray, "4 4"]:
        """The same for the files as they are."""
        return self.session.on_files(self.pose)


class Solver:
    """Answers the sessions of one person; the answer before any motion is found once for each problem."""

    def __init__(self, network: Network) -> None:
        self.network = network
        self._known: tuple[Problem, Assembly] | None = None

    def base(self, problem: Problem) -> Assembly:
        """Φ(X, Y), of the pieces as they lie in their files."""
        if self._known is None or self._known[0] is not problem:
            x, y = problem.pieces
            self._known = problem, self._assemble(problem, x.seen, y.seen)
        return self._known[1]

    def solve(self, session: Session) -> Answer:
        """The model's answer for the pieces as they stand: it is computed, not derived from the laws."""
        source, reference = session.inputs()
        return self._answered(session, self._assemble(session.problem, source, reference), source)

    def follow(self, session: Session, last: Answer) -> Answer:
        """The answer while a piece is held: as ``solve`` gives it, only sooner.

        The pose and the key points come from the model, anew. What no motion changes (fitness, confidence,
        symmetries, which take a third of the time) is taken over from the last answer, where only motions lie
        between the two.
        """
        if session.problem.hypotheses > 1 or not session.moved_from(last.session):
            return self.solve(session)
        start = time.perf_counter()
        source, reference = session.inputs()
        x, y = with_features(Seen(source, source), Seen(reference, reference), self.network.model.config)
        device = next(self.network.model.parameters()).device
        with torch.inference_mode():
            solution = self.network.model.solve(as_cloud(x, device), as_cloud(y, device))
        own = solution.pose.matrix()[0].double().cpu().numpy()
        pose = REFINEMENTS[session.problem.refine](source.points, reference.points, own).pose
        assembly = replace(
            last.assembly,
            transformation=pose,
            hypotheses=(Hypothesis(pose, 1.0),),
            source_keypoints=solution.source_keypoints[0].cpu().numpy(),
            reference_keypoints=solution.reference_keypoints[0].cpu().numpy(),
            singular_gap=float(solution.singular_gap[0]),
            seconds=time.perf_counter() - start,
        )
        return self._answered(session, assembly, source)

    def _answered(self, session: Session, assembly: Assembly, source: Geometry) -> Answer:
        expected = session.expected(self.base(session.problem).transformation)
        return Answer(session, assembly, _gap(assembly.transformation, expected, source))

    def _assemble(self, problem: Problem, source: Geometry, reference: Geometry) -> Assembly:
        budget = max(piece.budget for piece in problem.pieces)
        settings = Settings(problem.refine, problem.hypotheses, budget=budget, seed=SEED)
        return assemble_geometries(source, reference, self.network, settings)


def _gap(found: Float64[np.ndarray, "4 4"], expected: Float64[np.ndarray, "4 4"], source: Geometry) -> float:
    return pose_gap(as_rigid(found), as_rigid(expected), source.points)
