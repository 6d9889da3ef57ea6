"""Errors on pairs that are held out, always the same ones."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from bitr.errors import InputError
from bitr.training.config import TrainConfig
from bitr.training.group import Group
from bitr.training.objective import Objective
from bitr.training.samples import Batch, collate, sample
from bitr.training.source import Source


@dataclass(frozen=True)
class Validation:
    """Means over the validation pairs, and the median angle."""

    loss: float
    rotation_deg: float
    median_deg: float
    displacement: float
    nearest_deg: float
    """Of the head that is nearest to the truth."""


class HeldOut:
    """The validation pairs, made once; each process computes its share of them."""

    def __init__(self, source: Source, config: TrainConfig, group: Group) -> None:
        pairs, self.group = source.open(0), group
        self.count = min(config.data.val_pairs, len(source))
        seen = [
            sample(pairs[source.row(i)], config.data.points, 0.0, config.model, np.random.default_rng([2, i]))
            for i in range(self.count)
        ]
        self.ids = [pair.id for pair in seen]
        mine, size = range(group.rank, self.count, group.world), config.run.batch
        self.batches: list[tuple[list[int], Batch]] = [
            (list(rows), collate([seen[i] for i in rows], config.model.num_neighbors).to(group.device))
            for rows in (mine[k : k + size] for k in range(0, len(mine), size))
        ]

    @torch.no_grad()
    def errors(self, objective: Objective) -> Validation:
        table = torch.zeros(self.count, 4, dtype=torch.float64, device=self.group.device)
        for rows, batch in self.batches:
            try:
                table[rows] = objective(batch).table().double()
            except InputError as error:
                raise InputError(f"held out, one of {', '.join(batch.ids)}: {error}") from error
        table = self.group.sum(table).cpu()
        loss, angle, displacement, nearest = table.mean(0).tolist()
        return Validation(loss, angle, float(table[:, 1].median()), displacement, nearest)
