"""The main job: two files, arrays or meshes in, a pose out. Sample, propose, finish, verify, answer."""

from __future__ import annotations

import json
import logging
import os
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Float64
from scipy.special import expit

from bitr.assembly.align import Frame, Freedom, Matrix, Numbers, angles, distinct, gaps
from bitr.assembly.finish import METHODS, Candidates, finish
from bitr.assembly.mate import settle_mates
from bitr.assembly.network import Network
from bitr.assembly.orbit import SAME_SHIFT, SAME_TURN, Orbit, at_joint, pose_gaps
from bitr.assembly.overlay import bring_together, fit
from bitr.assembly.propose import Proposals, propose
from bitr.assembly.sample import SURFACE, Sampled, sample
from bitr.assembly.scale import scale_ratios
from bitr.assembly.seam import settle
from bitr.assembly.separate import Separation, separate
from bitr.assembly.symmetry import FEWEST, FLAT, NO_SYMMETRY, Symmetries, spreads, symmetries
from bitr.assembly.verify import NAMES, Evidence, Verifier, evidence, shortlist
from bitr.data.piece import MIN_POINTS
from bitr.data.poses import nearest_pose
from bitr.errors import InputError
from bitr.io import Geometry, as_geometry
from bitr.model import BITR

LIMITS = {"hypotheses": (1, 64), "points": (MIN_POINTS, 1_000_000), "seed": (0, 2**63 - 1)}
POINTS = 1000
"""Points of each cloud that the model sees, where nothing says how many the weights are for."""
SAMPLINGS = 4
"""Samplings of either piece; the model is asked for each."""
FAST_SURFACE = 1600
"""Points of both surfaces together for an answer of one forward pass."""
SURE = 0.5
"""Confidence below which an answer is ``unsure``."""
RIVAL = 0.5
"""Share of the best answer's chance from which on a different one makes the answer ``ambiguous``."""
PROVEN = 10.0
"""Score of the motion between two clouds that are copies; the surest other answer measured had 8."""
KEEP = 1.5
"""A given pose stays unless another scores better by this much."""
UNLIKE = 100.0
"""Ratio of the pieces' sizes from which on their units are doubted."""
TILT = float(np.radians(3))
"""Most that a given pose, or the image of an answer under a symmetry, may turn otherwise than is allowed."""
LOGGED, REASONS = 8, 3
"""Candidates that a verbose run tells of, and numbers that it names for the first."""
METHOD_NAMES = ("auto", *METHODS)
log = logging.getLogger("bitr")


