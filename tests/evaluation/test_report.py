"""Pairs from the best to the worst, and the columns of a table."""

from dataclasses import replace

import numpy as np

from bitr.evaluation.evaluate import ERRORS, Errors, Evaluation, Score
from bitr.evaluation.report import Repeated, ranked, table


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


def test_metrics_of_fractures_are_shown_for_shapes_and_not_for_scenes():
    found = evaluation(3.0, None)
    shown = table([Repeated("m", (found,))])
    for head in ("part accuracy", "RMSE(R), Euler (°)", "RMSE(T) · 100", "CD · 1000", "CRD · 100"):
        assert f"| {head} |" in shown
    scenes = Evaluation("m", tuple(replace(score, unit="m") for score in found.scores))
    assert "RMSE(R)" not in table([Repeated("m", (scenes,))])


def test_factors_of_the_papers_are_those_of_the_columns():
    errors = replace(score("pair", 3.0).errors, crd=0.0028, cd=0.0005)
    one = replace(score("pair", 3.0), errors=errors)
    heads, _, cells = table([Repeated("m", (Evaluation("m", (one,)),))]).splitlines()[:3]
    shown = dict(zip(heads.split(" | "), cells.split(" | "), strict=True))
    assert shown["CRD · 100"] == "0.28 ± 0"
    assert shown["CD · 1000"] == "0.5 ± 0"
