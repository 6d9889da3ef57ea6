"""Counts, sizes and overlap of a data set, beside the counts of the paper."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64
from scipy.spatial import cKDTree

from bitr.data.pair import AssemblyPair
from bitr.data.registry import TABLE
from bitr.io import Geometry, as_points

WITHIN = 2.0
"""Largest distance from the reference, in typical spacings, at which a point of the source overlaps it."""
MOST_PAIRS = 50
"""Pairs of a split to look at, evenly spread."""
MESH_POINTS = 2048


@dataclass(frozen=True)
class SplitStats:
    """One split: its size, medians over its pairs, and the quartiles of the overlap."""

    name: str
    split: str
    pairs: int
    source_points: int
    reference_points: int
    overlap: float
    overlap_quartiles: tuple[float, float]
    paper_pairs: int | None
    note: str


def split_stats(name: str, split: str, pairs: Sequence[AssemblyPair]) -> SplitStats:
    """The numbers of a split, from at most 50 of its pairs."""
    rows = np.unique(np.linspace(0, len(pairs) - 1, MOST_PAIRS).round().astype(int))
    chosen = [pairs[int(i)] for i in rows]
    low, middle, high = (float(q) for q in np.quantile([overlap(p) for p in chosen], (0.25, 0.5, 0.75)))
    entry = TABLE.get(name.partition(":")[0], {})
    paper = entry.get("paper", {}).get(split)
    return SplitStats(
        name,
        split,
        len(pairs),
        int(np.median([len(_points(pair.source)) for pair in chosen])),
        int(np.median([len(_points(pair.reference)) for pair in chosen])),
        middle,
        (low, high),
        paper,
        "as in the paper" if paper == len(pairs) else entry.get("note", ""),
    )


def overlap(pair: AssemblyPair) -> float:
    """Share of the source's points that, in place, have a point of the reference within two typical spacings.

    The spacing is that of both clouds: the root mean square of their median distances to a nearest neighbour.
    """
    x, y = _points(pair.source.moved(pair.ref_from_src)), _points(pair.reference)
    reach = WITHIN * np.hypot(_spacing(x), _spacing(y)) / np.sqrt(2)
    return float((cKDTree(y).query(x)[0] <= reach).mean())


def _points(piece: Geometry) -> Float64[np.ndarray, "n 3"]:
    return as_points(piece, MESH_POINTS, seed=0).points


def _spacing(points: Float64[np.ndarray, "n 3"]) -> float:
    return float(np.median(cKDTree(points).query(points, k=2)[0][:, 1]))
