"""Motions that may assemble a pair: from the model, from a common surface, from borders, from a copy."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
import torch

from bitr.assembly.align import (
    ANY,
    HELD,
    NO_MOTION,
    Matrix,
    Motions,
    Numbers,
    agreement,
    arun,
    moved,
    side_by_side,
)
from bitr.assembly.match import Correspondences, correspond, frame_motions, match_motions
from bitr.assembly.mate import mate_motions
from bitr.assembly.overlay import lay, look
from bitr.assembly.sample import Sampled
from bitr.assembly.seam import end_motions, flat_ends, seam_motions
from bitr.assembly.surface import Surface
from bitr.data.piece import as_cloud
from bitr.errors import InputError
from bitr.io import Geometry
from bitr.model import BITR, Solution

SEAMS, OF_ENDS, MATES = 12, 3, 48
"""Most motions of the borders, of two flat ends, and of breaks."""
FIRST_AGREED, AGREED, FRAMED = 60, 100, 80
"""Most motions that correspondences agree on, at first and at a wider look, and that single ones give."""
ALONE = 1.1
"""Agreement of a motion that hardly any other is like: such ones all count the same."""
COPY = 1e-6
"""Root mean square distance, over the size, below which two clouds are copies of each other."""

Ends = tuple[tuple[Surface, ...], tuple[Surface, ...]]

log = logging.getLogger("bitr")


@dataclass(frozen=True, eq=False)
class Proposals:
    """Motions in the coordinates of the pair's frame, by where they come from; empty where there are none.

    All of them move with the pieces, are inverted by a swap and do not change with scale.
    """

    model: Motions
    """One for each sampling and head, samplings first."""
    share: Numbers
    """The model's belief in each of them; the sum over all is 1."""
    match: Motions
    """Many rough ones: ``shortlist`` chooses among them, and asks for more where none convinces."""
    seam: Motions
    mate: Motions
    ends: Ends
    """Flat ends of the source and of the reference."""
    copy: Motions
    given: Motions
    correspondences: Correspondences
    solution: Solution
    """The model's solution for the first sampling."""
    measured: Mapping[bytes, Mapping[str, float]] = field(default_factory=dict)
    """Evidence that has been measured already, by the bytes of the motion."""

    def most_believed(self) -> Proposals:
        """The same with the one motion that the model gives most."""
        return replace(self, model=self.model[[self.share.argmax()]], share=np.ones(1))


def propose(
    sampled: Sampled,
    model: BITR,
    methods: frozenset[str],
    init: Matrix | None,
) -> Proposals:
    """All motions worth finishing at a first look, for the kinds of joint that ``methods`` names."""
    solutions, (seam, ends), mate, (found, match) = side_by_side(
        partial(_of_samplings, sampled, model),
        partial(_of_borders, sampled, "seam" in methods),
        partial(_of_breaks, sampled),
        partial(_of_surface, sampled, "overlap" in methods),
    )
    poses, share = _of_model(sampled, solutions)
    if sampled.matched is not None:  # half of the belief is that of the model that knows breaks
        poses = np.concatenate([poses, sampled.matched.poses])
        share = np.append(share, sampled.matched.belief) / 2
    copy = _of_copy(sampled) if "overlap" in methods else NO_MOTION
    given = NO_MOTION if init is None else sampled.frame.inside(init)[None]
    log.info(
        "proposed: %d poses of the model, %d of common surfaces, %d of borders, %d of breaks, %d of a copy",
        *(len(each) for each in (poses, match, seam, mate, copy)),
    )
    return Proposals(poses, share, match, seam, mate, ends, copy, given, found, solutions[0])


def widen(sampled: Sampled, proposals: Proposals) -> Proposals:
    """More motions of the borders and of the surfaces, where nothing convinces at a first look.

    They are sought among all motions, as at the first look, and then brought to those that are allowed.
    """
    with ANY.hold():
        ended, (found, match) = side_by_side(
            partial(end_motions, *proposals.ends, OF_ENDS), partial(_of_more_surface, sampled, proposals)
        )
    seam, match = (HELD.get().project(each) for each in (ended, match))
    seam, match = np.concatenate([proposals.seam, seam]), np.concatenate([proposals.match, match])
    return replace(proposals, seam=seam, match=match, correspondences=found)


