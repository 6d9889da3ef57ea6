r"""Groups: rotations and rigid motions, and the representations of SO(3)×SO(3) with their harmonics (App. B).

A degree is a pair (p, q). A feature of degree (p, q) is a (2p+1)×(2q+1) matrix that turns as
ρ_p(r₁) F ρ_q(r₂)ᵀ; its components are stored in row-major order. Features of a single cloud, which know
only one rotation, have degrees (p, 0).

The degree-1 harmonics are x, y, z, so that :math:`\rho_1(r) = r`. Order and signs of all components follow
from ``clebsch_gordan``, which keeps e3nn's conventions; nothing else depends on them. Tables are computed
once, in float64: a float32 table would put a floor of 1e-8 under every law.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from fractions import Fraction
from functools import cache
from math import factorial as f
from math import sqrt
from typing import TypeVar

import torch
from jaxtyping import Bool, Complex, Float, Float64, Int, Shaped
from torch import Tensor

T = TypeVar("T")


def map_tensors(change: Callable[[Tensor], Tensor], value: T) -> T:
    """A dataclass with each of its tensors changed, also those of dataclasses inside."""
    if isinstance(value, Tensor):
        return change(value)  # type: ignore[return-value]
    if is_dataclass(value) and not isinstance(value, type):
        parts = {each.name: map_tensors(change, getattr(value, each.name)) for each in fields(value)}
        return replace(value, **parts)
    return value


def take_rows(values: Shaped[Tensor, "b n *c"], index: Int[Tensor, "b k"]) -> Shaped[Tensor, "b k *c"]:
    """Some rows of each pair, in the order of the index."""
    wide = index.reshape(*index.shape, *([1] * (values.dim() - 2)))
    return values.gather(1, wide.expand(-1, -1, *values.shape[2:]))


# rotations, rigid motions, and the clouds that they move


def rotation_angle(rotation: Float[Tensor, "*b 3 3"]) -> Float[Tensor, "*b"]:
    """Angle in radians, in [0, π]; exact to rounding for small angles, unlike acos of the trace."""
    skew = rotation - rotation.mT
    sine = torch.stack([skew[..., 2, 1], skew[..., 0, 2], skew[..., 1, 0]], dim=-1).norm(dim=-1)
    cosine = rotation.diagonal(dim1=-2, dim2=-1).sum(-1) - 1
    return torch.atan2(sine, cosine)


def nearest_rotation(a: Float[Tensor, "*b 3 3"]) -> Float[Tensor, "*b 3 3"]:
    r"""Rotation closest to ``a``: the SVD projection of Definition C.5.

    With :math:`a = U \Sigma V^\top`, returns :math:`U\,\mathrm{diag}(1, 1, \det UV^\top)\,V^\top`.
    Unique when :math:`\sigma_2 > \sigma_3`; unchanged by a positive scale. The gradient is that of the
    projection (roma), finite also where singular values coincide.
    """
    return nearest_rotation_and_gap(a)[0]


def nearest_rotation_and_gap(
    a: Float[Tensor, "*b 3 3"], noise: float = 0.0
) -> tuple[Float[Tensor, "*b 3 3"], Float[Tensor, "*b"]]:
    r"""The nearest rotation, and the gap :math:`\sigma_2 + \mathrm{sign}(\det a)\,\sigma_3` over ‖a‖.

    Near 0 the rotation is not determined: no rotation is nearest. The gap is at most 2/√3, has no gradient,
    and is unchanged by rotations on either side, by transposition and by a positive scale as long as ‖a‖ is
    above the ``noise``; below, the gap shrinks with ‖a‖.
    """
    size = a.detach().square().sum((-2, -1), keepdim=True).sqrt()
    floor = torch.finfo(a.dtype).eps  # an all-zero ``a`` must not turn the gradient into infinity
    unit = a / size.clamp_min(floor)
    if a.requires_grad or torch.compiler.is_compiling():
        import roma  # for the gradient; takes a second

        rotation, signed = roma.special_procrustes(unit, return_singular_values=True)
    else:
        u, signed, vh = proper_svd(unit)
        rotation = u @ vh
    gap = (signed[..., 1] + signed[..., 2]).detach()
    above = (size / size.clamp_min(noise))[..., 0, 0] if noise > 0 else 1.0
    return rotation, gap * above


def proper_svd(a: Float[Tensor, "*b 3 3"]) -> tuple[Tensor, Float[Tensor, "*b 3"], Tensor]:
    """The singular value decomposition with det UVᵀ = 1: the last singular value has the sign of det a."""
    u, values, vh = torch.linalg.svd(a)
    sign = torch.ones_like(values)
    sign[..., 2] = torch.linalg.det(u @ vh).sign()
    return u * sign[..., None, :], values * sign, vh


@dataclass(frozen=True)
class Rigid:
    """A motion x ↦ rotation·x + translation, or a batch of them; ``a_from_b @ b_from_c`` chains."""

    rotation: Float[Tensor, "*b 3 3"]
    translation: Float[Tensor, "*b 3"]

    @classmethod
    def identity(cls, *shape: int, dtype: torch.dtype = torch.float64) -> Rigid:
        return cls(torch.eye(3, dtype=dtype).expand(*shape, 3, 3), torch.zeros(*shape, 3, dtype=dtype))

    @classmethod
    def random(
        cls,
        generator: torch.Generator,
        *shape: int,
        size: float = 1.0,
        dtype: torch.dtype = torch.float64,
    ) -> Rigid:
        """Uniform rotation, and a normal translation of standard deviation ``size`` per axis."""
        import roma  # takes a second, and an assembly can do without

        quaternion = torch.randn(*shape, 4, generator=generator, dtype=torch.float64)
        rotation = roma.unitquat_to_rotmat(quaternion / quaternion.norm(dim=-1, keepdim=True))
        translation = size * torch.randn(*shape, 3, generator=generator, dtype=torch.float64)
        return cls(rotation.to(dtype), translation.to(dtype))

    @classmethod
    def from_matrix(cls, matrix: Float[Tensor, "*b 4 4"]) -> Rigid:
        return cls(matrix[..., :3, :3], matrix[..., :3, 3])

    def matrix(self) -> Float[Tensor, "*b 4 4"]:
        top = torch.cat([self.rotation, self.translation[..., None]], dim=-1)
        bottom = torch.zeros_like(top[..., :1, :])
        bottom[..., 0, 3] = 1
        return torch.cat([top, bottom], dim=-2)

    def act(self, points: Float[Tensor, "... n 3"]) -> Float[Tensor, "... n 3"]:
        return points @ self.rotation.mT + self.translation[..., None, :]

    def inverse(self) -> Rigid:
        back = self.rotation.mT
        return Rigid(back, -(back @ self.translation[..., None])[..., 0])

    def scaled(self, factor: float | Float[Tensor, "*b"]) -> Rigid:
        """The same motion in a unit of length that is ``factor`` times smaller: (r, factor·t)."""
        each = factor[..., None] if isinstance(factor, Tensor) else factor
        return Rigid(self.rotation, self.translation * each)

    def to(self, target: torch.dtype | torch.device) -> Rigid:
        return map_tensors(lambda tensor: tensor.to(target), self)

    def __matmul__(self, other: Rigid) -> Rigid:
        moved = (self.rotation @ other.translation[..., None])[..., 0] + self.translation
        return Rigid(self.rotation @ other.rotation, moved)

    def __getitem__(self, index: int | slice | tuple[int | slice | None, ...]) -> Rigid:
        return Rigid(self.rotation[index], self.translation[index])


@dataclass(frozen=True)
class Cloud:
    """Batch of point clouds; ``mask`` is False on padding, None when all are points.

    Normals and colours are used by models that were made for them, as ``BITRConfig(normals=True)``.
    """

    points: Float[Tensor, "b n 3"]
    normals: Float[Tensor, "b n 3"] | None = None
    colors: Float[Tensor, "b n 3"] | None = None
    mask: Bool[Tensor, "b n"] | None = None
    neighbors: Int[Tensor, "b n k"] | None = None
    """Precomputed neighbour indices, nearest first, which motions do not change; skips the search."""

    def moved(self, pose: Rigid) -> Cloud:
        """The cloud under a rigid motion: points move, normals turn, colours stay."""
        normals = None if self.normals is None else self.normals @ pose.rotation.mT
        return replace(self, points=pose.act(self.points), normals=normals)

    def scaled(self, factor: float) -> Cloud:
        return replace(self, points=self.points * factor)

    def mean(self, values: Float[Tensor, "b n c"]) -> Float[Tensor, "b 1 c"]:
        """Mean of values at the points over the real points of each cloud."""
        if self.mask is None:
            return values.mean(1, keepdim=True)
        weight = self.mask[..., None].to(values)
        return (values * weight).sum(1, keepdim=True) / weight.sum(1, keepdim=True)

    def centroid(self) -> Float[Tensor, "b 1 3"]:
        return self.mean(self.points)


# representations

Degree = tuple[int, int]
Field = dict[Degree, Tensor]  # features on points, one (N, m, c) tensor per degree: m components, c channels


def mirror(degree: Degree) -> Degree:
    return degree[1], degree[0]


def components(degree: Degree) -> int:
    return (2 * degree[0] + 1) * (2 * degree[1] + 1)


class Rep(dict[Degree, int]):
    """Degrees with their multiplicities (numbers of channels), in a fixed order."""

    def __init__(self, channels: Mapping[Degree, int]) -> None:
        super().__init__({degree: channels[degree] for degree in sorted(channels) if channels[degree] > 0})

    @classmethod
    def one_sided(cls, max_degree: int, channels: int) -> Rep:
        return cls({(p, 0): channels for p in range(max_degree + 1)})

    @classmethod
    def two_sided(cls, max_degree: int, channels: int) -> Rep:
        side = range(max_degree + 1)
        return cls({(p, q): channels for p in side for q in side})


# harmonics


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
