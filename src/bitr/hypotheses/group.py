"""From turns that fit a cloud to a group of them."""

from __future__ import annotations

import numpy as np
from jaxtyping import Bool, Float64

from bitr.hypotheses.candidates import thinned
from bitr.hypotheses.outline import Outline
from bitr.hypotheses.self_match import FINE, settled, verdict
from bitr.hypotheses.turning import angles, common_place, nearest
from bitr.hypotheses.turns import Turns

SAME = np.radians(18)
"""Turns that are closer are one."""
LARGEST = 60
"""An icosahedron's group; larger ones have a round axis."""
IDENTITY = Turns.about_center(np.eye(3)[None])


def grown(outline: Outline, found: Turns) -> Turns:
    """The group that the turns generate, the identity first; the first ones found count most.

    Each product is brought to where the cloud fits itself best, and must fit. A turn whose products do not is
    left out: a piece may slide along itself by 30 degrees, but not by 60.
    """
    group = IDENTITY
    for i in range(len(found)):
        one = found[i : i + 1]
        if _new(one, group).any():
            group = _closed(outline, group, one) or group
    return _with_inverses(group)


def _closed(outline: Outline, group: Turns, new: Turns) -> Turns | None:
    """The group with new turns and all products; None when one of these does not fit, or there is no end."""
    while len(new):
        group = group + new
        products = _products(group)
        products = products[_new(products, group)]
        kept = thinned(products.rotations, np.zeros(len(products)), SAME, LARGEST)
        if len(group) + len(kept) > LARGEST:
            return None
        new = settled(outline, products[kept], FINE)
        score = verdict(outline, new)
        if not np.isfinite(score).all():
            return None
        new = new[thinned(new.rotations, score, SAME, len(new))]  # two may have come together
        new = new[_new(new, group)]
    return group


def _products(group: Turns) -> Turns:
    rotations = group.rotations[:, None] @ group.rotations
    shifts = np.einsum("aij,bj->abi", group.rotations, group.shifts) + group.shifts[:, None]
    return Turns(rotations.reshape(-1, 3, 3), shifts.reshape(-1, 3))


def _new(turns: Turns, group: Turns) -> Bool[np.ndarray, " c"]:
    return (_between(turns, group) > SAME).all(1)


def _between(turns: Turns, group: Turns) -> Float64[np.ndarray, "c k"]:
    return angles(turns.rotations[:, None] @ group.rotations.swapaxes(1, 2))


def _with_inverses(group: Turns) -> Turns:
    """Each turn in the middle between itself and the inverse of what undoes it, all about one place."""
    back = group.inverse()
    undone = _between(group, back).argmin(1)
    rotations = nearest(group.rotations + back.rotations[undone])
    place = common_place(group.rotations, group.shifts)
    return Turns(rotations, place - rotations @ place)
