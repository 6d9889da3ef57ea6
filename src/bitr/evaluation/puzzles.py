"""Puzzles of many pieces against their true places: metrics, and the studies of the tables."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from itertools import combinations
from pathlib import Path

import numpy as np
from jaxtyping import Float64

from bitr.assembly.puzzle import Puzzle, Workshop, solve_puzzle
from bitr.data import data_root
from bitr.data.fragments import bottle_puzzle
from bitr.data.generated import ManyConfig, puzzles
from bitr.data.poses import AssemblyPair, PuzzleCase, inverse
from bitr.data.scans import room_puzzle
from bitr.evaluation.baselines import baseline
from bitr.evaluation.metrics import RIGHT_DEGREES, RIGHT_SHARE, displacement, rotation_error_deg
from bitr.io import as_points

MESH_POINTS = 2000  # points sampled on a mesh
KITCHEN, IN_ROOM = "7-scenes-redkitchen", 10
TIMED = 5000  # points of a piece of the study of time
GRID = 0.1  # spacing of the fragments of rooms, in metres
LOOP = 0.3
"""Share of a fragment that a pair which is not consecutive must have in common, as in Open3D's own system."""

Solve = Callable[[PuzzleCase, Workshop], Puzzle]


@dataclass(frozen=True)
class PuzzleScore:
    """The errors of one puzzle over the pieces of its object; lengths in the unit of the pieces."""

    pieces: int  # pieces of the object
    right: int
    """Pieces right beside each other: those of the piece that has most pieces right relative to it, and it;
    0 where no two are."""
    beside_largest: int  # pieces right relative to the largest, which is not counted
    pair_degrees: float
    """Mean rotation error over all pairs of pieces; guesses for pieces that are left over count."""
    worst_degrees: float
    worst_shift: float  # both are the largest over all pairs
    foreign: int  # pieces of other objects
    kept_out: int  # foreign pieces that are in no group with a piece of the object

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
    foreign = [k for k in range(len(clouds)) if k not in own]
    with_own = {group[k] for k in own if k in group}
    sizes = [np.square(clouds[k] - clouds[k].mean(0)).sum(1).mean() for k in own]
    most = int(right.sum(1).max())
    return PuzzleScore(
        pieces=len(own),
        right=most + 1 if most else 0,
        beside_largest=int(right[own[int(np.argmax(sizes))]].sum()),
        pair_degrees=float(np.mean(degrees)),
        worst_degrees=max(degrees),
        worst_shift=max(shifts),
        foreign=len(foreign),
        kept_out=sum(k not in group or group[k] not in with_own for k in foreign),
    )


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


# Studies


@dataclass(frozen=True)
class Study:
    """Puzzles of one kind: how number i of a split is made, how many there are in the table, who solves."""

    make: Callable[[Path | None, str, int, int], PuzzleCase]
    """Takes the root of the data, the split, the seed and i."""
    count: int
    solve: Solve = lambda case, workshop: solve_puzzle(case.pieces, workshop)
    is_double: bool = False  # true where the foreign pieces are an object to put together, too


@dataclass(frozen=True)
class Job:
    """The options common to all studies of a call."""

    work: Path
    """Folder where rows of pairs are kept: a study that was stopped continues, and a change of what is done
    with the pairs is measured without comparing them again."""
    split: str = "test"
    seed: int = 0
    root: Path | None = None
    model: str = "default"
    workers: int = 1


@dataclass(frozen=True, eq=False)
class Solved:
    """A puzzle, its answer, and the score of each object that is to be put together."""

    case: PuzzleCase
    found: Puzzle
    scores: tuple[PuzzleScore, ...]


def solve_study(name: str, count: int, job: Job) -> Iterator[Solved]:
    """Solve so many puzzles of a study, one by one."""
    study = STUDIES[name]
    for i in range(count):
        case = study.make(data_root(job.root), job.split, job.seed, i)
        folder = job.work / f"{name}-{job.split}-{job.seed}-{i}"
        folder.mkdir(parents=True, exist_ok=True)
        found = study.solve(case, Workshop(folder, job.model, workers=job.workers))
        cases = [case]
        if study.is_double:
            cases.append(replace(case, objects=tuple(1 - number for number in case.objects)))
        yield Solved(case, found, tuple(score_puzzle(each, found) for each in cases))


