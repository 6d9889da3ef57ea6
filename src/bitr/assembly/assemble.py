"""The main job: two files, arrays or meshes in, a pose out. Sample, propose, finish, verify, answer."""

from __future__ import annotations

import json
import logging
import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Float64
from scipy.special import expit

from bitr.assembly.finish import METHODS, Candidates, finish, gaps
from bitr.assembly.network import Network
from bitr.assembly.propose import Proposals, propose
from bitr.assembly.sample import SURFACE, Sampled, sample
from bitr.assembly.seam import settle
from bitr.assembly.verify import NAMES, Evidence, evidence, shortlist
from bitr.data.piece import MIN_POINTS
from bitr.data.poses import nearest_pose
from bitr.errors import InputError
from bitr.hypotheses import Nearness, Orbit, Symmetries, described, symmetries
from bitr.hypotheses.outline import FEWEST, FLAT, spreads
from bitr.io import Geometry, as_geometry
from bitr.model import BITR
from bitr.refine import Separation, separate
from bitr.refine.fitness import Fit, fit
from bitr.refine.frame import Matrix, moved
from bitr.refine.icp import bring_together

LIMITS = {"hypotheses": (1, 64), "points": (MIN_POINTS, 1_000_000), "seed": (0, 2**63 - 1)}
POINTS = 1000
"""Of each cloud that the model sees, where nothing says how many the weights are for."""
SAMPLINGS = 4
"""Of either piece; the model is asked for each."""
FAST_SURFACE = 1600
"""Points of both surfaces together for an answer of one forward pass."""
SURE = 0.5
"""Confidence below which an answer is ``unsure``."""
RIVAL = 0.5
"""Share of the best answer's chance from which on a different one makes the answer ``ambiguous``."""
KEEP = 1.5
"""A given pose stays unless another scores better by this much."""
UNLIKE = 100.0
"""Ratio of the pieces' sizes from which on their units are doubted."""
METHOD_NAMES = ("auto", *METHODS)

log = logging.getLogger("bitr")


@dataclass(frozen=True)
class Settings:
    """How pairs are assembled: what a batch has in common, beside the model."""

    method: str = "auto"
    """Kind of joint: ``auto`` tries all that the weights are for."""
    hypotheses: int = 1
    """How many poses to return at most."""
    separate: bool = False
    """Whether pieces that reach into each other are brought apart, at the end."""
    fast: bool = False
    """One forward pass of the model, and its pose as it is."""
    points: int | None = None
    """Of each cloud that the model sees; None: as many as the weights are for, or ``POINTS``."""
    seed: int = 0

    def __post_init__(self) -> None:
        if self.method not in METHOD_NAMES:
            raise InputError(f"method = {self.method!r}: expected one of {', '.join(METHOD_NAMES)}")
        if self.fast and self.method not in ("auto", "model"):
            raise InputError(f"method = {self.method!r} with fast: a fast answer is the model's own")
        for name, (least, most) in LIMITS.items():
            value = getattr(self, name)
            if value is None and name == "points":
                continue
            if not isinstance(value, int) or not least <= value <= most:
                raise InputError(f"{name} = {value!r}: expected a whole number from {least} to {most}")

    def methods(self, network: Network) -> frozenset[str]:
        """What is proposed and finished; the model's own pose always."""
        if self.fast:
            return frozenset(["model"])
        return frozenset(network.joints if self.method == "auto" else [self.method]) | {"model"}


@dataclass(frozen=True, eq=False)
class Hypothesis:
    """One possible pose: its share of the belief, what finished it, and the numbers that speak for it."""

    transformation: Float64[np.ndarray, "4 4"]
    weight: float
    """The weights of all hypotheses add up to 1; symmetric images have equal ones."""
    method: str
    """``overlap``, ``seam``, ``touch`` or ``model``; ``given`` for a pose of the user's, left as it is."""
    origin: str
    """What proposed it: model, match, seam, copy, given or symmetry."""
    confidence: float
    """Chance from 0 to 1 that this pose is right."""
    fitness: float
    evidence: dict[str, float]

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "transformation": self.transformation.tolist()}


