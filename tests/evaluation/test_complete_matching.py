"""Untrained U-BITR: exact on Y = gX, and on a disturbed shape measured."""

import numpy as np
import pytest
import torch

from bitr.data.bunny import stand_in
from bitr.errors import InputError
from bitr.evaluation import reproduce
from bitr.evaluation.experiment import find_experiment
from bitr.evaluation.method import median, median_u_bitr, u_bitr
from bitr.evaluation.reproduce import disturbed
from bitr.groups import Rigid, rotation_angle
from bitr.model import BITRConfig
from tests.evaluation.cases import plan, result

TINY = BITRConfig(num_keypoints=4, num_layers=1, channels=2, num_neighbors=8, num_heads=1)
METHODS = {
    "U-BITR": lambda name, seed: u_bitr(name, TINY, seed),
    "median": lambda name, seed: median_u_bitr(name, TINY, 2, seed),
}


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("BITR_DATA", raising=False)
        patch.setattr(reproduce, "MATCHED_POINTS", 96)
        patch.setattr(reproduce, "UNTRAINED", METHODS)
        return result("complete-matching", plan(tmp_path_factory.mktemp("complete"), limit=1))


@pytest.mark.slow
def test_the_motion_of_a_shape_is_found_exactly_and_the_rest_is_measured(found):
    exact, *others = found.tables
    assert [table.title for table in found.tables] == ["X = Y", "resampled", "noisy 0.01", "cropped 0.9"]
    for row in exact.rows:
        assert row.pooled.summary("rotation_error_deg").mean < 0.01
        assert row.pooled.summary("translation_error").mean < 1e-4
    assert all(row.pooled.failed == 0 and len(row.samplings) == 2 for table in others for row in table.rows)
    assert min(row.pooled.summary("rotation_error_deg").mean for table in others for row in table.rows) > 0.01


def test_the_papers_figures_and_what_is_not_the_papers_are_said(found):
    printed = [table.rows[0].published.rotation for table in found.tables]
    assert printed == ["0.0 (0.0)", "20.7 (16.4)", "5.0 (2.8)", "99.1 (40.49)"]
    for table in found.tables:
        assert table.rows[0].made == "stand-in: a generated shape, not the bunny; not trained"
        assert table.rows[1].published is None


def test_pairs_differ_in_what_they_are_named_for():
    same, resampled, noisy, cropped = (
        disturbed(stand_in(), how, 0)[0] for how in find_experiment("complete-matching").disturbed
    )
    for pair, gap in ((same, 0.0), (noisy, 0.01 * np.sqrt(6))):
        moved = pair.source.points @ pair.ref_from_src[:3, :3].T + pair.ref_from_src[:3, 3]
        off = np.linalg.norm(moved - pair.reference.points, axis=1)
        assert np.sqrt(np.mean(off**2)) == pytest.approx(gap, rel=0.05, abs=1e-12)
    assert len(resampled.source.points) == len(resampled.reference.points) == 1024
    assert len(cropped.source.points) == len(cropped.reference.points) == 922


def test_a_median_is_not_moved_by_a_few_that_are_far_off(rng):
    truth, far = Rigid.random(rng), Rigid.random(rng)
    near = [truth] * 5
    found = median([*near, far, far], torch.zeros(3, dtype=torch.float64))
    assert rotation_angle(found.rotation.mT @ truth.rotation) < 1e-3
    assert (found.translation - truth.translation).norm() < 1e-3


def test_weights_are_refused(tmp_path):
    with pytest.raises(InputError, match="untrained"):
        result("complete-matching", plan(tmp_path, model="default"))
