import numpy as np
import pytest
import torch
from scipy.spatial.transform import Rotation

from bitr import Rigid
from bitr.groups import nearest_rotation, nearest_rotation_and_gap, rotation_angle


def random_matrix(rng, *shape):
    return torch.randn(*shape, 3, 3, generator=rng, dtype=torch.float64)


def test_nearest_rotation_is_a_rotation_and_nearer_than_all_others(rng):
    a = random_matrix(rng, 50)
    r = nearest_rotation(a)
    torch.testing.assert_close(torch.linalg.det(r), torch.ones(50).double())
    others = Rigid.random(rng, 2000).rotation
    distance = torch.linalg.matrix_norm(a[:, None] - others).amin(1)
    assert (torch.linalg.matrix_norm(a - r) <= distance).all()


def test_nearest_rotation_agrees_with_scipy(rng):
    """SciPy's alignment of the axes to the rows of ``a`` maximises the same trace."""
    for a in random_matrix(rng, 20):
        theirs, _ = Rotation.align_vectors(a.T.numpy(), np.eye(3))
        np.testing.assert_allclose(nearest_rotation(a).numpy(), theirs.as_matrix(), atol=1e-10)


def test_nearest_rotation_moves_with_rotations_on_both_sides(rng):
    a, r1, r2 = random_matrix(rng, 9), Rigid.random(rng, 9).rotation, Rigid.random(rng, 9).rotation
    torch.testing.assert_close(nearest_rotation(r2 @ a @ r1.mT), r2 @ nearest_rotation(a) @ r1.mT)


def test_nearest_rotation_of_the_transpose_is_the_transpose(rng):
    a = random_matrix(rng, 9)
    torch.testing.assert_close(nearest_rotation(a.mT), nearest_rotation(a).mT)


@pytest.mark.parametrize("factor", [1e-9, 3.0, 1e9])
def test_nearest_rotation_is_unchanged_by_a_positive_scale(rng, factor):
    a = random_matrix(rng, 9)
    torch.testing.assert_close(nearest_rotation(factor * a), nearest_rotation(a))


def test_nearest_rotation_is_the_same_with_and_without_a_gradient(rng):
    a = torch.cat([random_matrix(rng, 9), torch.diag(torch.tensor([2.0, 1.0, -0.5])).double()[None]])
    plain, differentiable = nearest_rotation_and_gap(a), nearest_rotation_and_gap(a.requires_grad_())
    torch.testing.assert_close(plain, tuple(value.detach() for value in differentiable))


def test_nearest_rotation_has_the_right_gradient(rng):
    assert torch.autograd.gradcheck(nearest_rotation, random_matrix(rng, 4).requires_grad_())


@pytest.mark.parametrize(
    "a",
    [
        torch.eye(3),
        torch.zeros(3, 3),
        torch.diag(torch.tensor([1.0, 0, 0])),
        torch.diag(torch.tensor([2.0, 1, -1])),
    ],
    ids=["equal singular values", "zero", "rank one", "closed gap"],
)
def test_gradient_is_finite_where_singular_values_coincide(a):
    a = a.double().requires_grad_()
    (nearest_rotation(a) * torch.arange(9.0).reshape(3, 3)).sum().backward()
    assert a.grad.isfinite().all()


def test_rotation_angle_agrees_with_scipy_down_to_tiny_angles(rng):
    for scale in (1e-9, 1e-3, 1.0, 3.1):
        axis = torch.randn(3, generator=rng, dtype=torch.float64)
        vector = (scale * axis / axis.norm()).numpy()
        angle = rotation_angle(torch.from_numpy(Rotation.from_rotvec(vector).as_matrix()))
        assert float(angle) == pytest.approx(scale, rel=1e-6)


def singular_gap(a):
    return nearest_rotation_and_gap(a)[1]


def test_singular_gap_closes_exactly_where_the_rotation_is_lost():
    open_gap = torch.diag(torch.tensor([3.0, 2.0, 1.0])).double()
    closed = torch.diag(torch.tensor([3.0, 1.0, -1.0])).double()
    assert singular_gap(open_gap).item() == pytest.approx(3 / 14**0.5)
    assert singular_gap(torch.eye(3).double()).item() == pytest.approx(2 / 3**0.5)
    assert singular_gap(closed).item() == pytest.approx(0.0)
    assert singular_gap(torch.zeros(3, 3).double()).item() == 0
    assert nearest_rotation_and_gap(1e-9 * open_gap, noise=1e-6)[1].item() < 1e-2, "noise has no direction"
    assert nearest_rotation_and_gap(open_gap, noise=1e-6)[1].item() == pytest.approx(3 / 14**0.5)


def test_singular_gap_is_unchanged_by_rotations_transposition_and_scale(rng):
    a, r1, r2 = random_matrix(rng, 9), Rigid.random(rng, 9).rotation, Rigid.random(rng, 9).rotation
    for b in (r2 @ a @ r1.mT, a.mT, 5 * a):
        torch.testing.assert_close(singular_gap(b), singular_gap(a))
