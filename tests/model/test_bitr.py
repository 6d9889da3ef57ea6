"""The whole model: its door, its gradients, its precision."""

import pytest
import torch

from bitr import BITR, BITRConfig, Cloud, InputError, Rigid, arun
from bitr.model.inputs import as_cloud
from bitr.model.keypoints import merge, merged_rep
from bitr.testing import SETTINGS, as_rigid, example_pair, pose_gap, untrained_model
from tests.conftest import random_points

PLAIN = SETTINGS[0]
TINY = BITRConfig(num_keypoints=4, num_neighbors=4, channels=2, num_layers=1)


def test_paper_config_has_the_papers_sizes():
    config = BITRConfig.paper()
    assert (config.num_keypoints, config.num_layers, config.channels, config.num_neighbors) == (32, 2, 4, 24)
    assert config.max_degree == 1
    parameters = sum(p.numel() for p in BITR(config).parameters())
    assert 150_000 < parameters < 190_000, "the paper has 0.17 M"


@pytest.mark.slow
def test_the_pose_is_differentiable_in_points_and_weights():
    model = BITR(TINY).double()
    x, y = (
        random_points(7, 3, torch.Generator().manual_seed(1)),
        random_points(6, 3, torch.Generator().manual_seed(2)),
    )
    names = [name for name, _ in model.named_parameters()]

    def pose(x, y, *weights):
        found = torch.func.functional_call(model, dict(zip(names, weights, strict=True)), (x, y))
        return found.rotation, found.translation

    inputs = (
        x.requires_grad_(),
        y.requires_grad_(),
        *(p.detach().clone().requires_grad_() for p in model.parameters()),
    )
    assert torch.autograd.gradcheck(pose, inputs, eps=1e-6, atol=1e-4, rtol=1e-3, fast_mode=True)
    assert torch.autograd.gradcheck(lambda x, y: pose(x, y, *inputs[2:]), inputs[:2], eps=1e-6, atol=1e-4)


def _cube() -> torch.Tensor:
    side = torch.linspace(-1, 1, 4).double()
    return torch.cartesian_prod(side, side, side)[None]


DEGENERATE = {
    "symmetric": _cube(),
    "planar": torch.cat([_cube()[..., :2], torch.zeros(1, 64, 1)], dim=-1).double(),
    "collinear": torch.linspace(0, 1, 30)[None, :, None].double() * torch.tensor([1.0, 2, 3]).double(),
    "duplicated": torch.cat([_cube(), _cube()], dim=1),
    "few points, many times": _cube()[:, :4].repeat(1, 40, 1),  # more copies than neighbours
}