@dataclass(frozen=True, eq=False)
class Assembly:
    """The answer for one pair: ``transformation`` takes the source onto the reference (column vectors).

    Lengths are in the unit of the inputs.
    """

    transformation: Float64[np.ndarray, "4 4"]
    confidence: float
    """Chance from 0 to 1 that the pose, or an image of it under a symmetry of the pieces, is right."""
    status: str
    """``ok``, ``ambiguous``, ``unsure`` or ``degenerate``."""
    reason: str | None
    """Why, in words, unless the status is ``ok``."""
    method: str
    """What finished the answer: ``overlap``, ``seam``, ``touch`` or ``model``."""
    evidence: dict[str, float]
    """The numbers that the confidence rests on, by name."""
    hypotheses: tuple[Hypothesis, ...]
    """Best first; those of a symmetric piece that differ by a symmetry have equal weights."""
    fitness: float
    """Share of points with a partner on the other piece, from 0 to 1; pieces that only touch have few."""
    inlier_rmse: float | None
    """Root mean square distance of those partners; None when there are none."""
    penetration_before: float | None
    """How deep one piece reaches into the other before they are separated; None where that was not asked for,
    or where nothing tells the inside of a piece."""
    penetration_after: float | None
    seconds: float
    """Of everything but reading and writing files."""
    model: str
    source: str
    reference: str
    warnings: tuple[str, ...]
    source_keypoints: Float64[np.ndarray, "l 3"]
    reference_keypoints: Float64[np.ndarray, "l 3"]
    singular_gap: float
    """Near 0 the model's rotation is not determined: the shape is symmetric or degenerate."""

    @property
    def ambiguous(self) -> bool:
        return self.status == "ambiguous"

    @property
    def degenerate(self) -> bool:
        return self.status == "degenerate"

    def moved(self, source: Geometry) -> Geometry:
        """The source, or any other geometry in its coordinates, put in its place on the reference."""
        return source.moved(self.transformation)

    def to_json(self) -> str:
        """One JSON object in one line, plain ASCII; what is not known is null."""
        return json.dumps(self.to_dict(), allow_nan=False)

    def to_dict(self) -> dict[str, Any]:
        """The keys and values of ``to_json``."""
        left_out = ("source_keypoints", "reference_keypoints", "singular_gap")
        values = {name: getattr(self, name) for name in self.__dataclass_fields__ if name not in left_out}
        return values | {
            "transformation": self.transformation.tolist(),
            "hypotheses": [hypothesis.to_dict() for hypothesis in self.hypotheses],
            "warnings": list(self.warnings),
        }


def assemble(
    source: Any,
    reference: Any,
    *,
    model: str | os.PathLike[str] | BITR = "default",
    method: str = "auto",
    init: Any = None,
    hypotheses: int = 1,
    separate: bool = False,
    fast: bool = False,
    points: int | None = None,
    seed: int = 0,
) -> Assembly:
    """The motion that takes the source onto the reference, whatever the pieces are.

    Both may be paths, (n, 3) or (n, 6) arrays or tensors, Open3D or trimesh objects. ``model`` is a model,
    its name or its path; ``method`` limits the search to one kind of joint; ``init`` is a pose that is kept
    unless another is clearly better; ``hypotheses`` is how many poses to return at most; ``separate`` brings
    pieces apart that reach into each other, which takes closed meshes or normals that point outwards;
    ``fast`` is one forward pass of the model; ``points`` is how many points of each cloud the model sees.

    The whole moves with the pieces: moving, swapping or scaling the inputs moves, inverts or scales the pose.
    """
    settings = Settings(method, hypotheses, separate, fast, points, seed)
    pair = as_geometry(source, "source"), as_geometry(reference, "reference")
    start = None if init is None else _pose_of(init)
    return assemble_geometries(*pair, Network.of(model), settings, start)


def _pose_of(init: Any) -> Matrix:
    matrix = np.asarray(init, dtype=np.float64)
    if matrix.shape != (4, 4):
        raise InputError(f"init: found an array of shape {matrix.shape}, expected (4, 4)")
    return nearest_pose(matrix, "init")


def assemble_geometries(
    source: Geometry, reference: Geometry, network: Network, settings: Settings, init: Matrix | None = None
) -> Assembly:
    """The same, for what has been read already and a model that has been loaded already."""
    start = time.perf_counter()
    judged = judge(source, reference, network, settings, init)
    return replace(answer(source, reference, network, settings, judged), seconds=time.perf_counter() - start)


@dataclass(frozen=True, eq=False)
class Judged:
    """All candidates of a pair with their evidence and scores, best first."""

    sampled: Sampled
    proposals: Proposals
    candidates: Candidates
    evidence: Evidence
    scores: Float64[np.ndarray, " g"]

    def poses(self) -> list[Matrix]:
        """In the coordinates of the pieces."""
        return [self.sampled.frame.outside(pose) for pose in self.candidates.poses]


