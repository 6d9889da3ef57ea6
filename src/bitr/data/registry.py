"""The data sets by name."""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path

from bitr.data.info import DatasetInfo
from bitr.data.mixture import PLUS, mixture
from bitr.data.own import own_pairs
from bitr.data.pair import AssemblyPair
from bitr.data.root import VARIABLE, data_root
from bitr.errors import InputError

HOMES = {
    "bunny": ("bitr.data.bunny", "INFO"),
    "airplane": ("bitr.data.airplane", "INFO"),
    "car-motorbike": ("bitr.data.vehicles", "INFO"),
    "winebottle": ("bitr.data.fragments", "INFOS"),
    "beerbottle": ("bitr.data.fragments", "INFOS"),
    "bottle": ("bitr.data.fragments", "INFOS"),
    "drinkbottle": ("bitr.data.fragments", "INFOS"),
    "indoor": ("bitr.data.indoor", "INFO"),
    "outdoor": ("bitr.data.outdoor", "INFO"),
    "mug-hanging": ("bitr.data.sim", "MUG_HANGING"),
    "mug-hanging-edf": ("bitr.data.edf", "INFO"),
    "bowl-placing": ("bitr.data.sim", "BOWL_PLACING"),
    "bunny-stand-in": ("bitr.data.bunny", "STAND_IN"),
    "jugs": ("bitr.data.jugs", "INFO"),
    "shapes": ("bitr.data.generated", "INFO"),
    "openshapes": ("bitr.data.openshapes", "INFO"),
    "unrelated": ("bitr.data.unrelated", "INFO"),
}
"""Where each is described; imported when it is asked for."""
VARIANTS = {
    "airplane": "bitr.data.airplane",
    "car-motorbike": "bitr.data.vehicles",
    "winebottle": "bitr.data.fragments",
    "indoor": "bitr.data.indoor",
    "shapes": "bitr.data.generated.dataset",
    "openshapes": "bitr.data.openshapes",
}
"""Data sets that take an option after a colon, as in airplane:0.5, and where it is understood."""


def datasets() -> tuple[DatasetInfo, ...]:
    """All data sets, those of the paper first and in its order."""
    return tuple(info(name) for name in HOMES)


def is_name(name: str) -> bool:
    """Whether this is the name of a data set or a mixture of such, and not a path."""
    return all(part.partition(":")[0] in HOMES for part in name.split(PLUS))


def info(name: str) -> DatasetInfo:
    """What is known of a data set, by its name, with an option after a colon where it takes one.

    Names joined by a plus are a mixture.
    """
    if PLUS in name:
        return mixture(name.split(PLUS), info)
    base, colon, option = name.partition(":")
    if base not in HOMES:
        near = difflib.get_close_matches(base, HOMES, n=1)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise InputError(f"{name}: no such data set, expected one of {', '.join(HOMES)}{hint}")
    if colon:
        if base not in VARIANTS:
            raise InputError(f"{name}: {base} takes no option, only {' and '.join(VARIANTS)} do")
        variant: Callable[[str], DatasetInfo] = import_module(VARIANTS[base]).variant
        return variant(option)
    module, attribute = HOMES[base]
    found = getattr(import_module(module), attribute)
    return found[base] if isinstance(found, dict) else found


def dataset(
    name: str, split: str = "test", root: str | os.PathLike[str] | None = None, seed: int = 0
) -> Sequence[AssemblyPair]:
    """The pairs of a data set; those of the user's own folder or manifest where ``name`` is a path.

    Item i is made when it is asked for, and depends on (name, split, seed, i) alone. ``root`` is the folder
    of data sets, by default what the variable BITR_DATA names.
    """
    if not is_name(name) and Path(name).exists():
        return own_pairs(Path(name), split)
    found, folder = info(name), data_root(root)
    if split not in found.splits:
        raise InputError(f"{name}: no split {split!r}, expected one of {', '.join(found.splits)}")
    if not found.present(folder):
        raise InputError(f"{name}: {_where(folder)}; to get it: {found.source}")
    pairs = found.open(split, folder, seed)
    if not len(pairs):
        raise InputError(
            f"{name}: no pairs for {split} among the files below {folder}; to get it: {found.source}"
        )
    return pairs


def _where(root: Path | None) -> str:
    if root is None:
        return f"not found, the variable {VARIABLE} names no folder of data sets"
    return f"not found below {root}" if root.is_dir() else f"not found, {root} is no folder"
