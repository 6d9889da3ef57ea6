"""Confidence: signals keep the laws, the fit finds what is there, and its map survives the checkpoint."""

import json
from dataclasses import astuple, replace

import numpy as np
import pytest
import torch
from bitr.app.calibrate import Answers, calibrate, check
from bitr.app.calibration import KEY, Calibration, Origin
from bitr.app.confidence import NAMES, Signals, signals_of
from bitr.app.logistic import Logistic, fit_logistic
from safetensors.torch import load_file

import bitr
from bitr.assembly.network import Network
from bitr.errors import InputError
from bitr.model.checkpoint import note_of, with_note
from bitr.refine import REFINEMENTS
from bitr.refine.fitness import fit
from tests.app.cases import model_file, motion, moved, two_pieces, untrained

ORIGIN = Origin("jugs", "val", 0, 100)
SIGNALS = Signals(1.0, 0.9, 5.0, 0.1, 0.8, 0.7, 1.2, 0.2, 0.3, 2.0)
MODEL = untrained().double()


def signals(x, y, correction=None):
    """Of the model's pose on two arrays, or of that pose and then a correction."""
    with torch.inference_mode():
        solution = MODEL.solve(torch.from_numpy(x)[None], torch.from_numpy(y)[None])
    own = solution.pose.matrix()[0].numpy()
    pose = own if correction is None else correction @ own
    return signals_of(solution, pose, x, y, fit(moved(x, own), y), fit(moved(x, pose), y))


def some_calibration(**maps):
    rng = np.random.default_rng(0)
    found = Logistic(0.3, rng.normal(size=len(NAMES)), np.full(len(NAMES), -9.0), np.full(len(NAMES), 9.0))
    return Calibration(ORIGIN, maps or {"none": found, "icp": replace(found, bias=-1.0)})


def test_motions_swap_and_scale_change_no_signal():
    x, y = two_pieces(200)
    before = astuple(signals(x, y))
    assert all(np.isfinite(before))
    changed = {
        "moved": (moved(x, motion(1)), moved(y, motion(2))),
        "swapped": (y, x),
        "scaled": (1000 * x, 1000 * y),
        "far away": (moved(x, motion(3, size=1e3)), moved(y, motion(4, size=1e3))),
    }
    for name, pair in changed.items():
        np.testing.assert_allclose(astuple(signals(*pair)), before, rtol=1e-6, atol=1e-6, err_msg=name)


def test_the_correction_is_what_came_after_the_model():
    x, y = two_pieces(200)
    turn = np.eye(4)
    turn[:2, :2] = [[0, -1], [1, 0]]
    assert signals(x, y).correction == pytest.approx(0, abs=1e-6)
    after = signals(x, y, correction=turn)
    assert after.correction == pytest.approx(90)
    assert after.fitness_before == signals(x, y).fitness_before


def test_a_rotation_that_all_votes_agree_on_has_length_one_and_no_turn():
    x, y = two_pieces(100)
    with torch.inference_mode():
        solution = MODEL.solve(torch.from_numpy(x)[None], torch.from_numpy(y)[None])
    votes, pose = solution.votes, solution.pose
    onto = pose.act(votes.source_anchor)
    agreed = replace(votes, r_hat=pose.rotation[:, None].expand_as(votes.r_hat), reference_anchor=onto)
    own = pose.matrix()[0].numpy()
    fitted = fit(moved(x, own), y)
    found = signals_of(replace(solution, votes=agreed), own, x, y, fitted, fitted)
    assert found.length == pytest.approx(1)
    assert (found.turn, found.shift) == pytest.approx((0, 0), abs=1e-6)


def test_the_fit_recovers_a_known_logistic_model():
    rng = np.random.default_rng(0)
    features = rng.normal([3, -1, 0], [2, 0.5, 1], size=(20_000, 3))
    weights = np.array([0.5, -2.0, 0.0])
    p = 1 / (1 + np.exp(-(features @ weights - 3.0)))
    found = fit_logistic(features, rng.uniform(size=len(p)) < p)
    np.testing.assert_allclose(found.weights, weights, atol=0.2)  # ends of the range count double
    inside = ((features > found.low) & (features < found.high)).all(1)
    np.testing.assert_allclose(found.probability(features)[inside], p[inside], atol=0.06)