def judge(
    source: Geometry,
    reference: Geometry,
    network: Network,
    settings: Settings,
    init: Matrix | None = None,
) -> Judged:
    """Sample, propose, finish and verify: every candidate with its score."""
    methods = settings.methods(network)
    sampled = sample(
        source,
        reference,
        network.model.config,
        settings.points or network.points or POINTS,
        1 if settings.fast else SAMPLINGS,
        settings.seed,
        FAST_SURFACE if settings.fast else SURFACE,
    )
    proposals = propose(sampled, network.model, methods, init)
    proposals = shortlist(sampled, proposals, network.verifier)
    candidates = finish(sampled, proposals, methods)
    rows = evidence(sampled, proposals, candidates)
    scores = network.verifier.scores(rows)
    order = _order(candidates, scores, settings)
    for i in order[:8]:
        numbers = dict(zip(NAMES, rows[i], strict=True))
        log.info(
            "%-7s from %-6s score %5.2f: overlap %.2f, seam %.2f, support %.1f, model %.2f, crossing %.2f",
            candidates.methods[i],
            candidates.origins[i],
            scores[i],
            numbers["overlap_larger"],
            numbers["seam"],
            np.expm1(numbers["support"]),
            numbers["model_share"],
            numbers["crossing"],
        )
    return Judged(sampled, proposals, candidates.take(order), rows[order], scores[order])


def _order(candidates: Candidates, scores: Float64[np.ndarray, " g"], settings: Settings) -> list[int]:
    """Best first; what the user asks for or gives comes before the rest."""
    order = [int(i) for i in np.argsort(-scores, kind="stable")]
    if settings.method != "auto":
        order.sort(key=lambda i: candidates.methods[i] != settings.method)
    given = [i for i in order if candidates.origins[i] == "given"]
    if given and scores[given[0]] > scores[order[0]] - KEEP:
        order.remove(given[0])
        order.insert(0, given[0])
    return order


def answer(
    source: Geometry, reference: Geometry, network: Network, settings: Settings, judged: Judged
) -> Assembly:
    """The best candidate in words and numbers, with others that differ from it."""
    x, y = judged.sampled.seen[0]
    shapes = (
        (symmetries(x.points), symmetries(y.points)) if not settings.fast else (_NO_SYMMETRY, _NO_SYMMETRY)
    )
    hypotheses = _hypotheses(judged, shapes, network, settings)
    best, separation = hypotheses[0], None
    if settings.separate or best.method == "touch":
        separation = separate(source, reference, best.transformation)
        if settings.separate or separation.free:
            best = replace(best, transformation=separation.pose)
            hypotheses = (best, *hypotheses[1:])
    status, reason = _status(judged, shapes, hypotheses)
    after: Fit = fit(moved(x.points, best.transformation), y.points)
    confidence = 0.0 if status == "degenerate" else best.confidence
    solution = judged.proposals.solution
    kept = separation if settings.separate else None
    return Assembly(
        transformation=best.transformation,
        confidence=confidence,
        status=status,
        reason=reason,
        method=best.method,
        evidence=best.evidence,
        hypotheses=hypotheses,
        fitness=after.fitness,
        inlier_rmse=after.inlier_rmse,
        penetration_before=None if kept is None else kept.depth_before,
        penetration_after=None if kept is None else kept.depth_after,
        seconds=0.0,
        model=network.name,
        source=source.name,
        reference=reference.name,
        warnings=tuple(_warnings((source, reference), (x, y), network, settings, best, kept)),
        source_keypoints=solution.source_keypoints[0].cpu().numpy(),
        reference_keypoints=solution.reference_keypoints[0].cpu().numpy(),
        singular_gap=float(solution.singular_gap[0]),
    )


_NO_SYMMETRY = Symmetries(np.eye(4)[None])


def _hypotheses(
    judged: Judged, shapes: tuple[Symmetries, Symmetries], network: Network, settings: Settings
) -> tuple[Hypothesis, ...]:
    """Candidates that differ, each followed by its images under the pieces' symmetries.

    An image is as likely as the pose it comes from: nothing tells them apart.
    """
    x, y = judged.sampled.seen[0]
    nearness, poses = Nearness.of(x.points, y.points), judged.poses()
    groups = shapes[0].listed(), shapes[1].listed()
    kept: list[tuple[int, Orbit]] = []
    for i, pose in enumerate(poses):
        if any(orbit.has(pose) for _, orbit in kept):
            continue
        kept.append((i, Orbit.of(pose, *groups, nearness)))
        if len(kept) > settings.hypotheses:
            break
    found: list[Hypothesis] = []
    for rank, (i, orbit) in enumerate(kept):
        others = [judged.scores[j] for j, _ in kept if j != i]
        chance = network.verifier.confidence(float(judged.scores[i]), max(others) if others else None)
        numbers = dict(zip(NAMES, judged.evidence[i].tolist(), strict=True))
        for k, image in enumerate(orbit.images(settings.hypotheses)):
            pose = image if k == 0 else _near(judged, image, judged.candidates.methods[i], nearness)
            found.append(
                Hypothesis(
                    pose,
                    float(expit(judged.scores[i])),
                    judged.candidates.methods[i],
                    judged.candidates.origins[i] if k == 0 else "symmetry",
                    chance,
                    fit(moved(x.points, pose), y.points).fitness,
                    numbers,
                )
            )
        if rank + 1 == settings.hypotheses:
            break
    found = _different(found, nearness)[: settings.hypotheses]
    total = sum(each.weight for each in found)
    return tuple(replace(each, weight=each.weight / total) for each in found)


