"""The laws of the whole model with random weights: the table of ``python -m bitr.testing``, and more."""

import numpy as np
import pytest
import torch

from bitr import BITR, BITRConfig, Cloud, Rigid
from bitr.data import cut
from bitr.groups import rotation_angle
from bitr.testing import (
    NUM_POINTS,
    SEEDS,
    SETTINGS,
    as_rigid,
    assert_bi_equivariant,
    assert_permutation_invariant,
    assert_scale_equivariant,
    assert_swap_equivariant,
    example_pair,
    law_errors,
    measured_laws,
    pose_gap,
    untrained_model,
    worst,
)

PLAIN = SETTINGS[0]
SINGLE = next(s for s in SETTINGS if s.config == "default" and s.points == torch.float32)
IN_FLOAT32 = [s for s in SETTINGS if s.weights == torch.float32 and s.config == "default"]
KINDS = ("default", "paper")


@pytest.fixture
def pair() -> tuple[torch.Tensor, torch.Tensor]:
    return example_pair(seed=0, n=150, setting=PLAIN)


@pytest.mark.slow
@pytest.mark.parametrize("setting", SETTINGS, ids=str)
def test_the_pose_moves_with_the_clouds_inverts_with_a_swap_and_scales_with_them(setting, monkeypatch):
    monkeypatch.setattr("bitr.testing.SEEDS", range(2))  # python -m bitr.testing tries five
    laws = worst([laws for _, _, laws in measured_laws(setting)])
    print(setting, laws)
    if setting.weights == torch.float64:
        assert max(laws.bi, laws.swap, laws.scale) <= 1e-8
    elif setting.config == "default":
        assert max(laws.bi, laws.swap, laws.scale) <= 1e-5
    else:  # the paper's key points start close together, and in float32 their differences are rounding
        assert laws.swap <= 1e-4


@pytest.mark.parametrize(
    "setting", [s for s in SETTINGS if s.weights == torch.float32 and s.config == "default"], ids=str
)
def test_float32_error_is_small_beside_the_translation_itself(setting):
    """‖t − t'‖ / ‖t'‖ for all three laws, besides the displacement that ``pose_gap`` measures."""
    for seed in SEEDS:
        model, rng = untrained_model("default", seed, torch.float32), torch.Generator().manual_seed(seed)
        x, y = example_pair(seed, 200, setting)
        away = setting.distance * setting.size
        g1, g2 = (Rigid.random(rng, size=away, dtype=setting.points) for _ in range(2))
        with torch.inference_mode():
            pose = model(x, y)
            cases = (
                (model(g1.act(x), g2.act(y)), g2 @ pose @ g1.inverse(), 1e-4),
                (model(y, x), pose.inverse(), 1e-5),
                (model(2 * x, 2 * y), pose.scaled(2.0), 1e-5),
            )
        for actual, expected, limit in cases:
            gap = (actual.translation.double() - expected.translation.double()).norm()
            assert gap / expected.translation.norm() <= limit


@pytest.mark.parametrize("factor", [1e-4, 0.3, 2.3, 1e4])
def test_any_factor_scales_the_translation_and_nothing_else(pair, factor):
    for kind in KINDS:
        model = untrained_model(kind, 1, torch.float64)
        assert_scale_equivariant(model, *pair, tol=1e-8, factors=(factor,))


@pytest.mark.parametrize("max_degree", [1, 2, 3])
def test_laws_hold_for_higher_degrees(max_degree):
    sizes = {"num_keypoints": 8, "num_neighbors": 6, "channels": 2, "num_layers": 1}
    config = BITRConfig(max_degree=max_degree, cloud_channels=6, width=10, depth=2, **sizes)
    model = BITR(config).double()
    x, y = example_pair(0, 40, PLAIN)
    with torch.no_grad():
        assert_bi_equivariant(model, x, y, tol=1e-8, trials=1)
        assert_swap_equivariant(model, x, y, tol=1e-8)
        assert_scale_equivariant(model, x, y, tol=1e-8)
    pose = model(x, y)
    (pose.rotation.sum() + pose.translation.sum()).backward()
    assert all(p.grad is None or p.grad.isfinite().all() for p in model.parameters())


@pytest.mark.parametrize("kind", KINDS)
def test_laws_hold_for_weights_far_from_their_start(pair, kind):
    model = untrained_model(kind, 2, torch.float64)
    with torch.no_grad():
        for p in model.parameters():
            p.mul_(1.3).add_(0.05 * torch.randn_like(p))
        assert_bi_equivariant(model, *pair, tol=1e-7)
        assert_swap_equivariant(model, *pair, tol=1e-7)
        assert_scale_equivariant(model, *pair, tol=1e-7)


@pytest.mark.parametrize("kind", KINDS)
def test_laws_hold_with_normals_and_colors(rng, pair, kind):
    make = BITRConfig.paper if kind == "paper" else BITRConfig
    model = BITR(make(normals=True, colors=True)).double()
    x, y = (_with_features(points, rng) for points in pair)
    with torch.no_grad():
        assert_bi_equivariant(model, x, y, tol=1e-8)
        assert_swap_equivariant(model, x, y, tol=1e-8)
        assert_scale_equivariant(model, x, y, tol=1e-8)
        assert_permutation_invariant(model, x, y, tol=1e-8)
        other = Cloud(x.points, x.normals, 1 - x.colors)
        assert pose_gap(as_rigid(model(other, y)), as_rigid(model(x, y)), x) > 1e-3, "colours are not used"


