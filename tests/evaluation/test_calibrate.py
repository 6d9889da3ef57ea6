"""Fitting a verifier, its confidences, and calibration errors by hand."""

import json

import numpy as np
import pytest

from bitr.assembly.finish import METHODS
from bitr.assembly.verify import NAMES, Verifier
from bitr.data import AssemblyPair
from bitr.data.poses import pose
from bitr.errors import InputError
from bitr.evaluation import calibrate as calibrating
from bitr.evaluation.calibrate import Origin, Rows, auroc, calibrate, check, collect, joints_of, reliability
from tests.assembly.cases import cut_pair, linear_verifier, network

ORIGIN = Origin("jugs", "val", 0, 100)
TOLD = NAMES.index("seam")


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    monkeypatch.setattr(calibrating, "STEPS", 60)
    monkeypatch.setattr(calibrating, "RATE", 0.06)
    monkeypatch.setattr(calibrating, "ENSEMBLE", 2)


def rows(count, rng, slope=6.0, candidates=5):
    """Pairs of which one candidate may be right: the larger its seam, the likelier."""
    found = []
    for _ in range(count):
        evidence = rng.normal(size=(candidates, len(NAMES)))
        evidence[:, TOLD] = rng.random(candidates)
        best = int(np.argmax(evidence[:, TOLD]))
        right = np.zeros(candidates, dtype=bool)
        right[best] = rng.random() < 1 / (1 + np.exp(-slope * (evidence[best, TOLD] - 0.7) * 4))
        places = [pose(np.eye(3), np.array([3.0 * i, 0, 0])) for i in range(candidates)]
        methods = tuple("seam" if i == best else "model" for i in range(candidates))
        found.append(Rows(evidence, right, np.stack(places), methods))
    return found


@pytest.mark.slow
def test_the_fit_separates_right_from_wrong():
    rng = np.random.default_rng(0)
    verifier, held_back = calibrate(ORIGIN, rows(200, rng))
    fresh = check(verifier, rows(300, rng)).to_dict()
    assert fresh["auroc"] > 0.75
    assert fresh["expected_calibration_error"] < 0.15
    assert held_back.to_dict()["auroc"] > 0.7
    assert verifier.calibration[1] > 0
    assert verifier.origin["data"] == "jugs"
    assert verifier.origin["auroc"] == held_back.to_dict()["auroc"]
    json.dumps(verifier.to_dict(), allow_nan=False)
    again = Verifier.from_dict(verifier.to_dict())
    np.testing.assert_array_equal(check(again, rows(5, rng)).confidence >= 0, True)


@pytest.mark.slow
def test_few_pairs_added_to_a_base_tell_more_than_alone():
    rng = np.random.default_rng(5)
    base, _ = calibrate(ORIGIN, rows(300, rng))
    few, fresh = rows(60, rng), rows(400, rng)
    added, _ = calibrate(ORIGIN, few, base=base)
    alone, _ = calibrate(ORIGIN, few)
    width = base.hidden.shape[1]
    np.testing.assert_array_equal(added.hidden[:, :width], base.hidden)
    np.testing.assert_array_equal(added.last[:width], base.last)
    assert check(added, fresh).to_dict()["auroc"] > check(alone, fresh).to_dict()["auroc"] + 0.05


@pytest.mark.slow
def test_evidence_that_a_base_does_not_know_counts_in_what_is_added():
    rng = np.random.default_rng(6)
    values = linear_verifier(-2.0).to_dict()
    values["names"] = [name for name in NAMES if name != "seam"]
    for key in ("low", "high", "hidden"):
        values[key] = [value for k, value in enumerate(values[key]) if k != TOLD]
    base = Verifier.from_dict(values)
    added, _ = calibrate(ORIGIN, rows(200, rng), base=base)
    assert check(added, rows(300, rng)).to_dict()["auroc"] > 0.75


def test_noise_is_not_held_for_knowledge():
    """No pair is checked by a fit that saw it."""
    rng = np.random.default_rng(1)
    noise = []
    for each in rows(100, rng):
        right = np.zeros(5, dtype=bool)
        right[rng.integers(5)] = rng.random() < 0.5
        noise.append(Rows(rng.normal(size=each.evidence.shape), right, each.poses, each.methods))
    assert calibrate(ORIGIN, noise)[1].to_dict()["auroc"] < 0.75


