"""Several hypotheses: those of symmetric pieces cover all poses that fit, and all of them obey the laws."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from bitr.app.answer import answer

import bitr
from bitr import BITR, Rigid
from bitr.app import answer as answering
from bitr.assembly.assemble import Settings
from bitr.assembly.network import Network
from bitr.data.poses import inverse, pose
from bitr.hypotheses.turning import about, angles
from bitr.io import Geometry
from tests.app.cases import motion, moved, scaled, two_pieces, untrained
from tests.hypotheses.shapes import SOLIDS, ball, bottle, solid
from tests.refine.contact.solids import box

NAMED = ["cube", "tetrahedron", *(f"prism {k}" for k in range(2, 7))]
MODEL = untrained()


@pytest.fixture
def model_says(monkeypatch):
    """Makes the model answer with a given pose, whatever it sees; without votes, or with its own."""
    solve = BITR.solve

    def say(pose, voting=False):
        told = {"pose": Rigid.from_matrix(torch.from_numpy(pose)[None])} | ({} if voting else {"votes": None})
        monkeypatch.setattr(BITR, "solve", lambda *inputs: replace(solve(*inputs), **told))

    return say


def between(poses, expected):
    """Degrees between the rotations of two sets of poses, each with each."""
    return np.degrees(angles(poses[:, None, :3, :3] @ expected[:, :3, :3].swapaxes(1, 2)))


def poses_of(assembly):
    return np.stack([h.transformation for h in assembly.hypotheses])


def set_gap(actual, expected, size):
    """The largest difference between two sets of poses."""
    assert len(actual) == len(expected)
    gap = np.abs(actual[:, None] - expected) / np.array([[1, 1, 1, size]] * 3 + [[1, 1, 1, 1]])
    return max(gap.max((2, 3)).min(0).max(), gap.max((2, 3)).min(1).max())


@pytest.mark.parametrize("name", NAMED)
def test_hypotheses_cover_the_orbit_of_a_solid_with_equal_weights(model_says, name):
    g1, g2 = motion(1), motion(2)
    x, y = moved(solid(name, 0), g1), moved(solid(name, 1), g2)
    model_says(g2 @ inverse(g1))
    answer = bitr.assemble(x, y, model=MODEL, hypotheses=64)
    group = SOLIDS[name][1]
    found = between(poses_of(answer), np.stack([g2[:3, :3] @ r @ g1[:3, :3].T for r in group]))
    assert len(answer.hypotheses) == len(group)
    assert found.min(0).max() < 8
    assert found.min(1).max() < 8
    assert len({h.weight for h in answer.hypotheses}) == 1
    assert sum(h.weight for h in answer.hypotheses) == pytest.approx(1)
    centers = moved(x.mean(0), poses_of(answer)[0]), y.mean(0)
    assert np.linalg.norm(centers[0] - centers[1]) < 0.1


@pytest.mark.parametrize("name", NAMED)
def test_one_hypothesis_for_a_symmetric_piece_is_told_to_be_ambiguous(name):
    x, (_, y) = moved(solid(name, 0), motion(1)), two_pieces(200)
    answer = bitr.assemble(x, y, model=MODEL)
    assert len(answer.hypotheses) == 1
    assert answer.ambiguous
    assert not answer.degenerate
    assert answer.reason.startswith("the source looks the same after")


def test_a_bottle_comes_back_turned_about_its_axis(model_says):
    g1, g2 = motion(1), motion(2)
    model_says(g2 @ inverse(g1))
    answer = bitr.assemble(moved(bottle(0), g1), moved(two_pieces(800)[0], g2), model=MODEL, hypotheses=16)
    turns = about(np.array([0.0, 0, 1]), np.radians(22.5) * np.arange(16))
    found = between(poses_of(answer), np.stack([g2[:3, :3] @ r @ g1[:3, :3].T for r in turns]))
    assert len(answer.hypotheses) == 16
    assert found.min(0).max() < 6
    assert np.allclose([h.weight for h in answer.hypotheses], 1 / 16)
    assert answer.reason == "the source looks the same after any turn about one axis"


def test_of_two_bottles_there_is_one_circle_of_poses(model_says):
    model_says(np.eye(4))
    answer = bitr.assemble(bottle(0), bottle(1), model=MODEL, hypotheses=8)
    assert len(answer.hypotheses) == 8
    turns = np.stack([np.eye(4)] * 8)
    turns[:, :3, :3] = about(np.array([0.0, 0, 1]), np.radians(45) * np.arange(8))
    assert between(poses_of(answer), turns).min(0).max() < 10
    assert answer.reason == "both pieces look the same after any turn about one axis"


def test_a_ball_comes_back_turned_everywhere():
    answer = bitr.assemble(
        ball(900, np.random.default_rng(0)), two_pieces(800)[0], model=MODEL, hypotheses=20
    )
    apart = between(poses_of(answer), poses_of(answer)) + 360 * np.eye(len(answer.hypotheses))
    assert len(answer.hypotheses) == 20
    assert apart.min() > 40


def test_of_two_cubes_images_of_a_wrong_pose_leave_room(monkeypatch):
    """The model's pose is far off, that of the last weights is right; its images come first."""
    wrong = np.eye(4)
    wrong[:3, :3] = about(np.array([0.6, 0.0, 0.8]), np.radians([40.0]))[0]
    told = [np.eye(4), wrong]
    solve = BITR.solve

    def say(*inputs):
        pose = Rigid.from_matrix(torch.from_numpy(told.pop())[None])
        return replace(solve(*inputs), pose=pose, votes=None)

    monkeypatch.setattr(BITR, "solve", say)
    x, y = (Geometry(solid("cube", seed), name="cube") for seed in range(2))
    found = answer(x, y, Network(MODEL, "two", last=MODEL), Settings(hypotheses=64)).hypotheses
    assert not told
    expected = np.stack([np.eye(4)] * 24)
    expected[:, :3, :3] = SOLIDS["cube"][1]
    assert len(found.poses) == 48
    assert between(found.poses[:24], expected).min(0).max() < 8
    assert between(found.poses[24:], expected).min(1).min() > 20


