"""Scenes from numbers: drawn, let go to find their place, and kept when the place holds."""

from __future__ import annotations

import zlib
from pathlib import Path

import numpy as np
from jaxtyping import Float64

from bitr.data.sim.keys import SCANNED_EVERY, SceneKey
from bitr.data.sim.release import released
from bitr.data.sim.scene import Draft, Scene, Task
from bitr.data.sim.world import open_world
from bitr.errors import InputError

ATTEMPTS = 50
STEADY = 0.003
"""Metres that an object may move from its target in a second: far less than success asks for."""
CALM = 5e-4
"""Metres a second, below which an object is at rest."""


def make_scene(task: Task, key: SceneKey, root: Path | None) -> tuple[Scene, int]:
    """The scene of a key and the attempt that gave it; most drawn scenes hold at the first."""
    for attempt in range(ATTEMPTS):
        draft = draft_of(task, key, attempt, root)
        target = settled(draft)
        if target is None:
            continue
        outcome = released(draft, target)
        if outcome.succeeded and outcome.moved < STEADY:
            return Scene(key.id, draft, target), attempt
    raise InputError(f"{key.id}: none of {ATTEMPTS} drawn scenes holds")


def draft_of(task: Task, key: SceneKey, attempt: int, root: Path | None) -> Draft:
    """The scene of a key, before its physics: the same for the same numbers."""
    rng = np.random.default_rng([zlib.crc32(task.name.encode()), *key.numbers, attempt])
    return task.draw(rng, key.split, key.index // SCANNED_EVERY if key.scanned else None, root)


def settled(draft: Draft, seconds: float = 15.0) -> Float64[np.ndarray, "4 4"] | None:
    """Where the object comes to rest when it is let go from its start; None when it does not."""
    with open_world() as world:
        world.add_table()
        world.add(draft.support, np.eye(4), fixed=True)
        number = world.add(draft.object, draft.start, fixed=False)
        world.damp(number, 0.95)
        for _ in range(round(seconds / 0.25)):
            world.run(0.25)
            if world.speed(number, draft.object.size) < CALM:
                return world.pose(number)
    return None
