"""The laws of assemble with a refinement, on pairs whose pose the refinement really moves."""

import numpy as np
import pytest
from benchmarks.assemble_laws import assembly, jug_pair, outcome, was_moved

from bitr.assembly.network import Network
from bitr.testing import as_rigid, pose_gap

METHODS = pytest.mark.parametrize("refine", ["icp", "ot"])


@pytest.fixture(scope="module")
def network():
    return Network.of("default")


@METHODS
@pytest.mark.slow
def test_swapping_the_pieces_inverts_the_refined_pose_on_100_pairs(network, refine):
    moved = 0
    for seed in range(100):
        pair = jug_pair(seed)
        x, y = pair.source.points, pair.reference.points
        there, back = assembly(network, refine, x, y), assembly(network, refine, y, x)
        poses = as_rigid(there.transformation), as_rigid(back.transformation).inverse()
        assert pose_gap(*poses, x) <= 1e-3
        moved += was_moved(there)
    assert moved >= 80


@METHODS
def test_moving_swapping_and_scaling_the_pieces_changes_the_refined_pose_along(network, refine):
    found = [outcome(network, refine, seed) for seed in range(100, 103)]
    assert all(each.moved for each in found)
    assert np.mean([each.after for each in found]) < np.mean([each.before for each in found])
    assert max(max(each.bi, each.swap, each.scale) for each in found) <= 1e-6
