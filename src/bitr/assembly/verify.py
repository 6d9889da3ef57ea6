"""How likely each finished motion is right: numbers that no law changes, and a small calibrated network."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib import resources
from itertools import product
from typing import Any

import numpy as np
from jaxtyping import Bool, Float64
from scipy.special import expit

from bitr.assembly.align import (
    Matrix,
    Motions,
    Numbers,
    angles,
    centroid,
    differences,
    distinct,
    dot,
    gaps,
    lengths,
    moved,
    moved_back,
    radius,
)
from bitr.assembly.finish import METHODS, Candidates
from bitr.assembly.mate import mates
from bitr.assembly.overlay import Partners, lay, look, overlaps_of, partners_of
from bitr.assembly.propose import Proposals, widen
from bitr.assembly.sample import Sampled
from bitr.assembly.seam import Met, closeness, meet
from bitr.assembly.surface import Couples, Surface, common_noise, common_spacing, couple
from bitr.errors import InputError

TIGHT, LOOSE = 1.2, 2.5
"""Spacings within which border points meet, strictly and generously."""
AIR = 3.0
"""Spacings from the other piece beyond which a border point hangs in the air."""

MATCHES, LISTED = 5, 200
"""Surface matches that are finished, and those whose evidence is looked at."""
LAID, LAYING = 120, 10
"""Points of either piece, and steps, by which matches are laid onto each other."""
SAME_TURN, SAME_SHIFT = np.radians(4), 0.04
"""Laid motions that are closer are one."""
CONVINCING = 2.0
"""Score of a motion at a first look above which the search is not widened."""
HOVERS, UPRIGHT, LOW = 1.5, 0.7, 6.0
"""Spacings from the other surface beyond which a point hovers above it, the least cosine between the way
there and the normal, and the spacings up to which it hovers low."""

NAMES = (
    "overlap_larger",
    "overlap_smaller",
    "overlap_residual",
    "firmness",
    "seam",
    "seam_tight",
    "seam_smaller",
    "seam_larger",
    "seam_residual",
    "border_same",
    "clear_smaller",
    "clear_larger",
    "clear_same",
    "clear_on",
    "clear_air",
    "clear_share",
    "ends",
    "ends_share",
    "border_on",
    "border_air",
    "border_air_smaller",
    "crossing",
    "hover_low",
    "hover_high",
    "gap",
    "support",
    "support_share",
    "model_share",
    "model_turn",
    "turned",
    "shifted",
    "mate_rims",
    "mate_smaller",
    "mate_larger",
    "mate_uncovered",
    "mate_depth",
    "mate_margin",
    "mate_likely",
    "mate_likely_mean",
    "broken_smaller",
    "broken_larger",
    "broken_contact",
    "is_closed",
    "seam_margin",
    "overlap_margin",
    "border_smaller",
    "border_larger",
    "noise",
    "balance",
    "singular_gap",
    *(f"is_{name}" for name in METHODS),
    "is_copy",
    "is_given",
)
"""Names of the numbers; docs/engine.md explains each."""

MATED = {
    "mate_rims": "rims",
    "mate_smaller": "contact_smaller",
    "mate_larger": "contact_larger",
    "mate_uncovered": "uncovered",
    "mate_depth": "depth",
    "mate_score": "score",
    "mate_likely": "likely",
    "mate_likely_mean": "likely_mean",
    "broken_smaller": "broken_smaller",
    "broken_larger": "broken_larger",
    "broken_contact": "broken_contact",
}
"""The numbers of breaks, as ``Mates`` names them; ``mate_margin`` is by the score."""

Evidence = Float64[np.ndarray, "g f"]


def evidence(sampled: Sampled, proposals: Proposals, candidates: Candidates) -> Evidence:
    """One row of numbers for each candidate, in the order of ``NAMES``.

    None of them changes when the pieces are moved, scaled or swapped.
    """
    x, y, poses = sampled.source, sampled.reference, candidates.poses
    new = np.array([pose for pose in poses if pose.tobytes() not in proposals.measured]).reshape(-1, 4, 4)
    measured = {**proposals.measured, **measure(sampled, proposals, new)}
    known = [measured[pose.tobytes()] for pose in poses]
    rows = {name: np.array([each[name] for each in known]) for name in known[0]}
    support = proposals.correspondences.support(poses)
    rows["support"] = np.log1p(support)
    rows["support_share"] = support / max(1.0, len(proposals.correspondences.source))
    near = np.stack([gaps(proposals.model, pose) for pose in poses])
    rows["model_share"] = (np.clip(1 - np.square(near / 2), 0, None) * proposals.share).sum(1)
    turns = angles(poses[:, None, :3, :3] @ proposals.model[:, :3, :3].swapaxes(1, 2))
    rows["model_turn"] = np.log10(1 + np.degrees(turns.min(1)))
    moves = [differences(a[None], b) for a, b in zip(poses, candidates.starts, strict=True)]
    own, rows["shifted"] = np.concatenate(moves, axis=1)
    rows["turned"] = np.log10(1 + np.degrees(own))
    rows["seam_margin"] = _margin(poses, rows["seam"])
    rows["overlap_margin"] = _margin(poses, rows["overlap_larger"])
    rows["mate_margin"] = _margin(poses, rows["mate_score"])
    shares = sorted(len(side.border) / len(side.points) for side in (x, y))
    ends = [[len(end.border) for end in side] or [0] for side in proposals.ends]
    sizes = [radius(side.points - centroid(side.points)) for side in (x, y)]
    constant = {
        "ends_share": min(max(n) / max(1, len(side.border)) for n, side in zip(ends, (x, y), strict=True)),
        "border_smaller": shares[0],
        "border_larger": shares[1],
        "noise": common_noise(x, y) / common_spacing(x, y),
        "balance": min(sizes) / max(sizes),
        "singular_gap": float(proposals.solution.singular_gap[0]),
    }
    rows |= {name: np.full(len(poses), value) for name, value in constant.items()}
    for name in METHODS:
        rows[f"is_{name}"] = np.array([method == name for method in candidates.methods], dtype=np.float64)
    rows["is_copy"] = np.array([origin == "copy" for origin in candidates.origins], dtype=np.float64)
    rows["is_given"] = np.array([origin == "given" for origin in candidates.origins], dtype=np.float64)
    return np.stack([rows[name] for name in NAMES], axis=1)


def measure(sampled: Sampled, proposals: Proposals, poses: Motions) -> dict[bytes, dict[str, float]]:
    """The numbers that need a search and depend on the motion alone, by the motion's bytes."""
    x, y, found = sampled.source, sampled.reference, dict[bytes, dict[str, float]]()
    if not len(poses):
        return found
    borders = _border_numbers(x, y, poses) | {"ends": _ends(proposals, poses)}
    for i, pose in enumerate(poses):
        couples = couple(x, y, pose)  # one search serves surfaces and breaks
        each = partners_of(x, y, pose, couples)
        common = overlaps_of(each, x, y)
        found[pose.tobytes()] = {
            "overlap_larger": common.larger,
            "overlap_smaller": common.smaller,
            "overlap_residual": common.residual,
            "firmness": float(np.log10(common.firmness + 1e-4)),
            **{name: float(values[i]) for name, values in borders.items()},
            **_surface_numbers(x, y, each),
            **_mate_numbers(sampled, pose, couples),
        }
    return found


