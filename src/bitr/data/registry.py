"""The data sets by name, with their options (``airplane:0.5``) and mixtures (``shapes:cut+airplane``)."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from pathlib import Path

import numpy as np
from scipy.spatial import cKDTree

from bitr.data.fetch import TABLE, is_here
from bitr.data.own import own_pairs
from bitr.data.poses import AssemblyPair, Pairs, Points, reseed
from bitr.data.storage import SPLITS, VARIABLE, check_split, data_root
from bitr.errors import require, unknown_name
from bitr.io import Geometry, as_points

Open = Callable[[str, "Path | None", int], Sequence[AssemblyPair]]
"""(split, root, seed) → pairs. The same arguments give the same pairs; another seed samples them anew."""

JOINTS = ("overlap", "seam", "mate", "touch", "model")
PLUS = "+"
TURNS = 10_000
"""Most pairs of each part in an epoch of a mixture: endless parts are cut off, shorter ones repeat."""


@dataclass(frozen=True)
class DatasetInfo:
    """Name, origin and opening function of a data set."""

    name: str
    title: str  # one line for ``bitr data list``
    section: str
    """Section of the paper that uses it, as "Sec. 6.3.1"; empty for our own."""
    licence: str
    source: str  # command or page that brings it, in words
    splits: tuple[str, ...]
    present: Callable[[Path | None], bool]  # tells if its files are below the root; generated data always is
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
        raise unknown_name(base, "data set", tuple(TABLE))
    entry = TABLE[base]
    home = import_module(f"bitr.data.{entry['home']}")  # has OPEN, and VARIANTS where there are options
    told = {key: entry.get(key, "") for key in ("title", "section", "licence", "source")}
    splits, joints = tuple(entry.get("splits", SPLITS)), tuple(entry.get("joints", JOINTS))
    found = DatasetInfo(base, **told, splits=splits, present=partial(is_here, base), open=home.OPEN[base])
    found = replace(found, joints=joints)
    if not colon:
        return found
    variants = getattr(home, "VARIANTS", {})
    require(base in variants, f"{name}: {base} takes no option")
    return replace(found, **{"name": name, **variants[base](found.title, option)})


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
    check_split(name, split, found.splits)
    where = f"not found, the variable {VARIABLE} names no folder of data sets"
    if folder is not None:
        where = f"not found below {folder}" if folder.is_dir() else f"not found, {folder} is no folder"
    require(found.present(folder), f"{name}: {where}; to get it: {found.source}")
    pairs, missing = found.open(split, folder, seed), f"no pairs for {split} among the files below {folder}"
    require(len(pairs), f"{name}: {missing}; to get it: {found.source}")
    return pairs


def mixture(names: Sequence[str]) -> DatasetInfo:
    """Data sets in turns, each as often as it is named; shorter ones repeat, in other pieces."""
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
    parts = {name: info.open(split, root, 0) for name, info in zip(names, infos, strict=True)}
    sizes = [len(pairs) for pairs in parts.values()]
    turns = min(TURNS, max(sizes)) if min(sizes) else 0
    return Pairs(PLUS.join(names), split, seed, partial(_take_turns, parts, names), range(len(names) * turns))


def _take_turns(
    parts: dict[str, Sequence[AssemblyPair]], names: tuple[str, ...], i: int, rng: np.random.Generator
) -> AssemblyPair:
    """Pair i comes from part i mod k, sampled anew at each turn. A part named twice has two turns."""
    turn, j = divmod(i, len(names))
    name, part = names[j], parts[names[j]]
    place = (turn * names.count(name) + names[:j].count(name)) % len(part)
    pair = reseed(part, int(rng.integers(2**62)))[place]
    return replace(pair, id=f"{name}/{pair.id}")


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
    """The numbers of a split, from at most 50 of its pairs, evenly spread."""
    rows = np.unique(np.linspace(0, len(pairs) - 1, 50).round().astype(int))
    chosen = [pairs[int(i)] for i in rows]
    low, middle, high = (float(q) for q in np.quantile([overlap(p) for p in chosen], (0.25, 0.5, 0.75)))
    x, y = (
        int(np.median([len(_points(getattr(pair, side))) for pair in chosen]))
        for side in ("source", "reference")
    )
    entry = TABLE.get(name.partition(":")[0], {})
    paper = entry.get("paper", {}).get(split)
    note = "as in the paper" if paper == len(pairs) else entry.get("note", "")
    return SplitStats(name, split, len(pairs), x, y, middle, (low, high), paper, note)


def overlap(pair: AssemblyPair) -> float:
    """Share of the source's points that, in place, lie within two typical spacings of the reference."""
    x, y = _points(pair.source.moved(pair.ref_from_src)), _points(pair.reference)
    spacings = [np.median(cKDTree(points).query(points, k=2)[0][:, 1]) for points in (x, y)]
    return float((cKDTree(y).query(x)[0] <= 2.0 * np.hypot(*spacings) / np.sqrt(2)).mean())


def _points(piece: Geometry) -> Points:
    return as_points(piece, 2048, seed=0).points
