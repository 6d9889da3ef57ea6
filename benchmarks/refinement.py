"""Refinement of poses that are a little off: ``python -m benchmarks.refinement [--pairs 100]``.

Prints Markdown tables: rotation errors before and after, and the laws. Pairs come from the test split of the
generated shapes with seed 1 and, where BITR_DATA names them, from airplanes and rooms; the rules were chosen
on the validation split with seeds 11 and 12, and the limit of the turn after a look at seed 0 of the test
split. Times are of the processor, with one thread.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from scipy.spatial.transform import Rotation

from bitr.assembly.refine import REFINEMENTS, Refinement
from bitr.data import AssemblyPair, data_root, dataset
from bitr.data.generated import ShapesConfig, shapes
from bitr.data.poses import inverse, pose
from bitr.groups import Rigid
from bitr.testing import Laws, as_rigid, cloud_size, pose_gap, worst

SHIFT = 0.05
"""Shift of a start over the size of the source, beside its turn."""
SEED = 1
FACTOR = 3.0

Refine = Callable[[np.ndarray, np.ndarray, np.ndarray], Refinement]


METHODS: dict[str, Refine] = {name: REFINEMENTS[name] for name in ("icp", "ot")}


@dataclass(frozen=True)
class Outcome:
    """Rotation errors in degrees before and after, whether the pose was moved, and processor time."""

    before: float
    after: float
    moved: bool
    seconds: float


def start_near(pair: AssemblyPair, degrees: float, rng: np.random.Generator) -> np.ndarray:
    """The true pose, then turned about the source's centroid around a random axis and shifted a little."""
    axis, shift = rng.normal(size=(2, 3))
    turn = Rotation.from_rotvec(np.radians(degrees) * axis / np.linalg.norm(axis)).as_matrix()
    there = pair.source.moved(pair.ref_from_src).points
    center = there.mean(0)
    shift *= SHIFT * cloud_size(there) / np.linalg.norm(shift)
    return pose(turn, center + (degrees > 0) * shift - turn @ center) @ pair.ref_from_src


def turn_between(a: np.ndarray, b: np.ndarray) -> float:
    """Degrees."""
    return float(np.degrees(Rotation.from_matrix(a[:3, :3] @ b[:3, :3].T).magnitude()))


def outcomes(
    refine: Refine, pairs: Sequence[AssemblyPair], low: float, high: float, seed: int = SEED
) -> list[Outcome]:
    """Outcomes of starts between ``low`` and ``high`` degrees off; all methods get the same starts."""
    found = []
    for i, pair in enumerate(pairs):
        rng = np.random.default_rng([seed, i])
        start = start_near(pair, rng.uniform(low, high), rng)
        clock = time.process_time()
        refined = refine(pair.source.points, pair.reference.points, start)
        seconds = time.process_time() - clock
        before, after = (turn_between(g, pair.ref_from_src) for g in (start, refined.pose))
        found.append(Outcome(before, after, refined.moved, seconds))
    return found


def generated(kind: str, count: int, keep: float = 0.5, outliers: float = 0.0) -> list[AssemblyPair]:
    """Pairs of one kind with 1000 points a side, of the test split."""
    mix = tuple(float(kind == each) for each in ("fracture", "cut", "crop"))
    config = ShapesConfig(mix=mix, keep=(keep, keep), outliers=outliers)
    return list(shapes("test", None, SEED, config)[:count])


def settings(count: int) -> Iterator[tuple[str, list[AssemblyPair], float, float]]:
    """Settings to try: a name, the pairs, and the least and most degrees of a start."""
    for keep in (0.7, 0.5):
        yield f"overlap, keep {keep}", generated("crop", count, keep), 5, 25
    yield "keep 0.7, up to 20% outliers", generated("crop", count, 0.7, 0.2), 5, 25
    yield "keep 0.7, from the truth", generated("crop", count, 0.7), 0, 0
    halves = generated("cut", count)
    yield "halves of a cut", halves, 5, 25
    yield "halves of a cut, from the truth", halves, 0, 0
    yield "pieces of a fracture", generated("fracture", count), 5, 25
    if data_root(None) is not None:
        for name in ("airplane:0.7", "indoor"):
            yield f"{name}, test", list(dataset(name, "test")[:count]), 10, 20


def accuracy(count: int) -> Iterator[str]:
    yield "| pairs | method | median before | median after | below 2° | mean change | moved | median ms |"
    yield "| --- | --- | --- | --- | --- | --- | --- | --- |"
    for name, pairs, low, high in settings(count):
        for method, refine in METHODS.items():
            rows = outcomes(refine, pairs, low, high)
            before, after = (np.array([getattr(r, key) for r in rows]) for key in ("before", "after"))
            yield (
                f"| {name} | {method} | {np.median(before):.1f}° | {np.median(after):.2f}° | "
                f"{np.mean(after < 2):.0%} | {np.mean(after - before):+.2f}° | "
                f"{np.mean([r.moved for r in rows]):.0%} | {1e3 * np.median([r.seconds for r in rows]):.0f} |"
            )


def laws_near(refine: Refine, pair: AssemblyPair, seed: int) -> Laws:
    """Law errors of a refinement, from a start 5 to 25 degrees off that moves along with the pieces."""
    rng, generator = np.random.default_rng([SEED, seed]), torch.Generator().manual_seed(seed)
    x, y, start = pair.source.points, pair.reference.points, start_near(pair, rng.uniform(5, 25), rng)
    g1, g2 = (Rigid.random(generator).matrix().numpy() for _ in range(2))
    found = as_rigid(refine(x, y, start).pose)

    def gap(x: np.ndarray, y: np.ndarray, start: np.ndarray, expected: Rigid) -> float:
        return pose_gap(as_rigid(refine(x, y, start).pose), expected, x)

    larger = Rigid.from_matrix(torch.from_numpy(start)).scaled(FACTOR).matrix().numpy()
    return Laws(
        bi=gap(
            pair.source.moved(g1).points,
            pair.reference.moved(g2).points,
            g2 @ start @ inverse(g1),
            as_rigid(g2) @ found @ as_rigid(inverse(g1)),
        ),
        swap=gap(y, x, inverse(start), found.inverse()),
        scale=gap(FACTOR * x, FACTOR * y, larger, found.scaled(FACTOR)),
    )


def laws(count: int) -> Iterator[str]:
    yield "| keep 0.5, largest error | Δ_bi | Δ_swap | Δ_scale |"
    yield "| --- | --- | --- | --- |"
    pairs = generated("crop", count)
    for method in ("icp", "ot"):
        near = worst([laws_near(REFINEMENTS[method], pair, i) for i, pair in enumerate(pairs)])
        yield _row(f"{method}, from 5 to 25 degrees off", near)


def _row(what: str, found: Laws) -> str:
    return f"| {what} | {found.bi:.0e} | {found.swap:.0e} | {found.scale:.0e} |"


TABLES = {"accuracy": accuracy, "laws": laws}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("tables", nargs="*", default=list(TABLES), help=f"of {', '.join(TABLES)}")
    parser.add_argument("--pairs", type=int, default=100, help="of each kind")
    given = parser.parse_args()
    torch.set_num_threads(1)
    for name in given.tables:
        for line in TABLES[name](given.pairs):
            print(line, flush=True)
        print()


if __name__ == "__main__":
    main()
