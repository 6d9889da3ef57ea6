"""The study of variants compares like with like."""

import pytest
import torch
from benchmarks.variants import searches, variants

from bitr.evaluation.speed import CONFIGS


@pytest.mark.parametrize("name", CONFIGS)
def test_a_frozen_model_is_the_plain_one(name):
    jobs = {(points, what): job for points, what, job in variants(name, with_inductor=False)}
    with torch.no_grad():
        plain, frozen = jobs[1024, "plain"](), jobs[1024, "frozen"]()
    torch.testing.assert_close(frozen.matrix(), plain.matrix(), rtol=0, atol=1e-4)


def test_both_searches_find_the_same_neighbors():
    by_matrix, by_tree = (search() for search in searches(100))
    for matrix, tree in zip(by_matrix, by_tree, strict=True):
        assert torch.equal(matrix[0], tree)