def test_with_refinement_every_image_is_brought_to_its_place(model_says):
    off = motion(3, size=0.02)
    off[:3, :3] = about(np.array([0.6, 0.0, 0.8]), np.radians([7.0]))[0]
    model_says(off)
    pair = solid("prism 3", 0), solid("prism 3", 1)
    errors = {}
    for refine in ("none", "icp"):
        answer = bitr.assemble(*pair, model=MODEL, hypotheses=8, refine=refine)
        expected = np.stack([np.eye(4)] * 6)
        expected[:, :3, :3] = SOLIDS["prism 3"][1]
        errors[refine] = between(poses_of(answer), expected).min(1)
        assert len(answer.hypotheses) == 6
    assert errors["none"].max() > 4
    assert errors["icp"].max() < 2.5


@pytest.mark.parametrize("refine", ["none", "icp"])
def test_moved_swapped_and_scaled_pieces_give_moved_inverted_and_scaled_hypotheses(refine):
    """As sets, with their weights; for pieces of which one is symmetric, and of which none is."""
    g1, g2, factor = motion(1), motion(2), 1000.0
    for x, y in ((solid("pyramid 2", 0, n=200), two_pieces(300)[1]), two_pieces(300)):
        plain = bitr.assemble(x, y, model=MODEL, hypotheses=64, refine=refine)
        other = bitr.assemble(
            factor * moved(y, g2), factor * moved(x, g1), model=MODEL, hypotheses=64, refine=refine
        )
        expected = [scaled(g1 @ inverse(g) @ inverse(g2), factor) for g in poses_of(plain)]
        assert set_gap(poses_of(other), np.stack(expected), factor) < 1e-4
        weights = [[h.weight for h in answer.hypotheses] for answer in (plain, other)]
        assert np.allclose(*weights)
        assert len(weights[0]) > 1


