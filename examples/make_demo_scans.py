"""Makes the scans that ``bitr demo`` lays over each other: a generated solid that no weights were trained on,
seen by range scanners from two sides, with noise, both scans moved.

python examples/make_demo_scans.py src/bitr/assets
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from bitr.data import AssemblyPair
from bitr.data.generated import broken_solid
from bitr.data.generated.dataset import MIXES, draw
from bitr.io import Geometry, write

SEED = 3_000_000_005
"""Beyond the seeds of all splits of generated shapes; of the first seven, an airplane is the easiest to make
out. The default command is right on all seven."""


def scans(seed: int) -> AssemblyPair:
    """Two range scans of one solid, of up to 2,500 points each, and the motion between them."""
    return draw(broken_solid(seed, (2, 2)), MIXES["scan"][0], f"demo/{seed}", np.random.default_rng(seed))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seed", type=int, default=SEED)
    given = parser.parse_args()
    pair = scans(given.seed)
    for name, side in (("scan-source.ply", pair.source), ("scan-reference.ply", pair.reference)):
        points = side.points.astype(np.float32).astype(np.float64)
        write(given.folder / name, Geometry(points), force=True)
    np.savetxt(given.folder / "scan-pose.txt", pair.ref_from_src, fmt="%.15g")


if __name__ == "__main__":
    main()