@dataclass(frozen=True)
class Settings:
    """Settings that a batch of pairs has in common, beside the model."""

    method: str = "auto"
    """Kind of joint: ``auto`` tries all that the weights are for."""
    hypotheses: int = 1
    """Most poses to return."""
    separate: bool = False
    """Bring pieces apart that reach into each other, at the end."""
    fast: bool = False
    """One forward pass of the model, and its pose as it is."""
    points: int | None = None
    """Points of each cloud that the model sees; None: as many as the weights are for, or ``POINTS``."""
    seed: int = 0
    fix: str | None = None
    """Axis of the files, ``x``, ``y`` or ``z``, about which alone the answer turns; None: any."""
    translation_only: bool = False
    """The answer does not turn."""
    scale: float | int | str | None = None
    """Lengths of the reference over those of the source, or ``auto``; None: both are in one unit."""

    def __post_init__(self) -> None:
        if self.scale not in (None, "auto") and not (
            isinstance(self.scale, int | float) and 0 < self.scale < np.inf
        ):
            raise InputError(f"scale = {self.scale!r}: expected auto or a number above 0")
        if self.fix not in (None, "x", "y", "z"):
            raise InputError(f"fix = {self.fix!r}: expected x, y or z")
        if self.fix and self.translation_only:
            raise InputError(f"fix = {self.fix!r} with translation_only: expected one or the other")
        if self.separate and not self.freedom.is_full:
            raise InputError("separate with fix or translation_only: pieces are brought apart by any motion")
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

    @property
    def freedom(self) -> Freedom:
        """The motions that the answer may be."""
        return Freedom("none" if self.translation_only else self.fix or "any")

    def methods(self, network: Network) -> frozenset[str]:
        """Methods that propose and finish; the model's own pose always."""
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
    """``overlap``, ``seam``, ``mate``, ``touch``, ``model``, or ``given``: the user's pose, left as it is."""
    origin: str
    """The proposer: model, match, seam, mate, copy, given or symmetry."""
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
    """The method that finished the answer: ``overlap``, ``seam``, ``mate``, ``touch`` or ``model``."""
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
    """Time of everything but reading and writing files."""
    model: str
    source: str
    reference: str
    warnings: tuple[str, ...]
    source_keypoints: Float64[np.ndarray, "l 3"]
    reference_keypoints: Float64[np.ndarray, "l 3"]
    singular_gap: float
    """Near 0 the model's rotation is not determined: the shape is symmetric or degenerate."""
    scale: float = 1.0
    """Lengths of the reference over those of the source, 1 unless it was asked for. The pose is that of the
    scaled source: y = r (scale x) + t."""

    def scaled(self, source: Geometry) -> Geometry:
        """The source in the unit of the reference."""
        return source if self.scale == 1 else replace(source, points=self.scale * source.points)

    def moved(self, source: Geometry) -> Geometry:
        """The source, or any other geometry in its coordinates, put in its place on the reference."""
        return self.scaled(source).moved(self.transformation)

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
    fix: str | None = None,
    translation_only: bool = False,
    scale: float | int | str | None = None,
) -> Assembly:
    """The motion that takes the source onto the reference, whatever the pieces are.

    Both may be paths, (n, 3) or (n, 6) arrays, tensors or lists, frames with the columns x, y and z, Open3D
    or trimesh objects. ``model`` is a model, its name or its path; ``method`` limits the search to one kind
    of joint; ``init`` is a pose that is kept unless another is clearly better; ``hypotheses`` is how many
    poses to return at most; ``separate`` brings pieces apart that reach into each other, which takes closed
    meshes or normals that point outwards; ``fast`` is one forward pass of the model; ``points`` is how many
    points of each cloud the model sees; ``fix`` names the axis, x, y or z, about which alone the answer
    turns; ``translation_only``: it does not; ``scale``, for pieces in different units, is a
    length of the reference over that of the source, or "auto" to find it where they share a surface.

    The whole moves with the pieces: moving, swapping or scaling the inputs moves, inverts or scales the pose.
    With known degrees of freedom this holds for the motions that are left.
    """
    settings = Settings(method, hypotheses, separate, fast, points, seed, fix, translation_only, scale)
    pair = as_geometry(source, "source"), as_geometry(reference, "reference")
    if init is not None:
        init = np.asarray(init, dtype=np.float64)
        if init.shape != (4, 4):
            raise InputError(f"init: found an array of shape {init.shape}, expected (4, 4)")
        init = nearest_pose(init, "init")
    return assemble_geometries(*pair, Network.of(model), settings, init)


def assemble_geometries(
    source: Geometry, reference: Geometry, network: Network, settings: Settings, init: Matrix | None = None
) -> Assembly:
    """The same, for what has been read already and a model that has been loaded already."""
    start = time.perf_counter()
    if settings.scale is not None:
        found = _assemble_scaled(source, reference, network, settings, init)
    else:
        judged = judge(source, reference, network, settings, init)
        found = answer(source, reference, network, settings, judged)
    return replace(found, seconds=time.perf_counter() - start)


def _assemble_scaled(
    source: Geometry, reference: Geometry, network: Network, settings: Settings, init: Matrix | None
) -> Assembly:
    """The surest answer over the ratios of scales that are likely, or the one that is given."""
    assert settings.scale is not None
    is_known = settings.scale != "auto"
    ratios = [float(settings.scale)] if is_known else scale_ratios(source, reference, settings.seed)
    found = []
    for ratio in ratios:
        scaled = replace(source, points=ratio * source.points)
        own = assemble_geometries(scaled, reference, network, replace(settings, scale=None), init)
        found.append(replace(own, scale=ratio, source_keypoints=own.source_keypoints / ratio))
    return max(found, key=lambda each: each.confidence)


