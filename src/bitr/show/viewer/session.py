"""The state of one person's viewer and its answer: two pieces, where they stand, and the pose by the laws.

All values are immutable. A piece X is changed by sliders in the frame of its file, scaled by c and moved by
hand to g c X; a solver answers the pieces as they stand and measures how far the answer is from the laws.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import torch
from jaxtyping import Float64

from bitr.assembly.assemble import FAST_SURFACE, POINTS, Assembly, Settings, assemble_geometries
from bitr.assembly.network import Network
from bitr.assembly.sample import DENSE, sample, spread_draw
from bitr.data.piece import MIN_POINTS, as_cloud
from bitr.data.poses import inverse, pose
from bitr.data.transforms import add_outliers, jitter, take
from bitr.errors import InputError
from bitr.io import Geometry, as_points
from bitr.show.stage import Matrix, Vector
from bitr.testing import as_rigid, cloud_size, pose_gap

LIMITS = {"cut": (-0.9, 0.9), "noise": (0.0, 0.2), "outliers": (0.0, 1.0)}
SCALES = (0.25, 4.0)
HYPOTHESES = 5
"""Most poses that are shown, unless asked for more or fewer."""
SEED = 0

Pose = Float64[np.ndarray, "4 4"]


@dataclass(frozen=True)
class Changes:
    """Changes that make a piece harder: a cut by a plane, noise, and points that do not belong to it."""

    cut: float = 0.0
    """Share of the points beyond the plane: at one end where positive, at the other where negative."""
    noise: float = 0.0
    """Standard deviation along each axis, in root mean square radii of the piece."""
    outliers: float = 0.0
    """Number of further points, as a share of the points of the piece."""

    def __post_init__(self) -> None:
        for name, (low, high) in LIMITS.items():
            value = getattr(self, name)
            if not low <= value <= high:  # written so that NaN fails
                raise InputError(f"{name} = {value!r}: expected a number from {low:g} to {high:g}")

    def apply(self, cloud: Geometry, seed: int) -> Geometry:
        """Change a cloud in its own frame, so that every motion of the piece moves the changes along.

        One seed draws the same noise, larger or smaller: a slider changes the piece without a jump.
        """
        size, reach = cloud_size(cloud.points), 0.6 * np.ptp(cloud.points, axis=0).max()
        to_middle = pose(np.eye(3), cloud.points.mean(0))
        if self.cut:
            cloud = _cut(cloud, self.cut)
        if self.noise:
            cloud = jitter(cloud, self.noise * size, np.random.default_rng([seed, 0]))
        if self.outliers:
            count, rng = round(self.outliers * len(cloud.points)), np.random.default_rng([seed, 1])
            centered = cloud.moved(inverse(to_middle))
            cloud = add_outliers(centered, count, rng, -reach, reach).moved(to_middle)
        return cloud


def _cut(cloud: Geometry, share: float) -> Geometry:
    """Remove a share of the points from an end of the longest axis, but leave those that the model needs."""
    centered = cloud.points - cloud.points.mean(0)
    axis = np.linalg.eigh(centered.T @ centered)[1][:, -1]
    axis = axis if axis[np.abs(axis).argmax()] > 0 else -axis
    order = np.argsort(centered @ axis, kind="stable")
    gone = min(round(abs(share) * len(order)), max(len(order) - MIN_POINTS, 0))
    return take(cloud, np.sort(order[gone:] if share < 0 else order[: len(order) - gone]))


@dataclass(frozen=True, eq=False)
class Piece:
    """A piece in the frame of its file; its points are computed once, however often it is moved."""

    file: Geometry
    changes: Changes = field(default_factory=Changes)

    @cached_property
    def middle(self) -> Vector:
        """Centre of the file's bounding box, about which the handle turns the piece."""
        return self.file.points.min(0) / 2 + self.file.points.max(0) / 2

    @cached_property
    def cloud(self) -> Geometry:
        """All points, changed; for a mesh, points of its surface."""
        return self.changes.apply(as_points(self.file, DENSE, SEED), SEED)

    @cached_property
    def dense(self) -> Geometry:
        """The points that the engine chooses from: those that ``bitr assemble`` would take."""
        return take(self.cloud, spread_draw(self.cloud.points, DENSE))

    @property
    def given(self) -> Geometry:
        """The input of the engine: a mesh as it is, unless the sliders changed it."""
        whole = self.file.faces is not None and self.changes == Changes()
        return self.file if whole else self.dense


