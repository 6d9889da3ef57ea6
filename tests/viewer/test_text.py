"""What the page says: nothing from outside becomes HTML, and doubts are told."""

from dataclasses import replace

import numpy as np
import pytest

from bitr.assembly.assemble import Hypothesis
from bitr.assembly.network import Network
from bitr.viewer.solver import Solver
from bitr.viewer.text import (
    answer_html,
    caption_html,
    confidence_text,
    hypotheses_html,
    message_html,
    pose_html,
)
from tests.viewer.cases import session

EVIL = "<img src=x onerror=alert(1)>"


@pytest.fixture(scope="module")
def answer():
    return Solver(Network.of("default")).solve(session(np.random.default_rng(0)))


def with_assembly(answer, **changes):
    return replace(answer, assembly=replace(answer.assembly, **changes))


def test_names_warnings_reasons_and_messages_are_escaped(answer):
    x, y = answer.session.problem.pieces
    pieces = (replace(x, file=replace(x.file, name=EVIL)), y)
    named = replace(answer.session, problem=replace(answer.session.problem, pieces=pieces))
    doubtful = with_assembly(answer, warnings=(EVIL,), ambiguous=True, reason=EVIL)
    texts = [
        answer_html(replace(doubtful, session=named), 1),
        message_html(EVIL),
        caption_html(EVIL, EVIL),
    ]
    for text in texts:
        assert "<img" not in text
        assert "&lt;img" in text


def test_the_facts_are_those_of_the_answer(answer):
    text = answer_html(answer, 7)
    assert f"{answer.law_error:.1e}" in text
    assert f"{1000 * answer.assembly.seconds:.0f} ms an answer" in text
    assert 'data-number="7"' in text
    assert "demo-source.ply<br>2,700 points, 150 seen" in text


def test_confidence_comes_with_what_makes_it_doubtful(answer):
    assert confidence_text(replace(answer.assembly, confidence=0.625)) == "62%"
    assert "without a calibration" in confidence_text(replace(answer.assembly, confidence=None))
    doubtful = replace(answer.assembly, confidence=0.1, ambiguous=True, reason="the source looks the same")
    assert confidence_text(doubtful) == "10%<br>ambiguous: the source looks the same"
    flat = replace(doubtful, degenerate=True, reason="the source has its points on a line")
    assert confidence_text(flat).endswith("degenerate: the source has its points on a line")


def test_hypotheses_are_listed_with_weight_and_distance_from_the_best(answer):
    best = answer.assembly.transformation
    half = best @ np.diag([-1.0, -1.0, 1.0, 1.0])
    two = with_assembly(answer, hypotheses=(Hypothesis(best, 0.7), Hypothesis(half, 0.3)))
    text = hypotheses_html(two)
    assert "70 %" in text
    assert "30 %" in text
    assert "180° from the best" in text
    second = replace(two, session=two.session.choosing(1))
    np.testing.assert_array_equal(second.pose, half)
    np.testing.assert_allclose(second.pose_of_files, answer.session.on_files(half))
    assert pose_html(second) != pose_html(two)


def test_a_choice_that_is_no_longer_there_is_the_last_one(answer):
    np.testing.assert_array_equal(replace(answer, session=answer.session.choosing(5)).pose, answer.pose)
