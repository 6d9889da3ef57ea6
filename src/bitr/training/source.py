"""Which pairs are trained on and which are held out, decided once and written down."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from math import ceil
from pathlib import Path

from bitr.data import AssemblyPair, data_root, dataset, info, is_name
from bitr.data.own import listed_pairs
from bitr.data.pair import Pairs
from bitr.data.registry import PLUS
from bitr.errors import InputError
from bitr.training.config import DataConfig

HELD_OUT = 0.2
"""Part of the training pairs that validates where a data set has no validation split of its own."""


@dataclass(frozen=True)
class Source:
    """Pairs by name, so that worker processes open them for themselves."""

    name: str
    root: str
    split: str
    rows: tuple[int, ...] | None
    """Which of the split's pairs; None: all."""

    def open(self, seed: int) -> Sequence[AssemblyPair]:
        return dataset(self.name, self.split, self.root or None, seed)

    def __len__(self) -> int:
        return len(self.open(0)) if self.rows is None else len(self.rows)

    def row(self, i: int) -> int:
        """The place in the split of pair i."""
        return i if self.rows is None else self.rows[i]


def reseeded(pairs: Sequence[AssemblyPair], seed: int) -> Sequence[AssemblyPair]:
    """The pairs of another epoch; what is read from files stays as it is."""
    return pairs.reseeded(seed) if isinstance(pairs, Pairs) else pairs


def sources(config: DataConfig) -> tuple[Source, Source, str]:
    """Where pairs to train with and to validate with come from, and the data set's name as it is reported.

    The test split is never opened. A folder of pairs that do not say what they are for is all for training:
    then, and where there is no validation split, a fifth of the pairs is held out, chosen by the hash of
    their ids.
    """
    name, label = _present(config)
    train, val = _splits(name)
    if val is not None:
        return Source(name, config.root, train, None), Source(name, config.root, val, None), label
    ids = _ids(name, config.root, train)
    if len(ids) < 2:
        raise InputError(f"{name}: {len(ids)} pair to train with, expected at least 2: one is held out")
    order = sorted(range(len(ids)), key=lambda i: hashlib.sha256(ids[i].encode()).digest())
    out = ceil(HELD_OUT * len(ids))
    held, rest = sorted(order[:out]), sorted(order[out:])
    return Source(name, config.root, train, tuple(rest)), Source(name, config.root, train, tuple(held)), label


def split_record(train: Source, val: Source, val_ids: Sequence[str], label: str) -> dict[str, object]:
    """What was trained on and what was held out, with a hash of it: kept beside the checkpoints.

    Pairs of a user are listed. A data set's own pairs are told by split, number, and the hash of the frozen
    file that assigns its shapes to the splits, where it has one.
    """
    content: dict[str, object] = {
        "data": label,
        "train": {"split": train.split, "pairs": len(train), "ids": _listed(train)},
        "val": {"split": val.split, "ids": list(val_ids)},
        "assigned_by": _frozen_hash(train.name),
    }
    text = json.dumps(content, sort_keys=True)
    return {**content, "sha256": hashlib.sha256(text.encode()).hexdigest()}


def _listed(source: Source) -> list[str] | None:
    if not _is_path(source.name) and source.rows is None:
        return None
    ids = _ids(source.name, source.root, source.split)
    return ids if source.rows is None else [ids[row] for row in source.rows]


def _frozen_hash(name: str) -> str | None:
    names = dict.fromkeys(part.partition(":")[0] for part in name.split(PLUS))
    found = [files("bitr.data").joinpath("splits", f"{each}.json") for each in names]
    content = [file.read_bytes() for file in found if file.is_file()]
    return hashlib.sha256(b"".join(content)).hexdigest() if content else None


def _present(config: DataConfig) -> tuple[str, str]:
    if not config.stand_in or _is_path(config.name):
        return config.name, config.name
    if info(config.name).present(data_root(config.root or None)):
        return config.name, config.name
    return config.stand_in, f"{config.stand_in} (stand-in for {config.name})"


def _is_path(name: str) -> bool:
    return not is_name(name)


def _splits(name: str) -> tuple[str, str | None]:
    """The names of the splits to train with and to validate with, if there is one."""
    if not _is_path(name):
        return "train", "val" if "val" in info(name).splits else None
    if not Path(name).exists():
        info(name)  # says what there is
    said = {pair.split for pair in listed_pairs(Path(name))}
    if said == {None}:
        return "test", None  # pairs that do not say what they are for
    return "train", "val" if "val" in said else None


def _ids(name: str, root: str, split: str) -> list[str]:
    if _is_path(name):
        return [pair.id for pair in listed_pairs(Path(name)) if (pair.split or "test") == split]
    return [pair.id for pair in dataset(name, split, root or None)]
