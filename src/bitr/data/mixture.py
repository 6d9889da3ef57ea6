"""Several data sets as one: ``shapes:cut+airplane``, in turns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np

from bitr.data.info import DatasetInfo
from bitr.data.pair import AssemblyPair
from bitr.data.pairs import Pairs

PLUS = "+"
TURNS = 10_000
"""Pairs of each part that an epoch has at most: parts that are endless are cut off, shorter ones repeat."""


@dataclass(frozen=True)
class _InTurns:
    """Pair i is of part i mod k, sampled anew each time its turn comes. A part named twice has two turns."""

    names: tuple[str, ...]
    parts: tuple[Sequence[AssemblyPair], ...]

    def __call__(self, i: int, rng: np.random.Generator) -> AssemblyPair:
        turn, j = divmod(i, len(self.parts))
        name, part = self.names[j], self.parts[j]
        place = (turn * self.names.count(name) + self.names[:j].count(name)) % len(part)
        seed = int(rng.integers(2**62))
        pair = (part.reseeded(seed) if isinstance(part, Pairs) else part)[place]
        return replace(pair, id=f"{name}/{pair.id}")


def mixture(names: Sequence[str], info: Callable[[str], DatasetInfo]) -> DatasetInfo:
    """The data sets in turns: each counts as often as it is named, also among the pairs held out.

    As long as the longest of them; shapes of shorter ones come again, in other pieces.
    """
    parts = [info(name) for name in names]
    splits = tuple(split for split in parts[0].splits if all(split in part.splits for part in parts))
    return DatasetInfo(
        name=PLUS.join(names),
        title=f"in turns: {', '.join(part.title for part in parts)}",
        section="",
        licence="; ".join(dict.fromkeys(part.licence for part in parts)),
        source="; ".join(dict.fromkeys(part.source for part in parts)),
        splits=splits,
        present=lambda root: all(part.present(root) for part in parts),
        open=partial(_open, tuple(names), tuple(parts)),
        joints=tuple(dict.fromkeys(joint for part in parts for joint in part.joints)),
    )


def _open(
    names: tuple[str, ...], infos: tuple[DatasetInfo, ...], split: str, root: Path | None, seed: int
) -> Pairs:
    opened = {name: info.open(split, root, 0) for name, info in zip(names, infos, strict=True)}
    sizes = [len(pairs) for pairs in opened.values()]
    turns = min(TURNS, max(sizes)) if min(sizes) else 0
    made = _InTurns(names, tuple(opened[name] for name in names))
    return Pairs(PLUS.join(names), split, seed, made, range(len(names) * turns))
