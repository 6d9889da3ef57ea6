"""Makes the two sherds of docs/fragments.md: a generated thin-walled vase, broken in two, both pieces moved.

python examples/make_sherds.py src/bitr/assets
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from bitr.data.generated import broken_solid
from bitr.data.poses import inverse, random_pose
from bitr.io import Geometry, write

SEED = 3_000_000_003
"""Beyond the seeds of all splits of generated shapes; of the first six it shows most of a vessel."""


def sherds(seed: int) -> tuple[Geometry, Geometry]:
    """Both pieces of a vessel in their places: meshes, 120 mm from the middle to the farthest corner."""
    found = broken_solid(seed, (2, 2), is_vessel=True)
    pieces = []
    for node in found.pieces:
        surface = found.surface(node)
        assert surface.faces is not None
        used, faces = np.unique(surface.faces, return_inverse=True)
        pieces.append(Geometry(120 * surface.points[used], faces=faces.reshape(-1, 3)))
    return pieces[0], pieces[1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seed", type=int, default=SEED)
    given = parser.parse_args()
    rng = np.random.default_rng(given.seed)
    moves = [random_pose(rng, 100.0) for _ in range(2)]
    for name, piece, move in zip(("sherd-a.ply", "sherd-b.ply"), sherds(given.seed), moves, strict=True):
        moved = piece.moved(move)
        write(given.folder / name, Geometry(moved.points, faces=moved.faces), force=True)
    np.savetxt(given.folder / "sherd-pose.txt", moves[1] @ inverse(moves[0]), fmt="%.15g")


if __name__ == "__main__":
    main()
