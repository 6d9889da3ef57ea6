"""When a motion that the surfaces tell is to be believed: validation pairs that overlap, and that only touch.

python -m benchmarks.matching --pairs 120
"""

from __future__ import annotations

import argparse

import numpy as np
from bitr.refine.matching.match import CONVINCING, FIRM, evident_motion
from scipy.spatial.transform import Rotation

from bitr.data import AssemblyPair, dataset
from bitr.io.subsample import even_draw
from bitr.refine.frame import Frame
from bitr.refine.overlap import firmness
from bitr.refine.search import MOST_POINTS
from bitr.refine.surface import Surface

DATA = ("shapes:cut", "jugs", "winebottle", "shapes:crop", "airplane:0.7", "airplane:0.5", "indoor")
RULES = {
    "all": (0.0, -1.0),
    "evidence > 8": (8.0, -1.0),
    f"> {CONVINCING:g}": (CONVINCING, -1.0),
    "> 16": (16.0, -1.0),
    f"> {CONVINCING:g} and firm": (CONVINCING, FIRM),
}
"""Least evidence and firmness of each."""
RIGHT = 15.0
"""Degrees."""


def found(pair: AssemblyPair) -> tuple[float, float, float]:
    """Of the motion that the surfaces tell: evidence, firmness, and how many degrees it is off."""
    x, y = (p.points[even_draw(len(p.points), MOST_POINTS, 0)] for p in (pair.source, pair.reference))
    frame = Frame.of(x, y)
    a, b = Surface.of(frame.source(x)), Surface.of(frame.reference(y))
    told = evident_motion(a, b)
    if told is None:
        return 0.0, 0.0, 180.0
    off = frame.outside(told.pose)[:3, :3].T @ pair.ref_from_src[:3, :3]
    return (
        told.evidence,
        firmness(a, b, told.pose),
        float(np.degrees(Rotation.from_matrix(off).magnitude())),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--pairs", type=int, default=120, help="of each data set, at most")
    options = parser.parse_args()
    print(f"| data, validation split | pairs | {' | '.join(RULES)} |")
    print(f"| {' | '.join(['---'] * (2 + len(RULES)))} |")
    for name in DATA:
        seen = [found(pair) for pair in dataset(name, "val")[: options.pairs]]
        cells = []
        for least, firm in RULES.values():
            errors = [off for evidence, held, off in seen if evidence > least and held > firm]
            cells.append(f"{len(errors)}, {sum(off < RIGHT for off in errors)} right")
        print(f"| {name} | {len(seen)} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
