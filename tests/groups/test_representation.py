import torch

from bitr import Rigid
from bitr.groups import Rep, components
from tests.conftest import assert_same_field, random_field
from tests.reference.actions import swap, turn

REP = Rep({(0, 0): 2, (1, 0): 3, (0, 1): 3, (2, 1): 1, (1, 2): 1})


def test_turning_twice_is_turning_by_the_product(rng):
    f = random_field(REP, 4, rng)
    a, b, c, d = (Rigid.random(rng).rotation for _ in range(4))
    assert_same_field(turn(turn(f, a, b), c, d), turn(f, c @ a, d @ b))


def test_turning_keeps_the_length_of_each_feature(rng):
    f = random_field(REP, 4, rng)
    turned = turn(f, Rigid.random(rng).rotation, Rigid.random(rng).rotation)
    for degree in f:
        torch.testing.assert_close(turned[degree].norm(dim=1), f[degree].norm(dim=1))


def test_swapping_twice_changes_nothing(rng):
    f = random_field(REP, 4, rng)
    assert_same_field(swap(swap(f)), f)


def test_swap_exchanges_the_two_rotations(rng):
    f = random_field(REP, 4, rng)
    r1, r2 = Rigid.random(rng).rotation, Rigid.random(rng).rotation
    assert_same_field(swap(turn(f, r1, r2)), turn(swap(f), r2, r1))


def test_a_representation_lists_its_degrees_in_order_and_drops_empty_ones():
    rep = Rep({(1, 1): 2, (0, 0): 4, (1, 0): 0})
    assert list(rep.items()) == [((0, 0), 4), ((1, 1), 2)]
    assert sum(components(d) * c for d, c in Rep.two_sided(1, 4).items()) == 64
    assert list(Rep.one_sided(2, 3)) == [(0, 0), (1, 0), (2, 0)]
