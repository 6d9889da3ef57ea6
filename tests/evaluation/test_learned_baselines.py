"""Learned baselines: each learns what it must, keeps its laws, and comes back from disk as it was."""

import json
import math
import pickle
from dataclasses import replace

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from bitr.data import bumpy_shape, cut, dataset
from bitr.errors import InputError
from bitr.evaluation.evaluate import evaluate
from bitr.evaluation.learned_baselines import (
    REGRESSORS,
    Sizes,
    greatest,
    kind,
    learned_method,
    load,
    regressor,
    save,
)
from bitr.groups import Cloud, Rigid, rotation_angle
from bitr.model import BITRConfig
from bitr.model.inputs import center_pair
from bitr.testing import (
    assert_bi_equivariant,
    assert_permutation_invariant,
    assert_scale_equivariant,
    assert_swap_equivariant,
    bi_error,
    swap_error,
)
from bitr.training import TrainConfig, train
from bitr.training.config import DataConfig, LossConfig, RunConfig
from bitr.training.step import pose_loss
from tests.data.cases import pair_of

NAMES = sorted(REGRESSORS)
SMALL = Sizes(points=48, channels=16)
STEPS, RATE = 60, 3e-3


def untrained(name, seed=0):
    torch.manual_seed(seed)
    return regressor(name)(SMALL)


def pairs(count, n, generator):
    """Halves of different shapes, each turned and moved, and how they fit together."""
    sides, poses = ([], []), []
    for _ in range(count):
        halves = cut(bumpy_shape(2 * n, generator), 0.5, generator)
        moves = [Rigid.random(generator) for _ in halves]
        for side, half, move in zip(sides, halves, moves, strict=True):
            side.append(move.act(half))
        poses.append((moves[1] @ moves[0].inverse()).matrix())
    return *(Cloud(torch.stack(side)) for side in sides), Rigid.from_matrix(torch.stack(poses))


def worst_angle(model, source, reference, truth):
    with torch.no_grad():
        pose = model(source, reference)
    return float(rotation_angle(pose.rotation.mT @ truth.rotation).max()) * 180 / math.pi


@pytest.fixture(scope="module", params=NAMES)
def learned(request):
    """A network that has seen two pairs over and over, and these pairs."""
    model = untrained(request.param)
    examples = pairs(2, 48, torch.Generator().manual_seed(0))
    source, reference, truth = examples
    optimizer = torch.optim.Adam(model.parameters(), lr=RATE)
    for _ in range(STEPS):
        loss = pose_loss(model.solve(source, reference), truth, source, reference, LossConfig()).mean()
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    return model, examples


@pytest.mark.slow
def test_it_learns_two_pairs_by_heart(learned):
    model, examples = learned
    assert worst_angle(untrained(model.name), *examples) > 60
    assert worst_angle(model, *examples) < 10


def test_only_vector_neurons_know_a_learned_pair_that_is_turned(learned, rng):
    model, (source, reference, truth) = learned
    g1, g2 = Rigid.random(rng, 2), Rigid.random(rng, 2)
    turned = source.moved(g1), reference.moved(g2), g2 @ truth @ g1.inverse()
    assert (worst_angle(model, *turned) < 10) == (model.name == "lev")


def test_every_weight_gets_a_gradient_as_training_on_several_processes_needs(rng):
    for name in NAMES:
        model, (source, reference, truth) = untrained(name), pairs(2, 48, rng)
        pose_loss(model.solve(source, reference), truth, source, reference, LossConfig()).mean().backward()
        assert [key for key, weight in model.named_parameters() if weight.grad is None] == []


@pytest.mark.parametrize("name", [name for name in NAMES if name != "lev"])
def test_embeddings_of_new_weights_tell_clouds_apart(name, rng):
    model, (source, reference, _) = untrained(name), pairs(40, 100, rng)
    x, _, _ = center_pair(source, reference, with_unit=True)
    pooled = greatest(model.encode(x.points.float()), None)
    assert pooled.var(0).mean() > pooled.mean(0).square().mean()


