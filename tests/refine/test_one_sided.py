"""small_gicp as a baseline."""

import numpy as np
import pytest
from benchmarks.refinement import laws_near, start_near, turn_between

from bitr.errors import InputError
from bitr.refine import Refinement, one_sided_icp
from tests.refine.cases import overlapping


@pytest.mark.parametrize(("kind", "within"), [("plane", 4.0), ("gicp", 1.0)])
def test_overlapping_pieces_come_together(kind, within):
    pair = overlapping(0)
    start = start_near(pair, 8, np.random.default_rng(0))
    found = one_sided_icp(pair.source.points, pair.reference.points, start, kind)
    assert turn_between(found, pair.ref_from_src) < within


def laws(kind):
    return laws_near(
        lambda x, y, start: Refinement(one_sided_icp(x, y, start, kind), True, "always"), overlapping(0), 0
    )


def test_gicp_keeps_two_laws_and_breaks_the_swap_law():
    found = laws("gicp")
    assert max(found.bi, found.scale) < 1e-9
    assert found.swap > 1e-4


def test_the_planes_of_small_gicp_keep_the_scale_alone():
    found = laws("plane")
    assert found.scale < 1e-9
    assert min(found.bi, found.swap) > 1e-3


def test_threads_give_the_same_pose():
    pair = overlapping(0)
    start = start_near(pair, 8, np.random.default_rng(0))
    one, two = (
        one_sided_icp(pair.source.points, pair.reference.points, start, threads=threads) for threads in (1, 2)
    )
    np.testing.assert_allclose(one, two, atol=1e-6)


def test_what_cannot_be_done_is_refused():
    cloud, same = overlapping(0).source.points, np.ones((5, 3))
    broken = np.where(np.arange(len(cloud))[:, None] == 7, np.nan, cloud)
    with pytest.raises(InputError, match="all at one place"):
        one_sided_icp(same, same, np.eye(4))
    with pytest.raises(InputError, match="reference: is empty or not finite"):
        one_sided_icp(cloud, broken, np.eye(4))
    with pytest.raises(InputError, match="kind = 'point': expected one of plane, gicp"):
        one_sided_icp(cloud, cloud, np.eye(4), "point")
