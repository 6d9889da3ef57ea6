"""Recall: the thresholds of the benchmarks, and means over scenes, worked out by hand."""

import numpy as np
import pytest

from bitr.evaluation.metrics import BENCHMARKS, recall

BY_NAME = {benchmark.name: benchmark for benchmark in BENCHMARKS}


@pytest.mark.parametrize(
    ("name", "degrees", "length"), [("KITTI", 5, 2), ("ETH", 2, 0.3), ("ModelNet", 1, 0.1)]
)
def test_both_errors_must_be_below_the_thresholds(name, degrees, length):
    below = np.array([0.99, 1.01, 0.99, 1.0, np.nan])
    other = np.array([0.99, 0.99, 1.01, 0.5, np.nan])
    accepted = BY_NAME[name].accepts(degrees * below, length * other)
    assert accepted.tolist() == [True, False, False, False, False]


def test_errors_are_of_the_accepted_pairs_alone():
    # two of four accepted: (1 + 3)/2 degrees, (0.1 + 0.5)/2 long; one failed, one is far off
    degrees, lengths = np.array([1.0, 3.0, 170.0, np.nan]), np.array([0.1, 0.5, 9.0, np.nan])
    found = recall(BY_NAME["KITTI"].accepts(degrees, lengths), degrees, lengths)
    assert found.recall == 0.5
    assert found.rre == pytest.approx(2)
    assert found.rte == pytest.approx(0.3)


def test_scenes_weigh_the_same():
    # kitchen: 1 of 1; hall: 1 of 3; loft: 0 of 1. Recall (1 + 1/3 + 0)/3 = 4/9, and 2/5 without scenes
    accepted = np.array([True, True, False, False, False])
    degrees, lengths = np.array([4.0, 2.0, 90.0, 90.0, 90.0]), np.zeros(5)
    found = recall(accepted, degrees, lengths, ["kitchen", "hall", "hall", "hall", "loft"])
    assert found.recall == pytest.approx(4 / 9)
    assert found.rre == pytest.approx(3)
    assert recall(accepted, degrees, lengths).recall == pytest.approx(2 / 5)


def test_nothing_accepted_has_no_errors():
    found = recall(np.array([False, False]), np.full(2, 99.0), np.full(2, 99.0))
    assert (found.recall, found.rre, found.rte) == (0, None, None)
