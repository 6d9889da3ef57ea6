"""Fits the verifier of `bitr puzzle` on pairs of held-out puzzles.

    python -m benchmarks.puzzle_verifier --keep FOLDER --out src/bitr/weights/puzzle-verifier.json

Two pieces of many share a part of their borders only, many are no neighbours, and some are of another object.
One of the two parts is a piece, the other a piece or several that were put together before. What is fitted is
added to the scores of the verifier of two pieces. The candidates of every pair are kept in FOLDER, so that an
interrupted run goes on; all cores are used. No test split is opened.
"""

from __future__ import annotations

import json
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import partial
from multiprocessing import get_context
from pathlib import Path

import numpy as np
from scipy.spatial import cKDTree
from scipy.spatial.transform import Rotation

from benchmarks.verifier import fit_parser, network_of, read_rows, write_fit, write_rows
from bitr.assembly.align import moved
from bitr.assembly.orbit import with_symmetry
from bitr.assembly.puzzle import QUICK
from bitr.assembly.verify import shipped_verifier
from bitr.data import AssemblyPair, data_root
from bitr.data.generated import puzzles
from bitr.data.poses import PuzzleCase, inverse, pose
from bitr.evaluation.calibrate import Origin, Rows, calibrate, collect
from bitr.io import join

FIRST, COUNT = 20, 80
"""First puzzle, and number of puzzles; the objects of those before are left to try `bitr puzzle` on."""
OF_EACH = 5
"""Pairs that are drawn of each puzzle."""
MERGED = 0.5
"""Chance that the other part is more than a piece."""
TOUCHES = 0.04
"""Distance within which two pieces are neighbours, over the radius of the whole."""
OFF = 0.01
"""Standard deviation of a merged piece's place, over that radius, and of its turn in radians."""


def draw_pair(case: PuzzleCase, rng: np.random.Generator) -> AssemblyPair:
    """A piece and a part of the puzzle, neighbours or not, of one object or of two."""
    places = case.whole_from_piece
    points = [moved(piece.points, place) for piece, place in zip(case.pieces, places, strict=True)]
    trees, numbers = [cKDTree(each) for each in points], range(len(case.pieces))
    k, first = (int(i) for i in rng.choice(len(case.pieces), 2, replace=False))
    group, wanted = [first], 1
    if rng.random() < MERGED:
        wanted = int(rng.integers(2, max(3, len(case.pieces))))
    while len(group) < wanted:
        free = [i for i in numbers if i != k and i not in group and case.objects[i] == case.objects[first]]
        near = [i for i in free if min(trees[i].query(points[j])[0].min() for j in group) < TOUCHES]
        if not near:
            break
        group.append(int(rng.choice(near)))
    back, parts = inverse(places[first]), [case.pieces[first]]
    for i in group[1:]:
        off = pose(Rotation.from_rotvec(OFF * rng.normal(size=3)).as_matrix(), OFF * rng.normal(size=3))
        parts.append(case.pieces[i].moved(back @ off @ places[i]))
    related = case.objects[k] == case.objects[first]
    return AssemblyPair(case.pieces[k], join(parts, "part"), back @ places[k], case.id, related=related)


def keep_rows(folder: Path, number: int) -> tuple[Rows, str]:
    """The candidates of one pair and the puzzle it is of, from the folder where they are there already."""
    path, puzzle = folder / f"{number}.npz", FIRST + number // OF_EACH
    if not path.is_file():
        case = puzzles("val", data_root(None), 1)[puzzle]
        pair = draw_pair(case, np.random.default_rng([number, 1]))
        network = replace(network_of("default"), joints=QUICK)
        (rows,) = collect(network, [[pair]], label=lambda each: with_symmetry(each) if each.related else each)
        write_rows(path, rows, pair.id)
    return read_rows(path)[0], str(puzzle)


def main() -> None:
    given = fit_parser(__doc__).parse_args()
    given.keep.mkdir(parents=True, exist_ok=True)
    rows, objects = [], []
    with ProcessPoolExecutor(mp_context=get_context("spawn")) as pool:
        for own, name in pool.map(partial(keep_rows, given.keep), range(COUNT * OF_EACH)):
            rows.append(own)
            objects.append(name)
            if len(rows) % 50 == 0:
                print(f"{len(rows)} of {COUNT * OF_EACH} pairs", flush=True)
    verifier, check = calibrate(
        Origin("shapes:many", "val", 1, len(rows)), rows, objects=objects, base=shipped_verifier()
    )
    print(json.dumps({key: value for key, value in check.to_dict().items() if key != "bins"}, indent=1))
    write_fit(given.out, verifier.to_dict())


if __name__ == "__main__":
    main()
