"""Pairs that are made when they are asked for."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import overload

import numpy as np

from bitr.data.pair import AssemblyPair
from bitr.errors import InputError

Make = Callable[[int, np.random.Generator], AssemblyPair]
"""(i, generator) → the pair of that number."""


@dataclass(frozen=True, eq=False)
class Pairs(Sequence[AssemblyPair]):
    """A sequence whose item i depends on (name, split, seed, i) alone; a slice of it is one too."""

    name: str
    split: str
    seed: int
    make: Make
    rows: range

    def __post_init__(self) -> None:
        if self.seed < 0:
            raise InputError(f"{self.name}: seed = {self.seed}, expected 0 or more")

    def __len__(self) -> int:
        return len(self.rows)

    def reseeded(self, seed: int) -> Pairs:
        """The same pairs, sampled anew: what opening the data set with that seed would give."""
        return replace(self, seed=seed)

    @overload
    def __getitem__(self, index: int) -> AssemblyPair: ...
    @overload
    def __getitem__(self, index: slice) -> Pairs: ...
    def __getitem__(self, index: int | slice) -> AssemblyPair | Pairs:
        if isinstance(index, slice):
            return Pairs(self.name, self.split, self.seed, self.make, self.rows[index])
        i = self.rows[index]
        return self.make(i, generator(self.name, self.split, self.seed, i))


def generator(name: str, split: str, seed: int, i: int) -> np.random.Generator:
    """Independent streams for different arguments; the same for the same, on every machine."""
    key = zlib.crc32(f"{name}/{split}".encode())
    return np.random.default_rng(np.random.SeedSequence([key, seed, i]))