def _generated(config: ManyConfig) -> Callable[[Path | None, str, int, int], PuzzleCase]:
    return lambda root, split, seed, i: puzzles(split, root, seed, config)[i]


def _rooms(root: Path | None, split: str, seed: int, i: int) -> PuzzleCase:
    return room_puzzle(root, KITCHEN, IN_ROOM * i, IN_ROOM, seed)


def _bottles(root: Path | None, split: str, seed: int, i: int) -> PuzzleCase:
    return bottle_puzzle(root, split, i, seed)


# The peer


def multiway(case: PuzzleCase, workshop: Workshop) -> Puzzle:
    """Open3D's multiway registration: FPFH and RANSAC for each pair, ICP, and a pose graph.

    It is told which fragments are consecutive, which bitr is not: those pairs are the chain that it starts
    from, and other pairs are loops that it may drop, as in Open3D's reconstruction system.
    """
    described = baseline("fpfh-ransac")  # raises where an extra is missing
    o3d = import_module("open3d")
    registration, start = o3d.pipelines.registration, time.perf_counter()
    clouds = [o3d.geometry.PointCloud(o3d.utility.Vector3dVector(piece.points)) for piece in case.pieces]
    for cloud in clouds:
        cloud.estimate_normals(o3d.geometry.KDTreeSearchParamHybrid(2 * GRID, 30))
    graph, plane = registration.PoseGraph(), registration.TransformationEstimationPointToPlane()
    graph.nodes.append(registration.PoseGraphNode(np.eye(4)))
    for i, j in combinations(range(len(clouds)), 2):
        pair = AssemblyPair(case.pieces[i], case.pieces[j], np.eye(4), f"{i}-{j}")
        pose = described.pose(pair)
        for reach in (2 * GRID, GRID):
            pose = registration.registration_icp(clouds[i], clouds[j], reach, pose, plane).transformation
        about = registration.get_information_matrix_from_point_clouds(clouds[i], clouds[j], 1.4 * GRID, pose)
        is_next = j == i + 1
        if is_next:
            graph.nodes.append(registration.PoseGraphNode(graph.nodes[i].pose @ inverse(pose)))
        if is_next or about[5, 5] > LOOP * min(len(clouds[i].points), len(clouds[j].points)):
            graph.edges.append(registration.PoseGraphEdge(i, j, pose, about, uncertain=not is_next))
    option = registration.GlobalOptimizationOption(1.4 * GRID, 0.25, 1.0, 0)
    method = registration.GlobalOptimizationLevenbergMarquardt()
    criteria = registration.GlobalOptimizationConvergenceCriteria()
    registration.global_optimization(graph, method, criteria, option)
    poses = np.stack([np.asarray(node.pose) for node in graph.nodes])
    names, sure = tuple(piece.name for piece in case.pieces), (1.0,) * len(poses)
    groups, seconds = (tuple(range(len(poses))),), time.perf_counter() - start
    return Puzzle(names, poses, groups, (), sure, (), (), seconds, "open3d", ())


STUDIES = {
    "cut-3": Study(_generated(ManyConfig("cut", (3, 3), 0, 0)), 20),
    "cut-5": Study(_generated(ManyConfig("cut", (5, 5), 0, 0)), 12),
    "cut-8": Study(_generated(ManyConfig("cut", (8, 8), 0, 0)), 8),
    "fracture": Study(_generated(ManyConfig("fracture", (3, 8), 0, 0)), 12),
    "foreign": Study(_generated(ManyConfig("cut", (5, 5), 1, 1)), 12),
    "missing": Study(_generated(ManyConfig("cut", (5, 5), 0, 1)), 6),
    "pots": Study(_generated(ManyConfig("cut", (3, 3), 3, 0)), 6, is_double=True),
    "bottles": Study(_bottles, 12),
    "rooms": Study(_rooms, 1),
    "multiway": Study(_rooms, 1, multiway),
    "time": Study(_generated(ManyConfig("cut", (8, 8), 0, 0, TIMED)), 1),
}
