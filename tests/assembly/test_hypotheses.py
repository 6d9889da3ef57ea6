"""Several hypotheses: those of symmetric pieces cover all poses that fit, and their weights add up to 1."""

import json

import numpy as np
import pytest

from bitr.assembly.align import angles
from bitr.assembly.assemble import Settings, assemble_geometries
from bitr.assembly.symmetry import turns_about
from bitr.data.poses import inverse
from bitr.io import Geometry
from tests.assembly.cases import linear_verifier, network, told
from tests.assembly.shapes import SOLIDS, ball, bottle, solid
from tests.pieces import motion, moved, two_pieces

NAMED = ["cube", "tetrahedron", "prism 3", "prism 6"]
MODEL_ONLY = network(linear_verifier(3.0), joints=("model",))
"""Takes the model's poses as they are, and believes them all."""


@pytest.fixture
def model_says(monkeypatch):
    return lambda pose: told(monkeypatch, pose)


def assembled(x, y, chosen=MODEL_ONLY, **settings):
    return assemble_geometries(Geometry(x, name="x"), Geometry(y, name="y"), chosen, Settings(**settings))


def between(poses, expected):
    """Degrees between the rotations of two sets of poses, each with each."""
    return np.degrees(angles(poses[:, None, :3, :3] @ expected[:, :3, :3].swapaxes(1, 2)))


def poses_of(assembly):
    return np.stack([h.transformation for h in assembly.hypotheses])


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMED)
def test_hypotheses_cover_the_orbit_of_a_solid_with_equal_weights(model_says, name):
    g1, g2 = motion(1), motion(2)
    x, y = moved(solid(name, 0), g1), moved(solid(name, 1), g2)
    model_says(g2 @ inverse(g1))
    answer = assembled(x, y, hypotheses=64)
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
    answer = assembled(x, y)
    assert len(answer.hypotheses) == 1
    assert answer.status == "ambiguous"
    assert answer.status != "degenerate"
    assert answer.reason.startswith("the source looks the same after")


def test_a_bottle_comes_back_turned_about_its_axis(model_says):
    g1, g2 = motion(1), motion(2)
    model_says(g2 @ inverse(g1))
    answer = assembled(moved(bottle(0), g1), moved(two_pieces(800)[0], g2), hypotheses=16)
    turns = turns_about(np.array([0.0, 0, 1]), np.radians(22.5) * np.arange(16))
    found = between(poses_of(answer), np.stack([g2[:3, :3] @ r @ g1[:3, :3].T for r in turns]))
    assert len(answer.hypotheses) == 16
    assert found.min(0).max() < 6
    assert np.allclose([h.weight for h in answer.hypotheses], 1 / 16)
    assert answer.reason == "the source looks the same after any turn about one axis"


def test_of_two_bottles_there_is_one_circle_of_poses(model_says):
    model_says(np.eye(4))
    answer = assembled(bottle(0), bottle(1), hypotheses=8)
    assert len(answer.hypotheses) == 8
    turns = np.stack([np.eye(4)] * 8)
    turns[:, :3, :3] = turns_about(np.array([0.0, 0, 1]), np.radians(45) * np.arange(8))
    assert between(poses_of(answer), turns).min(0).max() < 10
    assert answer.reason == "both pieces look the same after any turn about one axis"


def test_a_ball_comes_back_turned_everywhere():
    answer = assembled(ball(900, np.random.default_rng(0)), two_pieces(800)[0], hypotheses=20)
    apart = between(poses_of(answer), poses_of(answer)) + 360 * np.eye(len(answer.hypotheses))
    assert len(answer.hypotheses) == 20
    assert apart.min() > 40


@pytest.mark.slow
def test_with_icp_every_image_is_brought_to_its_place(model_says):
    off = motion(3, size=0.02)
    off[:3, :3] = turns_about(np.array([0.6, 0.0, 0.8]), np.radians([7.0]))[0]
    model_says(off)
    pair = solid("prism 3", 0), solid("prism 3", 1)
    errors = {}
    for method, joints in (("model", ("model",)), ("overlap", ("overlap", "model"))):
        chosen = network(linear_verifier(3.0, **{f"is_{method}": 3.0}), joints=joints)
        answer = assembled(*pair, chosen, hypotheses=6, method=method)
        expected = np.stack([np.eye(4)] * 6)
        expected[:, :3, :3] = SOLIDS["prism 3"][1]
        errors[method] = between(poses_of(answer), expected).min(1)
    assert errors["model"].max() > 4
    assert errors["overlap"].max() < 2.5


def test_few_hypotheses_are_the_first_of_many():
    x, y = bottle(0, n=400), two_pieces(300)[1]
    few, many = (assembled(x, y, hypotheses=most) for most in (3, 12))
    assert np.array_equal(poses_of(few), poses_of(many)[:3])


@pytest.mark.slow
def test_more_hypotheses_keep_the_best_first():
    x, y = two_pieces(400)
    chosen = network()
    one, several = (assembled(x, y, chosen, hypotheses=most) for most in (1, 12))
    assert 1 < len(several.hypotheses) <= 12
    np.testing.assert_array_equal(several.transformation, one.transformation)
    np.testing.assert_array_equal(several.transformation, several.hypotheses[0].transformation)
    weights = [h.weight for h in several.hypotheses]
    assert weights == sorted(weights, reverse=True)
    assert sum(weights) == pytest.approx(1)
    assert {h.method for h in several.hypotheses} > {"seam"}


def test_json_has_every_hypothesis(model_says):
    model_says(np.eye(4))
    answer = assembled(solid("pyramid 3", 0), two_pieces(300)[0], hypotheses=3)
    found = json.loads(answer.to_json())
    assert len(found["hypotheses"]) == 3
    for row, hypothesis in zip(found["hypotheses"], answer.hypotheses, strict=True):
        assert np.array_equal(row["transformation"], hypothesis.transformation)
        assert row["weight"] == hypothesis.weight
    assert found["status"] == "ambiguous"
    assert found["reason"].startswith("the source looks the same after turns by 120° about one axis")
    assert [h["origin"] for h in found["hypotheses"]] == ["model", "symmetry", "symmetry"]
