"""Metrics of puzzles of many pieces, against the true places."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from jaxtyping import Bool, Float64

from bitr.assembly.puzzle import Puzzle
from bitr.data.poses import PuzzleCase, inverse
from bitr.evaluation.metrics import RIGHT_DEGREES, RIGHT_SHARE, displacement, rotation_error_deg
from bitr.io import as_points

MESH_POINTS = 2000
"""Points sampled on a mesh."""


@dataclass(frozen=True)
class PuzzleScore:
    """The errors of one puzzle over the pieces of its object; lengths in the unit of the pieces."""

    pieces: int
    """Pieces of the object."""
    right: int
    """Pieces right beside each other: those of the piece that has most pieces right relative to it, and it;
    0 where no two are."""
    beside_largest: int
    """Pieces right relative to the largest, which is not counted."""
    pair_degrees: float
    """Mean rotation error over all pairs of pieces; guesses for pieces that are left over count."""
    worst_degrees: float
    worst_shift: float
    """Largest errors over all pairs."""
    foreign: int
    """Pieces of other objects."""
    kept_out: int
    """Foreign pieces that are in no group with a piece of the object."""

    @property
    def is_solved(self) -> bool:
        return self.right == self.pieces


def score_puzzle(case: PuzzleCase, found: Puzzle) -> PuzzleScore:
    """Compare all pairs of pieces; right is a pose within 15° and 0.1 of the radius of the whole."""
    clouds = [as_points(piece, MESH_POINTS, seed=0).points for piece in case.pieces]
    own = [k for k, number in enumerate(case.objects) if number == 0]
    placed = [clouds[k] @ case.whole_from_piece[k][:3, :3].T + case.whole_from_piece[k][:3, 3] for k in own]
    whole = np.concatenate(placed)
    radius = float(np.linalg.norm(whole - whole.mean(0), axis=1).max())
    group = {k: number for number, members in enumerate(found.groups) for k in members}
    degrees, shifts, right = [], [], np.zeros((len(clouds), len(clouds)), dtype=bool)
    for a, b in combinations(own, 2):
        truth = inverse(case.whole_from_piece[a]) @ case.whole_from_piece[b]
        pose = inverse(found.poses[a]) @ found.poses[b]
        degrees.append(rotation_error_deg(pose, truth))
        shifts.append(displacement(pose, truth, clouds[b], clouds[a]))
        is_right = degrees[-1] < RIGHT_DEGREES and shifts[-1] < RIGHT_SHARE * radius
        right[a, b] = right[b, a] = is_right and group.get(a, -1) == group.get(b, -2)
    foreign = [k for k, number in enumerate(case.objects) if number != 0]
    with_own = {group[k] for k in own if k in group}
    sizes = [np.square(clouds[k] - clouds[k].mean(0)).sum(1).mean() for k in own]
    return PuzzleScore(
        pieces=len(own),
        right=_right_together(right),
        beside_largest=int(right[own[int(np.argmax(sizes))]].sum()),
        pair_degrees=float(np.mean(degrees)),
        worst_degrees=max(degrees),
        worst_shift=max(shifts),
        foreign=len(foreign),
        kept_out=sum(k not in group or group[k] not in with_own for k in foreign),
    )


def _right_together(right: Bool[np.ndarray, "n n"]) -> int:
    most = int(right.sum(1).max())
    return most + 1 if most else 0


def summarise(scores: Sequence[PuzzleScore]) -> dict[str, float]:
    """Shares and means over puzzles; NaN for what there is none of."""
    pieces, foreign = sum(s.pieces for s in scores), sum(s.foreign for s in scores)
    degrees: Float64[np.ndarray, " n"] = np.array([s.pair_degrees for s in scores])
    return {
        "puzzles": float(len(scores)),
        "pieces_right": sum(s.right for s in scores) / pieces,
        "beside_largest": sum(s.beside_largest for s in scores) / (pieces - len(scores)),
        "solved": sum(s.is_solved for s in scores) / len(scores),
        "pair_degrees": float(degrees.mean()),
        "median_degrees": float(np.median(degrees)),
        "worst_degrees": float(np.max([s.worst_degrees for s in scores])),
        "worst_shift": float(np.max([s.worst_shift for s in scores])),
        "kept_out": sum(s.kept_out for s in scores) / foreign if foreign else float("nan"),
    }
