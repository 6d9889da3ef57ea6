"""The loss (Sec. 5, training), and the errors that are shown beside it."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from bitr.groups import Cloud, Rigid
from bitr.model import Solution
from bitr.training.config import LossConfig


def pose_loss(
    solution: Solution, truth: Rigid, source: Cloud, reference: Cloud, config: LossConfig
) -> Float[Tensor, " b"]:
    r"""Of each pair: :math:`\|r^\top r_{gt} - I\|^2 + w\,d^2`, and the spread term where it has a weight.

    Unless d is the paper's :math:`\|t - t_{gt}\|`, the loss does not change when the pieces are moved,
    swapped or scaled. So no rotated, moved or swapped copies of the pairs are needed: they would give the
    same loss and the same gradient.

    By default r is r̂ before its projection, and d is how far apart the true pose leaves the two anchors, in
    units of the pair's size. Where r̂ is a rotation that is the paper's first term. It is least squares: the
    gradient is linear in r̂, while that of the projection grows without bound as singular values come close
    or r̂ becomes small. The best r̂ is the mean of what is possible, and short where much is.
    """
    parts = solution.unprojected if config.compare == "unprojected" else None
    if parts is not None:
        r = parts.r_hat
        gap = parts.reference_anchor[:, None] - truth.act(parts.source_anchor[:, None])
        away = gap.square().sum((1, 2)) / pair_size(source, reference) ** 2
    elif config.translation == "displacement":
        r, away = solution.pose.rotation, square_displacement(solution.pose, truth, source, reference)
    else:
        r, away = solution.pose.rotation, (solution.pose.translation - truth.translation).square().sum(1)
    loss = (r - truth.rotation).square().sum((1, 2)) + config.translation_weight * away
    if config.spread_weight:
        unit = pair_size(source, reference)
        crowded = crowding(solution.source_keypoints / unit[:, None, None], config.spread_reach)
        crowded = crowded + crowding(solution.reference_keypoints / unit[:, None, None], config.spread_reach)
        loss = loss + config.spread_weight * crowded
    return loss


def square_displacement(pose: Rigid, truth: Rigid, source: Cloud, reference: Cloud) -> Float[Tensor, " b"]:
    r"""How far the pieces are from their places, squared and in units of the pair's size s:

    :math:`(\|g\,m(X) - g_{gt}\,m(X)\|^2 + \|g^{-1} m(Y) - g_{gt}^{-1} m(Y)\|^2) / 2 s^2`.
    """
    x, y = _centroid(source), _centroid(reference)
    off = [pose.act(x) - truth.act(x), pose.inverse().act(y) - truth.inverse().act(y)]
    return sum((o.square().sum((1, 2)) for o in off), torch.zeros(())) / (
        2 * pair_size(source, reference) ** 2
    )


def pair_size(source: Cloud, reference: Cloud) -> Float[Tensor, " b"]:
    """Root mean square distance of the points of both clouds from their own centroids, both alike."""
    squares = [
        _mean((cloud.points - _centroid(cloud)).square().sum(-1, keepdim=True), cloud)[:, 0, 0]
        for cloud in (source, reference)
    ]
    return ((squares[0] + squares[1]) / 2).sqrt()


def crowding(keypoints: Float[Tensor, "b l 3"], reach: float) -> Float[Tensor, " b"]:
    """Mean over pairs of key points of how much closer than ``reach`` they are.

    The authors' term up to a constant, with the length of the difference in place of the sum of its
    coordinates, which would change when the cloud turns.
    """
    count = keypoints.shape[1]
    i, j = torch.triu_indices(count, count, offset=1, device=keypoints.device)
    gaps = ((keypoints[:, i] - keypoints[:, j]).square().sum(-1) + 1e-12).sqrt()
    return (reach - gaps).clamp_min(0).mean(1)


def _centroid(cloud: Cloud) -> Float[Tensor, "b 1 3"]:
    return _mean(cloud.points, cloud)


def _mean(values: Float[Tensor, "b n f"], cloud: Cloud) -> Float[Tensor, "b 1 f"]:
    if cloud.mask is None:
        return values.mean(1, keepdim=True)
    weight = cloud.mask[..., None].to(values)
    return (values * weight).sum(1, keepdim=True) / weight.sum(1, keepdim=True)
