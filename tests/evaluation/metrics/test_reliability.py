"""Calibration errors by hand, and of probabilities that are or are not what comes true."""

import numpy as np
import pytest

from bitr.errors import InputError
from bitr.evaluation.metrics.reliability import auroc, reliability


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
