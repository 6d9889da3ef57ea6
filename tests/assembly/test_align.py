"""Arun's method, the prototype of a lawful assembly method (Prop. 3.2)."""

import numpy as np
import pytest
import torch
from scipy.spatial.transform import Rotation

from bitr import InputError, Rigid, arun
from bitr.testing import assert_bi_equivariant, assert_scale_equivariant, assert_swap_equivariant, pose_gap
from tests.conftest import random_points


def test_the_true_motion_is_recovered(rng):
    x, g = random_points(20, 3, rng, b=5), Rigid.random(rng, 5)
    assert pose_gap(arun(x, g.act(x)), g, x) < 1e-12


def test_noisy_points_give_scipys_rotation_also_with_weights(rng):
    x, weights = random_points(20, 3, rng)[0], torch.rand(20, generator=rng, dtype=torch.float64)
    y = Rigid.random(rng).act(x) + 0.3 * random_points(20, 3, rng)[0]
    for w in (None, weights):
        share = (torch.ones(20) / 20).double() if w is None else w / w.sum()
        x_mean, y_mean = share @ x, share @ y
        theirs, _ = Rotation.align_vectors((y - y_mean).numpy(), (x - x_mean).numpy(), weights=share.numpy())
        ours = arun(x, y, w)
        np.testing.assert_allclose(ours.rotation.numpy(), theirs.as_matrix(), atol=1e-8)
        torch.testing.assert_close(ours.act(x_mean[None])[0], y_mean)


def test_points_of_weight_zero_do_not_count(rng):
    x, g = random_points(20, 3, rng)[0], Rigid.random(rng)
    y, weights = g.act(x), torch.ones(20).double()
    y[:5] += 10
    weights[:5] = 0
    assert pose_gap(arun(x, y, weights), g, x) < 1e-12


def test_mirrored_points_still_give_a_rotation(rng):
    x = random_points(20, 3, rng)[0]
    r = arun(x, -x).rotation
    assert torch.linalg.det(r).item() == pytest.approx(1.0)


def test_aruns_method_keeps_the_three_laws(rng):
    x = random_points(20, 3, rng)
    y = Rigid.random(rng).act(x) + 0.3 * random_points(20, 3, rng)
    assert_bi_equivariant(arun, x, y, tol=1e-10)
    assert_swap_equivariant(arun, x, y, tol=1e-10)
    assert_scale_equivariant(arun, x, y, tol=1e-10)


def test_points_without_correspondence_are_refused(rng):
    x = random_points(5, 3, rng)[0]
    with pytest.raises(InputError, match=r"got \(5, 3\) and \(4, 3\)"):
        arun.__wrapped__(x, x[:4])
    with pytest.raises(InputError, match="must be finite"):
        arun(x, torch.full_like(x, float("nan")))
    with pytest.raises(InputError, match=r"got weights of shape \(1,\), expected \(5,\)"):
        arun.__wrapped__(x, x, torch.ones(1).double())
    with pytest.raises(InputError, match="weights must not be negative"):
        arun(x, x, torch.tensor([1.0, 1, 1, 1, -1]).double())
    with pytest.raises(InputError, match="nor all 0"):
        arun(x, x, torch.zeros(5).double())


def test_points_in_float32_far_from_the_origin_lose_nothing_more(rng):
    x, g = random_points(20, 3, rng)[0] + 1e4, Rigid.random(rng)
    y = g.act(x)
    exact = arun(x.float().double(), y.float().double())
    found = arun(x.float(), y.float())
    assert found.rotation.dtype == torch.float32
    torch.testing.assert_close(found.rotation, exact.rotation.float())
