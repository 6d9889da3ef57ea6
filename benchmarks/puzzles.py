"""Puzzles of many pieces: ``python -m benchmarks.puzzles cut-5 --count 10 --work FOLDER`` prints a table.

Rows of pairs stay in the folder: a study that was stopped continues, and a change of what is done with the
pairs is measured without comparing them again.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import torch

from bitr.assembly.puzzle import Puzzle, Workshop, solve_puzzle
from bitr.data import data_root
from bitr.data.generated import ManyConfig, puzzles
from bitr.data.poses import PuzzleCase
from bitr.data.scans import room_puzzle
from bitr.evaluation.puzzles import PuzzleScore, score_puzzle, summarise

KITCHEN = "7-scenes-redkitchen"
TIMED = 5000
"""Points of a piece of the study of time."""
HEAD = (
    "| on | puzzles | pieces right | right beside the largest | puzzles solved | mean pairwise error | "
    "median | foreign kept out | seconds a puzzle |\n| --- | --- | --- | --- | --- | --- | --- | --- | --- |"
)


def _generated(config: ManyConfig, split: str, seed: int, i: int) -> PuzzleCase:
    return puzzles(split, data_root(None), seed, config)[i]


def _rooms(split: str, seed: int, i: int) -> PuzzleCase:
    return room_puzzle(data_root(None), KITCHEN, 10 * i, 10, seed)


def _study(name: str) -> Callable[[str, int, int], PuzzleCase]:
    """How puzzle i of a study is made; names are cut-N, fracture, foreign, rooms and time."""
    kind, _, number = name.partition("-")
    if kind == "rooms":
        return _rooms
    config = {
        "cut": lambda: ManyConfig("cut", (int(number), int(number)), 0, 0),
        "fracture": lambda: ManyConfig("fracture", (3, 8), 0, 0),
        "foreign": lambda: ManyConfig("cut", (5, 5), 1, 1),
        "time": lambda: ManyConfig("cut", (8, 8), 0, 0, TIMED),
    }[kind]()
    return partial(_generated, config)


def main() -> None:
    """Solve the puzzles of a study and print one row of a Markdown table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.puzzles", description=main.__doc__)
    parser.add_argument("study", nargs="+", help="cut-3, cut-5, cut-8, fracture, foreign, rooms, time")
    parser.add_argument("--count", type=int, default=10, help="puzzles")
    parser.add_argument("--split", default="test")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--work", type=Path, required=True, help="folder where rows of pairs are kept")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    given = parser.parse_args()
    torch.set_num_threads(1)
    rows = []
    for name in given.study:
        make, scores, seconds = _study(name), list[PuzzleScore](), []
        for i in range(given.count):
            case = make(given.split, given.seed, i)
            folder = given.work / f"{name}-{given.split}-{given.seed}-{i}"
            folder.mkdir(parents=True, exist_ok=True)
            start = time.perf_counter()
            found = solve_puzzle(case.pieces, Workshop(folder, workers=given.workers))
            seconds.append(time.perf_counter() - start)
            scores.append(score_puzzle(case, found))
            print(_line(case, found, scores[-1], seconds[-1]), flush=True)
        rows.append(_row(name, scores, seconds))
    print("\n".join([HEAD, *rows]))


def _line(case: PuzzleCase, found: Puzzle, score: PuzzleScore, seconds: float) -> str:
    left = f", {len(found.left_over)} left over" if found.left_over else ""
    foreign = f", {score.kept_out} of {score.foreign} foreign kept out" if score.foreign else ""
    return (
        f"{case.id}: {score.right} of {score.pieces} right, {score.pair_degrees:.1f}° "
        f"(worst {score.worst_degrees:.1f}°, {score.worst_shift:.3g}){left}{foreign}, {seconds:.0f} s"
    )


def _row(name: str, scores: Sequence[PuzzleScore], seconds: Sequence[float]) -> str:
    told = summarise(scores)
    kept = "–" if np.isnan(told["kept_out"]) else f"{told['kept_out']:.0%}"
    return (
        f"| {name} | {told['puzzles']:.0f} | {told['pieces_right']:.0%} | {told['beside_largest']:.0%} | "
        f"{told['solved']:.0%} | {told['pair_degrees']:.1f}° | {told['median_degrees']:.1f}° | {kept} | "
        f"{np.median(seconds):.0f} |"
    )


if __name__ == "__main__":  # worker processes import this file, too
    main()