def test_the_probability_rises_with_a_feature_of_right_answers_and_stops_where_none_was_seen():
    features = np.linspace(0, 1, 200)[:, None]
    found = fit_logistic(features, features[:, 0] > 0.5)
    p = found.probability(np.linspace(-5, 5, 101)[:, None])
    assert (np.diff(p) >= 0).all()
    assert p[0] < 0.1
    assert p[-1] > 0.9
    assert found.probability(np.array([[1e9]]))[0] == found.probability(found.high[None])[0] < 1


def test_answers_that_are_all_right_do_not_make_it_certain_and_constants_say_nothing():
    features = np.column_stack([np.full(100, 3.0), np.random.default_rng(0).normal(size=100)])
    found = fit_logistic(features, np.ones(100, dtype=bool))
    assert 0.9 < found.probability(features).min() <= found.probability(features).max() < 1
    assert found.weights[0] == 0


def test_a_calibration_is_checked_on_pairs_that_it_was_not_fitted_on():
    rng = np.random.default_rng(0)

    def answers(n):
        features = rng.normal(size=(n, len(NAMES)))
        return Answers(features, rng.uniform(size=n) < 1 / (1 + np.exp(-2 * features[:, 0])))

    calibration, held_back = calibrate(ORIGIN, {"none": answers(2000)})
    fresh = check(calibration, {"none": answers(4000)})["none"].to_dict()
    assert fresh["expected_calibration_error"] < 0.03
    assert fresh["auroc"] > 0.75
    assert held_back["none"].to_dict()["expected_calibration_error"] < 0.05
    noise = Answers(rng.normal(size=(100, len(NAMES))), rng.uniform(size=100) < 0.5)
    assert calibrate(ORIGIN, {"none": noise})[1]["none"].to_dict()["auroc"] < 0.7  # no pair sees itself


def test_too_few_pairs_are_refused():
    few = Answers(np.zeros((10, len(NAMES))), np.zeros(10, dtype=bool))
    with pytest.raises(InputError, match="10 pairs, expected at least 50"):
        calibrate(ORIGIN, {"none": few})


def test_the_checkpoint_keeps_weights_config_and_calibration(tmp_path):
    path, written = model_file(tmp_path), some_calibration()
    weights, config = load_file(path), note_of(path, "config")
    assert Network.of(path).calibration is None
    written.into(path, path)
    found = Network.of(path).calibration
    assert found.origin == ORIGIN
    assert found.to_json() == written.to_json()
    assert found.confidence("icp", SIGNALS) == written.confidence("icp", SIGNALS)
    assert 0 < found.confidence("icp", SIGNALS) < found.confidence("none", SIGNALS) < 1
    assert found.confidence("ot", SIGNALS) is None
    again = load_file(path)
    assert again.keys() == weights.keys()
    assert all(torch.equal(again[key], weights[key]) for key in weights)
    assert note_of(path, "config") == config
    bitr.save(bitr.load(path), path)
    assert note_of(path, KEY) is None  # other weights may follow, and theirs is another confidence


def test_the_shipped_weights_know_how_sure_they_are_after_every_refinement():
    found = Network.of("default").calibration
    assert (found.origin.data, found.origin.split) == ("shapes", "val")
    assert set(found.maps) == set(REFINEMENTS)


def _without(key):
    values = json.loads(some_calibration().to_json())
    del values["maps"]["none"]["weights"][key]
    return json.dumps(values)


DAMAGED = {
    "no JSON": ("{", "Expecting property name"),
    "a list": ("[1]", "cannot be used"),
    "no maps": ('{"data": "a", "split": "val", "seed": 0, "pairs": 1}', "maps"),
    "maps of a wrong kind": ('{"maps": [1]}', "cannot be used"),
    "an unknown refinement": (
        '{"maps": {"gicp": {}}}',
        "found a map for refine 'gicp', expected one of none",
    ),
    "a signal less": (_without("gap"), "found weights of length, turn"),
    "no number": (some_calibration().to_json().replace('"bias": 0.3', '"bias": "x"'), "could not convert"),
    "NaN": (some_calibration().to_json().replace('"bias": 0.3', '"bias": NaN'), "not finite"),
    "no origin": ('{"maps": {}}', "missing"),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_a_damaged_calibration_is_refused_in_one_line(tmp_path, name):
    text, message = DAMAGED[name]
    path = model_file(tmp_path)
    with_note(path, path, KEY, text)
    with pytest.raises(InputError, match="the calibration inside cannot be used") as error:
        Network.of(path)
    assert message in str(error.value)
    assert str(path) in str(error.value)
    assert "\n" not in str(error.value)
    bitr.load(path)  # the weights are good
