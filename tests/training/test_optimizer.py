"""Learning rate, average of the weights, and the step of the optimiser."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from bitr.model import BITR
from bitr.training.config import OptimizerConfig
from bitr.training.distributed import Group
from bitr.training.step import Muon, Trainer, make_optimizers, rate_at, update_average
from bitr.training.stream import collate
from tests.training.cases import MODEL, changed, config, pair

ALONE = Group(0, 1, torch.device("cpu"))


def test_the_rate_rises_and_then_falls_to_its_rest():
    config = OptimizerConfig(rate=0.1, warmup=4, final=0.01)
    assert rate_at(0, 100, config) == pytest.approx(0.1 / 4)
    assert rate_at(50, 100, config) == pytest.approx(0.1 * (0.01 + 0.99 / 2))
    assert rate_at(25, 100, config) == pytest.approx(0.1 * (0.01 + 0.99 * (1 + math.cos(math.pi / 4)) / 2))
    assert rate_at(100, 100, config) == pytest.approx(0.1 * 0.01)
    assert rate_at(0, 100, OptimizerConfig(rate=0.1, warmup=0)) == pytest.approx(0.1)


@given(st.integers(0, 1000), st.integers(1, 1000), st.integers(0, 200), st.floats(0, 1))
def test_the_rate_stays_between_nothing_and_what_was_asked_for(step, steps, warmup, final):
    config = OptimizerConfig(rate=0.5, warmup=warmup, final=final)
    assert 0 <= rate_at(min(step, steps), steps, config) <= 0.5 * (1 + 1e-12)


def two_layers():
    average, model = torch.nn.Linear(2, 1), torch.nn.Linear(2, 1)
    torch.nn.init.constant_(average.weight, 0.0)
    torch.nn.init.constant_(model.weight, 1.0)
    return average, model


def test_the_average_moves_by_much_at_first_and_then_by_its_decay():
    average, model = two_layers()
    update_average(average, model, 0, 0.9)
    torch.testing.assert_close(average.weight, torch.full((1, 2), 0.9))
    average, model = two_layers()
    update_average(average, model, 10**6, 0.9)
    torch.testing.assert_close(average.weight, torch.full((1, 2), 0.1))


def test_without_a_decay_the_average_is_the_model():
    average, model = two_layers()
    update_average(average, model, 10**6, 0.0)
    assert torch.equal(average.weight, model.weight)


@pytest.mark.parametrize(("name", "kind"), [("adam", torch.optim.Adam), ("adamw", torch.optim.AdamW)])
def test_the_optimiser_is_the_one_asked_for(name, kind):
    weight = torch.nn.Parameter(torch.ones(1))
    (made,) = make_optimizers([weight], OptimizerConfig(name, rate=0.1, weight_decay=0.5))
    assert type(made) is kind
    weight.grad = torch.zeros(1)
    made.step()
    shrunk = {"adam": 1 - 0.1, "adamw": 1 - 0.1 * 0.5}[name]  # Adam's decay is part of the gradient
    torch.testing.assert_close(weight.detach(), torch.full((1,), shrunk))


def test_muon_is_for_matrices_and_moves_them_equally_far_in_all_directions():
    torch.manual_seed(0)
    matrix, thin, bias = (torch.nn.Parameter(torch.zeros(shape)) for shape in ((8, 12), (12, 4), (8,)))
    made = make_optimizers([bias, matrix, thin], OptimizerConfig("muon", rate=0.1))
    assert [type(each) for each in made] == [Muon, torch.optim.AdamW]
    assert [p for each in made for group in each.param_groups for p in group["params"]] == [
        matrix,
        bias,
        thin,
    ]
    left, _, right = torch.linalg.svd(torch.randn(8, 12), full_matrices=False)
    matrix.grad = left @ torch.diag(torch.logspace(-1, 0, 8)) @ right
    made[0].step()
    moved = left.T @ matrix.detach() @ right.T
    sizes = -moved.diagonal() / (0.1 * 0.2 * 12**0.5)  # Adam's size: a root mean square of 0.2 of the rate
    assert ((sizes > 0.5) & (sizes < 1.5)).all()  # after few rounds of Newton and Schulz
    assert (moved - torch.diag(moved.diagonal())).abs().max() < 0.05


def test_muon_steps_as_pytorchs_does(monkeypatch):
    """Up to the precision of its products: PyTorch's are in bfloat16, here made float32."""
    monkeypatch.setattr(torch.Tensor, "bfloat16", torch.Tensor.clone)
    torch.manual_seed(0)
    start = [torch.randn(shape) for shape in ((8, 12), (20, 9), (8, 12))]
    ours, theirs = ([torch.nn.Parameter(each.clone()) for each in start] for _ in range(2))
    (made,) = make_optimizers(ours, OptimizerConfig("muon", rate=0.01, weight_decay=0.1))
    made.param_groups[0]["lr"] = 0.02
    other = torch.optim.Muon(theirs, 0.02, 0.1, adjust_lr_fn="match_rms_adamw")
    for _ in range(4):
        for a, b in zip(ours, theirs, strict=True):
            a.grad = torch.randn(a.shape)
            b.grad = a.grad.clone()
        made.step()
        other.step()
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)


def test_a_model_without_matrices_is_left_to_adam():
    weight = torch.nn.Parameter(torch.ones(3))
    assert [type(each) for each in make_optimizers([weight], OptimizerConfig())] == [torch.optim.AdamW]


def trainer(**optimizer):
    torch.manual_seed(0)
    settings = changed(config("unused", run_batch=2, run_steps=10), "optimizer", **optimizer)
    return Trainer(settings, BITR(MODEL), ALONE)


def test_the_gradient_is_clipped_to_its_greatest_norm():
    batch = collate([pair(0), pair(1)])
    free, held = trainer(clip=0.0), trainer(clip=0.5)
    norms = []
    for made in (free, held):
        step = made.step(batch, 0, stop=False)
        assert step.gradient_norm > 1  # what is told is the norm before
        norms.append(torch.stack([p.grad.norm() for p in made.parameters if p.grad is not None]).norm())
    assert float(norms[0]) == pytest.approx(step.gradient_norm, rel=1e-5)
    assert float(norms[1]) == pytest.approx(0.5, rel=1e-3)


def test_every_weight_is_learned():
    """A weight without a gradient would stop data-parallel training."""
    made = trainer()
    made.step(collate([pair(0), pair(1)]), 0, stop=False)
    assert all(p.grad is not None for p in made.parameters)


def test_a_step_tells_means_over_the_batch_and_who_wants_to_stop():
    made = trainer()
    batch = collate([pair(0), pair(1)])
    with torch.no_grad():
        expected = made.objective(batch).table().mean(0)
    step = made.step(batch, 0, stop=True)
    torch.testing.assert_close(step.means, expected.double(), rtol=1e-5, atol=1e-6)
    assert (step.taken, step.stop) == (True, True)
    assert not made.step(batch, 1, stop=False).stop
    rates = [g["lr"] for each in made.parts.optimizers for g in each.param_groups]
    assert rates == [2 * rate_at(1, 10, OptimizerConfig()), rate_at(1, 10, OptimizerConfig())]
