"""Training pairs: their sources, the endless row of them, each a function of seed and number, and batches."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from importlib.resources import files
from math import ceil
from operator import itemgetter
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, Dataset

from bitr.data import AssemblyPair, data_root, dataset, info, is_name
from bitr.data.own import OwnPair, listed_pairs, own_pairs
from bitr.data.piece import Piece, with_features
from bitr.data.poses import Pairs, reseed
from bitr.data.registry import PLUS
from bitr.data.transforms import apply_warp, both, deform, jitter, random_stretch, random_warp, thin
from bitr.errors import InputError
from bitr.groups import Cloud, Rigid, map_tensors
from bitr.io import Geometry
from bitr.layers import nearest_neighbors
from bitr.model import BITRConfig
from bitr.model.checkpoint import find
from bitr.training.config import DataConfig, TrainConfig

HELD_OUT = 0.2
"""Part of the training pairs that validates where a data set has no validation split of its own."""
STAND_IN = " (stand-in for "
"""In the name of data in reports, between a stand-in and the data set in whose place it is used."""
SPLIT = "split.json"
"""File of a run that tells what was trained on."""
EPOCHS = 2**32
"""More epochs than a run can have: seeds of different runs then share no epoch."""


@dataclass(frozen=True)
class Source:
    """Pairs by name, so that worker processes open them for themselves."""

    name: str
    root: str
    split: str
    rows: tuple[int, ...] | None
    """Rows of the split; None: all."""

    def open(self, seed: int) -> Sequence[AssemblyPair]:
        return dataset(self.name, self.split, self.root or None, seed)

    def __len__(self) -> int:
        return len(self.open(0)) if self.rows is None else len(self.rows)

    def row(self, i: int) -> int:
        """The place in the split of pair i."""
        return i if self.rows is None else self.rows[i]

    def own_pairs(self) -> list[OwnPair]:
        """The entries of a user's pairs, unread."""
        pairs = [pair for pair in listed_pairs(Path(self.name)) if (pair.split or "test") == self.split]
        return pairs if self.rows is None else [pairs[row] for row in self.rows]

    def ids(self) -> list[str]:
        if not is_name(self.name):
            return [pair.id for pair in self.own_pairs()]
        pairs = self.open(0)
        return [pairs[row].id for row in (range(len(pairs)) if self.rows is None else self.rows)]


def sources(config: DataConfig) -> tuple[Source, Source, str]:
    """The pairs to train with, the pairs to validate with, and the data set's name in reports.

    The test split is never opened. Without a validation split a fifth is held out, by the hash of the ids.
    """
    name, label = config.name, config.name
    if config.stand_in and is_name(name) and not info(name).present(data_root(config.root or None)):
        name, label = config.stand_in, f"{config.stand_in}{STAND_IN}{name})"
    train, val = _splits(name)
    if val is not None:
        return Source(name, config.root, train, None), Source(name, config.root, val, None), label
    ids = Source(name, config.root, train, None).ids()
    if len(ids) < 2:
        raise InputError(f"{name}: {len(ids)} pair to train with, expected at least 2: one is held out")
    order = sorted(range(len(ids)), key=lambda i: hashlib.sha256(ids[i].encode()).digest())
    out = ceil(HELD_OUT * len(ids))
    held, rest = (tuple(sorted(part)) for part in (order[:out], order[out:]))
    return Source(name, config.root, train, rest), Source(name, config.root, train, held), label


def _splits(name: str) -> tuple[str, str | None]:
    """The splits to train with and to validate with, if there is one."""
    if is_name(name):
        return "train", "val" if "val" in info(name).splits else None
    if not Path(name).exists():
        info(name)  # raises, with the names there are
    said = {pair.split for pair in listed_pairs(Path(name))}
    if said == {None}:
        return "test", None  # the split that pairs without one belong to
    return "train", "val" if "val" in said else None


