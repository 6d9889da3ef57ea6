"""An evaluated data set: its pairs, sorted by how wrong the answers were."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float64, UInt8

from bitr.assembly.assemble import Settings
from bitr.data import AssemblyPair, dataset, is_name
from bitr.data.poses import nearest_pose
from bitr.errors import InputError
from bitr.io import as_points
from bitr.model.checkpoint import find
from bitr.pictures.scene import Scene
from bitr.viewer.thumbnail import EMPTY, MOST_POINTS, thumbnail

FILE = "evaluation.json"
NEEDED = ("dataset", "split", "seed", "rows")


@dataclass(frozen=True, eq=False)
class Entry:
    """One pair and how it was answered."""

    sampling: int
    number: int
    """Which pair of the sampling it is."""
    id: str
    rotation_error_deg: float | None
    """None where there was no answer."""
    ref_from_src: Float64[np.ndarray, "4 4"] | None

    @property
    def error_text(self) -> str:
        return "no answer" if self.rotation_error_deg is None else f"Δr {self.rotation_error_deg:.1f}°"


class Gallery:
    """What a folder of ``bitr evaluate`` holds; the pairs come from the data set when they are asked for."""

    def __init__(self, folder: Path, root: Path | None = None) -> None:
        self.root, self.folder, self.source = root, folder, str(folder / FILE)
        self.found = _read(folder / FILE)
        self.entries = self._sorted()
        Settings(self.method, points=self.points)
        self.picture = lru_cache(maxsize=1000)(self._picture)
        self._pairs = cache(self._sampling)

    @property
    def title(self) -> str:
        return f"{self.row['name']} on {self.found['dataset']}, {self.found['split']}"

    @property
    def row(self) -> dict[str, Any]:
        """The first of the table: what was evaluated, on the pairs as they are."""
        return self.found["rows"][0]

    @property
    def checkpoint(self) -> str | None:
        """The weights that were evaluated; None where it was a file of predictions."""
        name = self.found.get("checkpoint")
        if name is None:
            return None
        try:
            find(str(name))
        except InputError:
            return self._nearby(str(name))
        return str(name)

    @property
    def points(self) -> int | None:
        """Of each cloud that the model saw; None where nothing says so, as for a file of predictions."""
        return self.found.get("points")

    @property
    def method(self) -> str:
        return self.found.get("method", "auto")

    @property
    def refine(self) -> str:
        """What was done to the poses after the engine; the viewer does not."""
        return self.found.get("refine", "none")

    def check(self) -> None:
        """Raise where the data set is not to be found, before a page has to say so."""
        self.pair(self.entries[0])

    def _sorted(self) -> tuple[Entry, ...]:
        """The smallest rotation error first, and last the pairs without an answer."""
        try:
            found = [
                _entry(sampling, number, score)
                for sampling, each in enumerate(self.row["samplings"])
                for number, score in enumerate(each["scores"])
            ]
        except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
            raise InputError(f"{self.source}: not what bitr evaluate writes ({error!r:.80})") from error
        if not found:
            raise InputError(f"{self.source}: not what bitr evaluate writes (no pairs)")
        return tuple(sorted(found, key=_wrong))

    def pair(self, entry: Entry) -> AssemblyPair:
        """The pair of an entry, from the data set that was evaluated."""
        pairs = self._pairs(entry.sampling)
        found = pairs[entry.number] if entry.number < len(pairs) else None
        if found is None or found.id != entry.id:
            raise InputError(f"{self.source}: {entry.id} is not in {self.found['dataset']} as it is now")
        return found

    def _picture(self, entry: Entry) -> UInt8[np.ndarray, "h w 3"]:
        """The pair as it was answered; an empty picture where it was not."""
        if entry.ref_from_src is None:
            return EMPTY
        pair = self.pair(entry)
        source, reference = (as_points(side, MOST_POINTS, 0).points for side in (pair.source, pair.reference))
        return thumbnail(Scene(source, reference, entry.ref_from_src))

    def _sampling(self, sampling: int) -> Sequence[AssemblyPair]:
        name, seed = str(self.found["dataset"]), self.found["seed"] + sampling
        if not is_name(name) and not Path(name).exists():
            name = self._nearby(name)
        return dataset(name, self.found["split"], self.root, seed)

    def _nearby(self, name: str) -> str:
        """A path as it was typed where the results were written: in their folder, or in one above it."""
        here = self.folder.resolve()
        return next((str(at / name) for at in (here, *here.parents) if (at / name).exists()), name)


def _entry(sampling: int, number: int, score: dict[str, Any]) -> Entry:
    pose, error = score["transformation"], score["rotation_error_deg"]
    matrix = None if pose is None else nearest_pose(np.array(pose, dtype=np.float64), score["id"])
    return Entry(sampling, number, str(score["id"]), None if error is None else float(error), matrix)


def _wrong(entry: Entry) -> float:
    return math.inf if entry.rotation_error_deg is None else entry.rotation_error_deg


def _read(path: Path) -> dict[str, Any]:
    if not path.is_file():
        raise InputError(f"{path}: no such file, expected a folder that bitr evaluate -o has written")
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: damaged or not JSON ({str(error)[:60]})") from error
    if not isinstance(found, dict) or not all(found.get(key) is not None for key in NEEDED):
        raise InputError(f"{path}: not what bitr evaluate writes, expected {', '.join(NEEDED)} in it")
    return found
