"""Makes the puzzle of docs/puzzles.md: a jug no weights were trained on, cut in five, each piece moved.

python examples/make_demo_puzzle.py src/bitr/assets
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
import torch

from bitr.data import jug
from bitr.data.generated.dataset import cut_by_planes
from bitr.data.poses import inverse, random_pose
from bitr.io import Geometry, write

SEED = 3_000_001
"""The first after that of the pair of ``bitr demo``."""
POINTS, PIECES = 6000, 5


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path)
    folder: Path = parser.parse_args().folder
    rng = np.random.default_rng(SEED)
    whole = Geometry(jug(POINTS, torch.Generator().manual_seed(SEED)).double().numpy())
    places = []
    for number, piece in enumerate(cut_by_planes(whole, PIECES, rng), 1):
        motion = random_pose(rng, 2.0)
        points = piece.moved(motion).points.astype(np.float32).astype(np.float64)
        write(folder / f"puzzle-{number}.ply", Geometry(points), force=True)
        places.append(inverse(motion).tolist())
    (folder / "puzzle-poses.json").write_text(json.dumps(places) + "\n", encoding="ascii")


if __name__ == "__main__":
    main()
