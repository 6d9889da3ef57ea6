"""Makes the pair that ``bitr demo`` assembles: a jug no weights were trained on, cut in two, both moved.

python examples/make_demo_pair.py src/bitr/assets
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import torch

from bitr import Rigid
from bitr.data import cut, jug
from bitr.io import Geometry, write

SEED = 3_000_000
"""The first after those of the jugs that examples/train_jugs.py trains, validates and tests on."""
POINTS = 6000
SHARE = 0.45


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path)
    folder: Path = parser.parse_args().folder
    generator = torch.Generator().manual_seed(SEED)
    source, reference = cut(jug(POINTS, generator), SHARE, generator)
    src_from_jug, ref_from_jug = (Rigid.random(generator, size=2.0) for _ in range(2))
    for name, points, pose in (
        ("demo-source.ply", source, src_from_jug),
        ("demo-reference.ply", reference, ref_from_jug),
    ):
        write(folder / name, Geometry(pose.act(points).float().double().numpy()), force=True)
    truth = ref_from_jug @ src_from_jug.inverse()
    np.savetxt(folder / "demo-pose.txt", truth.matrix().numpy(), fmt="%.15g")


if __name__ == "__main__":
    main()