def split_record(
    train: Source, val: Source, val_ids: Sequence[str], label: str, earlier: Collection[str] = ()
) -> dict[str, object]:
    """The training pairs and the held-out pairs, with a hash: kept beside the checkpoints.

    A user's pairs are listed by ids and fingerprints, also of ``earlier`` weights; a data set's by split.
    """
    is_listed = not is_name(train.name) or train.rows is not None
    held_out = [] if is_name(val.name) else [pair.fingerprint() for pair in val.own_pairs()]
    trained_on = [] if is_name(train.name) else [pair.fingerprint() for pair in train.own_pairs()]
    names = dict.fromkeys(part.partition(":")[0] for part in train.name.split(PLUS))
    frozen = [files("bitr.data").joinpath("splits", f"{name}.json") for name in names]
    assigned_by = b"".join(file.read_bytes() for file in frozen if file.is_file())
    content: dict[str, object] = {
        "data": label,
        "train": {"split": train.split, "pairs": len(train), "ids": train.ids() if is_listed else None},
        "val": {"split": val.split, "ids": list(val_ids)},
        "trained_on": sorted({*trained_on, *earlier}),
        "held_out": held_out,
        "assigned_by": hashlib.sha256(assigned_by).hexdigest() if assigned_by else None,
    }
    text = json.dumps(content, sort_keys=True)
    return {**content, "sha256": hashlib.sha256(text.encode()).hexdigest()}


@dataclass(frozen=True)
class Seen:
    """The data that weights were trained on, as ``split.json`` of their run tells; empty without a run."""

    data: str = ""
    """The data set or path, as reports name it."""
    trained_on: frozenset[str] = frozenset()
    """Fingerprints of the user's own pairs."""
    held_out: frozenset[str] = frozenset()
    """Fingerprints of the pairs by which the weights were chosen."""

    @property
    def stand_in(self) -> tuple[str, str] | None:
        """The stand-in and the data set that it stands in for, if the weights were trained on one."""
        name, mark, rest = self.data.partition(STAND_IN)
        return (name, rest.removesuffix(")")) if mark else None

    def find_data(self, name: str, root: Path | None) -> str:
        """The data set of that name or, where it is not here, the stand-in that the weights know."""
        if self.stand_in is None or self.stand_in[1] != name or info(name).present(data_root(root)):
            return name
        return self.stand_in[0]


def new_pairs(path: Path, seen: Seen) -> tuple[Pairs, str | None]:
    """The user's own pairs for the test that weights were not trained on, and a note if some were."""
    found = own_pairs(path, "test", lambda pair: pair.fingerprint() not in seen.trained_on)
    listed = [pair for pair in listed_pairs(path) if pair.split in (None, "test")]
    left_out = len(listed) - len(found)
    if not left_out:
        return found, None
    if not len(found):
        raise InputError(
            f"{path}: the weights were trained on all of its {left_out} pairs, expected others to measure on"
        )
    held_out = sum(pair.fingerprint() in seen.held_out for pair in listed)
    chosen = f"; {held_out} of the {len(found)} others chose the weights" if held_out else ""
    return found, f"{left_out} of {len(listed)} pairs left out, which the weights were trained on{chosen}"


def seen_by(model: str | os.PathLike[str]) -> Seen:
    """The data of the run that a checkpoint belongs to."""
    return read_split(find(model).parent)


def read_split(run: Path) -> Seen:
    """The data of the run in a folder."""
    path = run / SPLIT
    if not path.is_file():
        return Seen()
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        known = (frozenset(map(str, found.get(key, ()))) for key in ("trained_on", "held_out"))
        return Seen(str(found["data"]), *known)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise InputError(f"{path}: does not say what was trained on ({error!r:.80})") from error


@dataclass
class Stream(Dataset[AssemblyPair]):
    """Pair number s of a run: epoch s // n, in its own order, sampled anew; the number alone decides."""

    source: Source
    length: int
    seed: int
    data: DataConfig
    model: BITRConfig
    _now: tuple[int, Sequence[AssemblyPair], np.ndarray] | None = field(default=None, repr=False)

    @classmethod
    def of(cls, source: Source, config: TrainConfig) -> Stream:
        return cls(source, len(source), config.run.seed, config.data, config.model)

    def __getitem__(self, number: int) -> AssemblyPair:
        epoch, place = divmod(number, self.length)
        pairs, order = self._open(epoch)
        pair = pairs[self.source.row(int(order[place]))]
        rng = np.random.default_rng([self.seed, 1, number])
        if not self.model.normals:  # nothing then has to turn them
            pair = both(pair, lambda side: replace(side, normals=None))
        if self.data.stretch or self.data.mirror:
            pair = deform(pair, random_stretch(self.data.stretch, self.data.mirror, rng))
        if self.data.warp:
            pair = apply_warp(pair, random_warp(pair, self.data.warp, rng))
        return sample(pair, self.data.points, self.data.noise, self.model, rng)

    def __getitems__(self, numbers: range) -> list[Batch | InputError]:
        """One batch, or its error: raised in a worker, it would arrive with a traceback in it."""
        try:
            return [collate([self[number] for number in numbers], self.model.num_neighbors)]
        except InputError as error:
            return [error]

    def _open(self, epoch: int) -> tuple[Sequence[AssemblyPair], np.ndarray]:
        """The pairs, opened once in each process and sampled anew for each epoch, and their order in it."""
        if self._now is None or self._now[0] != epoch:
            seed = self.seed * EPOCHS + epoch
            pairs = self.source.open(seed) if self._now is None else reseed(self._now[1], seed)
            order = np.random.default_rng([self.seed, 0, epoch]).permutation(self.length)
            self._now = (epoch, pairs, order)
        return self._now[1:]


