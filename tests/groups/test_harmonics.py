"""Appendix B: harmonics, Wigner matrices, second-order Clebsch-Gordan constants, the kernel constraint."""

import itertools

import pytest
import torch
from e3nn import o3

from bitr import Rigid
from bitr.groups import angular_table, clebsch_gordan, solid_harmonics, wigner
from tests.conftest import random_points

DEGREES = range(5)
TOL = {"rtol": 1e-10, "atol": 1e-10}


def angular_matrices(v: torch.Tensor, max_degree: int) -> dict[tuple[int, int, int], torch.Tensor]:
    """A_J(v) for all (o, i, J), as the layers have them."""
    rows = angular_table(max_degree) @ torch.cat(solid_harmonics(v, 2 * max_degree))
    matrices, start = {}, 0
    for o in range(max_degree + 1):
        paths = [(i, j) for i in range(max_degree + 1) for j in range(abs(o - i), o + i + 1)]
        block = rows[start : start + (2 * o + 1) * len(paths)].unflatten(0, (2 * o + 1, -1))
        start += (2 * o + 1) * len(paths)
        for row, (i, j) in enumerate(paths):
            inside = slice(i**2, (i + 1) ** 2)
            matrices[o, i, j] = block[:, row, inside]
            assert torch.count_nonzero(block[:, row]) == torch.count_nonzero(matrices[o, i, j])
    return matrices


@pytest.mark.parametrize("degree", DEGREES)
def test_harmonics_turn_with_the_vector(rng, degree):
    r, v = Rigid.random(rng).rotation, random_points(7, 3, rng)[0]
    turned = solid_harmonics(v @ r.T, degree)[degree]
    torch.testing.assert_close(turned, solid_harmonics(v, degree)[degree] @ wigner(r, degree).T, **TOL)


@pytest.mark.parametrize("degree", DEGREES)
def test_harmonics_are_those_of_e3nn(rng, degree):
    v = random_points(7, 3, rng)[0]
    theirs = o3.spherical_harmonics([degree], v, normalize=False, normalization="norm")
    torch.testing.assert_close(solid_harmonics(v, degree)[degree], theirs, **TOL)


@pytest.mark.parametrize("degree", DEGREES)
def test_harmonics_of_a_vector_have_its_length_to_the_power_of_the_degree(rng, degree):
    v = random_points(7, 3, rng)[0]
    torch.testing.assert_close(
        solid_harmonics(v, degree)[degree].norm(dim=-1), v.norm(dim=-1) ** degree, **TOL
    )


def test_harmonics_are_smooth_at_zero():
    v = torch.zeros(1, 3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda v: torch.cat(solid_harmonics(v, 4), -1), v)


@pytest.mark.slow
def test_tables_first_needed_during_inference_serve_training_too():
    clebsch_gordan.cache_clear()
    with torch.inference_mode():
        solid_harmonics(torch.ones(1, 3).double(), 14)
        angular_table(7)
    v = torch.ones(1, 3, dtype=torch.float64, requires_grad=True)
    (torch.cat(solid_harmonics(v, 14), -1) @ angular_table(7).mT).sum().backward()
    assert v.grad.isfinite().all()


@pytest.mark.parametrize("degree", DEGREES)
def test_wigner_matrices_are_an_orthogonal_representation(rng, degree):
    a, b = Rigid.random(rng).rotation, Rigid.random(rng).rotation
    torch.testing.assert_close(wigner(a @ b, degree), wigner(a, degree) @ wigner(b, degree), **TOL)
    torch.testing.assert_close(
        wigner(a, degree) @ wigner(a, degree).T, torch.eye(2 * degree + 1).double(), **TOL
    )
    theirs = o3.Irrep(degree, 1).D_from_matrix(a)  # e3nn is good to single precision here
    torch.testing.assert_close(wigner(a, degree), theirs, rtol=1e-5, atol=1e-5)


def test_degree_one_is_the_rotation_itself(rng):
    r = Rigid.random(rng).rotation
    torch.testing.assert_close(wigner(r, 1), r, **TOL)


@pytest.mark.parametrize(("a", "b"), list(itertools.product(DEGREES, DEGREES)))
def test_clebsch_gordan_coefficients_are_those_of_e3nn(a, b):
    """Order, signs and all: weights that were trained with e3nn's keep their meaning."""
    for j in range(abs(a - b), a + b + 1):
        theirs = o3.wigner_3j(a, b, j, dtype=torch.float64) * (2 * j + 1) ** 0.5
        torch.testing.assert_close(clebsch_gordan(a, b, j), theirs, rtol=0, atol=1e-14)


def decomposition(i: int, o: int) -> torch.Tensor:
    """𝒬 of one side: all isometries V_J → V_i ⊗ V_o side by side."""
    blocks = [clebsch_gordan(i, o, j).reshape(-1, 2 * j + 1) for j in range(abs(i - o), i + o + 1)]
    return torch.cat(blocks, dim=1)


