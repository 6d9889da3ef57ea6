"""Puzzles of many pieces: ``python -m benchmarks.puzzles all --work FOLDER`` prints the table of the docs.

Rows of pairs stay in the folder: a study that was stopped continues, and a change of what is done with the
pairs is measured without comparing them again.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import torch

from bitr.assembly.align import Motions
from bitr.assembly.puzzle import Puzzle, Workshop, solve_puzzle
from bitr.data import data_root
from bitr.data.fragments import bottle_puzzle
from bitr.data.generated import ManyConfig, puzzles
from bitr.data.poses import AssemblyPair, PuzzleCase, inverse
from bitr.data.scans import room_puzzle
from bitr.evaluation.baselines import fpfh_ransac
from bitr.evaluation.puzzles import PuzzleScore, score_puzzle, summarise

KITCHEN, IN_ROOM = "7-scenes-redkitchen", 10
TIMED = 5000
"""Points of a piece of the study of time."""
GRID = 0.1
"""Spacing of the fragments of rooms, in metres."""
LOOP = 0.3
"""Share of a fragment that a pair which is not consecutive must have in common, as in Open3D's own system."""
HEAD = (
    "| on | puzzles | pieces right | right beside the largest | puzzles solved | mean pairwise error | "
    "median | worst | foreign kept out | seconds a puzzle |\n"
    "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |"
)

Solve = Callable[[PuzzleCase, Workshop], Puzzle]


@dataclass(frozen=True)
class Study:
    """Puzzles of one kind: how number i of a split is made, how many there are in the table, who solves."""

    make: Callable[[str, int, int], PuzzleCase]
    count: int
    solve: Solve = lambda case, workshop: solve_puzzle(case.pieces, workshop)


def _generated(config: ManyConfig) -> Callable[[str, int, int], PuzzleCase]:
    return lambda split, seed, i: puzzles(split, data_root(None), seed, config)[i]


def _rooms(split: str, seed: int, i: int) -> PuzzleCase:
    return room_puzzle(data_root(None), KITCHEN, IN_ROOM * i, IN_ROOM, seed)


def _bottles(split: str, seed: int, i: int) -> PuzzleCase:
    return bottle_puzzle(data_root(None), split, i, seed)


# the peer


def multiway(case: PuzzleCase, workshop: Workshop) -> Puzzle:
    """Open3D's multiway registration: FPFH and RANSAC for each pair, ICP, and a pose graph.

    It is told which fragments are consecutive, which bitr is not: those pairs are the chain that it starts
    from, and other pairs are loops that it may drop, as in Open3D's reconstruction system.
    """
    import open3d as o3d

    registration, start = o3d.pipelines.registration, time.perf_counter()
    clouds = [o3d.geometry.PointCloud(o3d.utility.Vector3dVector(piece.points)) for piece in case.pieces]
    for cloud in clouds:
        cloud.estimate_normals(o3d.geometry.KDTreeSearchParamHybrid(2 * GRID, 30))
    graph = registration.PoseGraph()
    graph.nodes.append(registration.PoseGraphNode(np.eye(4)))
    for i, j in combinations(range(len(clouds)), 2):
        pair = AssemblyPair(case.pieces[i], case.pieces[j], np.eye(4), f"{i}-{j}")
        pose = _refined(registration, clouds[i], clouds[j], fpfh_ransac(pair))
        about = registration.get_information_matrix_from_point_clouds(clouds[i], clouds[j], 1.4 * GRID, pose)
        is_next = j == i + 1
        if is_next:
            graph.nodes.append(registration.PoseGraphNode(graph.nodes[i].pose @ inverse(pose)))
        if is_next or about[5, 5] > LOOP * min(len(clouds[i].points), len(clouds[j].points)):
            graph.edges.append(registration.PoseGraphEdge(i, j, pose, about, uncertain=not is_next))
    option = registration.GlobalOptimizationOption(1.4 * GRID, 0.25, 1.0, 0)
    method = registration.GlobalOptimizationLevenbergMarquardt()
    registration.global_optimization(
        graph, method, registration.GlobalOptimizationConvergenceCriteria(), option
    )
    poses = np.stack([np.asarray(node.pose) for node in graph.nodes])
    return _as_puzzle(case, poses, time.perf_counter() - start)


