"""Which scene: the few words and numbers from which all of it follows, and the id that spells them."""

from __future__ import annotations

import re
from dataclasses import dataclass

from bitr.data.splits import SPLITS
from bitr.errors import InputError

SCANNED_EVERY = 4
"""Where scanned objects are at hand, each fourth scene is of them; the others stay the same."""
_ID = re.compile(
    r"(?P<task>[a-z-]+)/(?P<split>train|val|test)/(?P<seed>\d+)/(?P<index>\d+)(?P<scanned>/scanned)?"
)


@dataclass(frozen=True)
class SceneKey:
    """One scene of a task."""

    task: str
    split: str
    seed: int
    index: int
    scanned: bool = False

    def __post_init__(self) -> None:
        if self.split not in SPLITS:
            raise InputError(f"{self.task}: no split {self.split!r}, expected one of {', '.join(SPLITS)}")
        if min(self.seed, self.index) < 0:
            raise InputError(f"{self.id}: seed and number of a scene count from 0")

    @classmethod
    def of(cls, id: str) -> SceneKey:
        """The key that an id spells, as "mug-hanging/test/0/3"."""
        found = _ID.fullmatch(id)
        if found is None:
            raise InputError(f"{id!r} names no simulated scene, expected one as mug-hanging/test/0/3")
        return cls(
            found["task"],
            found["split"],
            int(found["seed"]),
            int(found["index"]),
            found["scanned"] is not None,
        )

    @property
    def id(self) -> str:
        return f"{self.task}/{self.split}/{self.seed}/{self.index}" + "/scanned" * self.scanned

    @property
    def numbers(self) -> tuple[int, ...]:
        """For seeding a generator: other splits never share them."""
        return SPLITS.index(self.split), self.seed, self.index, int(self.scanned)
