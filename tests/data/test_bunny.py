import pytest
import torch

from bitr import InputError
from bitr.data import bumpy_shape, cut


def test_shapes_repeat_with_the_seed_and_differ_between_seeds():
    a, b, c = (bumpy_shape(50, torch.Generator().manual_seed(seed)) for seed in (0, 0, 1))
    assert torch.equal(a, b)
    assert not torch.allclose(a, c)
    assert 0.3 < a.norm(dim=-1).mean() < 3


def test_shapes_are_not_symmetric(rng):
    """No axis flip or permutation brings the shape near itself: the moments of third order do not vanish."""
    x = bumpy_shape(4000, rng)
    x = x - x.mean(0)
    third = torch.einsum("na,nb,nc->abc", x, x, x) / len(x)
    assert third.abs().max() > 1e-2


def test_a_cut_keeps_every_point_once_on_two_sides_of_a_plane(rng):
    x = bumpy_shape(101, rng)
    a, b = cut(x, 0.3, rng)
    assert (len(a), len(b)) == (30, 71)
    together = torch.cat([a, b])
    assert torch.equal(together[together[:, 0].argsort()], x[x[:, 0].argsort()])
    labels = torch.cat([torch.zeros(30), torch.ones(71)]).double()
    from scipy.optimize import linprog

    # a plane n·p ≤ d for a, n·p ≥ d for b exists: a feasible linear programme
    sign = 1 - 2 * labels
    rows = torch.cat([sign[:, None] * together, -sign[:, None]], dim=1).numpy()
    assert linprog([0, 0, 0, 0], A_ub=rows, b_ub=[-1e-9] * 101, bounds=[(None, None)] * 4).success


@pytest.mark.parametrize("share", [0.0, 1.0, -0.5, 0.001])
def test_a_cut_that_leaves_an_empty_piece_is_refused(rng, share):
    with pytest.raises(InputError, match="leaves an empty piece"):
        cut(bumpy_shape(100, rng), share, rng)
