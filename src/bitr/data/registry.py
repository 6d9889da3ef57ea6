"""The data sets by name, with their options (``airplane:0.5``) and mixtures (``shapes:cut+airplane``)."""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from bitr.data.own import own_pairs
from bitr.data.pair import AssemblyPair, Pairs
from bitr.data.storage import SPLITS, VARIABLE, data_root
from bitr.errors import InputError
from bitr.settings import read_toml

Open = Callable[[str, "Path | None", int], Sequence[AssemblyPair]]
"""(split, root, seed) → pairs. The same arguments give the same pairs; another seed samples them anew."""

TABLE: dict[str, dict[str, Any]] = read_toml(Path(__file__).with_name("datasets.toml"))
"""Names, titles, origins and terms of the data sets, in the order of the list."""
OPTIONS = ("airplane", "car-motorbike", "winebottle", "indoor", "shapes", "openshapes")
"""Data sets that take an option after a colon."""
JOINTS = ("overlap", "seam", "touch", "model")
PLUS = "+"
TURNS = 10_000
"""Most pairs of each part in an epoch of a mixture: endless parts are cut off, shorter ones repeat."""


@dataclass(frozen=True)
class DatasetInfo:
    """Name, origin and opening function of a data set."""

    name: str
    title: str
    """One line for ``bitr data list``."""
    section: str
    """Section of the paper that uses it, as "Sec. 6.3.1"; empty for our own."""
    licence: str
    source: str
    """Command or page that brings it, in words."""
    splits: tuple[str, ...]
    present: Callable[[Path | None], bool]
    """Tells if its files are below the root; generated data always is."""
    open: Open
    joints: tuple[str, ...] = JOINTS
    """Kinds of joint between its pieces, for which weights trained on it are meant. A car beside a motorbike
    neither touches nor overlaps it: only a model can tell its place."""


def datasets() -> tuple[DatasetInfo, ...]:
    """All data sets, those of the paper first and in its order."""
    return tuple(info(name) for name in TABLE)


def is_name(name: str) -> bool:
    """Tell if this is the name of a data set or a mixture, not a path."""
    return all(part.partition(":")[0] in TABLE for part in name.split(PLUS))


def info(name: str) -> DatasetInfo:
    """Look up a data set by name, with an option after a colon; names joined by a plus are a mixture."""
    if PLUS in name:
        return mixture(name.split(PLUS))
    base, colon, option = name.partition(":")
    if base not in TABLE:
        near = difflib.get_close_matches(base, TABLE, n=1)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise InputError(f"{name}: no such data set, expected one of {', '.join(TABLE)}{hint}")
    if colon and base not in OPTIONS:
        raise InputError(f"{name}: {base} takes no option, only {' and '.join(OPTIONS)} do")
    entry = TABLE[base]
    home = import_module(f"bitr.data.{entry['home']}")  # has OPEN, PRESENT unless generated, and VARIANTS
    found = DatasetInfo(
        name=base,
        title=entry["title"],
        section=entry.get("section", ""),
        licence=entry["licence"],
        source=entry["source"],
        splits=tuple(entry.get("splits", SPLITS)),
        present=getattr(home, "PRESENT", {}).get(base, lambda root: True),
        open=home.OPEN[base],
        joints=tuple(entry.get("joints", JOINTS)),
    )
    return home.VARIANTS[base](found, option) if colon else found


def dataset(
    name: str, split: str = "test", root: str | os.PathLike[str] | None = None, seed: int = 0
) -> Sequence[AssemblyPair]:
    """The pairs of a data set, or of the user's own folder or manifest if ``name`` is a path.

    Item i is made on demand and depends on (name, split, seed, i) alone. ``root`` is the folder of data sets,
    by default the one that the variable BITR_DATA names.
    """
    if not is_name(name) and Path(name).exists():
        return own_pairs(Path(name), split)
    found, folder = info(name), data_root(root)
    if split not in found.splits:
        raise InputError(f"{name}: no split {split!r}, expected one of {', '.join(found.splits)}")
    if not found.present(folder):
        raise InputError(f"{name}: {_describe_search(folder)}; to get it: {found.source}")
    pairs = found.open(split, folder, seed)
    if not len(pairs):
        raise InputError(
            f"{name}: no pairs for {split} among the files below {folder}; to get it: {found.source}"
        )
    return pairs


def _describe_search(root: Path | None) -> str:
    if root is None:
        return f"not found, the variable {VARIABLE} names no folder of data sets"
    return f"not found below {root}" if root.is_dir() else f"not found, {root} is no folder"


def mixture(names: Sequence[str]) -> DatasetInfo:
    """Data sets in turns; each counts as often as it is named, also among the held-out pairs.

    A mixture is as long as its longest part; shapes of shorter parts come again, in other pieces.
    """
    parts = [info(name) for name in names]
    return DatasetInfo(
        name=PLUS.join(names),
        title=f"in turns: {', '.join(part.title for part in parts)}",
        section="",
        licence="; ".join(dict.fromkeys(part.licence for part in parts)),
        source="; ".join(dict.fromkeys(part.source for part in parts)),
        splits=tuple(s for s in parts[0].splits if all(s in part.splits for part in parts)),
        present=lambda root: all(part.present(root) for part in parts),
        open=partial(_open_mixture, tuple(names), tuple(parts)),
        joints=tuple(dict.fromkeys(joint for part in parts for joint in part.joints)),
    )


def _open_mixture(
    names: tuple[str, ...], infos: tuple[DatasetInfo, ...], split: str, root: Path | None, seed: int
) -> Pairs:
    opened = {name: info.open(split, root, 0) for name, info in zip(names, infos, strict=True)}
    sizes = [len(pairs) for pairs in opened.values()]
    turns = min(TURNS, max(sizes)) if min(sizes) else 0
    make = _InTurns(names, tuple(opened[name] for name in names))
    return Pairs(PLUS.join(names), split, seed, make, range(len(names) * turns))


@dataclass(frozen=True)
class _InTurns:
    """Pair i comes from part i mod k, sampled anew at each turn. A part named twice has two turns."""

    names: tuple[str, ...]
    parts: tuple[Sequence[AssemblyPair], ...]

    def __call__(self, i: int, rng: np.random.Generator) -> AssemblyPair:
        turn, j = divmod(i, len(self.parts))
        name, part = self.names[j], self.parts[j]
        place = (turn * self.names.count(name) + self.names[:j].count(name)) % len(part)
        seed = int(rng.integers(2**62))
        pair = (part.reseeded(seed) if isinstance(part, Pairs) else part)[place]
        return replace(pair, id=f"{name}/{pair.id}")
