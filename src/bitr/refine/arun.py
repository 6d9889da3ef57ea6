"""Arun's method: the best rigid motion between points whose correspondence is known (Sec. 3.2)."""

from __future__ import annotations

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
    the weighted points must span at least a plane.
    """
    if source.shape != reference.shape:
        raise InputError(
            f"got {tuple(source.shape)} and {tuple(reference.shape)}: expected corresponding points"
        )
    if weights is None:
        weights = source.new_ones(source.shape[:-1])
    if bool((weights < 0).any()) or bool((weights.sum(-1) <= 0).any()):
        raise InputError("weights must not be negative, nor all 0")
    share = (weights / weights.sum(-1, keepdim=True))[..., None]
    x_mean, y_mean = (share * source).sum(-2, keepdim=True), (share * reference).sum(-2, keepdim=True)
    rotation = nearest_rotation((share * (reference - y_mean)).mT @ (source - x_mean))
    return Rigid(rotation, (y_mean - x_mean @ rotation.mT)[..., 0, :])