def _with_features(points: torch.Tensor, rng: torch.Generator) -> Cloud:
    normals = torch.randn(points.shape, generator=rng, dtype=points.dtype)
    colors = torch.rand(points.shape, generator=rng, dtype=points.dtype)
    return Cloud(points, normals / normals.norm(dim=-1, keepdim=True), colors)


@pytest.mark.parametrize("kind", KINDS)
def test_the_order_of_the_points_does_not_matter(pair, kind):
    assert_permutation_invariant(untrained_model(kind, 0, torch.float64), *pair, tol=1e-8)


@pytest.mark.parametrize("kind", KINDS)
def test_clouds_of_different_sizes_batched_with_a_mask_give_the_same_poses_as_one_by_one(rng, kind):
    """Also with clouds smaller than the number of neighbours, and with rubbish in the padding."""
    model = untrained_model(kind, 0, torch.float64)
    pairs = [example_pair(seed, n, PLAIN) for seed, n in enumerate((90, 10, 40))]
    batch = model(_padded([x for x, _ in pairs]), _padded([y for _, y in pairs]))
    for i, (x, y) in enumerate(pairs):
        alone = as_rigid(model(x, y))
        assert pose_gap(as_rigid(batch[i : i + 1]), alone, x) < 1e-10


def _padded(clouds: list[torch.Tensor]) -> Cloud:
    n = max(cloud.shape[1] for cloud in clouds)
    points = torch.full((len(clouds), n, 3), float("nan"), dtype=torch.float64)
    mask = torch.zeros(len(clouds), n, dtype=torch.bool)
    for i, cloud in enumerate(clouds):
        points[i, : cloud.shape[1]], mask[i, : cloud.shape[1]] = cloud[0], True
    return Cloud(points, mask=mask)


def test_padding_of_normals_and_colors_may_hold_anything(rng, pair):
    model = BITR(BITRConfig(normals=True, colors=True)).double()
    x, y = (_with_features(points, rng) for points in pair)
    rubbish = torch.full((1, 20, 3), float("nan"), dtype=torch.float64)
    parts = [torch.cat([part, rubbish], dim=1) for part in (x.points, x.normals, x.colors)]
    padded = Cloud(*parts, mask=torch.arange(len(parts[0][0]))[None] < x.points.shape[1])
    assert pose_gap(as_rigid(model(padded, y)), as_rigid(model(x, y)), x) < 1e-10


@pytest.mark.slow
@pytest.mark.parametrize("factor", [1e-3, 1e3])
def test_all_laws_hold_to_1e_5_for_ten_models_and_points_in_float32(factor):
    """Rounding of what a whole cloud shares, a length or a mean, does not average out over its points."""
    laws = []
    for seed in range(10):
        model = untrained_model("default", seed, torch.float32)
        for n in NUM_POINTS:
            x, y = example_pair(seed, n, SINGLE)
            with torch.inference_mode():
                laws.append(law_errors(model, x, y, torch.Generator().manual_seed(seed), factor=factor))
    largest = worst(laws)
    assert max(largest.bi, largest.swap, largest.scale) <= 1e-5


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10))
def test_complete_matching_recovers_the_motion_without_training(seed):
    """U-BITR, Y = gX: to 0.01° in float32, to rounding in float64."""
    rng = torch.Generator().manual_seed(seed)
    x, _ = example_pair(seed, 500, PLAIN)
    truth, order = Rigid.random(rng, 1), torch.randperm(500, generator=rng)
    y = truth.act(x)[:, order]
    for dtype, degrees in ((torch.float32, 0.01), (torch.float64, 1e-8)):
        with torch.inference_mode():
            found = untrained_model("default", seed, dtype).complete_match(x.to(dtype), y.to(dtype))
        angle = rotation_angle(found.rotation.double() @ truth.rotation.mT) * 180 / torch.pi
        assert angle.item() <= degrees
        assert pose_gap(as_rigid(found), truth, x) <= degrees


def test_complete_matching_holds_for_the_papers_construction(pair):
    x, _ = pair
    truth = Rigid.random(torch.Generator().manual_seed(3), 1)
    found = untrained_model("paper", 0, torch.float64).complete_match(x, truth.act(x))
    assert pose_gap(as_rigid(found), truth, x) <= 1e-8


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("lost", ["swap", "scale"])
def test_without_one_law_only_that_law_is_lost(pair, lost, kind):
    make = BITRConfig.paper if kind == "paper" else BITRConfig
    model = BITR(make(**{lost: False})).double()
    checks = {"swap": assert_swap_equivariant, "scale": assert_scale_equivariant}
    with torch.no_grad():
        assert_bi_equivariant(model, *pair, tol=1e-8)
        for law, check in checks.items():
            if law != lost:
                check(model, *pair, tol=1e-8)
        with pytest.raises(AssertionError, match=f"{lost}-equivariance.* is broken"):
            checks[lost](model, *pair, tol=1e-3)


@pytest.mark.parametrize("name", ["bunny-x.txt", "bunny-y.txt"])
def test_laws_hold_on_a_real_scan(real_data, name):
    points = torch.from_numpy(np.loadtxt(real_data / "bunny" / name)[::10, :3])
    rng = torch.Generator().manual_seed(0)
    x, y = (piece[None] for piece in cut(points, 0.3, rng))
    model, truth = untrained_model("default", 0, torch.float32), Rigid.random(rng, 1)
    with torch.inference_mode():
        assert_bi_equivariant(model, x, y, tol=1e-4)
        assert_swap_equivariant(model, x, y, tol=1e-5)
        assert_scale_equivariant(model, x, y, tol=1e-5)
        found = model.complete_match(points[None], truth.act(points[None]))
    assert pose_gap(as_rigid(found), truth, points[None]) < 1e-4
