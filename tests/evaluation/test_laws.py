"""Law errors on one pair: none for a lawful method, and a broken law is the one that shows."""

import numpy as np
import pytest

from bitr.evaluation.laws import as_row, law_errors_on
from bitr.evaluation.method import Method
from bitr.testing import Laws
from tests.data.cases import pair_of


@pytest.fixture
def pair():
    return pair_of(40, np.random.default_rng(0))


def found(solve, pair):
    return law_errors_on(Method("m", solve), pair, solve(pair), np.random.default_rng(1))


def test_the_true_pose_keeps_all_laws(pair):
    laws = found(lambda each: each.ref_from_src, pair)
    assert max(laws.bi, laws.swap, laws.scale) < 1e-12


def test_a_pose_that_never_moves_breaks_the_law_of_motions(pair):
    laws = found(lambda each: np.eye(4), pair)
    assert laws.bi > 0.1
    assert (laws.swap, laws.scale) == (0, 0)


def shifted(pair, by):
    """The true pose, and then a shift that moves with the reference."""
    pose = pair.ref_from_src.copy()
    pose[:3, 3] += by(pair.reference.points[0] - pair.reference.points.mean(0))
    return pose


def test_an_answer_that_favours_the_reference_breaks_the_law_of_the_swap(pair):
    laws = found(lambda each: shifted(each, lambda arm: arm), pair)
    assert laws.swap > 0.1
    assert max(laws.bi, laws.scale) < 1e-12


def test_an_absolute_length_breaks_the_law_of_scale(pair):
    laws = found(lambda each: shifted(each, lambda arm: arm / np.linalg.norm(arm)), pair)
    assert laws.scale > 0.1
    assert laws.bi < 1e-12


def test_people_read_orders_of_magnitude():
    assert as_row(Laws(3.4e-15, 0.0, 0.2)) == (
        "law errors",
        "Δ_bi 3e-15, Δ_swap 0, Δ_scale 2e-01; one trial each",
    )