@pytest.mark.parametrize("name", NAMES)
def test_places_units_and_the_order_of_points_do_not_matter(name, rng):
    model, (source, reference, _) = untrained(name).double(), pairs(1, 60, rng)
    g1, g2 = (Rigid(torch.eye(3).double(), 100 * torch.randn(3, generator=rng).double()) for _ in range(2))
    assert bi_error(model, source, reference, g1, g2) < 1e-9
    assert_scale_equivariant(model, source, reference, tol=1e-9)
    assert_permutation_invariant(model, source, reference, tol=1e-9)


@pytest.mark.parametrize("name", NAMES)
def test_the_laws_that_each_docstring_claims_and_no_others(name, rng):
    model, (source, reference, _) = untrained(name).double(), pairs(1, 60, rng)
    if name == "lev":
        assert_bi_equivariant(model, source, reference, tol=1e-9)
    else:
        g1, g2 = Rigid.random(rng), Rigid.random(rng)
        assert bi_error(model, source, reference, g1, g2) > 0.1
    if name == "omn":
        assert swap_error(model, source, reference) > 0.1
    else:
        assert_swap_equivariant(model, source, reference, tol=1e-9)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("n", [20, 450], ids=["distance matrix", "tree"])
def test_padding_does_not_matter(name, n, rng):
    model, (source, reference, _) = untrained(name).double(), pairs(2, n, rng)
    fewer = [n, 2 * n // 3]
    mask = torch.arange(n) < torch.tensor(fewer)[:, None]
    padded = Cloud(source.points.masked_fill(~mask[..., None], torch.nan), mask=mask)
    found = model(padded, reference)
    for i in range(2):
        alone = model(source.points[i : i + 1, : fewer[i]], reference.points[i : i + 1])
        torch.testing.assert_close(found.matrix()[i], alone.matrix()[0], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", NAMES)
def test_a_trained_one_is_a_method_that_always_answers_alike(name, tmp_path):
    """Through our own loop: data set, training, best weights on disk, and an evaluation of them."""
    config = TrainConfig(
        data=DataConfig(name="bunny-stand-in", points=32, val_pairs=2, workers=0),
        model=BITRConfig.paper(normals=True),
        loss=LossConfig(spread_weight=0.1),
        run=RunConfig(steps=2, batch=2, device="cpu"),
    )
    result = train(config, tmp_path / "run", kind=kind(name))
    assert result["skipped"] == 0
    method = learned_method(tmp_path / "run")
    assert method.name == f"in the manner of {name.upper()}"
    assert load(tmp_path / "run").sizes.points == 32
    one, other = (dataset("bunny-stand-in", "test")[i] for i in range(2))
    first, again = evaluate(method, [one, other]), evaluate(method, [other, one])
    assert first.failed == 0
    for a, b in zip(first.scores, again.scores[::-1], strict=True):
        np.testing.assert_array_equal(a.transformation, b.transformation)


def test_a_method_thins_pairs_to_what_was_seen_in_training(tmp_path, monkeypatch):
    model, seen = untrained("nsm"), []
    monkeypatch.setattr(type(model), "solve", _watched(type(model).solve, seen))
    method = learned_method(save(model, tmp_path))
    method.solve(pair_of(200, np.random.default_rng(0)))
    assert seen == [(1, SMALL.points, 3)] * 2


def _watched(solve, seen):
    def watched(self, source, reference):
        seen.extend([tuple(source.shape), tuple(reference.shape)])
        return solve(self, source, reference)

    return watched


def test_training_starts_from_new_weights_that_depend_on_the_seed_alone():
    config = TrainConfig()
    one, again = (kind("dgl").make(config)[0] for _ in range(2))
    other = kind("dgl").make(replace(config, run=replace(config.run, seed=1)))[0]
    assert torch.equal(one.encode.layers[0].weight, again.encode.layers[0].weight)
    assert not torch.equal(one.encode.layers[0].weight, other.encode.layers[0].weight)
    with pytest.raises(InputError, match=r"run\.init_from = 'default': a baseline starts from new weights"):
        kind("dgl").make(replace(config, run=replace(config.run, init_from="default")))


def test_sizes_are_as_announced():
    for name in NAMES:
        assert 1e5 < sum(weight.numel() for weight in regressor(name)(Sizes()).parameters()) < 5e5


@pytest.mark.parametrize("name", NAMES)
def test_a_loaded_one_gives_the_same_pose(name, tmp_path, rng):
    model, (source, reference, _) = untrained(name), pairs(1, 48, rng)
    loaded = load(save(model, tmp_path / "m.safetensors"))
    assert type(loaded) is type(model)
    assert loaded.sizes == SMALL
    assert torch.equal(loaded(source, reference).matrix(), model(source, reference).matrix())


def test_a_name_that_is_not_known_is_answered_with_those_that_are():
    with pytest.raises(InputError, match=r"nsn: no such learned baseline.*did you mean nsm\?"):
        kind("nsn")


def _rewritten(folder, content=None, **changes):
    path = save(untrained("nsm"), folder / "m.safetensors")
    tensors = {key: value for key, value in {**load_file(path), **changes}.items() if value is not None}
    own = {"name": "nsm", "sizes": {"points": 48, "channels": 16}}
    text = json.dumps(own if content is None else content)
    save_file(tensors, path, {"format": "bitr-baseline-1", "content": text})
    return path


def _bytes(folder, change):
    path = save(untrained("nsm"), folder / "m.safetensors")
    path.write_bytes(change(path.read_bytes()))
    return path


def _another_format(folder):
    path = folder / "m.safetensors"
    save_file({"a": torch.ones(1)}, path, {"format": "bitr-1"})
    return path


BIAS = "encode.layers.0.bias"
BAD_FILES = {
    "missing": (lambda f: f / "nothing", "not a readable safetensors file"),
    "an empty folder": (lambda f: f, "not a readable safetensors file"),
    "truncated": (lambda f: _bytes(f, lambda b: b[: len(b) // 2]), "not a readable safetensors file"),
    "a pickle": (lambda f: _bytes(f, lambda b: pickle.dumps({"a": 1})), "not a readable safetensors file"),
    "a BITR model": (_another_format, "not a trained baseline .format 'bitr-1', expected"),
    "an unknown name": (lambda f: _rewritten(f, {"name": "nsn", "sizes": {}}), "no such learned baseline"),
    "no sizes": (lambda f: _rewritten(f, {"name": "nsm"}), "cannot be used"),
    "a list": (lambda f: _rewritten(f, [1]), "cannot be used"),
    "an unknown size": (lambda f: _rewritten(f, {"name": "nsm", "sizes": {"width": 3}}), "cannot be used"),
    "beyond all memory": (
        lambda f: _rewritten(f, {"name": "nsm", "sizes": {"channels": 10**6}}),
        "channels = 1000000: expected a whole number from 8 to 512",
    ),
    "other sizes": (
        lambda f: _rewritten(f, {"name": "nsm", "sizes": {}}),
        "weights do not fit the config inside",
    ),
    "a missing weight": (lambda f: _rewritten(f, **{BIAS: None}), f"first {BIAS}: found None"),
    "a foreign weight": (lambda f: _rewritten(f, a=torch.ones(3)), "first a: found"),
    "whole numbers": (lambda f: _rewritten(f, **{BIAS: torch.ones(16, dtype=torch.long)}), "torch.int64"),
    "a NaN": (lambda f: _rewritten(f, **{BIAS: torch.full((16,), torch.nan)}), "NaN or infinite"),
}


@pytest.mark.parametrize("name", BAD_FILES)
def test_a_file_that_is_no_trained_baseline_is_refused_in_one_line(tmp_path, name):
    make, message = BAD_FILES[name]
    path = make(tmp_path)
    with pytest.raises(InputError, match=message) as error:
        learned_method(path)
    assert str(path) in str(error.value)
    assert "\n" not in str(error.value)
