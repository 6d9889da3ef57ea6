"""How well ``bitr assemble --scale auto`` finds the ratio of scales: pairs of a data set in different units.

From the root of the repository: python -m benchmarks.scale shapes:crop --factor 25.4 --limit 16 [--pose]
"""

from __future__ import annotations

import argparse
from dataclasses import replace

import numpy as np

from bitr.assembly.assemble import Settings, assemble_geometries
from bitr.assembly.network import Network
from bitr.assembly.scale import scale_ratios
from bitr.data import dataset
from bitr.evaluation.metrics import is_right

CLOSE = 0.02
"""Relative error of a ratio that counts as found."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("dataset")
    parser.add_argument("--split", default="val")
    parser.add_argument("--factor", type=float, default=25.4, help="by which each source is scaled")
    parser.add_argument("--limit", type=int, default=16)
    parser.add_argument("--pose", action="store_true", help="assemble, too: the pose, with the ratio or not")
    given = parser.parse_args()
    network, errors, right = Network.of("default"), [], []
    for pair in dataset(given.dataset, given.split)[: given.limit]:
        source = replace(pair.source, points=given.factor * pair.source.points)
        if given.pose:
            found = assemble_geometries(source, pair.reference, network, Settings(scale="auto"))
            plain = assemble_geometries(pair.source, pair.reference, network, Settings())
            right.append((is_right(pair, found.transformation), is_right(pair, plain.transformation)))
            ratio, said = found.scale, f"{right[-1]}, confidence {found.confidence:.2f}"
        else:
            ratio, said = scale_ratios(source, pair.reference)[0], ""
        errors.append(abs(ratio * given.factor - 1))
        print(f"{pair.id}: ratio off by {errors[-1]:.2%} {said}", flush=True)
    print(f"ratio within {CLOSE:.0%}: {np.mean(np.array(errors) < CLOSE):.1%} of {len(errors)} pairs")
    if right:
        scaled, plain = np.mean(right, axis=0)
        print(f"right: {scaled:.1%} with --scale auto, {plain:.1%} of the same pairs in one unit")


if __name__ == "__main__":
    main()
