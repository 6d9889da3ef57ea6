"""Where motions come from: the model under several samplings, copies, and a pose that is given."""

import numpy as np
import pytest

from bitr.assembly.align import Freedom
from bitr.assembly.finish import METHODS
from bitr.assembly.propose import propose, widen
from bitr.assembly.sample import sample
from bitr.errors import InputError
from bitr.io import Geometry
from tests.assembly.cases import SMALL, cut_pair, small_model, turn_between
from tests.pieces import motion, moved, two_pieces, untrained

ALL = frozenset(METHODS)
MODEL = small_model()


def proposed(x, y, methods=ALL, init=None, samplings=2, model=MODEL):
    pair = Geometry(x, name="x"), Geometry(y, name="y")
    sampled = sample(*pair, model.config, 100, samplings)
    return sampled, propose(sampled, model, methods, init)


def test_the_model_is_asked_once_for_each_sampling():
    sampled, found = proposed(*two_pieces(500), frozenset(["model"]), samplings=3)
    heads = 1 if found.solution.heads is None else found.solution.heads.score.shape[1]
    assert found.model.shape == (3 * heads, 4, 4)
    assert found.share.sum() == pytest.approx(1)
    assert [len(each) for each in (found.match, found.seam, found.copy, found.given)] == [0] * 4
    if heads == 1:
        own = sampled.frame.inside(found.solution.pose.matrix()[0].double().numpy())
        np.testing.assert_allclose(found.model[0], own, atol=1e-12)
        assert np.abs(found.model[0] - found.model[1]).max() > 1e-6


def test_a_copy_in_another_order_is_found_exactly():
    x = two_pieces(600)[0]
    g, order = motion(3), np.random.default_rng(0).permutation(len(x))
    sampled, found = proposed(x, moved(x, g)[order], frozenset(["overlap"]), samplings=1)
    assert len(found.copy) == 1
    pose = sampled.frame.outside(found.copy[0])
    assert turn_between(pose, g) < 1e-6
    np.testing.assert_allclose(pose, g, atol=1e-9)


@pytest.mark.parametrize("what", ["a point less", "noise", "another piece", "a mirror image"])
def test_what_is_no_copy_is_not_taken_for_one(what):
    x, other = two_pieces(600)
    y = {
        "a point less": x[1:],
        "noise": x + 1e-3 * np.random.default_rng(0).normal(size=x.shape),
        "another piece": other[: len(x)],
        "a mirror image": x * [1, 1, -1],
    }[what]
    assert len(proposed(x, y, frozenset(["overlap"]), samplings=1)[1].copy) == 0


def test_only_the_kinds_of_joint_that_are_asked_for_are_looked_at():
    x, y, _ = cut_pair(600)
    for methods in (["overlap"], ["seam"], ["touch", "model"]):
        found = proposed(x.points, y.points, frozenset(methods), samplings=1)[1]
        assert (len(found.seam) > 0) == ("seam" in methods)
        assert (len(found.correspondences.source) > 0) == ("overlap" in methods)


def test_a_given_pose_is_a_proposal():
    g = motion(4)
    sampled, found = proposed(*two_pieces(200), frozenset(["model"]), init=g)
    np.testing.assert_allclose(sampled.frame.outside(found.given[0]), g, atol=1e-12)


def test_a_second_look_at_few_points_does_not_bring_the_same_motions_twice():
    found = proposed(*two_pieces(500), frozenset(["overlap"]), samplings=1)[1]
    apart = [np.abs(a - b).max() for i, a in enumerate(found.match) for b in found.match[:i]]
    assert min(apart, default=1.0) > 1e-3


@pytest.mark.slow
@pytest.mark.parametrize("turns", ["z", "none"])
def test_a_second_look_seeks_among_all_motions_and_brings_them_to_those_allowed(turns):
    sampled, found = proposed(*two_pieces(500), frozenset(["overlap", "seam"]), samplings=1)
    free, freedom = widen(sampled, found), Freedom(turns)
    with freedom.hold():
        held = widen(sampled, found)
    for name in ("match", "seam"):
        before, own, other = (getattr(each, name) for each in (found, held, free))
        new = freedom.project(other[len(before) :])
        np.testing.assert_allclose(own, np.concatenate([before, new]), atol=1e-12)
    assert len(held.match) > len(found.match)


def test_what_the_model_refuses_names_both_files():
    model = untrained(colors=True).double()
    x, y = (Geometry(p, name=name) for p, name in zip(two_pieces(200), ("a.ply", "b.ply"), strict=True))
    with pytest.raises(InputError, match=r"a\.ply|b\.ply"):
        propose(sample(x, y, model.config, 100, 1), model, ALL, None)


def test_the_smallest_model_is_enough_for_these_tests():
    assert MODEL.config == SMALL