@pytest.mark.parametrize("kind", ["default", "paper"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("name", DEGENERATE)
def test_gradients_are_finite_for_degenerate_clouds(name, dtype, kind):
    model = untrained_model(kind, 0, dtype)
    x, y = (DEGENERATE[key].detach().clone().to(dtype).requires_grad_() for key in (name, "symmetric"))
    for source, reference in ((x, y), (y, x), (x, x)):
        model.zero_grad()
        x.grad = y.grad = None
        pose = model(source, reference)
        (pose.rotation * torch.arange(9.0).reshape(3, 3)).sum().add(pose.translation.sum()).backward()
        gradients = [tensor.grad for tensor in (x, y, *model.parameters()) if tensor.grad is not None]
        assert len(gradients) > len(list(model.parameters())) // 2
        assert pose.matrix().isfinite().all()
        assert all(g.isfinite().all() for g in gradients)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_exactly_symmetric_shapes_close_the_singular_gap(dtype):
    """A cube has no unique pose; the model says so instead of pretending."""
    for seed in range(5):
        model = untrained_model("default", seed, dtype)
        cube = Rigid.random(torch.Generator().manual_seed(seed)).act(_cube())
        x, y = example_pair(seed, 100, PLAIN)
        with torch.no_grad():
            symmetric, plain = model.solve(cube, cube).singular_gap, model.solve(x, y).singular_gap
        assert symmetric.item() < 1e-4 < 1e-3 < plain.item()


def test_gradients_in_the_points_pass_the_tree_search_in_several_threads():
    x, y = (points.requires_grad_() for points in example_pair(0, 420, PLAIN))
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        untrained_model("default", 0, torch.float32)(x, y).translation.sum().backward()
    finally:
        torch.set_num_threads(threads)
    assert x.grad.isfinite().all()
    assert y.grad.isfinite().all()


@pytest.mark.parametrize("size", [1e-200, 1e-30, 1e30, 1e200])
def test_clouds_of_any_size_have_a_pose(size):
    x, y = example_pair(0, 60, PLAIN)
    model = untrained_model("default", 0, torch.float64)
    with torch.no_grad():
        pose, plain = model(size * x, size * y), model(x, y)
    torch.testing.assert_close(pose.rotation, plain.rotation, rtol=1e-8, atol=1e-8)
    torch.testing.assert_close(pose.translation / size, plain.translation, rtol=1e-8, atol=1e-8)


def test_key_points_lie_in_the_bounding_box_and_apart_from_each_other():
    x, y = example_pair(0, 300, PLAIN)
    with torch.no_grad():
        solution = untrained_model("default", 0, torch.float32).solve(x, y)
    for cloud, key in ((x, solution.source_keypoints), (y, solution.reference_keypoints)):
        assert key.shape == (1, 16, 3)
        assert (key >= cloud.amin(1) - 1e-6).all()
        assert (key <= cloud.amax(1) + 1e-6).all()
        spread = (key - key.mean(1, keepdim=True)).norm(dim=-1).square().mean().sqrt()
        size = (cloud - cloud.mean(1, keepdim=True)).norm(dim=-1).square().mean().sqrt()
        assert spread > 0.05 * size, "collapsed key points leave only rounding between them"


def test_the_pose_comes_back_in_the_precision_of_the_points():
    x, y = example_pair(0, 60, PLAIN)
    for weights in (torch.float32, torch.float64):
        model = untrained_model("default", 0, weights)
        assert model(x, y).matrix().dtype == torch.float64
        assert model(x.float(), y.float()).matrix().dtype == torch.float32
        assert model(x.float(), y).matrix().dtype == torch.float64
        rotation = model(x, y).rotation
        torch.testing.assert_close(rotation @ rotation.mT, torch.eye(3).double()[None], atol=1e-12, rtol=0)


def test_inputs_are_not_changed():
    x, y = example_pair(0, 60, PLAIN)
    before = x.clone(), y.clone()
    untrained_model("default", 0, torch.float32)(x, y)
    assert torch.equal(x, before[0])
    assert torch.equal(y, before[1])


def test_aruns_method_is_one_setting_of_the_merged_features(rng):
    """With key points in correspondence, Σ_u of the last (1,1) channel is Arun's correlation matrix."""
    from bitr.groups import Rep, nearest_rotation
    from bitr.model.keypoints import KeyPoints

    rep = Rep({(0, 0): 2, (1, 0): 1})
    x, g = random_points(9, 3, rng), Rigid.random(rng)
    field = {(0, 0): torch.ones(1, 9, 1, 2).double(), (1, 0): torch.ones(1, 9, 3, 1).double()}
    _, merged = merge(KeyPoints(x, field, {}), KeyPoints(g.act(x), field, {}))
    assert {degree: f.shape[-1] for degree, f in merged.items()} == dict(merged_rep(rep))
    correlation = merged[1, 1][..., -1].sum(0).reshape(3, 3).T
    torch.testing.assert_close(nearest_rotation(correlation), arun(x[0], g.act(x)[0]).rotation)


def raw_cloud(points, **parts):
    """A Cloud as it arrives from code that does not check shapes."""
    cloud = object.__new__(Cloud)
    for name in ("points", "normals", "colors", "mask"):
        object.__setattr__(cloud, name, parts.get(name) if name != "points" else points)
    return cloud


GOOD = example_pair(0, 30, PLAIN)[0]
NAN = GOOD.clone()
NAN[0, 3, 1] = float("nan")
INFINITE = GOOD.clone()
INFINITE[0, :2, 0] = float("inf")
BAD_INPUTS = {
    "three points": (GOOD[:, :3], r"source: got a cloud of 3 points, expected at least 4"),
    "no points": (GOOD[:, :0], r"source: got a cloud of 0 points, expected at least 4"),
    "few points left by the mask": (
        Cloud(GOOD, mask=torch.arange(30)[None] < 2),
        r"source: got a cloud of 2 points, expected at least 4",
    ),
    "NaN": (NAN, r"source: 1 of 30 points are NaN or infinite"),
    "infinite": (INFINITE, r"source: 2 of 30 points are NaN or infinite"),
    "NaN normals": (Cloud(GOOD, normals=NAN), r"source: 1 of 30 normals are NaN"),
    "all equal": (torch.ones(1, 30, 3), r"source: all points of a cloud are equal up to the rounding"),
    "small and far away": (
        0.01 * GOOD.float() + 1e6,
        r"source: all points .* of torch.float32 \(extent .* at coordinates up to 1.0e\+06\)",
    ),
    "an array inside a cloud": (raw_cloud(GOOD.numpy()), r"source: got points as ndarray, expected a tensor"),
    "a mask as a list": (raw_cloud(GOOD, mask=[True] * 30), r"source: got mask as list, expected a tensor"),
    "no batch dimension": (GOOD[0], r"source: got points of shape \(30, 3\), expected \(b, n, 3\)"),
    "two dimensions": (GOOD[..., :2], r"source: got points of shape \(1, 30, 2\), expected \(b, n, 3\)"),
    "whole numbers": (torch.ones(1, 30, 3, dtype=torch.long), r"source: got points of type torch.int64"),
    "another batch size": (GOOD.repeat(3, 1, 1), r"got 3 source and 1 reference clouds"),
    "another device": (GOOD.to("meta"), r"source: points on meta, model on cpu"),
    "normals of another size": (
        raw_cloud(GOOD, normals=GOOD[:, :5]),
        r"source: got normals of shape \(1, 5, 3\), expected \(1, 30, 3\)",
    ),
    "a mask of numbers": (
        raw_cloud(GOOD, mask=torch.ones(1, 30)),
        r"source: got a mask of type torch.float32",
    ),
    "a mask elsewhere": (
        raw_cloud(GOOD, mask=torch.ones(1, 30, dtype=torch.bool, device="meta")),
        r"source: mask on meta, points on cpu",
    ),
}


@pytest.mark.parametrize("name", BAD_INPUTS)
def test_bad_input_is_refused_at_the_door_with_what_was_found_and_what_is_needed(name):
    source, message = BAD_INPUTS[name]
    with pytest.raises(InputError, match=message):
        BITR(TINY).double().solve(source, GOOD)


def test_something_that_is_no_cloud_is_refused():
    with pytest.raises(InputError, match=r"source: got list, expected a \(b, n, 3\) tensor or a Cloud"):
        as_cloud([[0.0, 0, 0]], "source")


def test_the_reference_is_checked_as_the_source_is():
    with pytest.raises(InputError, match=r"reference: 1 of 30 points are NaN"):
        BITR(TINY)(GOOD, NAN)


def test_a_model_made_for_normals_asks_for_them():
    with pytest.raises(InputError, match="reference: the model was made for clouds with normals"):
        BITR(BITRConfig(normals=True)).double()(Cloud(GOOD, normals=GOOD), GOOD)


def test_more_neighbors_than_points_means_all_points(rng):
    x, y = random_points(6, 3, rng), random_points(5, 3, rng)
    many, all_others = (
        BITR(BITRConfig(num_neighbors=500)).double(),
        BITR(BITRConfig(num_neighbors=31)).double(),
    )
    all_others.load_state_dict(many.state_dict())
    assert pose_gap(as_rigid(many(x, y)), as_rigid(all_others(x, y)), x) < 1e-12


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"channels": 3}, "channels = 3 is not a multiple of num_heads = 2"),
        ({"num_keypoints": 0}, "num_keypoints = 0: expected a whole number from 4 to 4096"),
        ({"max_degree": 0}, "max_degree = 0"),
        ({"radial_functions": (3, 0)}, "expected a tuple of two numbers from 1 to 512"),
        ({"num_layers": True}, "num_layers = True: expected a whole number"),
        ({"width": -1}, "width = -1: expected a whole number from 1 to 1024"),
    ],
)
def test_impossible_settings_are_refused(changes, message):
    with pytest.raises(InputError, match=message):
        BITRConfig(**changes)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("swap", "no", "swap = 'no': expected True or False"),
        ("radial_functions", (4.0, 3), "expected a tuple of two numbers from 1 to 512"),
        ("radial_functions", 4, "expected a tuple of two numbers from 1 to 512"),
        ("extractor", "narrow", "extractor = 'narrow': expected 'wide' or 'paper'"),
    ],
)
def test_settings_of_the_wrong_type_are_refused(name, value, message):
    """As they arrive from a file, past the type checks of the tests."""
    config = BITRConfig()
    object.__setattr__(config, name, value)
    with pytest.raises(InputError, match=message):
        config.__post_init__()


def test_config_survives_a_round_trip_and_a_misspelt_key_names_the_nearest():
    config = BITRConfig.paper(channels=8)
    assert BITRConfig.from_dict(config.to_dict()) == config
    with pytest.raises(InputError, match="unknown setting chanels; did you mean channels"):
        BITRConfig.from_dict({"chanels": 4})
