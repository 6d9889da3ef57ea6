"""Separation of pieces that reach into each other: ``python -m benchmarks.contact [--pairs 10]``.

Prints a Markdown table. Mugs, stands, bowls and plates are closed meshes of simulated scenes of the test
split; where BITR_DATA names scanned tableware, each fourth is scanned. Pieces of fractures come from the test
split of the generated shapes, as meshes and as noisy clouds with normals. Starts are turned about the centre
of the source and shifted, both in random directions. Lengths are over the size of the source: its root mean
square radius. "Deep" counts starts that reach into each other; the means are over those that were freed.
Times are of the processor, with one thread.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from unittest.mock import patch

import numpy as np
from scipy.spatial.transform import Rotation

from bitr.assembly import separate as separation
from bitr.assembly.separate import separate
from bitr.data import data_root
from bitr.data.generated import ShapesConfig, shapes
from bitr.data.generated.fracture import FIRST, ShapeCache, cache_folder
from bitr.data.poses import move_points, pose
from bitr.data.sim import scene_of, sim_pairs
from bitr.io import Geometry, as_points
from bitr.testing import cloud_size

SEED = 1
STARTS = ((0.0, 0.0), (0.02, 1.0), (0.05, 3.0))
"""Shift over the source's size, and turn in degrees."""
WAYS = {"motion": separation.STIFF, "translation": 1e6}
"""Stiffness added to the moments of inertia: beside a large number a turn never pays."""


@dataclass(frozen=True, eq=False)
class Case:
    """Two pieces and their true pose."""

    source: Geometry
    reference: Geometry
    truth: np.ndarray

    def start(self, shift: float, degrees: float, rng: np.random.Generator) -> np.ndarray:
        axis, way = (v / np.linalg.norm(v) for v in rng.normal(size=(2, 3)))
        turn = Rotation.from_rotvec(np.radians(degrees) * axis).as_matrix()
        center = move_points(self.truth, self.points).mean(0)
        return pose(turn, center - turn @ center + shift * self.size * way) @ self.truth

    @property
    def points(self) -> np.ndarray:
        return as_points(self.source, 1000, seed=0).points

    @property
    def size(self) -> float:
        return cloud_size(self.points)

    def off(self, ref_from_src: np.ndarray) -> float:
        """Root mean square distance of the source's points from their place, over its size."""
        gap = move_points(ref_from_src, self.points) - move_points(self.truth, self.points)
        return float(np.sqrt(np.square(gap).sum(1).mean())) / self.size


def simulated(name: str, count: int) -> Iterator[Case]:
    for pair in sim_pairs(name, "test", data_root(None), SEED, count):
        scene = scene_of(pair.id)
        held = scene.draft.object.surface.moved(scene.draft.observed)
        yield Case(held, scene.draft.support.surface, scene.ref_from_src)


def broken_meshes(count: int) -> Iterator[Case]:
    cache = ShapeCache(cache_folder(None), ShapesConfig().pieces)
    for number in range(count):
        fracture = cache.get(FIRST["test"] + number)
        a, b = (int(node) for node in fracture.fits[0])
        yield Case(fracture.surface(a), fracture.surface(b), np.eye(4))


def broken_clouds(count: int) -> Iterator[Case]:
    for pair in shapes("test", None, SEED, ShapesConfig(mix=(1.0, 0.0, 0.0)))[:count]:
        yield Case(pair.source, pair.reference, pair.ref_from_src)


KINDS: dict[str, Callable[[int], Iterator[Case]]] = {
    "mug on a stand, meshes": lambda count: simulated("mug-hanging", count),
    "bowl on a plate, meshes": lambda count: simulated("bowl-placing", count),
    "fracture, meshes": broken_meshes,
    "fracture, clouds": broken_clouds,
}


def rows(count: int) -> Iterator[str]:
    yield (
        "| pieces | start | by | deep | freed | depth before | depth after | way | off before | off after | "
        "median ms |"
    )
    yield "|" + " --- |" * 11
    for name, make in KINDS.items():
        cases = list(make(count))
        for shift, degrees in STARTS:
            starts = [
                case.start(shift, degrees, np.random.default_rng([SEED, i])) for i, case in enumerate(cases)
            ]
            for by, stiff in WAYS.items():
                with patch("bitr.assembly.separate.STIFF", stiff):
                    yield f"| {name} | {shift:.0%}, {degrees:g}° | {by} | {_row(cases, starts)} |"


def _row(cases: list[Case], starts: list[np.ndarray]) -> str:
    deep, seconds, freed = 0, [], []
    for case, start in zip(cases, starts, strict=True):
        clock = time.process_time()
        found = separate(case.source, case.reference, start)
        seconds.append(time.process_time() - clock)
        deep += found.depth_before is not None and "do not reach" not in found.reason
        if found.moved:
            lengths = np.array([found.depth_before, found.depth_after, found.way]) / case.size
            freed.append([*lengths, case.off(start), case.off(found.pose)])
    cells = [f"{100 * mean:.2f}%" for mean in np.mean(freed, axis=0)] if freed else ["–"] * 5
    return " | ".join([str(deep), str(len(freed)), *cells, f"{1e3 * np.median(seconds):.0f}"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--pairs", type=int, default=10, help="of each kind")
    for line in rows(parser.parse_args().pairs):
        print(line, flush=True)


if __name__ == "__main__":
    main()
