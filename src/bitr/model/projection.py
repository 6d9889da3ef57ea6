"""Φ_P: from features to SE(3) (eq. Arun-proj)."""

from __future__ import annotations

from jaxtyping import Float, Float64
from torch import Tensor

from bitr.groups import Field, Rigid, nearest_rotation


def correlation(field: Field) -> Float64[Tensor, "b 3 3"]:
    r"""r̂ = unvec(Pool_u f^{1,1}_u): the learned successor of Arun's correlation matrix.

    f^{1,1} is stored with X's index first, and r̂ takes X to Y, hence the transpose. Double precision from
    here on: what remains is a handful of 3×3 operations.
    """
    return _pool(field[1, 1]).unflatten(-1, (3, 3)).mT


def project(field: Field, x_key: Float[Tensor, "b l 3"], y_key: Float[Tensor, "b l 3"]) -> Rigid:
    r"""r = SVD(r̂),  t = (m(Ỹ) + t_Y) − r (m(X̃) + t_X)."""
    rotation = nearest_rotation(correlation(field))
    from_x = x_key.double().mean(1) + _pool(field[1, 0])
    to_y = y_key.double().mean(1) + _pool(field[0, 1])
    return Rigid(rotation, to_y - (rotation @ from_x[..., None])[..., 0])


def _pool(values: Float[Tensor, "b l m 1"]) -> Float64[Tensor, "b m"]:
    return values[..., 0].double().mean(1)
