"""Symmetries that are found, missed and invented: ``python -m benchmarks.symmetries``.

Prints Markdown tables for 1,000 points a cloud. Symmetric shapes: how many of 20 samples (seeds 100 to 104,
drawn at random or farthest from each other, noise of 0 to 0.02 where the radius is about 1) have all
symmetries found to 8 degrees, and no others. Shapes without: how many have one found. Pieces of
real objects come from BITR_DATA. Times are of the processor, with one thread. Thresholds were chosen on seeds
0 to 3.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator

import numpy as np
import torch
from tests.assembly.shapes import BOTTLE, CYLINDER, SOLIDS, ball, on_hull, turned

from bitr.assembly.align import angles
from bitr.assembly.symmetry import Symmetries, symmetries
from bitr.cli.demo import REFERENCE, SOURCE
from bitr.data import bumpy_shape, cut, data_root, dataset, jug
from bitr.data.piece import as_piece
from bitr.io import Geometry, farthest_points, read

SEEDS = range(100, 105)
SAMPLINGS = [("random", 0.0), ("random", 0.02), ("even", 0.0), ("even", 0.01)]
ROUND = {"bottle": BOTTLE, "cylinder": CYLINDER}


def sample(name: str, n: int, rng: np.random.Generator) -> np.ndarray:
    if name in SOLIDS:
        return on_hull(SOLIDS[name][0], n, rng)
    return ball(n, rng) if name == "ball" else turned(*ROUND[name], n, rng)


def is_right(name: str, found: Symmetries) -> bool:
    if name == "ball":
        return found.ball
    if name in ROUND:
        turned_over = 2 if name == "cylinder" else 1
        upright = found.axis is not None and abs(found.axis[2]) > np.cos(np.radians(8))
        return upright and len(found.motions) == turned_over
    between = np.degrees(angles(found.motions[:, None, :3, :3] @ SOLIDS[name][1].swapaxes(1, 2)))
    return found.axis is None and between.shape[0] == between.shape[1] and between.min(0).max() < 8


def timed(cloud: np.ndarray) -> tuple[Symmetries, float]:
    start = time.process_time()
    return symmetries(cloud), 1000 * (time.process_time() - start)


def symmetric() -> None:
    print("| shape | all found, no others | median ms |\n| --- | --- | --- |")
    for name in [*SOLIDS, *ROUND, "ball"]:
        right, times = 0, []
        for seed in SEEDS:
            for kind, noise in SAMPLINGS:
                rng = np.random.default_rng(seed)
                cloud = sample(name, 1000 if kind == "random" else 8000, rng)
                cloud += noise * rng.normal(size=cloud.shape)
                found, ms = timed(cloud if kind == "random" else cloud[farthest_points(cloud, 1000)])
                right += is_right(name, found)
                times.append(ms)
        print(f"| {name} | {right} of {len(times)} | {np.median(times):.0f} |")


def blobs() -> Iterator[np.ndarray]:
    for shape in (bumpy_shape, jug):
        for seed in range(100, 125):
            rng = torch.Generator().manual_seed(seed)
            yield shape(1000, rng).numpy()
            yield cut(shape(2000, rng), 0.5, rng)[0].numpy()


def pieces(name: str) -> Iterator[np.ndarray]:
    """Both sides of the first 50 pairs of a test split, as a model sees them."""
    pairs = dataset(name, "test", root=data_root(None), seed=1)
    for i in range(min(50, len(pairs))):
        for side in (pairs[i].source, pairs[i].reference):
            yield seen(side)


def seen(piece: Geometry) -> np.ndarray:
    return as_piece(piece, 1000, 0).seen.points


def without(name: str, clouds: Iterable[np.ndarray]) -> None:
    found = [timed(cloud) for cloud in clouds]
    wrong, times = sum(not one.trivial for one, _ in found), [ms for _, ms in found]
    print(f"| {name} | {wrong} of {len(found)} | {np.median(times):.0f} | {max(times):.0f} |")


if __name__ == "__main__":
    torch.set_num_threads(1)
    symmetric()
    print("\n| shapes without symmetries | one found | median ms | most ms |\n| --- | --- | --- | --- |")
    without("bumpy shapes, jugs and halves of them", blobs())
    without("the pieces of the demo", map(seen, map(read, (SOURCE, REFERENCE))))
    for data in ("shapes", *(("bunny", "airplane:0.7", "indoor") if data_root(None) else ())):
        without(f"{data}, test", pieces(data))
