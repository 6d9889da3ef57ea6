"""Puzzles of many pieces: ``python -m benchmarks.puzzles all --work FOLDER`` prints the table of the docs.

`bitr.evaluation.puzzles` has the studies; ``bitr reproduce puzzles`` makes the table of BENCHMARK.md.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from bitr.assembly.puzzle import Puzzle
from bitr.data.poses import PuzzleCase
from bitr.evaluation.puzzles import STUDIES, Job, PuzzleScore, solve_study, summarise

HEAD = (
    "| on | puzzles | pieces right | right beside the largest | puzzles solved | mean pairwise error | "
    "median | worst | foreign kept out | seconds a puzzle |\n"
    "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |"
)


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
    job, rows = Job(given.work, given.split, given.seed, workers=given.workers), []
    for name in STUDIES if "all" in given.study else given.study:
        scores, seconds = list[PuzzleScore](), []
        count = STUDIES[name].count if given.count is None else given.count
        for each in solve_study(name, count, job):
            seconds.append(each.found.seconds)
            scores += each.scores
            print(_line(each.case, each.found, each.scores[0]), flush=True)
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