def _border_numbers(x: Surface, y: Surface, poses: Motions) -> dict[str, Numbers]:
    """How the borders of both pieces lie: on each other, on the other's surface, or in the air.

    Borders that meet have opposite outward directions. Where they are the same, the pieces end together: two
    halves of a symmetric thing that are folded over each other.
    """
    zero = np.zeros(len(poses))
    if not len(x.border) or not len(y.border):
        found = dict.fromkeys(("seam", "seam_tight", "seam_residual", "border_same", "clear_same"), zero)
        found |= dict.fromkeys(("seam_smaller", "seam_larger", "clear_smaller", "clear_larger"), zero)
        return found | _border_places(x, y, poses)
    spacing = common_spacing(x, y)
    met = meet(x.border, y.border, poses)
    near = met.squared < (LOOSE * spacing) ** 2
    agree = dot(met.normal_p, met.normal_q) > 0.5
    oppose = -dot(met.outward_p, met.outward_q)
    meets, same = near & agree & (oppose > 0.3), near & agree & (oppose < -0.3)
    clear = np.concatenate([x.border.clear, y.border.clear])
    smaller, larger = _sides(meets, len(x.border), np.ones(len(clear), dtype=bool))
    clear_smaller, clear_larger = _sides(meets, len(x.border), clear)
    return {
        "seam": closeness(met, LOOSE * spacing),
        "seam_tight": closeness(met, TIGHT * spacing),
        "seam_smaller": smaller,
        "seam_larger": larger,
        "seam_residual": _residual(met, meets) / spacing,
        "border_same": same @ met.share,
        "clear_smaller": clear_smaller,
        "clear_larger": clear_larger,
        "clear_same": same[:, clear].mean(1) if clear.any() else zero,
    } | _border_places(x, y, poses)


