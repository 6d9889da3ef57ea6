"""``bitr demo``: what the model guarantees before any training."""

from __future__ import annotations

import torch

from bitr.data import bumpy_shape, cut
from bitr.groups import Rigid, rotation_angle
from bitr.model import BITR
from bitr.testing import cloud_size, law_errors, untrained_model

NUM_POINTS = 1000


def demo(seed: int) -> None:
    """Complete matching on a generated shape, then the laws on its two halves."""
    generator = torch.Generator().manual_seed(seed)
    shape = bumpy_shape(NUM_POINTS, generator)
    model = untrained_model("default", seed, torch.float32)
    with torch.inference_mode():
        _complete_matching(model, shape, generator)
        _laws(model, shape, generator)


def _complete_matching(model: BITR, shape: torch.Tensor, generator: torch.Generator) -> None:
    truth = Rigid.random(generator, size=3.0)
    order = torch.randperm(len(shape), generator=generator)
    found = model.complete_match(shape[None], truth.act(shape)[None, order])[0]
    angle = rotation_angle(found.rotation @ truth.rotation.mT) * 180 / torch.pi
    offset = (found.act(shape) - truth.act(shape)).norm(dim=-1).mean() / cloud_size(shape)
    turn = rotation_angle(truth.rotation) * 180 / torch.pi
    print(f"A generated shape of {len(shape)} points, turned by {turn:.1f}°, moved and shuffled.")
    print("Recovered by complete matching, with untrained weights in float32:")
    print(_rows(found.matrix()))
    print(f"off by {angle:.1e}° and {offset:.1e} of the shape's size.\n")


def _laws(model: BITR, shape: torch.Tensor, generator: torch.Generator) -> None:
    x, y = cut(shape, 0.4, generator)
    print(f"The shape cut in two, {len(x)} and {len(y)} points. How well the laws hold on the pieces:")
    print(f"{'weights':8} {'Δ_bi':>8} {'Δ_swap':>8} {'Δ_scale':>8}")
    for name, dtype in (("float32", torch.float32), ("float64", torch.float64)):
        laws = law_errors(model.to(dtype), x[None], y[None], generator)
        print(f"{name:8} {laws.bi:8.0e} {laws.swap:8.0e} {laws.scale:8.0e}")
    print(
        "Δ_bi: both pieces moved, so the answer must move along. Δ_swap: pieces swapped, it must invert.\n"
        "Δ_scale: both three times as large, so must be the translation. In units of the piece's size."
    )


def _rows(matrix: torch.Tensor) -> str:
    return "\n".join("  " + " ".join(f"{value:9.5f}" for value in row) for row in matrix.tolist())
