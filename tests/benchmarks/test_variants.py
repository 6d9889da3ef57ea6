"""The study of variants compares like with like."""

import pytest
import torch
from benchmarks.variants import searches, variants

from bitr.evaluation.speed import CONFIGS


@pytest.mark.parametrize("name", CONFIGS)
def test_every_variant_gives_a_pose(name):
    for _, _, job in variants(name, with_inductor=False):
        with torch.no_grad():
            rotation = job().rotation
        torch.testing.assert_close(rotation @ rotation.mT, torch.eye(3)[None], rtol=0, atol=1e-5)


def test_both_searches_find_the_same_neighbors():
    by_matrix, by_tree = (search() for search in searches(100))
    for matrix, tree in zip(by_matrix, by_tree, strict=True):
        assert torch.equal(matrix[0], tree)
