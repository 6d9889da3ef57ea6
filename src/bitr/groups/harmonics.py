"""Real harmonics, Wigner matrices and the angular part of the kernel, for any degree."""

from functools import cache

import torch
from jaxtyping import Float, Float64
from torch import Tensor

from bitr.groups.clebsch_gordan import clebsch_gordan


@torch.compiler.assume_constant_result  # type: ignore[untyped-decorator]
def _raising_constant(degree: int) -> Float64[Tensor, "..."]:
    """Clebsch-Gordan table that takes (Y_{degree-1}, v) to Y_degree, scaled to give |Y(û)| = 1."""
    return _made_raising_constant(degree)


@cache
@torch.inference_mode(False)
def _made_raising_constant(degree: int) -> Float64[Tensor, "..."]:
    table = clebsch_gordan(degree - 1, 1, degree)
    axis = torch.tensor([0.0, 0.0, 1.0], dtype=torch.float64)
    below = solid_harmonics(axis, degree - 1)[-1]
    return table / torch.einsum("abj,a,b->j", table, below, axis).norm()


def solid_harmonics(v: Float[Tensor, "*b 3"], max_degree: int) -> list[Float[Tensor, "*b m"]]:
    r"""Homogeneous harmonic polynomials :math:`Y_J(v) = \|v\|^J Y_J(v/\|v\|)` for J = 0 … max_degree.

    Normalised to :math:`\|Y_J(v)\| = \|v\|^J`. Being polynomials they are smooth at v = 0, where the
    direction is not. Law: :math:`Y_J(rv) = \rho_J(r)\,Y_J(v)`.
    """
    values = [torch.ones_like(v[..., :1])]
    if max_degree >= 1:
        values.append(v)
    for degree in range(2, max_degree + 1):
        table = _raising_constant(degree).to(v).flatten(0, 1)
        values.append((values[-1][..., :, None] * v[..., None, :]).flatten(-2) @ table)
    return values


def wigner(rotation: Float[Tensor, "*b 3 3"], degree: int) -> Float[Tensor, "*b m m"]:
    r"""Irreducible representation :math:`\rho_p(r)`, by climbing from :math:`\rho_1(r) = r`.

    :math:`\rho_p = Q^\top (\rho_{p-1} \otimes \rho_1)\, Q` with Q the isometry of degree p; no Euler angles,
    hence no loss near their poles. Law: :math:`\rho_p(rr') = \rho_p(r)\rho_p(r')`, orthogonal.
    """
    matrix = torch.ones_like(rotation[..., :1, :1])
    for p in range(1, degree + 1):
        table = clebsch_gordan(p - 1, 1, p).to(rotation)
        matrix = torch.einsum("abj,...ac,...bd,cdk->...jk", table, matrix, rotation, table)
    return matrix.contiguous()


@torch.compiler.assume_constant_result  # type: ignore[untyped-decorator]
def angular_table(max_degree: int) -> Float64[Tensor, "r m y"]:
    r"""The paper's :math:`A_J = \mathrm{unvec}(Q_J Y_J)` for all degrees up to ``max_degree``, Y left open.

    Rows (o, m_o, i, J), columns (i, m_i), harmonics (J, m_J). Contracted with the harmonics of a direction
    it gives, for every o, the matrices of all (i, J) that reach o, each acting on the components of its own
    i and zero on the others. Law (the kernel constraint on one side):
    :math:`A_J(rv) = \rho_o(r)\,A_J(v)\,\rho_i(r)^\top`.
    """
    return _made_angular_table(max_degree)


@cache
@torch.inference_mode(False)
def _made_angular_table(max_degree: int) -> Float64[Tensor, "r m y"]:
    degrees = range(max_degree + 1)
    columns, harmonics = (max_degree + 1) ** 2, (2 * max_degree + 1) ** 2
    blocks = []
    for o in degrees:
        paths = [(i, j) for i in degrees for j in range(abs(o - i), o + i + 1)]
        block = torch.zeros(2 * o + 1, len(paths), columns, harmonics, dtype=torch.float64)
        for row, (i, j) in enumerate(paths):
            block[:, row, i**2 : (i + 1) ** 2, j**2 : (j + 1) ** 2] = clebsch_gordan(o, i, j)
        blocks.append(block.flatten(0, 1))
    return torch.cat(blocks)
