"""When a motion that the surfaces tell is to be believed: validation pairs that overlap, and that only touch.

python -m benchmarks.matching --pairs 120
"""

from __future__ import annotations

import argparse

import numpy as np
from scipy.spatial.transform import Rotation

from bitr.data import AssemblyPair, dataset
from bitr.io.subsample import even_draw
from bitr.refine.frame import Frame
from bitr.refine.matching.match import CONVINCING, evident_motion
from bitr.refine.search import MOST_POINTS
from bitr.refine.surface import Surface

DATA = ("shapes:cut", "shapes:fracture", "shapes:crop", "airplane:0.7", "airplane:0.5", "indoor")
BOUNDS = (0.0, 8.0, CONVINCING, 16.0)
RIGHT = 15.0
"""Degrees."""


def evidence(pair: AssemblyPair) -> tuple[float, float]:
    """Of the motion that is found: what speaks for it, and how many degrees it is off."""
    x, y = (p.points[even_draw(len(p.points), MOST_POINTS, 0)] for p in (pair.source, pair.reference))
    frame = Frame.of(x, y)
    found = evident_motion(Surface.of(frame.source(x)), Surface.of(frame.reference(y)))
    if found is None:
        return 0.0, 180.0
    off = frame.outside(found.pose)[:3, :3].T @ pair.ref_from_src[:3, :3]
    return found.evidence, float(np.degrees(Rotation.from_matrix(off).magnitude()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--pairs", type=int, default=120, help="of each data set, at most")
    options = parser.parse_args()
    bounds = " | ".join(f"believed from {bound:g}" for bound in BOUNDS)
    print(f"| data, validation split | pairs | {bounds} |\n| {' | '.join(['---'] * (2 + len(BOUNDS)))} |")
    for name in DATA:
        seen = [evidence(pair) for pair in dataset(name, "val")[: options.pairs]]
        cells = []
        for bound in BOUNDS:
            errors = [error for strength, error in seen if strength > bound]
            cells.append(f"{len(errors)}, {sum(error < RIGHT for error in errors)} right")
        print(f"| {name} | {len(seen)} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
