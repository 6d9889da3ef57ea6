"""From a session to its answer, with how far it is from what the laws say."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Float64

from bitr.assembly.assemble import FAST_SURFACE, POINTS, Assembly, Settings, assemble_geometries
from bitr.assembly.network import Network
from bitr.assembly.sample import sample
from bitr.data.piece import as_cloud
from bitr.io import Geometry
from bitr.testing import as_rigid, pose_gap
from bitr.viewer.piece import SEED
from bitr.viewer.session import Problem, Session


@dataclass(frozen=True, eq=False)
class Answer:
    """What is known of a session: computed for it, or carried along from where the pieces stood before."""

    session: Session
    assembly: Assembly
    """Of the pieces as they stand in ``solved``."""
    solved: Session
    """What the answer was computed for: the session, up to motions of the pieces."""
    law_error: float
    """|Φ(g₁X, g₂Y) − g₂ Φ(X, Y) g₁⁻¹| as ``bitr.testing.pose_gap`` measures it, with swap and scale in it.

    Large where the answer is ambiguous: which of several equals comes first is then chance."""

    @property
    def carried(self) -> bool:
        """Whether pieces were moved since the answer was computed."""
        return self.session.places != self.solved.places

    @property
    def choice(self) -> int:
        """Which hypothesis is shown."""
        return min(self.session.choice, len(self.assembly.hypotheses) - 1)

    @property
    def pose(self) -> Float64[np.ndarray, "4 4"]:
        """Of the hypothesis that is shown; takes the source, as it stands, onto the reference."""
        if self.carried:
            return self.session.on_pieces(self.pose_of_files)
        return self.assembly.hypotheses[self.choice].transformation

    @property
    def pose_of_files(self) -> Float64[np.ndarray, "4 4"]:
        """The same for the files as they are."""
        return self.solved.on_files(self.assembly.hypotheses[self.choice].transformation)


class Solver:
    """Answers the sessions of one person; what no motion changes is found once for each problem."""

    def __init__(self, network: Network) -> None:
        self.network = network
        self._base: tuple[Problem, Assembly] | None = None
        self._seen: tuple[Problem, tuple[Geometry, Geometry]] | None = None

    def knows(self, problem: Problem) -> bool:
        """Whether ``base`` is at hand."""
        return self._base is not None and self._base[0] is problem

    def base(self, problem: Problem) -> Assembly:
        """Φ(X, Y), of the pieces as they lie in their files."""
        if self._base is None or self._base[0] is not problem:
            x, y = problem.pieces
            self._base = problem, self._assemble(problem, x.given, y.given)
        return self._base[1]

    def first(self, session: Session) -> Answer | None:
        """Φ(X, Y) carried along to where the pieces stand; None where more than motions lie between."""
        start = session.at_files()
        if not session.like(start):
            return None
        return Answer(session, self.base(session.problem), start, 0.0)

    def solve(self, session: Session) -> Answer:
        """The answer for the pieces as they stand: it is computed, not derived from the laws."""
        source, reference = session.inputs()
        return self._answered(session, self._assemble(session.problem, source, reference), source)

    def follow(self, session: Session, last: Answer) -> Answer:
        """The model's answer while a piece is held: the pose that ``solve`` gives, only sooner.

        Pose and key points come from the model, anew. What no motion changes (fitness, confidence, which
        points the model sees) is taken over, where only motions lie between this session and the last.
        """
        problem = session.problem
        alone = problem.method == "model" and len(last.assembly.hypotheses) == 1
        if not (alone and session.like(last.session)):
            return self.solve(session)
        start = time.perf_counter()
        x, y = (session.standing(index, self._seen_of(problem)[index]) for index in session.order)
        device = next(self.network.model.parameters()).device
        with torch.inference_mode():
            solution = self.network.model.solve(as_cloud(x, device), as_cloud(y, device))
        pose = solution.pose.matrix()[0].double().cpu().numpy()
        assembly = replace(
            last.assembly,
            transformation=pose,
            hypotheses=(replace(last.assembly.hypotheses[0], transformation=pose),),
            source_keypoints=solution.source_keypoints[0].cpu().numpy(),
            reference_keypoints=solution.reference_keypoints[0].cpu().numpy(),
            singular_gap=float(solution.singular_gap[0]),
            seconds=time.perf_counter() - start,
        )
        return self._answered(session, assembly, x)

    def _answered(self, session: Session, assembly: Assembly, source: Geometry) -> Answer:
        expected = session.expected(self.base(session.problem).transformation)
        gap = pose_gap(as_rigid(assembly.transformation), as_rigid(expected), source.points)
        return Answer(session, assembly, session, gap)

    def _assemble(self, problem: Problem, source: Geometry, reference: Geometry) -> Assembly:
        fast = problem.method == "model"
        settings = Settings(problem.method, problem.hypotheses, fast=fast, points=problem.points, seed=SEED)
        return assemble_geometries(source, reference, self.network, settings)

    def _seen_of(self, problem: Problem) -> tuple[Geometry, Geometry]:
        """The points of both pieces that the model sees, in the frames of the files."""
        if self._seen is None or self._seen[0] is not problem:
            x, y = problem.pieces
            points = problem.points or self.network.points or POINTS
            config = self.network.model.config
            sampled = sample(x.given, y.given, config, points, 1, SEED, FAST_SURFACE)
            self._seen = problem, sampled.seen[0]
        return self._seen[1]