@dataclass(frozen=True, eq=False)
class Judged:
    """All candidates of a pair with their evidence and scores, best first."""

    sampled: Sampled
    proposals: Proposals
    candidates: Candidates
    evidence: Evidence
    scores: Numbers

    def poses(self) -> list[Matrix]:
        """The candidates in the coordinates of the pieces."""
        return list(self.sampled.frame.outside(self.candidates.poses))

    def numbers(self, i: int) -> dict[str, float]:
        """The evidence of a candidate by name."""
        return dict(zip(NAMES, self.evidence[i].tolist(), strict=True))

    def rival(self) -> int | None:
        """Number of the best candidate that differs from the first; what a given pose led to is none."""
        poses = self.candidates.poses
        far = (gaps(poses, poses[0]) > 2) & (np.array(self.candidates.origins) != "given")
        return int(np.argmax(np.where(far, self.scores, -np.inf))) if far.any() else None

    def line(self, i: int) -> str:
        """A candidate in one line."""
        n, method, origin = self.numbers(i), self.candidates.methods[i], self.candidates.origins[i]
        return (
            f"{method:7} from {origin:6} score {self.scores[i]:5.2f}: overlap {n['overlap_larger']:.2f}, "
            f"seam {n['seam']:.2f}, contact {n['mate_larger']:.2f}, support {np.expm1(n['support']):.1f}, "
            f"model {n['model_share']:.2f}, crossing {n['crossing']:.2f}"
        )


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
        network.mating if "mate" in methods else None,
    )
    freedom = settings.freedom
    if init is not None and freedom.tilt(init) > TILT:
        raise InputError(f"init: turns otherwise than {freedom.turns}, expected a pose that keeps to it")
    proposals = _within(freedom, propose(sampled, network.model, methods, init))
    with freedom.hold():
        proposals = (
            proposals.most_believed() if settings.fast else shortlist(sampled, proposals, network.verifier)
        )
        candidates = finish(sampled, proposals, methods)
        if not freedom.is_full:
            candidates = _settle_again(sampled, candidates, freedom)
    rows = evidence(sampled, proposals, candidates)
    scores = network.verifier.scores(rows)
    if freedom.is_full:  # clouds that agree point by point leave nothing to judge
        scores[np.array(candidates.origins) == "copy"] = PROVEN
    order = _order(candidates, scores, settings)
    judged = Judged(sampled, proposals, candidates.take(order), rows[order], scores[order])
    for i in range(min(LOGGED, len(order))):
        log.info("%s", judged.line(i))
    log.info("%s", _say_why(judged, network.verifier))
    return judged


def _say_why(judged: Judged, verifier: Verifier) -> str:
    """Tell in one line why the first candidate won over the best that differs from it."""
    first, other = f"{judged.candidates.methods[0]} wins", judged.rival()
    if judged.candidates.origins[0] == "given":
        return f"your pose is kept: no other scores better by {KEEP:g}"
    if other is None:
        return f"{first}: no other candidate differs from it"
    gains = verifier.gains(judged.evidence[0], judged.evidence[other])
    best = [NAMES[k] for k in np.argsort(-gains, kind="stable")[:REASONS] if gains[k] > 0]
    over = f"{first} with {judged.scores[0]:.2f} over {judged.candidates.methods[other]} with "
    return f"{over}{judged.scores[other]:.2f}, most by {', '.join(best) or 'no single number'}"


def _within(freedom: Freedom, proposals: Proposals) -> Proposals:
    """The proposals, each brought to the nearest motion that is allowed."""
    names = ("model", "match", "seam", "mate", "copy", "given")
    motions: dict[str, Any] = {name: freedom.project(getattr(proposals, name)) for name in names}
    return replace(proposals, **motions)


def _settle_again(sampled: Sampled, candidates: Candidates, freedom: Freedom) -> Candidates:
    """Settle candidates that were finished before they were brought to the allowed motions."""
    poses = candidates.poses.copy()
    for i, origin in enumerate(candidates.origins):
        if origin in ("seam", "mate", "copy"):
            poses[i] = _settle(sampled, poses[i], candidates.methods[i])
    return replace(candidates, poses=freedom.project(poses))


