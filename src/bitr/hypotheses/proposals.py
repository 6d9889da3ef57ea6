"""Other poses that a model holds possible, beside the one it gives."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float64
from torch import Tensor

from bitr.groups import Rigid, nearest_rotation
from bitr.model import Solution
from bitr.model.projection import Unprojected

PLAUSIBLE = 0.9
"""A half turn is proposed where it is at least so likely, in relation to the model's own pose: where the gap
closes. On held-out jugs that was so for every pose off by more than 100°, and for a third of the others."""
DISTINCT = 1e-3
"""Singular values that are closer than this, over the largest, have no directions of their own."""
DIRECTIONS = ("first", "second", "third")


@dataclass(frozen=True, eq=False)
class Proposals:
    """Poses of one pair and where each is from; the first is the model's own.

    All of them move with the pieces, are inverted by a swap and scale with the pieces, in the same order.
    """

    poses: Float64[np.ndarray, "k 4 4"]
    kinds: tuple[str, ...]


def proposals(solution: Solution, last: Solution | None = None) -> Proposals:
    """The pose of a solution of one pair, half turns that its r̂ leaves open, and the poses of half its votes.

    ``last`` is what the last weights of a training run say, beside the averaged ones. A model without votes
    has its own pose alone.
    """
    found = [("model", solution.pose)]
    if solution.votes is not None:
        found += _half_turns(solution.votes.mean())
        found += of_halves(solution.votes)
    if last is not None:
        found.append(("last weights", last.pose))
    poses = [pose.matrix()[0].detach().double().cpu().numpy() for _, pose in found]
    return Proposals(np.stack(poses), tuple(kind for kind, _ in found))


def _half_turns(parts: Unprojected) -> Iterator[tuple[str, Rigid]]:
    r"""U D Vᵀ with two signs of D flipped: the pose turned by 180° about a singular direction of r̂.

    A mean of these four rotations, each as likely as its weight, is :math:`U\,\mathrm{diag}(s)\,V^\top` with
    :math:`s_i` the weights of those that keep direction i minus the weights of those that flip it. So
    s tells the weights. Its unit is lost in training on poses alone; here the largest is taken as 1.
    """
    u, values, vh = torch.linalg.svd(parts.r_hat[0].double())
    d = torch.ones(3, dtype=torch.float64, device=u.device)
    d[2] = torch.linalg.det(u @ vh).sign()
    if values[0] == 0:
        return
    s = d * values / values[0]
    for i, name in enumerate(DIRECTIONS):
        flip = -torch.ones_like(d)
        flip[i] = 1
        others = torch.cat([values[:i], values[i + 1 :]])
        distinct = bool(((others - values[i]).abs() > DISTINCT * values[0]).all())
        if distinct and 1 + flip @ s >= PLAUSIBLE * (1 + s.sum()):
            yield f"half turn about the {name} singular direction", _between(parts, (u * (d * flip)) @ vh)


def of_halves(votes: Unprojected) -> Iterator[tuple[str, Rigid]]:
    """What half of the key points say. Motions and swaps leave their order, so that any half is lawful."""
    count = votes.r_hat.shape[1]
    halves = {
        "first half of the key points": slice(0, count // 2),
        "second half of the key points": slice(count // 2, count),
        "every other key point, from the first": slice(0, count, 2),
        "every other key point, from the second": slice(1, count, 2),
    }
    for kind, half in halves.items():
        parts = votes.mean(half)
        yield kind, _between(parts, nearest_rotation(parts.r_hat[0].double()))


def _between(parts: Unprojected, rotation: Float64[Tensor, "3 3"]) -> Rigid:
    """The motion with this rotation that puts the anchors on each other."""
    source, reference = parts.source_anchor[0].double(), parts.reference_anchor[0].double()
    return Rigid(rotation[None], (reference - rotation @ source)[None])