@pytest.mark.parametrize(("i", "o"), list(itertools.product(DEGREES, DEGREES)))
def test_clebsch_gordan_decomposes_the_product_of_degrees(rng, i, o):
    """𝒬ᵀ (ρ_i ⊗ ρ_o) 𝒬 = ⊕_J ρ_J, and 𝒬 is orthogonal."""
    r, q = Rigid.random(rng).rotation, decomposition(i, o)
    direct_sum = torch.block_diag(*[wigner(r, j) for j in range(abs(i - o), i + o + 1)])
    torch.testing.assert_close(q.T @ torch.kron(wigner(r, i), wigner(r, o)) @ q, direct_sum, **TOL)
    torch.testing.assert_close(q.T @ q, torch.eye(q.shape[1]).double(), **TOL)


@pytest.mark.parametrize("degrees", [(1, 0, 0, 1), (1, 1, 1, 1), (2, 1, 1, 2), (3, 1, 2, 2), (4, 0, 1, 3)])
def test_second_order_constants_decompose_the_product_of_two_rotations(rng, degrees):
    """App. B: 𝒬 = 𝒬₁ ⊗ 𝒬₂, reordered to (i₁ i₂ o₁ o₂), takes ρ_i ⊗ ρ_o to ⊕ ρ_{J₁} ⊗ ρ_{J₂}."""
    i1, i2, o1, o2 = degrees
    r1, r2 = Rigid.random(rng).rotation, Rigid.random(rng).rotation
    q1, q2 = decomposition(i1, o1), decomposition(i2, o2)
    shape = (2 * i1 + 1, 2 * o1 + 1, -1), (2 * i2 + 1, 2 * o2 + 1, -1)
    q = torch.einsum("abj,cdk->acbdjk", q1.reshape(shape[0]), q2.reshape(shape[1]))
    q = q.reshape(q1.shape[0] * q2.shape[0], -1)
    rho_i, rho_o = torch.kron(wigner(r1, i1), wigner(r2, i2)), torch.kron(wigner(r1, o1), wigner(r2, o2))
    side_1 = torch.block_diag(*[wigner(r1, j) for j in range(abs(i1 - o1), i1 + o1 + 1)])
    side_2 = torch.block_diag(*[wigner(r2, j) for j in range(abs(i2 - o2), i2 + o2 + 1)])
    torch.testing.assert_close(q.T @ torch.kron(rho_i, rho_o) @ q, torch.kron(side_1, side_2), **TOL)


def test_kernel_constraint_on_one_side(rng):
    """A_J(rv) = ρ_o(r) A_J(v) ρ_i(r)ᵀ for all o, i up to 4 and every J that couples them."""
    r, v = Rigid.random(rng).rotation, random_points(1, 3, rng)[0, 0]
    before, after = angular_matrices(v, 4), angular_matrices(r @ v, 4)
    assert len(before) == sum(2 * min(o, i) + 1 for o in DEGREES for i in DEGREES)
    for (o, i, j), matrix in before.items():
        torch.testing.assert_close(after[o, i, j], wigner(r, o) @ matrix @ wigner(r, i).T, **TOL)


def test_angular_matrices_are_the_clebsch_gordan_constants_on_the_harmonics(rng):
    """A_J = unvec(Q_J Y_J), of Frobenius norm ‖v‖^J."""
    v = random_points(1, 3, rng)[0, 0]
    for (o, i, j), matrix in angular_matrices(v, 4).items():
        y = solid_harmonics(v, 8)[j]
        torch.testing.assert_close(matrix, torch.einsum("oij,j->oi", clebsch_gordan(o, i, j), y), **TOL)
        torch.testing.assert_close(matrix.norm(), v.norm() ** j, **TOL)


@pytest.mark.parametrize("degrees", [(1, 1, 1, 1), (2, 1, 1, 0), (4, 3, 2, 4), (2, 0, 1, 0), (4, 4, 4, 4)])
def test_kernel_constraint_on_both_sides(rng, degrees):
    """𝒲(r₁₂ z) = ρ_o(r₁₂) 𝒲(z) ρ_i(r₁₂)ᵀ with 𝒲 = Σ c_{J₁J₂} A_{J₁}(z¹) ⊗ A_{J₂}(z²)."""
    o1, o2, i1, i2 = degrees
    r1, r2 = Rigid.random(rng).rotation, Rigid.random(rng).rotation
    z = random_points(2, 3, rng)[0]
    j1s, j2s = range(abs(o1 - i1), o1 + i1 + 1), range(abs(o2 - i2), o2 + i2 + 1)
    c = torch.randn(len(j1s), len(j2s), generator=rng, dtype=torch.float64)

    def kernel(z1, z2):
        first, second = angular_matrices(z1, 4), angular_matrices(z2, 4)
        return sum(
            c[a, b] * torch.kron(first[o1, i1, j1].contiguous(), second[o2, i2, j2].contiguous())
            for a, j1 in enumerate(j1s)
            for b, j2 in enumerate(j2s)
        )

    rho_o, rho_i = torch.kron(wigner(r1, o1), wigner(r2, o2)), torch.kron(wigner(r1, i1), wigner(r2, i2))
    torch.testing.assert_close(kernel(r1 @ z[0], r2 @ z[1]), rho_o @ kernel(*z) @ rho_i.T, **TOL)
