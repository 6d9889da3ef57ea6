"""Whether a predicted pose works, by simulation."""

from __future__ import annotations

import os

import numpy as np
from jaxtyping import Float

from bitr.data.poses import nearest_pose
from bitr.data.sim.dataset import scene_of
from bitr.data.sim.release import Outcome, released
from bitr.data.sim.scene import Scene


def success(
    scene: Scene | str, ref_from_src: Float[np.ndarray, "4 4"], root: str | os.PathLike[str] | None = None
) -> Outcome:
    """The outcome of placing the object of a scene by this pose; the scene may be named by its pair's id.

    The pose is between the clouds as the data set gives them: of clouds that were moved, undo it first.
    """
    found = scene_of(scene, root) if isinstance(scene, str) else scene
    checked = nearest_pose(ref_from_src.astype(np.float64), found.id)
    return released(found.draft, checked @ found.draft.observed)
