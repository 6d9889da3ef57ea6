"""What the page says: nothing from outside becomes HTML, and doubts are told."""

import re
from dataclasses import replace

import numpy as np
import pytest

from bitr.assembly.network import Network
from bitr.viewer.solver import Solver
from bitr.viewer.text import (
    answer_html,
    caption_html,
    hypotheses_html,
    message_html,
    pose_html,
    status_html,
)
from tests.app.answers import hypothesis
from tests.viewer.cases import place, session

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
    doubtful = with_assembly(answer, warnings=(EVIL,), status="ambiguous", reason=EVIL)
    texts = [
        answer_html(replace(doubtful, session=named), 1),
        status_html(doubtful.assembly),
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
    assert f"{answer.assembly.confidence:.0%}" in text
    assert 'data-number="7"' in text
    assert "demo-source.ply<br>675 points" in text


def test_a_pose_that_is_carried_along_is_told_in_words_and_has_no_law_error(answer):
    moved = replace(answer, session=answer.session.moved(0, place(np.random.default_rng(1))))
    text = answer_html(moved, 1)
    assert "carried along with the pieces, g₂ g g₁⁻¹" in text
    assert f"{answer.law_error:.1e}" not in text
    assert "carried along" not in answer_html(answer, 1)


@pytest.mark.parametrize("status", ["ambiguous", "unsure", "degenerate"])
def test_status_and_reason_are_told_unless_all_is_well(answer, status):
    doubtful = replace(answer.assembly, status=status, reason="the source looks the same")
    assert f"<b>{status}</b>: the source looks the same" in status_html(doubtful)
    assert status_html(doubtful) in answer_html(replace(answer, assembly=doubtful), 1)
    assert status_html(replace(answer.assembly, status="ok", reason=None)) == ""


def test_hypotheses_are_listed_with_what_speaks_for_them(answer):
    best = answer.assembly.transformation
    half = best @ np.diag([-1.0, -1.0, 1.0, 1.0])
    two = with_assembly(answer, hypotheses=(hypothesis(best, 0.7), hypothesis(half, 0.3, "overlap")))
    text = hypotheses_html(two)
    for word in ("70%", "30%", "seam", "overlap", "match", "0.25", "0.75", "50%"):
        assert f">{word}<" in text, word
    second = replace(two, session=two.session.choosing(1))
    np.testing.assert_array_equal(second.pose, half)
    np.testing.assert_allclose(second.pose_of_files, answer.session.on_files(half))
    assert [row.split("<td")[0].count('aria-current="true"') for row in _rows(hypotheses_html(second))] == [
        0,
        1,
    ]


def _rows(table):
    return table.split("<tbody>")[1].split("<tr")[1:]


def test_the_pose_is_copied_with_all_digits(answer):
    copied = re.search(r'data-copy="(.*?)"', pose_html(answer), re.DOTALL)[1]
    np.testing.assert_array_equal(np.loadtxt(copied.splitlines()), answer.pose_of_files)


def test_a_choice_that_is_no_longer_there_is_the_last_one(answer):
    np.testing.assert_array_equal(replace(answer, session=answer.session.choosing(5)).pose, answer.pose)
