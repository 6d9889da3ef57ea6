"""Generated jugs, cut in two by a plane: what the weights that come with bitr were trained on."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
import torch

from bitr.data.info import DatasetInfo
from bitr.data.jug import jug
from bitr.data.pair import AssemblyPair
from bitr.data.pairs import Pairs
from bitr.data.simple import cut
from bitr.data.splits import SPLITS
from bitr.data.transforms import assembled, move_randomly
from bitr.io import Geometry

POINTS = 800
"""Of a whole jug."""
SHARES = (0.3, 0.7)
"""Least and greatest part of the jug that the first piece is."""
COUNTS = {"train": 10_000, "val": 1000, "test": 1000}
"""No two pairs are of the same jug, whatever their split and seed."""


def _make(split: str, i: int, rng: np.random.Generator) -> AssemblyPair:
    generator = torch.Generator().manual_seed(int(rng.integers(2**63)))
    pieces = cut(jug(POINTS, generator), rng.uniform(*SHARES), generator)
    source, reference = (
        Geometry(piece.numpy(), name=f"jug-{i}-{side}") for piece, side in zip(pieces, "ab", strict=True)
    )
    return move_randomly(assembled(source, reference, f"{split}/{i}"), rng)


def _open(split: str, root: Path | None, seed: int) -> Pairs:
    return Pairs("jugs", split, seed, partial(_make, split), range(COUNTS[split]))


INFO = DatasetInfo(
    name="jugs",
    title="generated jugs with handle and spout, cut in two by a plane",
    section="",
    licence="generated: none needed",
    source="generated",
    splits=SPLITS,
    present=lambda root: True,
    open=_open,
)