def _refined(registration: Any, source: Any, target: Any, pose: Any) -> Any:
    estimate = registration.TransformationEstimationPointToPlane()
    for reach in (2 * GRID, GRID):
        pose = registration.registration_icp(source, target, reach, pose, estimate).transformation
    return pose


def _as_puzzle(case: PuzzleCase, poses: Motions, seconds: float) -> Puzzle:
    count, names = len(poses), tuple(piece.name for piece in case.pieces)
    sure = (1.0,) * count
    return Puzzle(names, poses, (tuple(range(count)),), (), sure, (), (), seconds, "open3d", ())


# the table

STUDIES = {
    "cut-3": Study(_generated(ManyConfig("cut", (3, 3), 0, 0)), 20),
    "cut-5": Study(_generated(ManyConfig("cut", (5, 5), 0, 0)), 12),
    "cut-8": Study(_generated(ManyConfig("cut", (8, 8), 0, 0)), 8),
    "fracture": Study(_generated(ManyConfig("fracture", (3, 8), 0, 0)), 12),
    "foreign": Study(_generated(ManyConfig("cut", (5, 5), 1, 1)), 12),
    "missing": Study(_generated(ManyConfig("cut", (5, 5), 0, 1)), 6),
    "pots": Study(_generated(ManyConfig("cut", (3, 3), 3, 0)), 6),
    "bottles": Study(_bottles, 12),
    "rooms": Study(_rooms, 1),
    "multiway": Study(_rooms, 1, multiway),
    "time": Study(_generated(ManyConfig("cut", (8, 8), 0, 0, TIMED)), 1),
}


def main() -> None:
    """Solve the puzzles of studies and print a Markdown table with one row for each."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.puzzles", description=main.__doc__)
    parser.add_argument("study", nargs="+", choices=[*STUDIES, "all"])
    parser.add_argument("--count", type=int, help="puzzles of each; by default those of docs/puzzles.md")
    parser.add_argument("--split", default="test")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--work", type=Path, required=True, help="folder where rows of pairs are kept")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    given = parser.parse_args()
    torch.set_num_threads(1)
    rows = []
    for name in STUDIES if "all" in given.study else given.study:
        study, scores, seconds = STUDIES[name], list[PuzzleScore](), []
        for i in range(study.count if given.count is None else given.count):
            case = study.make(given.split, given.seed, i)
            folder = given.work / f"{name}-{given.split}-{given.seed}-{i}"
            folder.mkdir(parents=True, exist_ok=True)
            found = study.solve(case, Workshop(folder, workers=given.workers))
            seconds.append(found.seconds)
            scores.append(score_puzzle(case, found))
            print(_line(case, found, scores[-1]), flush=True)
            if name == "pots":  # the second pot is one to put together, too
                other = replace(case, objects=tuple(1 - number for number in case.objects))
                scores.append(score_puzzle(other, found))
        rows.append(_row(name, len(seconds), scores, seconds))
    print("\n".join([HEAD, *rows]))


def _line(case: PuzzleCase, found: Puzzle, score: PuzzleScore) -> str:
    left = f", {len(found.left_over)} left over" if found.left_over else ""
    foreign = f", {score.kept_out} of {score.foreign} foreign kept out" if score.foreign else ""
    return (
        f"{case.id}: {score.right} of {score.pieces} right, {score.pair_degrees:.1f}° "
        f"(worst {score.worst_degrees:.1f}°, {score.worst_shift:.3g}){left}{foreign}, {found.seconds:.0f} s"
    )


def _row(name: str, count: int, scores: Sequence[PuzzleScore], seconds: Sequence[float]) -> str:
    told = summarise(scores)
    kept = "–" if np.isnan(told["kept_out"]) else f"{told['kept_out']:.0%}"
    return (
        f"| {name} | {count} | {told['pieces_right']:.0%} | {told['beside_largest']:.0%} | "
        f"{told['solved']:.0%} | {told['pair_degrees']:.1f}° | {told['median_degrees']:.1f}° | "
        f"{told['worst_degrees']:.1f}°, {told['worst_shift']:.3f} | {kept} | {np.median(seconds):.0f} |"
    )


if __name__ == "__main__":  # worker processes import this file, too
    main()
