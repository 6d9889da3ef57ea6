"""An object is placed, let go, and looked at a second later."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64
from scipy.spatial.transform import Rotation

from bitr.data.sim.scene import Draft
from bitr.data.sim.world import open_world

SECONDS = 1.0
FARTHEST_MOVE = 0.03
"""Metres that the centre of mass may move after the release."""
FARTHEST_TURN_DEG = 30.0
DEEPEST = 0.02
"""How deep the object may start in others, relative to its own size: about 3 mm for a mug."""
TOUCHING = 0.001
"""Metres between bodies that count as contact."""


@dataclass(frozen=True)
class Outcome:
    """What became of the object; lengths in metres."""

    succeeded: bool
    reason: str
    """Why it failed, in words; "stays" where it succeeded."""
    penetration: float
    """How deep the object was in others when it was placed."""
    moved: float
    turned_deg: float


def released(draft: Draft, start: Float64[np.ndarray, "4 4"]) -> Outcome:
    """The outcome of letting the object go at this pose, given as world from object."""
    with open_world() as world:
        table, support = world.add_table(), world.add(draft.support, np.eye(4), fixed=True)
        number = world.add(draft.object, start, fixed=False)
        penetration = max(0.0, -min(world.gap(number, table), world.gap(number, support)))
        deepest = DEEPEST * draft.object.size
        if penetration > deepest:
            depth = f"{1e3 * penetration:.1f} mm deep in what is there, at most {1e3 * deepest:.1f} mm"
            return Outcome(False, f"placed {depth}", penetration, 0.0, 0.0)
        world.run(SECONDS)
        end = world.pose(number)
        moved = float(np.linalg.norm(end[:3, 3] - start[:3, 3]))
        turned = float(np.rad2deg(Rotation.from_matrix(end[:3, :3] @ start[:3, :3].T).magnitude()))
        reason = _change(start, end, moved, turned)
        if reason is None and world.gap(number, table) < TOUCHING:
            reason = f"rests on the table, not only on the {draft.support.name}"
        if reason is None and world.gap(number, support) > TOUCHING:
            reason = f"does not touch the {draft.support.name}"
        reason = reason or draft.goal.unmet(end)
        return Outcome(reason is None, reason or "stays", penetration, moved, turned)


def _change(
    start: Float64[np.ndarray, "4 4"], end: Float64[np.ndarray, "4 4"], moved: float, turned: float
) -> str | None:
    """In words, how the object left its place; None when it is still there."""
    if moved > FARTHEST_MOVE:
        verb = "fell" if start[2, 3] - end[2, 3] > 0.5 * moved else "moved"
        return f"{verb} by {1e2 * moved:.1f} cm, at most {1e2 * FARTHEST_MOVE:.0f} cm"
    return (
        f"turned by {turned:.0f}°, at most {FARTHEST_TURN_DEG:.0f}°" if turned > FARTHEST_TURN_DEG else None
    )