def numbers(first_step: int, steps: int, batch: int, rank: int, world: int) -> Iterator[range]:
    """The numbers of the pairs of each step that this process computes: every ``world``-th of the batch."""
    for step in range(first_step, steps):
        yield range(step * batch + rank, (step + 1) * batch, world)


def batches(stream: Stream, steps: Iterator[range], workers: int) -> Iterator[Batch]:
    """The batch of each step, in order, made ahead in ``workers`` processes."""
    loader = DataLoader(
        stream,
        batch_sampler=steps,  # type: ignore[arg-type]
        collate_fn=itemgetter(0),
        num_workers=workers,
        # a copy of a process that already computes in threads may hang in them
        multiprocessing_context="spawn" if workers else None,
        prefetch_factor=4 if workers else None,
        worker_init_fn=_leave_group,
        generator=torch.Generator(),  # leaves the run's own random state as it is
    )
    for batch in loader:
        if isinstance(batch, InputError):
            raise batch
        yield batch


def _leave_group(worker: int) -> None:
    """A notice to the run's process group does not reach its workers: the current step needs them."""
    if hasattr(os, "setpgrp"):  # Windows has no groups of processes
        os.setpgrp()


@dataclass(frozen=True)
class Batch:
    """Pairs side by side, filled up to the same number of points."""

    source: Cloud
    reference: Cloud
    truth: Rigid
    ids: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.ids)

    def to(self, device: torch.device) -> Batch:
        return map_tensors(lambda tensor: tensor.to(device, non_blocking=True), self)


def sample(
    pair: AssemblyPair, points: int, noise: float, model: BITRConfig, rng: np.random.Generator
) -> AssemblyPair:
    """The pair as the model sees it: thinned alike to ``points`` points a piece, with noise and features."""
    seen = thin(pair, points, rng)
    if noise:
        size = float(np.sqrt(np.mean([g.points.var(0).sum() for g in (seen.source, seen.reference)])))
        seen = both(seen, lambda side: jitter(side, noise * size, rng))

    def piece(whole: Geometry, few: Geometry) -> Piece:
        """Normals are estimated from all points there are."""
        return Piece(whole if whole.faces is None else few, few)

    x, y = piece(pair.source, seen.source), piece(pair.reference, seen.reference)
    source, reference = with_features(x, y, model)
    return replace(seen, source=source, reference=reference)


def collate(pairs: Sequence[AssemblyPair], neighbors: int | None = None) -> Batch:
    """The pairs as one batch, padded and masked; with ``neighbors``, these are searched here."""
    poses = torch.from_numpy(np.stack([pair.ref_from_src for pair in pairs]))
    source = _cloud([pair.source for pair in pairs], neighbors)
    reference = _cloud([pair.reference for pair in pairs], neighbors)
    return Batch(source, reference, Rigid.from_matrix(poses), tuple(pair.id for pair in pairs))


def _cloud(geometries: Sequence[Geometry], neighbors: int | None) -> Cloud:
    def padded(name: str) -> Float[Tensor, "b n 3"] | None:
        parts = [getattr(geometry, name) for geometry in geometries]
        if parts[0] is None:
            return None
        return pad_sequence([torch.from_numpy(part).double() for part in parts], batch_first=True)

    sizes = torch.tensor([len(geometry.points) for geometry in geometries])
    points = padded("points")
    assert points is not None
    most = points.shape[1]
    mask = None if int(sizes.min()) == most else torch.arange(most) < sizes[:, None]
    index = None if neighbors is None else nearest_neighbors(points, neighbors, mask)[0]
    return Cloud(points, padded("normals"), padded("colors"), mask, index)