@pytest.mark.parametrize("name", ["pyramid 5", "prism 3"])
def test_the_first_hypothesis_and_the_weights_obey_a_swap_however_few_are_asked_for(name):
    x, y = solid(name, 0, n=200), two_pieces(300)[1]
    for most in (2, 3):
        plain, swapped = (bitr.assemble(*pair, model=MODEL, hypotheses=most) for pair in ((x, y), (y, x)))
        assert set_gap(inverse(poses_of(swapped)[:1]), poses_of(plain)[:1], 1.0) < 1e-4
        weights = [[h.weight for h in answer.hypotheses] for answer in (plain, swapped)]
        assert np.allclose(*weights)


def test_few_hypotheses_are_the_first_of_many():
    x, y = bottle(0, n=400), two_pieces(300)[1]
    few, many = (bitr.assemble(x, y, model=MODEL, hypotheses=most) for most in (3, 64))
    assert np.array_equal(poses_of(few), poses_of(many)[:3])


def test_what_tells_how_sure_an_answer_is_comes_from_before_it_was_separated(model_says):
    """As in the fit of the confidence, where nothing is separated."""
    model_says(pose(np.eye(3), np.array([0.9, 0.0, 0.0])), voting=True)
    network, settings = Network(MODEL, "told"), Settings(budget=60)
    plain = answer(box(), box(), network, settings)
    apart = answer(box(), box(), network, replace(settings, separate=True))
    assert apart.pose[0, 3] > plain.pose[0, 3] + 0.05
    assert apart.after != plain.after
    assert plain.signals is not None
    assert apart.signals == plain.signals


def test_more_hypotheses_keep_the_models_own_pose():
    x, y = two_pieces(600)
    one = bitr.assemble(x, y, model=MODEL)
    several = bitr.assemble(x, y, model=MODEL, hypotheses=64)
    assert 1 < len(several.hypotheses) <= 64
    assert any(np.array_equal(pose, one.transformation) for pose in poses_of(several))
    assert np.array_equal(several.transformation, several.hypotheses[0].transformation)
    weights = [h.weight for h in several.hypotheses]
    assert weights == sorted(weights, reverse=True)
    assert sum(weights) == pytest.approx(1)
    assert len(bitr.assemble(x, y, model=MODEL, hypotheses=2).hypotheses) == 2


def test_the_last_weights_of_a_run_propose_a_pose_too(monkeypatch):
    said = []
    monkeypatch.setattr(answering.log, "info", lambda text, *values: said.append(text % values))
    x, y = (Geometry(points, name="piece") for points in two_pieces(400))
    network = Network(MODEL, "two", last=untrained(seed=1))
    found = answer(x, y, network, Settings(hypotheses=64))
    expected = answer(x, y, Network(untrained(seed=1), "last"), Settings()).pose
    assert any(line.endswith(": last weights") for line in said)
    assert np.abs(found.hypotheses.poses - expected).max((1, 2)).min() < 1e-9
    said.clear()
    answer(x, y, network, Settings())
    assert said
    assert not any("last weights" in line for line in said)


def test_json_has_every_hypothesis(model_says):
    model_says(np.eye(4))
    answer = bitr.assemble(solid("pyramid 3", 0), two_pieces(300)[0], model=MODEL, hypotheses=4)
    found = json.loads(answer.to_json())
    assert len(found["hypotheses"]) == 3
    for row, hypothesis in zip(found["hypotheses"], answer.hypotheses, strict=True):
        assert np.array_equal(row["transformation"], hypothesis.transformation)
        assert row["weight"] == hypothesis.weight
    assert found["ambiguous"] is True
    assert found["degenerate"] is False
    assert found["reason"] == "the source looks the same after turns by 120° about one axis"