def _order(candidates: Candidates, scores: Numbers, settings: Settings) -> list[int]:
    """Numbers of the candidates, best first; what the user asks for or gives comes before the rest."""
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
    shapes = NO_SYMMETRY, NO_SYMMETRY
    if not settings.fast:
        shapes = symmetries(x.points), symmetries(y.points)
        if judged.candidates.methods[0] in ("seam", "mate"):
            shapes = at_joint(shapes, x.points, y.points, judged.poses()[0])
    with settings.freedom.hold():
        hypotheses = _hypotheses(judged, shapes, network, settings)
    best, separation = hypotheses[0], None
    if settings.separate or (best.method == "touch" and settings.freedom.is_full):
        separation = separate(source, reference, best.transformation)
        if settings.separate or separation.free:
            best = replace(best, transformation=separation.pose)
            hypotheses = (best, *hypotheses[1:])
    status, reason = _status(judged, shapes, best.confidence, settings)
    after = fit(x.points, y.points, best.transformation)
    solution = judged.proposals.solution
    told = separation if settings.separate else None
    return Assembly(
        transformation=best.transformation,
        confidence=0.0 if status == "degenerate" else best.confidence,
        status=status,
        reason=reason,
        method=best.method,
        evidence=best.evidence,
        hypotheses=hypotheses,
        fitness=after.fitness,
        inlier_rmse=after.inlier_rmse,
        penetration_before=None if told is None else told.depth_before,
        penetration_after=None if told is None else told.depth_after,
        seconds=0.0,
        model=network.name,
        source=source.name,
        reference=reference.name,
        warnings=tuple(_warnings((source, reference), (x, y), network, settings, best, told)),
        source_keypoints=solution.source_keypoints[0].cpu().numpy(),
        reference_keypoints=solution.reference_keypoints[0].cpu().numpy(),
        singular_gap=float(solution.singular_gap[0]),
    )


def _hypotheses(
    judged: Judged, shapes: tuple[Symmetries, Symmetries], network: Network, settings: Settings
) -> tuple[Hypothesis, ...]:
    """Candidates that differ, each followed by its images under the pieces' symmetries.

    An image is as likely as the pose it comes from: nothing tells them apart.
    """
    x, y = judged.sampled.seen[0]
    frame, groups = Frame.of(x.points, y.points), (shapes[0].listed(), shapes[1].listed())
    freedom = settings.freedom
    origins = judged.candidates.origins
    orbits: dict[int, Orbit] = {}
    scores: dict[int, float] = {}
    for i, (pose, score) in enumerate(zip(judged.poses(), judged.scores.tolist(), strict=True)):
        same = next((j for j, orbit in orbits.items() if orbit.has(pose)), None)
        if same is not None:  # a given pose is as good as the same one that was found without it
            scores[same] = max(scores[same], score)
            continue
        orbits[i], scores[i] = Orbit.of(pose, *groups, frame), score
        if sum(origins[j] != "given" for j in orbits) > settings.hypotheses:
            break  # the last one is the rival of the others
    found: list[Hypothesis] = []
    for i in list(orbits)[: settings.hypotheses]:
        score, method = scores[i], judged.candidates.methods[i]
        rival = max((scores[j] for j in orbits if j != i and origins[j] != "given"), default=None)
        chance, numbers = network.verifier.confidence(score, rival), judged.numbers(i)
        for k, image in enumerate(orbits[i].images(settings.hypotheses)):
            if k and freedom.tilt(image) > TILT:
                continue
            image = frame.outside(freedom.project(frame.inside(image)))
            pose = image if k == 0 else _finish_again(judged.sampled, image, method, frame)
            origin = origins[i] if k == 0 else "symmetry"
            fitness = fit(x.points, y.points, pose).fitness
            found.append(Hypothesis(pose, float(expit(score)), method, origin, chance, fitness, numbers))
    inside = frame.inside(np.stack([each.transformation for each in found]))
    kept = distinct(inside, -np.arange(float(len(found))), settings.hypotheses, SAME_TURN, SAME_SHIFT)
    total = sum(found[i].weight for i in kept)
    return tuple(replace(found[i], weight=found[i].weight / total) for i in kept)


