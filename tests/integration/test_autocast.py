"""bfloat16 autocast: products on the clouds are rounded; geometry, attention and the merged cloud are not."""

from statistics import median

import pytest
import torch

from bitr.testing import SETTINGS, Laws, example_pair, measured_laws, untrained_model, worst

FLOAT32 = {setting.config: setting for setting in SETTINGS if setting.points == torch.float32}


def rounded():
    return torch.autocast("cpu", dtype=torch.bfloat16)


@pytest.mark.slow
def test_rounded_products_keep_the_laws_within_a_stated_bound():
    """Over the seeds and sizes of the law table."""
    with rounded():
        laws: list[Laws] = [laws for _, _, laws in measured_laws(FLOAT32["default"])]
    off = sorted(each.bi for each in laws)
    assert off[int(0.9 * len(off))] < 0.2  # two heads that are equally likely may change places
    assert median(each.bi for each in laws) < 0.04
    assert worst(laws).scale < 0.02
    assert worst(laws).swap < 1e-5  # rounding on the clouds is the same for both


@pytest.mark.parametrize("config", ["default", "paper"])
@pytest.mark.parametrize("backward_inside", [False, True])
def test_a_rounded_pose_is_a_motion_in_the_precision_of_the_points_with_finite_gradients(
    config, backward_inside
):
    x, y = example_pair(0, 450, FLOAT32[config])
    model = untrained_model(config, 0, torch.float32)
    with rounded():
        pose = model(x, y)
        if backward_inside:
            pose.matrix().sum().backward()
    if not backward_inside:
        pose.matrix().sum().backward()
    assert pose.rotation.dtype == pose.translation.dtype == torch.float32
    torch.testing.assert_close(pose.rotation @ pose.rotation.mT, torch.eye(3)[None], atol=1e-5, rtol=0)
    gradients = [p.grad for p in model.parameters() if p.grad is not None]
    assert len(gradients) > 50
    assert all(g.isfinite().all() and g.dtype == torch.float32 for g in gradients)
    assert (pose.matrix() - model(x, y).matrix()).abs().max() > 1e-6  # products were rounded


def test_double_precision_is_not_rounded():
    x, y = example_pair(0, 100, SETTINGS[0])
    model = untrained_model("default", 0, torch.float64)
    with rounded():
        pose = model(x, y)
    assert torch.equal(pose.matrix(), model(x, y).matrix())
