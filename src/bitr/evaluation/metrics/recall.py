"""Registration recall: the share of pairs that a benchmark accepts, and the errors of those alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float64


@dataclass(frozen=True)
class Benchmark:
    """A pair counts as registered if Δr and Δt are both below the thresholds."""

    name: str
    degrees: float
    length: float
    unit: str
    """Of the length: "m", or empty for shapes of size 1. Pairs in another unit are not judged by it."""

    @property
    def label(self) -> str:
        return f"{self.name} ({self.degrees:g}°, {self.length:g}{' ' + self.unit if self.unit else ''})"

    def accepts(
        self, degrees: Float64[np.ndarray, " n"], lengths: Float64[np.ndarray, " n"]
    ) -> Bool[np.ndarray, " n"]:
        return (degrees < self.degrees) & (lengths < self.length)


BENCHMARKS = (
    Benchmark("KITTI", 5.0, 2.0, "m"),
    Benchmark("ETH", 2.0, 0.3, "m"),
    Benchmark("ModelNet", 1.0, 0.1, ""),
)


@dataclass(frozen=True)
class Recall:
    """Of one benchmark; the errors are None where no pair was accepted."""

    recall: float
    """Share of the pairs, failed ones included, that were accepted."""
    rre: float | None
    """Mean Δr in degrees of the accepted pairs."""
    rte: float | None
    """Mean Δt of the accepted pairs."""


def recall(
    accepted: Bool[np.ndarray, " n"],
    degrees: Float64[np.ndarray, " n"],
    lengths: Float64[np.ndarray, " n"],
    scenes: Sequence[str] | None = None,
) -> Recall:
    """Recall, and RRE and RTE of the accepted pairs; with ``scenes``, each is a mean over scenes of means.

    3DMatch counts by scene, so that one with many pairs weighs no more than the others. A scene without
    accepted pairs has a recall of 0 and no part in RRE and RTE. What is not accepted may be NaN.
    """
    places = np.asarray(scenes if scenes is not None else [""] * len(accepted))
    inside = [places == place for place in np.unique(places)]
    found = [scene & accepted for scene in inside if (scene & accepted).any()]
    return Recall(
        recall=float(np.mean([accepted[scene].mean() for scene in inside])),
        rre=float(np.mean([degrees[rows].mean() for rows in found])) if found else None,
        rte=float(np.mean([lengths[rows].mean() for rows in found])) if found else None,
    )
