"""A frozen model: the same poses from weights that are laid out once, and no way to change them unseen."""

import pytest
import torch

import bitr
from bitr import BITR, BITRConfig, InputError
from bitr.assembly.network import Network
from bitr.model import FrozenBITR
from bitr.testing import (
    SETTINGS,
    assert_bi_equivariant,
    assert_scale_equivariant,
    assert_swap_equivariant,
    example_pair,
)

SMALL = {"num_keypoints": 6, "num_layers": 1}
CONFIGS = {"default": BITRConfig(**SMALL), "paper": BITRConfig.paper(**SMALL)}
X, Y = example_pair(0, 40, SETTINGS[0])


@pytest.fixture(params=CONFIGS)
def model(request) -> BITR:
    return BITR(CONFIGS[request.param]).double().eval()


def test_a_frozen_model_gives_the_poses_of_the_model(model):
    frozen = FrozenBITR(model)
    for _ in range(2):
        torch.testing.assert_close(frozen(X, Y).matrix(), model(X, Y).matrix(), rtol=0, atol=1e-12)
    in_float32 = FrozenBITR(model.float()).double()  # what is laid out moves with the weights
    torch.testing.assert_close(in_float32(X, Y).matrix(), frozen(X, Y).matrix(), rtol=0, atol=1e-3)


def test_a_frozen_model_keeps_the_laws(model):
    frozen = FrozenBITR(model)
    assert_bi_equivariant(frozen, X, Y, tol=1e-8)
    assert_swap_equivariant(frozen, X, Y, tol=1e-8)
    assert_scale_equivariant(frozen, X, Y, tol=1e-8)


def test_the_model_trains_on_and_the_frozen_copy_stays(model):
    frozen = FrozenBITR(model)
    before = frozen(X, Y).matrix()
    model(X, Y).matrix().sum().backward()
    with torch.no_grad():
        for parameter in model.parameters():
            assert parameter.requires_grad
            parameter.add_(0.1)
    assert torch.equal(frozen(X, Y).matrix(), before)
    assert (model(X, Y).matrix() - before).abs().max() > 1e-3


def test_a_frozen_model_does_not_train_and_takes_no_other_weights(model):
    frozen = FrozenBITR(model)
    assert not any(parameter.requires_grad for parameter in frozen.parameters())
    assert not frozen(X, Y).matrix().requires_grad
    for change in (
        lambda: frozen.train(),
        lambda: frozen.requires_grad_(),
        lambda: frozen.load_state_dict(model.state_dict()),
    ):
        with pytest.raises(InputError, match="train or load the model that it was made from"):
            change()
    assert not frozen.eval().training


def test_a_frozen_model_is_saved_as_the_model_itself(model, tmp_path):
    loaded = bitr.load(bitr.save(FrozenBITR(model), tmp_path / "m.safetensors"))
    assert type(loaded) is BITR
    assert loaded.config == model.config
    ours, theirs = loaded.state_dict(), model.state_dict()
    assert ours.keys() == theirs.keys()
    assert all(torch.equal(ours[key], theirs[key]) for key in theirs)


def test_points_still_have_gradients_through_a_frozen_model(model):
    points = [X.clone().requires_grad_() for _ in range(2)]
    for each, source in zip((model, FrozenBITR(model)), points, strict=True):
        each(source, Y).matrix().sum().backward()
    torch.testing.assert_close(points[1].grad, points[0].grad, rtol=1e-9, atol=1e-9)


def test_what_the_app_loads_is_frozen_and_a_model_given_to_it_is_not(model, tmp_path):
    loaded = Network.of(bitr.save(model, tmp_path / "m.safetensors")).model
    assert isinstance(loaded, FrozenBITR)
    torch.testing.assert_close(loaded(X, Y).matrix(), model(X, Y).matrix(), rtol=0, atol=1e-12)
    assert Network.of(model).model is model
