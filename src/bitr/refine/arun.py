"""Arun's method: the best rigid motion between points whose correspondence is known (Sec. 3.2)."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from bitr.errors import InputError
from bitr.groups import Rigid, nearest_rotation


def arun(
    source: Float[Tensor, "*b n 3"],
    reference: Float[Tensor, "*b n 3"],
    weights: Float[Tensor, "*b n"] | None = None,
) -> Rigid:
    r"""Minimises :math:`\sum_i w_i \|r x_i + t - y_i\|^2`, with non-negative weights (default: all equal).

    r = SVD(Σ wᵢ ȳᵢ x̄ᵢᵀ), t = m(Y) − r m(X). Bi-, swap- and scale-equivariant where the rotation is unique:
    the weighted points must span at least a plane. Computed in double precision.
    """
    if source.shape != reference.shape:
        raise InputError(
            f"got {tuple(source.shape)} and {tuple(reference.shape)}: expected corresponding points"
        )
    if weights is None:
        weights = source.new_ones(source.shape[:-1])
    if weights.shape != source.shape[:-1]:
        raise InputError(f"got weights of shape {tuple(weights.shape)}, expected {tuple(source.shape[:-1])}")
    if not all(bool(values.isfinite().all()) for values in (source, reference, weights)):
        raise InputError("points and weights must be finite; drop NaN and infinite rows first")
    if bool((weights < 0).any()) or bool((weights.sum(-1) <= 0).any()):
        raise InputError("weights must not be negative, nor all 0")
    x, y, w = source.double(), reference.double(), weights.double()[..., None]
    share = w / w.sum(-2, keepdim=True)
    x_mean, y_mean = (share * x).sum(-2, keepdim=True), (share * y).sum(-2, keepdim=True)
    rotation = nearest_rotation((share * (y - y_mean)).mT @ (x - x_mean))
    pose = Rigid(rotation, (y_mean - x_mean @ rotation.mT)[..., 0, :])
    return pose.to(torch.promote_types(source.dtype, reference.dtype))