def _sides(
    met: Bool[np.ndarray, "g m"], count: int, counted: Bool[np.ndarray, " m"]
) -> tuple[Numbers, Numbers]:
    """Share of the counted border points that meet: of the piece with fewer of them, and of the other."""
    shares = [
        part[:, own].mean(1) if own.any() else np.zeros(len(met))
        for part, own in ((met[:, :count], counted[:count]), (met[:, count:], counted[count:]))
    ]
    return np.minimum(*shares), np.maximum(*shares)


def _residual(met: Met, meets: Bool[np.ndarray, "g m"]) -> Numbers:
    """Root mean square distance across the surface, where borders meet."""
    normal = (met.normal_p + met.normal_q) / 2
    off = np.square(dot(met.p - met.q, normal))
    return np.sqrt((off * meets).sum(1) / np.maximum(meets.sum(1), 1))


def _border_places(x: Surface, y: Surface, poses: Motions) -> dict[str, Numbers]:
    """Shares of both borders that lie on the other's surface, and that hang in the air."""
    spacing, found = common_spacing(x, y), []
    for pose in poses:
        sides = []
        for border, other, points, turn in (
            (x.border, y, moved(x.border.points, pose), pose[:3, :3]),
            (y.border, x, moved_back(y.border.points, pose), pose[:3, :3].T),
        ):
            if not len(border):
                sides.append((0.0, 0.0, 0.0, 0.0))
                continue
            rows = other.nearest(points)
            away = lengths(other.points[rows] - points)
            alike = np.abs(dot(border.normals @ turn.T, other.normals[rows]))
            lies = other.interior[rows] & (away < 1.5 * spacing) & (alike > 0.7)
            air = away > AIR * spacing
            clear = border.clear if border.clear.any() else np.ones(len(border), dtype=bool)
            sides.append((lies.mean(), air.mean(), lies[clear].mean(), air[clear].mean()))
        found.append(sides)
    each = np.array(found, dtype=np.float64)
    mean = each.mean(1)
    counts = [side.border.clear.sum() / len(side.points) for side in (x, y)]
    return {
        "border_on": mean[:, 0],
        "border_air": mean[:, 1],
        "border_air_smaller": each[:, :, 1].min(1),
        "clear_on": mean[:, 2],
        "clear_air": mean[:, 3],
        "clear_share": np.full(len(poses), float(sum(counts)) / 2),
    }