@dataclass(frozen=True, eq=False)
class Problem:
    """The question to Φ before anything is moved: two pieces X and Y, and how the answer is made."""

    pieces: tuple[Piece, Piece]
    method: str = "auto"
    hypotheses: int = HYPOTHESES
    """Most poses in the answer."""
    points: int | None = None
    """Points of each cloud that the model sees; None: as many as the weights are for."""


@dataclass(frozen=True, eq=False)
class Place:
    """The place of a piece: its rotation, and the position of its middle."""

    rotation: Matrix
    middle: Vector


@dataclass(frozen=True, eq=False)
class Session:
    """Two pieces as they were moved by hand.

    Piece 0 stands at g₁ c X and piece 1 at g₂ c Y; when swapped, piece 1 is the source. Methods return a new
    session, or the same object where nothing is new.
    """

    problem: Problem
    places: tuple[Place, Place]
    scale: float = 1.0
    swapped: bool = False
    choice: int = 0
    """Number of the hypothesis that is shown; the first is the best."""

    @property
    def order(self) -> tuple[int, int]:
        """Index of the source, and of the reference."""
        return (1, 0) if self.swapped else (0, 1)

    def move(self, index: int, place: Place) -> Session:
        return replace(self, places=(place, self.places[1]) if index == 0 else (self.places[0], place))

    def resize(self, factor: float) -> Session:
        """Scale both pieces, each about its middle, which stays."""
        if not SCALES[0] <= factor <= SCALES[1]:
            raise InputError(f"scale = {factor!r}: expected a number from {SCALES[0]:g} to {SCALES[1]:g}")
        return self if factor == self.scale else replace(self, scale=factor)

    def swap(self) -> Session:
        """Exchange source and reference; the pieces stay in place."""
        return replace(self, swapped=not self.swapped)

    def choose(self, choice: int) -> Session:
        """Show another hypothesis."""
        return self if choice == self.choice else replace(self, choice=max(choice, 0))

    def ask(self, method: str | None = None, hypotheses: int | None = None) -> Session:
        """Ask for another kind of joint, or for another number of hypotheses."""
        now = self.problem
        asked = replace(now, method=method or now.method, hypotheses=hypotheses or now.hypotheses)
        is_new = (asked.method, asked.hypotheses) != (now.method, now.hypotheses)
        return replace(self, problem=asked, choice=0) if is_new else self

    def change(self, index: int, changes: Changes) -> Session:
        """Cut a piece, make it noisy, put it among outliers."""
        x, y = self.problem.pieces
        changed = replace(self.problem.pieces[index], changes=changes)
        pieces = (changed, y) if index == 0 else (x, changed)
        return replace(self, problem=replace(self.problem, pieces=pieces))

    def differs_by_motion(self, other: Session) -> bool:
        """True when the sessions differ at most in where the pieces stand and which hypothesis is shown."""
        same = self.problem is other.problem and self.scale == other.scale
        return same and self.swapped == other.swapped

    def motion(self, index: int) -> Pose:
        """g₁ or g₂, which takes the scaled piece of the file to where it stands."""
        place, middle = self.places[index], self.problem.pieces[index].middle
        return pose(place.rotation, place.middle - place.rotation @ (self.scale * middle))

    def stand(self, index: int, geometry: Geometry) -> Geometry:
        """Move any geometry of a piece's file to where the piece stands."""
        return replace(geometry, points=self.scale * geometry.points).moved(self.motion(index))

    def carry(self, found: Pose) -> Pose:
        """Carry a pose of the files along to the pieces as they stand."""
        source, reference = self.order
        larger = pose(found[:3, :3], self.scale * found[:3, 3])
        return self.motion(reference) @ larger @ inverse(self.motion(source))

    def carry_back(self, found: Pose) -> Pose:
        """Carry a pose of the pieces as they stand back to the files."""
        source, reference = self.order
        back = inverse(self.motion(reference)) @ found @ self.motion(source)
        return pose(back[:3, :3], back[:3, 3] / self.scale)