@pytest.mark.slow
def test_the_same_rows_and_seed_give_the_same_fit():
    one, other = (calibrate(ORIGIN, rows(60, np.random.default_rng(2)))[0] for _ in range(2))
    assert one.to_dict() == other.to_dict()


@pytest.mark.parametrize("right", [False, True])
def test_answers_that_are_all_alike_do_not_make_it_certain(right):
    given = [
        Rows(each.evidence, np.full(len(each.right), right), each.poses, each.methods)
        for each in rows(60, np.random.default_rng(3))
    ]
    verifier, found = calibrate(ORIGIN, given)
    assert found.to_dict()["auroc"] is None
    assert found.to_dict()["share_right"] == right
    assert 0 < found.confidence.min() <= found.confidence.max() < 1
    assert np.isfinite(verifier.hidden).all()


@pytest.mark.parametrize("count", [0, 49])
def test_too_few_pairs_are_refused(count):
    with pytest.raises(InputError, match=rf"^jugs: {count} pairs, expected at least 50 to fit on$"):
        calibrate(ORIGIN, rows(count, np.random.default_rng(0)))


def test_joints_are_the_methods_of_right_answers():
    given = rows(60, np.random.default_rng(4))
    best = linear_verifier(seam=5.0)
    assert joints_of(best, given) == ("seam", "model")
    others = [Rows(each.evidence, each.right, each.poses, ("touch",) * 5) for each in given]
    assert joints_of(best, others) == ("touch", "model")
    mixed = [*others[:30], *given[:1], *others[30:]]
    assert "seam" not in joints_of(best, mixed)
    assert set(joints_of(best, given + others)) <= set(METHODS)


@pytest.mark.slow
def test_candidates_are_those_of_assemble_with_what_is_right():
    source, reference, truth = cut_pair(300)
    pair = AssemblyPair(source, reference, truth, "pair")
    told = []
    (one,) = collect(network(), [[], [pair]], lambda done, total: told.append((done, total)))
    assert told == [(1, 1)]
    assert one.evidence.shape == (len(one.right), len(NAMES))
    assert len(one.methods) == len(one.poses) == len(one.right)
    assert not one.right.all()


def test_a_worked_example():
    """Two bins of two: 0.15 against 1/2, and 0.8 against 1: half of 0.35 and half of 0.2."""
    found = reliability(np.array([0.9, 0.1, 0.7, 0.2]), np.array([True, False, True, True]), bins=2)
    np.testing.assert_allclose(found.confidence, [0.15, 0.8])
    np.testing.assert_allclose(found.right, [0.5, 1.0])
    assert found.count.tolist() == [2, 2]
    assert found.expected_error == pytest.approx((0.35 + 0.2) / 2)


def test_bins_of_different_size_count_by_their_size():
    found = reliability(np.array([0.0, 0.0, 1.0]), np.array([True, True, True]), bins=2)
    assert found.count.tolist() == [2, 1]
    assert found.expected_error == pytest.approx(2 / 3)


def test_true_probabilities_have_an_error_of_chance_alone_and_others_a_larger_one():
    rng = np.random.default_rng(0)
    p = rng.uniform(size=20_000)
    right = rng.uniform(size=p.size) < p
    assert reliability(p, right).expected_error < 0.01
    assert reliability(p**2, right).expected_error == pytest.approx(1 / 6, abs=0.01)  # ∫ p − p²
    assert reliability(np.full(p.size, p.mean()), right).expected_error < 0.03  # calibrated, and useless


def test_auroc_is_the_chance_that_right_ranks_above_wrong():
    confidence, right = np.array([0.1, 0.4, 0.35, 0.8]), np.array([False, False, True, True])
    assert auroc(confidence, right) == pytest.approx(3 / 4)
    assert auroc(-confidence, right) == pytest.approx(1 / 4)
    assert auroc(np.ones(4), right) == pytest.approx(1 / 2)
    assert auroc(confidence, np.ones(4, dtype=bool)) is None


def test_too_few_answers_are_refused():
    with pytest.raises(InputError, match="3 answers are too few for 10 bins"):
        reliability(np.ones(3), np.ones(3, dtype=bool))
