"""Motions that may assemble a pair: from the model, from a common surface, from borders, from a copy."""

from __future__ import annotations

import logging
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float64

from bitr.assembly.match import FIRST, WIDE, Correspondences, correspond, distinct, match_motions
from bitr.assembly.sample import Sampled
from bitr.assembly.seam import seam_motions
from bitr.data.piece import as_cloud
from bitr.errors import InputError
from bitr.io import Geometry
from bitr.model import BITR, Solution
from bitr.refine.arun import arun
from bitr.refine.frame import Matrix, moved
from bitr.refine.overlap import overlaps

MATCHES, SEAMS = 4, 12
"""Most motions of a surface match, and of the borders."""
CONVINCING, MEETING = 40.0, 0.35
"""Correspondences that agree, times the overlap they lead to, or share of the borders that meets, above which
the search for a common surface is not widened."""
COPY = 1e-6
"""Root mean square distance, over the size, below which two clouds are copies of each other."""

Motions = Float64[np.ndarray, "_ 4 4"]

log = logging.getLogger("bitr")


@dataclass(frozen=True, eq=False)
class Proposals:
    """Motions in the coordinates of the pair's frame, by where they come from; empty where there are none.

    All of them move with the pieces, are inverted by a swap and do not change with scale.
    """

    model: Motions
    """One for each sampling and head, samplings first."""
    share: Float64[np.ndarray, " g"]
    """What the model gives each of them; the sum over all is 1."""
    match: Motions
    seam: Motions
    copy: Motions
    given: Motions
    correspondences: Correspondences
    solution: Solution
    """Of the first sampling."""


def propose(sampled: Sampled, model: BITR, methods: frozenset[str], init: Matrix | None) -> Proposals:
    """All motions worth finishing, for the kinds of joint that ``methods`` names."""
    none = np.empty((0, 4, 4))
    solutions = [_solve(pair, model) for pair in sampled.seen]
    poses, share = _of_model(sampled, solutions)
    x, y = sampled.source, sampled.reference
    correspondences, match = Correspondences(none[:, 0, :3], none[:, 0, :3], 1.0), none
    seam, meeting = seam_motions(x, y, SEAMS) if "seam" in methods else (none, np.zeros(0))
    if "overlap" in methods:
        correspondences, match = _of_surface(sampled, bool((meeting > MEETING).any()))
    copy = _of_copy(sampled) if "overlap" in methods else none
    given = none if init is None else sampled.frame.inside(init)[None]
    return Proposals(poses, share, match, seam, copy, given, correspondences, solutions[0])


def _solve(pair: tuple[Geometry, Geometry], model: BITR) -> Solution:
    log.info("solving with %d and %d points", *(len(side.points) for side in pair))
    device = next(model.parameters()).device
    try:
        with torch.inference_mode():
            return model.solve(*(as_cloud(side, device) for side in pair))
    except InputError as error:
        raise InputError(f"{pair[0].name} and {pair[1].name}: {error}") from error


def _of_model(sampled: Sampled, solutions: list[Solution]) -> tuple[Motions, Float64[np.ndarray, " g"]]:
    """The poses of all samplings; of a model with several heads, all heads by their scores."""
    poses, share = [], []
    for solution in solutions:
        matrices, scores = solution.pose.matrix(), torch.zeros(1)
        if solution.heads is not None:
            matrices, scores = solution.heads.pose.matrix()[0], solution.heads.score[0]
        poses += [sampled.frame.inside(pose) for pose in matrices.double().cpu().numpy()]
        share += (scores.double().softmax(0) / len(solutions)).tolist()
    return np.stack(poses), np.array(share)


def _of_surface(sampled: Sampled, settled: bool) -> tuple[Correspondences, Motions]:
    """Motions that places of both surfaces agree on; a second look is wider, unless something convinces."""
    found = correspond(*sampled.coarse, FIRST)
    motions = match_motions(found, FIRST, MATCHES)
    evidence = _evident(sampled, found, motions)
    if settled or (evidence > CONVINCING).any():
        return found, motions
    log.info("no common surface convinces: looking at more of it")
    wider = correspond(sampled.source, sampled.reference, WIDE)
    more = match_motions(wider, WIDE, MATCHES)
    evidence = np.concatenate([evidence, _evident(sampled, wider, more)])
    return wider, distinct(np.concatenate([motions, more]), evidence, wider, MATCHES)


def _evident(sampled: Sampled, found: Correspondences, motions: Motions) -> Float64[np.ndarray, " g"]:
    """Correspondences that agree with each motion, times the overlap under it."""
    shares = [overlaps(*sampled.coarse, motion).larger for motion in motions]
    return found.support(motions) * np.array(shares) if len(motions) else np.zeros(0)


def _of_copy(sampled: Sampled) -> Motions:
    """The motion between two clouds that are copies, point by point in the order of their distances."""
    a, b = (side.points for side in sampled.dense)
    none = np.empty((0, 4, 4))
    if len(a) != len(b):
        return none
    x, y = sampled.frame.source(a), sampled.frame.reference(b)
    orders = [np.argsort(np.linalg.norm(p, axis=1), kind="stable") for p in (x, y)]
    x, y = x[orders[0]], y[orders[1]]
    pose = arun(torch.from_numpy(x[None]), torch.from_numpy(y[None])).matrix()[0].numpy()
    off = np.sqrt(np.square(moved(x, pose) - y).sum(1).mean())
    return pose[None] if off < COPY else none