def _near(judged: Judged, image: Matrix, method: str, nearness: Nearness) -> Matrix:
    """An image of a finished pose, finished again, or as it was where the search leads elsewhere."""
    sampled = judged.sampled
    pose = sampled.frame.inside(image)
    if method == "overlap":
        pose = bring_together(sampled.source, sampled.reference, pose)[0]
    elif method == "seam":
        pose = settle(sampled.source, sampled.reference, pose[None], 2.0)[0]
    ended = sampled.frame.outside(pose)
    return ended if nearness.gaps(ended[None], image)[0] <= 1 else image


def _different(found: Sequence[Hypothesis], nearness: Nearness) -> list[Hypothesis]:
    """Without poses that give the same assembly as one before them."""
    kept: list[Hypothesis] = []
    for each in found:
        known = [other.transformation for other in kept]
        if not known or nearness.gaps(np.stack(known), each.transformation).min() > 1:
            kept.append(each)
    return kept


def _status(
    judged: Judged,
    shapes: tuple[Symmetries, Symmetries],
    hypotheses: tuple[Hypothesis, ...],
) -> tuple[str, str | None]:
    """How far the answer can be trusted, and why not further."""
    sides = zip(("source", "reference"), judged.sampled.dense, strict=True)
    no_shape = [f"the {name} {why}" for name, side in sides for why in _no_shape(side)]
    if no_shape:
        return "degenerate", "; ".join(no_shape)
    confidence = hypotheses[0].confidence
    same = [*_same(*shapes)]
    if confidence < SURE:
        said = f"; {'; '.join(same)}" if same else ""
        return "unsure", f"the chance that the pose is right is {confidence:.0%}{said}. {_ADVICE}"
    rival = _rival(judged)
    if rival is not None:
        same.append(f"another pose, {rival:.0f}° away, fits nearly as well")
    return ("ambiguous", "; ".join(same)) if same else ("ok", None)


_ADVICE = (
    "Look at the report (--html) and at other poses (--hypotheses 5), give a rough pose (--init), or "
    "more points"
)


def _rival(judged: Judged) -> float | None:
    """Angle in degrees to a different candidate that is nearly as likely as the best."""
    poses, best = judged.candidates.poses, judged.candidates.poses[0]
    far = np.flatnonzero(gaps(poses, best) > 2)
    if not len(far):
        return None
    other = int(far[np.argmax(judged.scores[far])])
    if expit(judged.scores[other]) < RIVAL * expit(judged.scores[0]):
        return None
    trace = float(np.trace(poses[other, :3, :3] @ best[:3, :3].T))
    return float(np.degrees(np.arccos(np.clip((trace - 1) / 2, -1, 1))))


def _same(source: Symmetries, reference: Symmetries) -> Iterator[str]:
    """How pieces look the same after turns."""
    words = ["" if found.trivial else described(found) for found in (source, reference)]
    if words[0] and words[0] == words[1]:
        yield f"both pieces look the same {words[0]}"
        return
    for name, how in zip(("source", "reference"), words, strict=True):
        if how:
            yield f"the {name} looks the same {how}"


def _no_shape(dense: Geometry) -> Iterator[str]:
    first, second, third = spreads(dense.points)
    different = len(np.unique(dense.points, axis=0))
    if different < FEWEST:
        yield f"has {different} different points, too few to show a shape (expected {FEWEST})"
    if not second > FLAT * first:
        yield "has its points on a line"
    elif not third > FLAT * first:
        yield "has its points on a plane"


def _warnings(
    pieces: tuple[Geometry, Geometry],
    seen: tuple[Geometry, Geometry],
    network: Network,
    settings: Settings,
    best: Hypothesis,
    separation: Separation | None,
) -> Iterator[str]:
    for piece in pieces:
        yield from (f"{piece.name}: {warning}" for warning in piece.warnings)
    sizes = [float(np.linalg.norm(side.points - side.points.mean(0), axis=1).max()) for side in seen]
    if max(sizes) > UNLIKE * min(sizes):
        yield (
            f"the pieces' sizes differ by a factor of {max(sizes) / min(sizes):.0f}: are both files in the "
            "same unit?"
        )
    if settings.method not in ("auto", "model", best.method) and best.origin != "given":
        yield f"nothing was found by {settings.method}; the pose is by {best.method}"
    if best.method == "model" and not network.fitted:
        yield "the confidence was fitted with other weights; bitr calibrate fits it for these"
    if separation is not None and not separation.free:
        yield f"the pieces were not separated: {separation.reason}"