def _finish_again(sampled: Sampled, image: Matrix, method: str, frame: Frame) -> Matrix:
    """The image of a finished pose, finished again, or as it was where the search leads elsewhere."""
    ended = sampled.frame.outside(_settle(sampled, sampled.frame.inside(image), method))
    return ended if pose_gaps(frame, ended[None], image)[0] <= 1 else image


def _settle(sampled: Sampled, pose: Matrix, method: str) -> Matrix:
    """A pose that is nearly right, finished by its method; inside the frame."""
    if method == "overlap":
        pose = bring_together(sampled.source, sampled.reference, pose)
    elif method == "seam":
        pose = settle(sampled.source, sampled.reference, pose[None], 2.0)[0]
    elif method == "mate" and sampled.sheets is not None:
        pose = settle_mates(*sampled.sheets, pose[None])[0]
    return pose


def _status(
    judged: Judged, shapes: tuple[Symmetries, Symmetries], confidence: float, settings: Settings
) -> tuple[str, str | None]:
    """How far the answer can be trusted, and why not further."""
    sides = zip(("source", "reference"), judged.sampled.dense, strict=True)
    no_shape = [f"the {name} {why}" for name, side in sides for why in _no_shape(side)]
    if no_shape:
        return "degenerate", "; ".join(no_shape)
    same = [*_same(*shapes)]
    if confidence < SURE:
        said = "; ".join(["", *same])
        advice = _advise(judged, settings)
        return "unsure", f"the chance that the pose is right is {confidence:.0%}{said}. {advice}"
    rival = _rival(judged)
    if rival is not None:
        same.append(f"another pose, {rival:.0f}° away, fits nearly as well")
    return ("ambiguous", "; ".join(same)) if same else ("ok", None)


def _rival(judged: Judged) -> float | None:
    """Angle in degrees to a different candidate that is nearly as likely as the best."""
    other = judged.rival()
    if other is None or expit(judged.scores[other]) < RIVAL * expit(judged.scores[0]):
        return None
    poses = judged.candidates.poses
    return float(np.degrees(angles(poses[[other], :3, :3] @ poses[0, :3, :3].T)[0]))


def _advise(judged: Judged, settings: Settings) -> str:
    """Tell what may be done about an unsure answer, and has not been done yet."""
    looks = "Look at the report (--html)"
    if settings.hypotheses == 1:
        looks += " and at other poses (--hypotheses 5)"
    ways = [looks, "give a rough pose (--init)", "give more points"]
    if "given" in judged.candidates.origins:
        ways.pop(1)
    return f"{', '.join(ways[:-1])}, or {ways[-1]}"


def _same(source: Symmetries, reference: Symmetries) -> Iterator[str]:
    """Sentences on how the pieces look the same after turns."""
    own, other = source.describe(), reference.describe()
    if own and own == other:
        yield f"both pieces look the same {own}"
    else:
        yield from (
            f"the {n} looks the same {how}" for n, how in (("source", own), ("reference", other)) if how
        )


def _no_shape(dense: Geometry) -> Iterator[str]:
    """Reasons why a piece has no shape to go by."""
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
        ratio = max(sizes) / min(sizes)
        doubt = "are both files in the same unit? If not, see --scale"
        yield f"the pieces' sizes differ by a factor of {ratio:.0f}: {doubt}"
    if settings.method not in ("auto", "model", best.method) and best.origin != "given":
        needs = ""
        if settings.method == "mate":
            needs = " (it takes closed pieces)"
        yield f"nothing was found by {settings.method}{needs}; the pose is by {best.method}"
    if best.method == "model" and not network.fitted:
        yield "the confidence was fitted with other weights; bitr calibrate fits it for these"
    if separation is not None and not separation.free:
        yield f"the pieces were not separated: {separation.reason}"
