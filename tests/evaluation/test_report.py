"""Pairs from the best to the worst."""

import numpy as np

from bitr.evaluation.evaluate import ERRORS, Errors, Evaluation, Score
from bitr.evaluation.report import Repeated, ranked


def score(id, degrees):
    if degrees is None:
        return Score(id, "", None, None, None, "refused")
    return Score(id, "", None, np.eye(4), Errors(degrees, *[0.0] * (len(ERRORS) - 2), None), None)


def evaluation(*degrees):
    return Evaluation("m", tuple(score(f"pair {i}", each) for i, each in enumerate(degrees)))


def test_the_smallest_error_comes_first_and_pairs_without_an_answer_last():
    found = ranked(Repeated("m", (evaluation(3.0, None, 1.0), evaluation(2.0))))
    assert [(each.sampling, each.number) for each in found] == [(0, 2), (1, 0), (0, 0), (0, 1)]
    assert found[1].name == "pair 0, sampling 2"
    assert ranked(Repeated("m", (evaluation(1.0),)))[0].name == "pair 0"