def _mate_numbers(sampled: Sampled, pose: Matrix, couples: Couples) -> dict[str, float]:
    """How breaks of closed pieces fit; all 0 for open ones."""
    if sampled.sheets is None:
        return dict.fromkeys((*MATED, "is_closed"), 0.0)
    found = mates(*sampled.sheets, pose[None], sampled.matched, couples.as_many())
    return {name: float(getattr(found, of)[0]) for name, of in MATED.items()} | {"is_closed": 1.0}


def _ends(proposals: Proposals, poses: Motions) -> Numbers:
    """How much of two flat ends meets, of the two that meet best."""
    best = np.zeros(len(poses))
    for x, y in product(*proposals.ends):
        if len(x.border) and len(y.border):
            met = meet(x.border, y.border, poses)
            best = np.maximum(best, closeness(met, LOOSE * common_spacing(x, y)))
    return best


def _surface_numbers(x: Surface, y: Surface, found: Partners) -> dict[str, float]:
    """How much the surfaces cross or hover above each other, and how far apart they are at the nearest.

    Where the other piece has a surface, a point of this one should lie on it; what lies beyond a border of
    the other piece has a border point nearest, and says nothing.
    """
    spacing, gap = common_spacing(x, y), found.p - found.q
    away, inside = lengths(gap), np.concatenate([x.interior, y.interior]) & found.inside
    crosses = inside & (away < spacing) & (found.alike < 0.6)
    above = inside & (np.abs(dot(gap, found.normal)) > UPRIGHT * away)
    low, high = (above & (away > reach * spacing) for reach in (HOVERS, LOW))
    nearest = max(1, len(away) // 100)
    closest = np.partition(away, nearest - 1)[:nearest].mean() / spacing
    return {
        "crossing": float(crosses @ found.share),
        "hover_low": float((low & ~high) @ found.share),
        "hover_high": float(high @ found.share),
        "gap": float(np.log1p(closest)),
    }


def _margin(poses: Motions, score: Numbers) -> Numbers:
    """How much better each is than the best that differs from it."""
    found = []
    for pose, own in zip(poses, score, strict=True):
        other = score[gaps(poses, pose) > 1]
        found.append(own - (other.max() if len(other) else 0.0))
    return np.array(found)


@dataclass(frozen=True, eq=False)
class Verifier:
    """A network with one hidden layer that ranks candidates, and the map that makes its best a confidence."""

    low: Float64[np.ndarray, " f"]
    high: Float64[np.ndarray, " f"]
    """Range of each number on the pairs it was fitted on; values outside count as the end."""
    hidden: Float64[np.ndarray, "f h"]
    hidden_bias: Float64[np.ndarray, " h"]
    last: Float64[np.ndarray, " h"]
    last_bias: float
    calibration: Float64[np.ndarray, " 3"]
    """Confidence of the best: bias, weight of its logit, weight of the best logit that differs from it."""
    origin: Mapping[str, Any]
    """The pairs it was fitted on, and what it reached."""

    def scores(self, rows: Evidence) -> Numbers:
        """A logit for each candidate."""
        seen = (
            2 * (np.clip(rows, self.low, self.high) - self.low) / np.maximum(self.high - self.low, 1e-9) - 1
        )
        return np.tanh(seen @ self.hidden + self.hidden_bias) @ self.last + self.last_bias

    def gains(self, row: Numbers, other: Numbers) -> Numbers:
        """Score that a candidate owes to each number: the loss if it had that of another candidate."""
        changed = np.where(np.eye(len(row), dtype=bool), other, row)
        return self.scores(row[None])[0] - self.scores(changed)

    def confidence(self, best: float, other: float | None) -> float:
        """The chance that the best candidate is right, given its score and that of the next different one."""
        bias, own, next_ = self.calibration
        second = RUNNER_UP if other is None else max(other, RUNNER_UP)
        return float(expit(bias + own * best + next_ * (second - RUNNER_UP)))

    def to_dict(self) -> dict[str, Any]:
        arrays = ("hidden", "hidden_bias", "last", "calibration")
        return {
            "names": list(NAMES),
            "low": self.low.tolist(),
            "high": self.high.tolist(),
            **{name: getattr(self, name).tolist() for name in arrays},
            "last_bias": self.last_bias,
            "origin": dict(self.origin),
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Verifier:
        """The inverse of ``to_dict``; what does not fit raises. What is newer than the file has no weight."""
        names = tuple(values["names"])
        if not set(names) <= set(NAMES) or len(set(names)) < len(names):
            raise InputError("the verifier inside is for other evidence than this version has; fit it again")
        arrays = {
            name: np.array(values[name], dtype=np.float64)
            for name in ("low", "high", "hidden", "hidden_bias", "last", "calibration")
        }
        width = arrays["hidden"].shape[-1]
        shapes = {"low": (len(names),), "high": (len(names),), "hidden": (len(names), width)}
        shapes |= {"hidden_bias": (width,), "last": (width,), "calibration": (3,)}
        for name, shape in shapes.items():
            if arrays[name].shape != shape or not np.isfinite(arrays[name]).all():
                raise InputError(f"the verifier inside is damaged: {name} is not {shape} finite numbers")
        if not np.isfinite(last_bias := float(values["last_bias"])):
            raise InputError(f"the verifier inside is damaged: last_bias is {last_bias}")
        columns = [NAMES.index(name) for name in names]
        for name in ("low", "high", "hidden"):
            known, arrays[name] = arrays[name], np.zeros((len(NAMES), *arrays[name].shape[1:]))
            arrays[name][columns] = known
        return cls(**arrays, last_bias=last_bias, origin=dict(values["origin"]))


def shortlist(sampled: Sampled, proposals: Proposals, verifier: Verifier) -> Proposals:
    """The proposals with the surface matches that promise most; of more of them where nothing convinces."""
    found, score = _promising(sampled, proposals, verifier)
    settled = np.concatenate([proposals.seam, proposals.mate])
    measured = measure(sampled, proposals, settled)
    if len(settled):
        names = ("seam",) * len(proposals.seam) + ("mate",) * len(proposals.mate)
        known, candidates = replace(proposals, measured=measured), Candidates(settled, names, names, settled)
        score = max(score, float(verifier.scores(evidence(sampled, known, candidates)).max()))
    if score <= CONVINCING:
        log.info("nothing convinces at a first look: searching more widely")
        found, _ = _promising(sampled, widen(sampled, proposals), verifier)
    return replace(found, measured=measured)


def _promising(sampled: Sampled, proposals: Proposals, verifier: Verifier) -> tuple[Proposals, float]:
    """The surface matches of the best scores, once they are laid onto each other on few points."""
    if not len(proposals.match):
        return proposals, -np.inf
    x, y = sampled.coarse
    laid = lay(x, y, proposals.match, LAID, LAYING)
    laid = laid[distinct(laid, look(x, y, laid, LAID, 1.5), LISTED, SAME_TURN, SAME_SHIFT)]
    count = len(laid)
    candidates = Candidates(laid, ("overlap",) * count, ("match",) * count, laid)
    rows = evidence(replace(sampled, source=x, reference=y, sheets=None), proposals, candidates)
    scores = verifier.scores(rows)
    best = np.argsort(-scores, kind="stable")[:MATCHES]
    return replace(proposals, match=laid[best]), float(scores.max())


log = logging.getLogger("bitr")
RUNNER_UP = -4.0
"""A second candidate with a lower score casts no doubt on the first."""


@cache
def shipped_verifier(name: str = "verifier") -> Verifier:
    """A verifier that comes with bitr, for weights without one of their own.

    ``verifier`` is for two pieces of a whole, ``puzzle-verifier`` for two of many.
    """
    text = (resources.files("bitr") / "weights" / f"{name}.json").read_text(encoding="utf-8")
    return Verifier.from_dict(json.loads(text))
