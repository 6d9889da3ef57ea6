"""Heads, offsets of key points and dense outputs: their laws, and checkpoints from before they were."""

from dataclasses import replace

import pytest
import torch

from bitr import BITR, BITRConfig, Cloud, Rigid, load
from bitr.errors import InputError
from bitr.model.checkpoint import save
from bitr.testing import SETTINGS, assert_bi_equivariant, assert_swap_equivariant, example_pair

CLOSE = {"rtol": 1e-7, "atol": 1e-8}


@pytest.fixture(scope="module")
def model() -> BITR:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        made = BITR(BITRConfig(num_modes=3)).double().eval()
        with torch.no_grad():
            made.extract.offset.normal_()  # as after training
        return made


@pytest.fixture(scope="module")
def pair() -> tuple[torch.Tensor, torch.Tensor]:
    return example_pair(seed=1, n=120, setting=SETTINGS[0])


def same_heads(found, expected: Rigid, score) -> None:
    torch.testing.assert_close(found.pose.rotation, expected.rotation, **CLOSE)
    torch.testing.assert_close(found.pose.translation, expected.translation, **CLOSE)
    torch.testing.assert_close(found.score, score, **CLOSE)


@torch.no_grad()
def test_heads_and_dense_outputs_move_with_the_clouds(model, pair, rng):
    x, y = pair
    g1, g2 = Rigid.random(rng, 1), Rigid.random(rng, 1)
    before, after = model.solve(x, y), model.solve(g1.act(x), g2.act(y))
    same_heads(after.heads, g2 @ before.heads.pose @ g1.inverse(), before.heads.score)
    torch.testing.assert_close(after.source_keypoints, g1.act(before.source_keypoints), **CLOSE)
    torch.testing.assert_close(after.reference_keypoints, g2.act(before.reference_keypoints), **CLOSE)
    sides = (
        (after.source_dense, before.source_dense, g1),
        (after.reference_dense, before.reference_dense, g2),
    )
    for new, old, g in sides:
        torch.testing.assert_close(new.contact, old.contact, **CLOSE)
        for one, other in zip(new.vectors, old.vectors, strict=True):
            torch.testing.assert_close(one, other @ g.rotation.mT, **CLOSE)


@torch.no_grad()
def test_a_swap_inverts_each_head_in_its_place_and_mirrors_the_rest(model, pair):
    x, y = pair
    before, after = model.solve(x, y), model.solve(y, x)
    same_heads(after.heads, before.heads.pose.inverse(), before.heads.score)
    assert torch.equal(after.heads.place, before.heads.place)
    torch.testing.assert_close(after.source_keypoints, before.reference_keypoints, **CLOSE)
    torch.testing.assert_close(after.source_dense.contact, before.reference_dense.contact, **CLOSE)
    torch.testing.assert_close(after.reference_dense.to_other, before.source_dense.to_other, **CLOSE)


@torch.no_grad()
@pytest.mark.parametrize("factor", [1e-3, 40.0])
def test_scale_changes_lengths_and_no_score(model, pair, factor):
    x, y = pair
    before, after = model.solve(x, y), model.solve(factor * x, factor * y)
    same_heads(after.heads, before.heads.pose.scaled(factor), before.heads.score)
    torch.testing.assert_close(after.source_keypoints, factor * before.source_keypoints, **CLOSE)
    torch.testing.assert_close(after.source_dense.to_center, factor * before.source_dense.to_center, **CLOSE)


@torch.no_grad()
def test_the_pose_is_the_best_scored_heads(model, pair):
    found = model.solve(*pair)
    assert (found.heads.score.diff(dim=1) <= 0).all()
    assert torch.equal(found.pose.rotation, found.heads.pose.rotation[:, 0])
    torch.testing.assert_close(found.heads.log_weight.exp().sum(1), torch.ones(1, dtype=torch.float64))
    assert len({round(float(s), 9) for s in found.heads.score[0]}) == 3
    assert found.source_dense.contact.isfinite().all()


def test_no_score_is_made_better_by_a_change_of_the_pose(model, pair):
    """In double precision too, where a conversion is no copy."""
    seen = []
    hook = model.score.register_forward_pre_hook(lambda module, args: seen.append(args))
    model.solve(*pair)
    hook.remove()
    scalars, pose, *rest = seen[0]
    leaf = Rigid(*(part.detach().requires_grad_() for part in (pose.rotation, pose.translation)))
    score, spread = model.score(scalars, leaf, *rest)
    found = torch.autograd.grad(
        (score + spread).sum(), [leaf.rotation, leaf.translation], allow_unused=True, retain_graph=True
    )
    assert found == (None, None)


@torch.no_grad()
def test_padding_changes_no_head(model, pair):
    x, y = pair
    padded = Cloud(
        torch.cat([x, torch.full((1, 9, 3), 7.0)], 1), mask=torch.arange(x.shape[1] + 9)[None] < x.shape[1]
    )
    before, after = model.solve(x, y), model.solve(padded, y)
    same_heads(after.heads, before.heads.pose, before.heads.score)


@torch.no_grad()
def test_key_points_leave_the_convex_hull_by_the_offset(model, pair):
    flat = torch.cat(
        [torch.randn(1, 60, 2, generator=torch.Generator().manual_seed(0)), torch.zeros(1, 60, 1)], 2
    )
    bent = flat.double()
    bent[..., 2] = bent[..., :2].square().sum(-1)  # a bowl, open above
    found = model.solve(bent, pair[1]).source_keypoints
    assert (found[..., 2] < -1e-3).any()  # below the bowl


def test_complete_matching_uses_one_head_for_both_factors(model, pair, rng):
    x, g = pair[0], Rigid.random(rng, 1)
    with torch.no_grad():
        found = model.complete_match(x, g.act(x))
    torch.testing.assert_close(found.rotation, g.rotation, **CLOSE)


@pytest.mark.parametrize("changes", [{"num_modes": 1}, {"num_modes": 1, "dense": False}, {"offset": False}])
def test_every_part_can_be_left_out(changes, pair):
    model = BITR(BITRConfig(**changes)).double().eval()
    assert_bi_equivariant(model, *pair)
    assert_swap_equivariant(model, *pair)


def test_scores_need_dense_outputs():
    with pytest.raises(InputError, match="dense"):
        BITRConfig(dense=False)


def test_the_papers_model_has_none_of_it():
    config = BITRConfig.paper()
    assert (config.offset, config.dense, config.num_modes) == (False, False, 1)


def test_a_checkpoint_that_names_none_of_it_has_none(tmp_path):
    known = BITRConfig().to_dict()
    old = {key: value for key, value in known.items() if key not in ("offset", "dense", "num_modes")}
    assert BITRConfig.from_dict(old) == BITRConfig(offset=False, dense=False, num_modes=1)
    assert BITRConfig.from_dict(known) == BITRConfig()
    model = BITR(replace(BITRConfig(), num_keypoints=6))
    again = load(save(model, tmp_path / "new.safetensors"))
    assert again.config == model.config
