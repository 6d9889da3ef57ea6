"""Methods on changed pairs, and their law errors on one pair."""

from dataclasses import replace

import numpy as np
import pytest

from bitr.data.poses import pose, random_pose, turn_about
from bitr.evaluation.evaluate import errors_of, evaluate
from bitr.evaluation.method import (
    PERTURBATIONS,
    Method,
    all_laws_error,
    law_errors_on,
    law_row,
    model_alone,
    scaled,
    swapped,
    under,
)
from bitr.testing import Laws
from tests.data.cases import answer_error, pair_of
from tests.pieces import untrained

TESTS = tuple(PERTURBATIONS)
BOUND = Method("bound", lambda pair: pair.ref_from_src)
IDENTITY = Method("identity", lambda pair: np.eye(4))


@pytest.fixture
def pair():
    return pair_of(40, np.random.default_rng(0))


def with_symmetry(pair):
    motions = np.stack([np.eye(4), random_pose(np.random.default_rng(5), 0.3)])
    axis = np.array([[0.1, 0.2, 0.3], [0.5, -0.4, 0.9]])
    return replace(pair, symmetry=motions, axis=axis)


@pytest.mark.parametrize("test", TESTS)
def test_the_answer_changes_along(test, pair):
    changed = PERTURBATIONS[test](pair, np.random.default_rng(1))
    np.testing.assert_allclose(
        changed.original_pose(changed.pair.ref_from_src), pair.ref_from_src, atol=1e-12
    )
    if test != "scaled":  # the colours tell places in the original's unit
        assert answer_error(changed.pair) < 1e-9


def test_scaled_means_twice_as_large(pair):
    changed = scaled(pair, np.random.default_rng(0)).pair
    np.testing.assert_array_equal(changed.source.points, 2 * pair.source.points)
    np.testing.assert_array_equal(changed.ref_from_src[:3, 3], 2 * pair.ref_from_src[:3, 3])
    np.testing.assert_array_equal(changed.ref_from_src[:3, :3], pair.ref_from_src[:3, :3])


def test_swapped_means_the_other_way_round(pair):
    changed = swapped(pair, np.random.default_rng(0)).pair
    assert changed.source is pair.reference
    assert changed.reference is pair.source
    np.testing.assert_allclose(changed.ref_from_src @ pair.ref_from_src, np.eye(4), atol=1e-12)


@pytest.mark.parametrize("test", TESTS)
def test_symmetries_change_along(test, pair):
    """Every right answer of the changed pair is a right answer of the original, and no other."""
    symmetric = with_symmetry(pair)
    changed = PERTURBATIONS[test](symmetric, np.random.default_rng(1))
    right = symmetric.ref_from_src @ symmetric.symmetry
    for answer, expected in zip(changed.pair.ref_from_src @ changed.pair.symmetry, right, strict=True):
        np.testing.assert_allclose(changed.original_pose(answer), expected, atol=1e-12)


@pytest.mark.parametrize("test", TESTS)
def test_an_axis_changes_along(test, pair):
    """A turn about it is a right answer of either pair; in a swapped pair all turns are the other way."""
    symmetric = with_symmetry(pair)
    changed = PERTURBATIONS[test](symmetric, np.random.default_rng(1))
    answer = changed.pair.ref_from_src @ turn_about(changed.pair.axis, -0.7 if test == "swapped" else 0.7)
    expected = symmetric.ref_from_src @ turn_about(symmetric.axis, 0.7)
    np.testing.assert_allclose(changed.original_pose(answer), expected, atol=1e-12)


def test_the_scaled_translation_error_is_in_the_originals_unit(pair):
    off = Method("off", lambda pair: pose(np.eye(3), np.array([0.3, 0.0, 0.0])) @ pair.ref_from_src)
    found = evaluate(under(off, "scaled", np.random.default_rng(0)), [pair]).scores[0].errors
    assert found.translation_error == pytest.approx(0.15)
    assert found.displacement == pytest.approx(0.15)


