"""The error of guessing, beside uniform rotations and beside numerical integrals."""

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.spatial.transform import Rotation

from bitr.evaluation.metrics.chance import (
    MEAN_DEG,
    STD_DEG,
    chance_density,
    chance_quantile,
    chance_recall,
)


def test_a_uniform_rotation_is_126_and_a_half_degrees_off():
    angles = np.degrees(Rotation.random(200_000, random_state=np.random.RandomState(0)).magnitude())
    assert round(MEAN_DEG, 3) == 126.476
    assert angles.mean() == pytest.approx(MEAN_DEG, abs=0.3)
    assert angles.std() == pytest.approx(STD_DEG, abs=0.3)
    assert np.median(angles) == pytest.approx(chance_quantile(0.5), abs=0.4)
    assert (angles < 60).mean() == pytest.approx(float(chance_recall(60.0)), abs=3e-3)


def test_density_mean_and_recall_fit_together():
    def moment(power, upto=180.0):
        return quad(lambda d: d**power * float(chance_density(np.array(d))), 0, upto)[0]

    assert moment(0) == pytest.approx(1)
    assert moment(1) == pytest.approx(MEAN_DEG)
    assert np.sqrt(moment(2) - moment(1) ** 2) == pytest.approx(STD_DEG)
    assert moment(0, 75.0) == pytest.approx(float(chance_recall(75.0)))


def test_90_degrees_by_hand():
    # (π/2 − 1)/π = 1/2 − 1/π
    assert float(chance_recall(90.0)) == pytest.approx(0.5 - 1 / np.pi)
    assert float(chance_recall(chance_quantile(0.3))) == pytest.approx(0.3)
