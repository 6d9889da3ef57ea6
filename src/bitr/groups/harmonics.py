r"""Clebsch-Gordan coefficients, real harmonics, Wigner matrices and the angular part of the kernel (App. B).

The degree-1 harmonics are x, y, z, so that :math:`\rho_1(r) = r`. Order and signs of all components follow
from ``clebsch_gordan``, which keeps e3nn's conventions; nothing else depends on them. Tables are computed
once, in float64: a float32 table would put a floor of 1e-8 under every law.
"""

from collections.abc import Callable
from fractions import Fraction
from functools import cache
from math import factorial as f
from math import sqrt

import torch
from jaxtyping import Complex, Float, Float64
from torch import Tensor


@cache
@torch.inference_mode(False)  # a table first needed during inference must serve training later
def clebsch_gordan(a: int, b: int, j: int) -> Float64[Tensor, "p q m"]:
    r"""Isometry :math:`V_j \to V_a \otimes V_b`: the paper's 𝒬 for one side and one J (App. B).

    Law: with :math:`\mathcal{Q} = [Q_{|a-b|} \cdots Q_{a+b}]`,
    :math:`\mathcal{Q}^\top (\rho_a \otimes \rho_b) \mathcal{Q} = \bigoplus_J \rho_J`.
    """
    table = torch.zeros(2 * a + 1, 2 * b + 1, 2 * j + 1, dtype=torch.complex128)
    for m in range(-a, a + 1):
        for n in range(max(-b, -j - m), min(b, j - m) + 1):
            table[a + m, b + n, j + m + n] = _couple(a, m, b, n, j)
    bases = _real_basis(a), _real_basis(b), _real_basis(j).conj()
    return torch.einsum("mnk,mp,nq,kr->pqr", table, *bases).real.contiguous()


def _couple(a: int, m: int, b: int, n: int, j: int) -> float:
    """⟨a m, b n | j m+n⟩ in the complex basis, by Racah's formula."""
    k = m + n
    square = (2 * j + 1) * f(a + b - j) * f(a + j - b) * f(b + j - a)
    square *= f(a + m) * f(a - m) * f(b + n) * f(b - n) * f(j + k) * f(j - k)
    first, last = max(0, b - j - m, a - j + n), min(a + b - j, a - m, b + n)
    total = Fraction(0)
    for s in range(first, last + 1):
        below = f(s) * f(a + b - j - s) * f(a - m - s) * f(b + n - s) * f(j - b + m + s) * f(j - a - n + s)
        total += Fraction((-1) ** s, below)
    return sqrt(Fraction(square, f(a + b + j + 1))) * float(total)


def _real_basis(degree: int) -> Complex[Tensor, "m m"]:
    """Real harmonics (columns) in terms of complex ones (rows), with the phase that makes 𝒬 real."""
    basis = [[0j] * (2 * degree + 1) for _ in range(2 * degree + 1)]
    basis[degree][degree] = 1
    for m in range(1, degree + 1):
        minus, plus, sign = degree - m, degree + m, (-1) ** m
        basis[minus][plus], basis[minus][minus] = sqrt(0.5), -1j * sqrt(0.5)
        basis[plus][plus], basis[plus][minus] = sign * sqrt(0.5), 1j * sign * sqrt(0.5)
    return (-1j) ** degree * torch.tensor(basis, dtype=torch.complex128)


def _keep(make: Callable[[int], Tensor]) -> Callable[[int], Tensor]:
    """Remember the table of each degree, in a way that torch.compile reads as a constant."""
    tables: dict[int, Tensor] = {}

    def table(degree: int) -> Tensor:
        if degree not in tables:
            with torch.inference_mode(False):
                tables[degree] = make(degree)
        return tables[degree]

    return table


def prepare_tables(max_degree: int) -> None:
    """Compute the tables of a model before torch.compile or torch.export trace it."""
    angular_table(max_degree)
    for degree in range(2, 2 * max_degree + 1):
        _raising_table(degree)


@_keep
def _raising_table(degree: int) -> Float64[Tensor, "ab m"]:
    """Table that takes (Y_{degree-1}, v) to Y_degree, scaled to give |Y(û)| = 1."""
    table = clebsch_gordan(degree - 1, 1, degree)
    axis = torch.tensor([0.0, 0.0, 1.0], dtype=torch.float64)
    below = solid_harmonics(axis, degree - 1)[-1]
    return (table / torch.einsum("abj,a,b->j", table, below, axis).norm()).flatten(0, 1)


def solid_harmonics(v: Float[Tensor, "*b 3"], max_degree: int) -> list[Float[Tensor, "*b m"]]:
    r"""Homogeneous harmonic polynomials :math:`Y_J(v) = \|v\|^J Y_J(v/\|v\|)` for J = 0 … max_degree.

    Normalised to :math:`\|Y_J(v)\| = \|v\|^J`. Being polynomials they are smooth at v = 0, where the
    direction is not. Law: :math:`Y_J(rv) = \rho_J(r)\,Y_J(v)`.
    """
    values = [torch.ones_like(v[..., :1]), v]
    for degree in range(2, max_degree + 1):
        products = (values[-1][..., :, None] * v[..., None, :]).flatten(-2)
        values.append(products @ _raising_table(degree).to(v))
    return values[: max_degree + 1]


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


@_keep
def angular_table(max_degree: int) -> Float64[Tensor, "r m y"]:
    r"""The paper's :math:`A_J = \mathrm{unvec}(Q_J Y_J)` for all degrees up to ``max_degree``, Y left open.

    Rows (o, m_o, i, J), columns (i, m_i), harmonics (J, m_J). Contracted with the harmonics of a direction
    it gives, for every o, the matrices of all (i, J) that reach o, each acting on the components of its own
    i and zero on the others. Law (the kernel constraint, eq. (22), on one side):
    :math:`A_J(rv) = \rho_o(r)\,A_J(v)\,\rho_i(r)^\top`.
    """
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
