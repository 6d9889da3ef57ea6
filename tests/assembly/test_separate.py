"""``separate`` at the end of the pipeline: depths, laws, and pieces whose inside is not known."""

from dataclasses import replace

import numpy as np
import pytest

from bitr.assembly.assemble import Settings, assemble_geometries
from bitr.data.poses import inverse, pose
from bitr.io import Geometry
from tests.app.cases import motion, two_pieces
from tests.assembly.cases import network, told
from tests.refine.contact.solids import box

START = pose(np.eye(3), np.array([0.93, 0.02, -0.01]))
"""Puts one unit cube 0.07 deep into the other."""


@pytest.fixture
def assembled(monkeypatch):
    """Assembles with a model that says what it is told to."""

    def run(source, reference, pose, **settings):
        with monkeypatch.context() as patch:
            told(patch, pose)
            return assemble_geometries(
                source, reference, network(fitted=True), Settings(fast=True, points=60, **settings)
            )

    return run


def test_pieces_that_reach_into_each_other_are_brought_apart(assembled):
    a = assembled(box(), box(), START, separate=True)
    assert a.penetration_before == pytest.approx(0.07, abs=0.01)
    assert a.penetration_after < 0.01
    assert a.transformation[0, 3] == pytest.approx(1, abs=0.01)
    assert not a.warnings
    np.testing.assert_array_equal(a.hypotheses[0].transformation, a.transformation)


def test_nothing_is_separated_unless_asked_for(assembled):
    a = assembled(box(), box(), START)
    np.testing.assert_allclose(a.transformation, START, atol=1e-12)
    assert a.penetration_before is None
    assert a.penetration_after is None


def test_the_answer_still_moves_with_the_pieces(assembled):
    source, reference = box(), box()
    expected = assembled(source, reference, START, separate=True).transformation
    g = motion(1)
    moved = replace(source, points=source.points @ g[:3, :3].T + g[:3, 3])
    of_moved = assembled(moved, reference, START @ inverse(g), separate=True).transformation
    swapped = assembled(reference, source, inverse(START), separate=True).transformation
    np.testing.assert_allclose(of_moved, expected @ inverse(g), atol=1e-9)
    np.testing.assert_allclose(swapped, inverse(expected), atol=1e-9)


def test_clouds_without_normals_are_left_and_the_answer_says_so(assembled):
    x, y = (Geometry(points, name=name) for points, name in zip(two_pieces(120), "xy", strict=True))
    a = assembled(x, y, np.eye(4), separate=True)
    np.testing.assert_allclose(a.transformation, np.eye(4), atol=1e-12)
    assert a.penetration_before is None
    assert any("not separated: nothing tells the inside" in warning for warning in a.warnings)


def test_pieces_that_touch_are_brought_apart_without_being_asked(monkeypatch):
    """A finished touch must not penetrate; the depths are told only where they were asked for."""
    told(monkeypatch, START)
    a = assemble_geometries(box(), box(), network(), Settings("touch", points=60))
    assert a.method == "touch"
    assert a.transformation[0, 3] == pytest.approx(1, abs=0.02)
    assert a.penetration_before is None