@dataclass(frozen=True, eq=False)
class Answer:
    """The answer to a session: computed for it, or carried along from where the pieces stood before."""

    session: Session
    assembly: Assembly
    """The assembly of the pieces as they stand in ``solved``."""
    solved: Session
    """The session that was computed: equal to ``session`` up to motions of the pieces."""
    law_error: float
    """|Φ(g₁X, g₂Y) − g₂ Φ(X, Y) g₁⁻¹| as ``bitr.testing.pose_gap`` measures it, with swap and scale in it.

    Large where the answer is ambiguous: chance then decides which of several equals comes first."""

    @property
    def is_carried(self) -> bool:
        """True when pieces were moved since the answer was computed."""
        return self.session.places != self.solved.places

    @property
    def choice(self) -> int:
        """Number of the hypothesis that is shown."""
        return min(self.session.choice, len(self.assembly.hypotheses) - 1)

    @property
    def pose(self) -> Pose:
        """The pose of the hypothesis that is shown, from the source as it stands onto the reference."""
        if self.is_carried:
            return self.session.carry(self.pose_of_files)
        return self.assembly.hypotheses[self.choice].transformation

    @property
    def pose_of_files(self) -> Pose:
        """The same pose for the files."""
        return self.solved.carry_back(self.assembly.hypotheses[self.choice].transformation)


class Solver:
    """Answers the sessions of one person; values that no motion changes are computed once per problem."""

    def __init__(self, network: Network) -> None:
        self.network = network
        self._base: dict[Problem, Assembly] = {}  # of the latest problem alone
        self._seen: dict[Problem, tuple[Geometry, Geometry]] = {}

    def knows(self, problem: Problem) -> bool:
        """True when ``base`` needs no computation."""
        return problem in self._base

    def base(self, problem: Problem) -> Assembly:
        """Φ(X, Y), of the pieces as they lie in their files."""
        if problem not in self._base:
            x, y = problem.pieces
            self._base = {problem: self._assemble(problem, x.given, y.given)}
        return self._base[problem]

    def first(self, session: Session) -> Answer | None:
        """Φ(X, Y) carried along to where the pieces stand; None where the sessions differ in more."""
        x, y = (Place(np.eye(3), piece.middle) for piece in session.problem.pieces)
        start = Session(session.problem, (x, y), choice=session.choice)
        if not session.differs_by_motion(start):
            return None
        return Answer(session, self.base(session.problem), start, 0.0)

    def solve(self, session: Session) -> Answer:
        """Compute the answer for the pieces as they stand, without the laws."""
        x, y = (session.stand(index, session.problem.pieces[index].given) for index in session.order)
        return self._check_law(session, self._assemble(session.problem, x, y), x)

    def follow(self, session: Session, last: Answer) -> Answer:
        """The model's answer while a piece is held: the pose of ``solve``, only sooner.

        The model computes pose and key points anew. Fitness, confidence and the points that the model sees,
        which no motion changes, are taken over from the last answer if only motions lie between.
        """
        alone = session.problem.method == "model" and len(last.assembly.hypotheses) == 1
        if not (alone and session.differs_by_motion(last.session)):
            return self.solve(session)
        begin = time.perf_counter()
        x, y = (session.stand(index, self._sample(session.problem)[index]) for index in session.order)
        device = next(self.network.model.parameters()).device
        with torch.inference_mode():
            solution = self.network.model.solve(as_cloud(x, device), as_cloud(y, device))
        found = solution.pose.matrix()[0].double().cpu().numpy()
        assembly = replace(
            last.assembly,
            transformation=found,
            hypotheses=(replace(last.assembly.hypotheses[0], transformation=found),),
            source_keypoints=solution.source_keypoints[0].cpu().numpy(),
            reference_keypoints=solution.reference_keypoints[0].cpu().numpy(),
            singular_gap=float(solution.singular_gap[0]),
            seconds=time.perf_counter() - begin,
        )
        return self._check_law(session, assembly, x)

    def _check_law(self, session: Session, assembly: Assembly, source: Geometry) -> Answer:
        """Compare with the answer by the laws, from Φ(X, Y): g₂ (c·Φ) g₁⁻¹, and its inverse when swapped."""
        base = self.base(session.problem).transformation
        expected = session.carry(inverse(base) if session.swapped else base)
        gap = pose_gap(as_rigid(assembly.transformation), as_rigid(expected), source.points)
        return Answer(session, assembly, session, gap)

    def _assemble(self, problem: Problem, source: Geometry, reference: Geometry) -> Assembly:
        fast = problem.method == "model"
        settings = Settings(problem.method, problem.hypotheses, fast=fast, points=problem.points, seed=SEED)
        return assemble_geometries(source, reference, self.network, settings)

    def _sample(self, problem: Problem) -> tuple[Geometry, Geometry]:
        """The points of both pieces that the model sees, in the frames of the files."""
        if problem not in self._seen:
            (x, y), config = problem.pieces, self.network.model.config
            points = problem.points or self.network.points or POINTS
            sampled = sample(x.given, y.given, config, points, 1, SEED, FAST_SURFACE)
            self._seen = {problem: sampled.seen[0]}
        return self._seen[problem]
