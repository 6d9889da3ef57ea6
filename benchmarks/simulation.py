"""``python -m benchmarks.simulation --n 40`` prints how often true and wrong poses succeed in simulation."""

from __future__ import annotations

import argparse
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bitr.data.poses import Pose, Vector, pose, turn_about
from bitr.data.sim.scenes import TASKS, Outcome, sim_pairs, success
from bitr.data.storage import SPLITS, data_root


@dataclass(frozen=True)
class Rates:
    """Shares of scenes in which a pose succeeds."""

    scenes: int
    true: float
    nudged: float
    """The true pose, turned by 2° about a random axis and moved by 2 mm: not on a knife's edge."""
    off: float
    """The true pose, turned by 30° about a random axis through the middle of the object."""
    failures: dict[str, int]
    """Failures of poses that were off, by the first word of the reason."""


def rates(name: str, split: str, n: int, seed: int = 0, root: Path | None = None) -> Rates:
    """Success rates of the first n scenes of a split."""
    true: list[Outcome] = []
    nudged: list[Outcome] = []
    off: list[Outcome] = []
    for i, pair in enumerate(sim_pairs(name, split, root, seed, n)):
        rng = np.random.default_rng([seed, i])
        middle = pair.ref_from_src[:3, :3] @ pair.source.points.mean(axis=0) + pair.ref_from_src[:3, 3]
        tries = (
            pair.ref_from_src,
            _nudge(2.0, 0.002, middle, rng) @ pair.ref_from_src,
            _nudge(30.0, 0.0, middle, rng) @ pair.ref_from_src,
        )
        for outcomes, ref_from_src in zip((true, nudged, off), tries, strict=True):
            outcomes.append(success(pair.id, ref_from_src, root))
    share = [float(np.mean([outcome.succeeded for outcome in outcomes])) for outcomes in (true, nudged, off)]
    failures = Counter(outcome.reason.split()[0] for outcome in off if not outcome.succeeded)
    return Rates(n, share[0], share[1], share[2], dict(failures))


def _nudge(degrees: float, distance: float, middle: Vector, rng: np.random.Generator) -> Pose:
    """A turn about a random axis through the point, then a move in a random direction."""
    axis, way = (direction / np.linalg.norm(direction) for direction in rng.normal(size=(2, 3)))
    turn = turn_about(np.stack([middle, middle + axis]), np.deg2rad(degrees))
    return pose(turn[:3, :3], turn[:3, 3] + distance * way)


def print_table(n: int, split: str, seed: int) -> None:
    print(f"{'':14} {'scenes':>6} {'true pose':>10} {'2° and 2 mm off':>16} {'30° off':>8} {'s a scene':>10}")
    for name in TASKS:
        start = time.perf_counter()
        found = rates(name, split, n, seed, data_root(None))
        seconds = (time.perf_counter() - start) / n
        why = ", ".join(f"{word} {count}" for word, count in sorted(found.failures.items()))
        print(
            f"{name:14} {n:6} {found.true:10.1%} {found.nudged:16.1%} {found.off:8.1%} {seconds:10.1f}   "
            f"30° off fails because: {why}",
            flush=True,
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.simulation", description="success rates of known poses"
    )
    parser.add_argument("--n", type=int, default=40, help="scenes of each kind")
    parser.add_argument("--split", choices=SPLITS, default="train")
    parser.add_argument("--seed", type=int, default=0)
    chosen = parser.parse_args()
    print_table(chosen.n, chosen.split, chosen.seed)
