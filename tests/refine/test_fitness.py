import numpy as np
import pytest

from bitr.refine.fitness import fit
from tests.app.cases import motion, moved, two_pieces


def by_hand(x, y):
    """The definition, on the full matrix of distances."""

    def spacing(points):
        among = np.linalg.norm(points[:, None] - points, axis=2) + np.diag([np.inf] * len(points))
        return np.median(among.min(1))

    tau = 2 * np.sqrt((spacing(x) ** 2 + spacing(y) ** 2) / 2)
    between = np.linalg.norm(x[:, None] - y, axis=2)
    near = [between.min(1), between.min(0)]
    close = np.concatenate([d[d <= tau] for d in near])
    return np.mean([(d <= tau).mean() for d in near]), np.sqrt((close**2).mean())


def test_it_is_what_the_docstring_says():
    x, y = two_pieces(600)
    found = fit(x, y)
    assert (found.fitness, found.inlier_rmse) == pytest.approx(by_hand(x, y))
    assert 0 < found.fitness < 0.5  # they touch along the cut, and nowhere else


def test_equal_clouds_fit_perfectly():
    x, _ = two_pieces(300)
    found = fit(x, x)
    assert found.fitness == 1
    assert found.inlier_rmse == 0


def test_clouds_that_are_apart_have_no_partners():
    x, y = two_pieces(300)
    found = fit(x, y + 100)
    assert found.fitness == 0
    assert found.inlier_rmse is None


def test_swapping_or_moving_the_pieces_changes_nothing():
    x, y = two_pieces(600)
    pose = motion(0)
    for other in (fit(y, x), fit(moved(x, pose), moved(y, pose))):
        assert other.fitness == pytest.approx(fit(x, y).fitness)
        assert other.inlier_rmse == pytest.approx(fit(x, y).inlier_rmse)


@pytest.mark.parametrize("factor", [1e-200, 1000.0, 1e200])
def test_the_unit_changes_only_the_length(factor):
    x, y = two_pieces(600)
    assert fit(factor * x, factor * y).fitness == pytest.approx(fit(x, y).fitness)
    assert fit(factor * x, factor * y).inlier_rmse == pytest.approx(factor * fit(x, y).inlier_rmse)
