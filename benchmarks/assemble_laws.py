"""The laws of assemble with a refinement: ``python -m benchmarks.assemble_laws [--pairs 100]``.

Prints a Markdown table. A pair is two samples of a random jug, one of its lower and one of its upper end
along a random direction. They overlap, and the shipped weights put them near each other: so the refinement
has something to move.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass

import numpy as np
import torch

from benchmarks.refinement import turn_between
from bitr.assembly.assemble import Assembly, Settings, assemble_geometries
from bitr.assembly.network import Network
from bitr.data import AssemblyPair, jug
from bitr.data.transforms import assembled, move_randomly, take, two_samples
from bitr.groups import Rigid
from bitr.io import Geometry
from bitr.testing import as_rigid, bi_error, scale_error, swap_error

POINTS = 300
"""Of either side."""
SHARE = 0.65
"""Of the jug that either side has; 0.3 of it they have in common."""
FACTOR = 3.0


@dataclass(frozen=True)
class Outcome:
    """One pair: whether refinement moved the pose, Δr in degrees before and after it, and the laws."""

    moved: bool
    before: float
    after: float
    swap: float
    bi: float
    scale: float


def jug_pair(seed: int) -> AssemblyPair:
    rng, full = np.random.default_rng(seed), round(POINTS / SHARE)
    whole = Geometry(jug(2 * full, torch.Generator().manual_seed(seed)).numpy())
    samples, direction = two_samples(whole, full, rng), rng.normal(size=3)
    low, high = (
        take(sample, np.argsort(sign * sample.points @ direction)[:POINTS])
        for sample, sign in zip(samples, (1, -1), strict=True)
    )
    return move_randomly(assembled(low, high, f"jug/{seed}"), rng)


def assembly(network: Network, refine: str, x: np.ndarray, y: np.ndarray) -> Assembly:
    """By the whole pipeline."""
    return assemble_geometries(Geometry(x), Geometry(y), network, Settings(refine=refine))


def was_moved(found: Assembly) -> bool:
    """Whether the refinement moved the model's pose; where it did not, a warning says so."""
    return not any(text.startswith(f"refine {found.refine} left the pose") for text in found.warnings)


def outcome(network: Network, refine: str, seed: int) -> Outcome:
    """Of the pair of a seed."""
    pair, generator = jug_pair(seed), torch.Generator().manual_seed(seed)
    x, y = pair.source.points, pair.reference.points
    plain, found = assembly(network, "none", x, y), assembly(network, refine, x, y)
    pose, g1, g2 = as_rigid(found.transformation), Rigid.random(generator), Rigid.random(generator)

    def method(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        return assembly(network, refine, x, y).transformation

    return Outcome(
        was_moved(found),
        turn_between(plain.transformation, pair.ref_from_src),
        turn_between(found.transformation, pair.ref_from_src),
        swap_error(method, x, y, pose),
        bi_error(method, x, y, g1, g2, pose),
        scale_error(method, x, y, FACTOR, pose),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--pairs", type=int, default=100)
    given = parser.parse_args()
    torch.set_num_threads(1)
    network = Network.of("default")
    print("| refine | pairs | moved | median Δr before | after | Δ_bi | Δ_swap | Δ_scale |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for refine in ("icp", "ot"):
        rows = [outcome(network, refine, seed) for seed in range(given.pairs)]
        before, after = (np.median([getattr(row, key) for row in rows]) for key in ("before", "after"))
        bi, swap, scale = (max(getattr(row, key) for row in rows) for key in ("bi", "swap", "scale"))
        print(
            f"| {refine} | {len(rows)} | {sum(row.moved for row in rows)} | {before:.1f}° | {after:.1f}° | "
            f"{bi:.0e} | {swap:.0e} | {scale:.0e} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
