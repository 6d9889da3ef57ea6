"""The endless row of training pairs: a pure function of seed and place, whoever computes it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from operator import itemgetter

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset, Sampler

from bitr.data import AssemblyPair
from bitr.data.transforms import apply_warp, both, deform, random_stretch, random_warp
from bitr.errors import InputError
from bitr.model import BITRConfig
from bitr.training.config import DataConfig, TrainConfig
from bitr.training.samples import Batch, collate, sample
from bitr.training.signals import in_own_group
from bitr.training.source import Source, reseeded

EPOCHS = 2**32
"""More than a run can have: seeds of different runs then share no epoch."""


@dataclass
class Stream(Dataset[AssemblyPair]):
    """Pair number s of a run: epoch s // n, in an order of its own for each epoch, sampled anew each time.

    Nothing but the number decides what it is: not the worker, nor what was asked for before. So a run can go
    on anywhere, with any number of workers and processes.
    """

    source: Source
    length: int
    seed: int
    data: DataConfig
    model: BITRConfig
    _opened: tuple[int, Sequence[AssemblyPair]] | None = field(default=None, repr=False)
    _order: tuple[int, np.ndarray] | None = field(default=None, repr=False)

    @classmethod
    def of(cls, source: Source, config: TrainConfig) -> Stream:
        return cls(source, len(source), config.run.seed, config.data, config.model)

    def __getitem__(self, number: int) -> AssemblyPair:
        epoch, place = divmod(number, self.length)
        pairs = self._pairs(self.seed * EPOCHS + epoch)
        pair = pairs[self.source.row(int(self._order_of(epoch)[place]))]
        rng = np.random.default_rng([self.seed, 1, number])
        if not self.model.normals:  # nothing then has to turn them
            pair = both(pair, lambda side: replace(side, normals=None))
        if self.data.stretch or self.data.mirror:
            pair = deform(pair, random_stretch(self.data.stretch, self.data.mirror, rng))
        if self.data.warp:
            pair = apply_warp(pair, random_warp(pair, self.data.warp, rng))
        return sample(pair, self.data.points, self.data.noise, self.model, rng)

    def __getitems__(self, numbers: list[int]) -> list[Batch | InputError]:
        """One batch, or what is wrong with it: raised in a worker, it would arrive with a traceback in it."""
        try:
            return [collate([self[number] for number in numbers], self.model.num_neighbors)]
        except InputError as error:
            return [error]

    def _pairs(self, seed: int) -> Sequence[AssemblyPair]:
        """Opened once in each process, and sampled anew for each epoch."""
        if self._opened is None or self._opened[0] != seed:
            pairs = self.source.open(seed) if self._opened is None else reseeded(self._opened[1], seed)
            self._opened = (seed, pairs)
        return self._opened[1]

    def _order_of(self, epoch: int) -> np.ndarray:
        if self._order is None or self._order[0] != epoch:
            order = np.random.default_rng([self.seed, 0, epoch]).permutation(self.length)
            self._order = (epoch, order)
        return self._order[1]


@dataclass(frozen=True)
class Numbers(Sampler[list[int]]):
    """The numbers of the pairs of each step that this process computes: every ``world``-th of the batch."""

    first_step: int
    steps: int
    batch: int
    rank: int
    world: int

    def __iter__(self) -> Iterator[list[int]]:
        for step in range(self.first_step, self.steps):
            yield list(range(step * self.batch + self.rank, (step + 1) * self.batch, self.world))

    def __len__(self) -> int:
        return self.steps - self.first_step


def batches(stream: Stream, numbers: Numbers, workers: int) -> Iterator[Batch]:
    """Batches in order, made ahead in ``workers`` processes."""
    loader = DataLoader(
        stream,
        batch_sampler=numbers,
        collate_fn=itemgetter(0),
        num_workers=workers,
        # a copy of a process that already computes in threads may hang in them
        multiprocessing_context="spawn" if workers else None,
        prefetch_factor=4 if workers else None,
        worker_init_fn=in_own_group,
        generator=torch.Generator(),  # leaves the run's own random state as it is
    )
    for batch in loader:
        if isinstance(batch, InputError):
            raise batch
        yield batch
