"""How often the true pose of simulated scenes works, and how often a wrong one."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Float64
from scipy.spatial.transform import Rotation

from bitr.data.poses import pose
from bitr.data.root import data_root
from bitr.data.sim.dataset import sim_pairs
from bitr.data.sim.release import Outcome
from bitr.data.sim.success import success


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
    """Why poses that were off failed: the first word of the reason, and how often."""


def rates(name: str, split: str, n: int, seed: int = 0, root: Path | None = None) -> Rates:
    true: list[Outcome] = []
    nudged: list[Outcome] = []
    off: list[Outcome] = []
    for i, pair in enumerate(sim_pairs(name, split, root, seed, n)):
        rng = np.random.default_rng([seed, i])
        middle = pair.ref_from_src[:3, :3] @ pair.source.points.mean(axis=0) + pair.ref_from_src[:3, 3]
        tries = (
            pair.ref_from_src,
            _turned(2.0, 0.002, middle, rng) @ pair.ref_from_src,
            _turned(30.0, 0.0, middle, rng) @ pair.ref_from_src,
        )
        for outcomes, ref_from_src in zip((true, nudged, off), tries, strict=True):
            outcomes.append(success(pair.id, ref_from_src, root))
    share = [float(np.mean([outcome.succeeded for outcome in outcomes])) for outcomes in (true, nudged, off)]
    failures = Counter(outcome.reason.split()[0] for outcome in off if not outcome.succeeded)
    return Rates(n, share[0], share[1], share[2], dict(failures))


def _turned(
    degrees: float, distance: float, middle: Float64[np.ndarray, " 3"], rng: np.random.Generator
) -> Float64[np.ndarray, "4 4"]:
    """A turn about a random axis through the point, then a move in a random direction."""
    axis, way = (direction / np.linalg.norm(direction) for direction in rng.normal(size=(2, 3)))
    rotation = Rotation.from_rotvec(np.deg2rad(degrees) * axis).as_matrix()
    return pose(rotation, middle - rotation @ middle + distance * way)


def table(n: int, split: str, seed: int) -> None:
    print(f"{'':14} {'scenes':>6} {'true pose':>10} {'2° and 2 mm off':>16} {'30° off':>8} {'s a scene':>10}")
    for name in ("mug-hanging", "bowl-placing"):
        start = time.perf_counter()
        found = rates(name, split, n, seed, data_root(None))
        seconds = (time.perf_counter() - start) / n
        why = ", ".join(f"{word} {count}" for word, count in sorted(found.failures.items()))
        print(
            f"{name:14} {n:6} {found.true:10.1%} {found.nudged:16.1%} {found.off:8.1%} {seconds:10.1f}   "
            f"30° off fails because: {why}",
            flush=True,
        )
