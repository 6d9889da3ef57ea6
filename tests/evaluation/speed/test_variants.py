"""The study of variants compares like with like."""

import pytest
import torch
from benchmarks.variants import with_weights_laid_out

from bitr import BITR
from bitr.evaluation.speed.passes import CONFIGS, pair


@pytest.mark.parametrize("name", CONFIGS)
def test_weights_laid_out_once_give_the_same_pose(name):
    model, (x, y) = BITR(CONFIGS[name]()).double().eval(), pair(60, 1)
    laid_out = with_weights_laid_out(model)
    with torch.no_grad():
        for _ in range(2):  # the second time from what was kept
            torch.testing.assert_close(laid_out(x, y).matrix(), model(x, y).matrix(), rtol=0, atol=0)
