"""Symmetries in words."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float64
from scipy.spatial.transform import Rotation

from bitr.hypotheses.symmetry import Symmetries

SAME_AXIS = np.cos(np.radians(15))
SOLIDS = {12: "a tetrahedron", 24: "a cube", 60: "an icosahedron"}
"""By the number of turns, the one that changes nothing among them."""
NUMBERS = {2: "two", 3: "three", 4: "four", 5: "five", 6: "six"}


def described(found: Symmetries) -> str:
    """How a cloud looks the same, as "after turns by 120° about one axis"; for those that do."""
    if found.ball:
        return "after any turn"
    if found.axis is not None:
        across = " and after half turns across it" if len(found.motions) > 1 else ""
        return f"after any turn about one axis{across}"
    orders = sorted(_orders(found.motions[1:, :3, :3]), reverse=True)
    first, others = orders[0], orders[1:]
    if not others:
        return f"after {_turns(first)} about one axis"
    if first == 2:
        return f"after half turns about {NUMBERS.get(len(orders), len(orders))} axes"
    if set(others) == {2} and len(others) == first:
        return f"after {_turns(first)} about one axis and half turns about {NUMBERS.get(first, first)} others"
    count = len(found.motions)
    return f"after {count - 1} turns{', those of ' + SOLIDS[count] if count in SOLIDS else ''}"


def _turns(order: int) -> str:
    return "a half turn" if order == 2 else f"turns by {360 / order:.0f}°"


def _orders(rotations: Float64[np.ndarray, "k 3 3"]) -> list[int]:
    """For every axis, how many turns there are about it; a full one among them."""
    vectors = Rotation.from_matrix(rotations).as_rotvec()
    axes = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    orders = []
    while len(axes):
        same = np.abs(axes @ axes[0]) > SAME_AXIS
        orders.append(int(same.sum()) + 1)
        axes = axes[~same]
    return orders