def test_motions_come_from_the_generator(pair):
    poses = [under(IDENTITY, "moved", np.random.default_rng(seed)).solve(pair) for seed in (0, 0, 1)]
    np.testing.assert_array_equal(poses[0], poses[1])
    assert np.abs(poses[0] - poses[2]).max() > 0.1


@pytest.mark.parametrize("test", TESTS)
def test_a_lawful_model_errs_alike_in_all_tests(test, pair):
    method = model_alone(untrained().double(), None)
    expected = errors_of(pair, method.pose(pair))
    found = evaluate(under(method, test, np.random.default_rng(2)), [pair]).scores[0].errors
    assert found.rotation_error_deg == pytest.approx(expected.rotation_error_deg, abs=1e-5)
    assert found.translation_error == pytest.approx(expected.translation_error, abs=1e-6)


def test_a_model_without_swap_fails_the_swapped_test_alone(pair):
    method = model_alone(untrained(swap=False).double(), None)
    degrees = {
        test: evaluate(under(method, test, np.random.default_rng(2)), [pair])
        .scores[0]
        .errors.rotation_error_deg
        for test in TESTS
    }
    for test in ("scaled", "moved"):
        assert degrees[test] == pytest.approx(degrees["original"], abs=1e-5)
    assert abs(degrees["swapped"] - degrees["original"]) > 0.1


def test_a_bound_may_look_at_the_perturbed_answer(pair):
    for test in TESTS:
        errors = evaluate(under(BOUND, test, np.random.default_rng(3)), [pair]).scores[0].errors
        assert errors.rotation_error_deg < 1e-5
        assert errors.displacement < 1e-9


@pytest.mark.parametrize("test", TESTS)
def test_the_confidence_of_an_answer_is_kept(test, pair):
    method = model_alone(untrained().double(), None)
    expected = method.solve(pair).confidence
    score = evaluate(under(method, test, np.random.default_rng(2)), [pair]).scores[0]
    assert score.confidence == pytest.approx(expected, abs=1e-6)


def law_errors(solve, pair):
    return law_errors_on(Method("m", solve), pair, solve(pair), np.random.default_rng(1))


def test_the_true_pose_keeps_all_laws(pair):
    laws = law_errors(lambda each: each.ref_from_src, pair)
    assert max(laws.bi, laws.swap, laws.scale) < 1e-12
    assert all_laws_error(BOUND, pair, pair.ref_from_src, np.random.default_rng(1)) < 1e-12


def test_a_pose_that_never_moves_breaks_the_law_of_motions(pair):
    laws = law_errors(lambda each: np.eye(4), pair)
    assert laws.bi > 0.1
    assert all_laws_error(IDENTITY, pair, np.eye(4), np.random.default_rng(1)) > 0.1
    assert (laws.swap, laws.scale) == (0, 0)


def shifted(pair, by):
    """The true pose, and then a shift that moves with the reference."""
    pose = pair.ref_from_src.copy()
    pose[:3, 3] += by(pair.reference.points[0] - pair.reference.points.mean(0))
    return pose


def test_an_answer_that_favours_the_reference_breaks_the_law_of_the_swap(pair):
    laws = law_errors(lambda each: shifted(each, lambda arm: arm), pair)
    assert laws.swap > 0.1
    assert max(laws.bi, laws.scale) < 1e-12


def test_an_absolute_length_breaks_the_law_of_scale(pair):
    laws = law_errors(lambda each: shifted(each, lambda arm: arm / np.linalg.norm(arm)), pair)
    assert laws.scale > 0.1
    assert laws.bi < 1e-12


def test_people_read_orders_of_magnitude():
    assert law_row(Laws(3.4e-15, 0.0, 0.2)) == (
        "law errors",
        "Δ_bi 3e-15, Δ_swap 0, Δ_scale 2e-01; one trial each",
    )
