import torch

from bitr import Rigid
from tests.conftest import random_points


def test_composition_acts_as_one_after_the_other(rng):
    a, b, x = Rigid.random(rng), Rigid.random(rng), random_points(5, 3, rng)
    torch.testing.assert_close((a @ b).act(x), a.act(b.act(x)))
    torch.testing.assert_close((a @ b).matrix(), a.matrix() @ b.matrix())


def test_inverse_undoes(rng):
    a, x = Rigid.random(rng, 4), random_points(5, 3, rng, b=4)
    torch.testing.assert_close(a.inverse().act(a.act(x)), x)
    torch.testing.assert_close((a @ a.inverse()).matrix(), Rigid.identity(4).matrix())


def test_scaled_is_the_motion_of_scaled_points(rng):
    a, x = Rigid.random(rng), random_points(5, 3, rng)
    torch.testing.assert_close(a.scaled(3.0).act(3 * x), 3 * a.act(x))


def test_matrix_and_back(rng):
    a = Rigid.random(rng, 2, 3)
    back = Rigid.from_matrix(a.matrix())
    assert a.matrix().shape == (2, 3, 4, 4)
    torch.testing.assert_close(back.rotation, a.rotation)
    torch.testing.assert_close(back.translation, a.translation)


def test_random_motions_are_rotations_and_repeat_with_the_seed():
    a = Rigid.random(torch.Generator().manual_seed(5), 100)
    b = Rigid.random(torch.Generator().manual_seed(5), 100)
    torch.testing.assert_close(a.rotation @ a.rotation.mT, torch.eye(3).double().expand(100, 3, 3))
    torch.testing.assert_close(torch.linalg.det(a.rotation), torch.ones(100).double())
    assert torch.equal(a.matrix(), b.matrix())


def test_random_rotations_are_uniform():
    """A uniform rotation turns by 126.5° on average, and has mean 0 as a matrix."""
    from bitr.groups import rotation_angle

    r = Rigid.random(torch.Generator().manual_seed(0), 20000).rotation
    assert abs(float(rotation_angle(r).mean()) * 180 / torch.pi - 126.5) < 1
    assert r.mean(0).abs().max() < 0.02


def test_one_of_a_batch(rng):
    a = Rigid.random(rng, 3)
    torch.testing.assert_close(a[1].matrix(), a.matrix()[1])
    assert a.to(torch.float32).rotation.dtype == torch.float32


def test_each_motion_of_a_batch_can_have_its_own_factor(rng):
    a = Rigid.random(rng, 3)
    factors = torch.tensor([1.0, 2.0, 3.0]).double()
    torch.testing.assert_close(a.scaled(factors).translation[2], 3 * a.translation[2])