def _of_samplings(sampled: Sampled, model: BITR) -> list[Solution]:
    return [_solve(pair, model) for pair in sampled.seen]


def _of_borders(sampled: Sampled, wanted: bool) -> tuple[Motions, Ends]:
    """Motions that lay the borders onto each other, and the flat ends of either piece."""
    if not wanted:
        return NO_MOTION, ((), ())
    x, y = sampled.source, sampled.reference
    return seam_motions(x, y, SEAMS)[0], (flat_ends(x), flat_ends(y))


def _of_breaks(sampled: Sampled) -> Motions:
    """Motions that lay the breaks of closed pieces against each other."""
    if sampled.sheets is None or sampled.matched is None:
        return NO_MOTION
    log.info("laying rims and breaks of closed pieces against each other")
    return mate_motions(*sampled.sheets, MATES, sampled.matched)


def _solve(pair: tuple[Geometry, Geometry], model: BITR) -> Solution:
    log.info("solving with %d and %d points", *(len(side.points) for side in pair))
    device = next(model.parameters()).device
    try:
        with torch.inference_mode():
            return model.solve(*(as_cloud(side, device) for side in pair))
    except InputError as error:
        raise InputError(f"{pair[0].name} and {pair[1].name}: {error}") from error


def _of_model(sampled: Sampled, solutions: list[Solution]) -> tuple[Motions, Numbers]:
    """The poses of all samplings; of a model with several heads, all heads by their beliefs."""
    poses, share = [], []
    for solution in solutions:
        matrices, scores = solution.pose.matrix(), torch.zeros(1)
        if solution.heads is not None:
            matrices, scores = solution.heads.pose.matrix()[0], solution.heads.belief[0]
        poses.append(sampled.frame.inside(matrices.double().cpu().numpy()))
        share.append((scores.double().softmax(0) / len(solutions)).cpu().numpy())
    return np.concatenate(poses), np.concatenate(share)


def _of_surface(sampled: Sampled, wanted: bool) -> tuple[Correspondences, Motions]:
    """Places of both surfaces that look alike, and motions that many of them agree on."""
    if not wanted:
        nowhere = np.empty((0, 3))
        return Correspondences(nowhere, nowhere, 1.0), NO_MOTION
    found = correspond(*sampled.coarse)
    return found, match_motions(found, FIRST_AGREED)


def _of_more_surface(sampled: Sampled, proposals: Proposals) -> tuple[Correspondences, Motions]:
    """More places that look alike, and motions that many of them agree on or that single ones give."""
    found = proposals.correspondences
    if not len(found.source):
        return found, NO_MOTION
    motions = NO_MOTION
    if sampled.coarse != (sampled.source, sampled.reference):
        found = correspond(sampled.source, sampled.reference)
        motions = match_motions(found, AGREED)
    return found, np.concatenate([motions, _of_frames(sampled, found)])


def _of_frames(sampled: Sampled, found: Correspondences) -> Motions:
    """Motions that single correspondences give with their frames, laid and looked at on few points."""
    (x, y), motions = sampled.coarse, frame_motions(found)
    if not len(motions):
        return motions
    near, agree = look(x, y, motions, 32, 3.0), agreement(motions, np.radians(20), 0.2)
    agreed = [i for i in np.argsort(-agree, kind="stable")[:FRAMED] if agree[i] > ALONE]
    best = np.unique([*np.argsort(-near, kind="stable")[:FRAMED], *agreed])
    motions = lay(x, y, motions[best], 60, 4)
    order = np.argsort(-look(x, y, motions, 60, 2.0), kind="stable")
    return motions[order[:FRAMED]]


def _of_copy(sampled: Sampled) -> Motions:
    """The motion between two clouds that are copies, point by point in the order of their distances."""
    a, b = (side.points for side in sampled.dense)
    if len(a) != len(b):
        return NO_MOTION
    x, y = sampled.frame.source(a), sampled.frame.reference(b)
    orders = [np.argsort(np.linalg.norm(p, axis=1), kind="stable") for p in (x, y)]
    x, y = x[orders[0]], y[orders[1]]
    pose = arun(torch.from_numpy(x[None]), torch.from_numpy(y[None])).matrix()[0].numpy()
    off = np.sqrt(np.square(moved(x, pose) - y).sum(1).mean())
    return pose[None] if off < COPY else NO_MOTION
