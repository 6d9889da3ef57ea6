"""A training loop from nothing but the model and torch, on generated jugs that are cut in two.

    python examples/train_jugs.py --out jugs.safetensors

Every step sees new jugs. Validation jugs have seeds of their own; their mean error is printed as it goes and
chooses nothing: the last averaged weights are kept. The test jugs, with seeds of their own again, are looked
at once, at the end. The figures are written beside the weights, as JSON.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from pathlib import Path

import torch
from torch import Tensor

from bitr import BITR, BITRConfig, Rigid, save
from bitr.data import cut, jug
from bitr.groups import rotation_angle

VALIDATION, TEST = 10**6, 2 * 10**6
"""First seeds of the jugs that are not trained on."""
POINTS = 800
"""Of a whole jug."""
SHARES = (0.3, 0.7)
"""Least and greatest part of the jug that the first piece is."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, default=Path("jugs.safetensors"))
    parser.add_argument("--steps", type=int, default=4000)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--rate", type=float, default=2e-3, help="greatest learning rate")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    torch.manual_seed(options.seed)
    model, start = BITR(BITRConfig()), time.perf_counter()
    average = train(model, options.steps, options.batch, options.rate, options.seed, options.out)
    minutes = (time.perf_counter() - start) / 60
    errors = rotation_errors(average, TEST, 200)
    card = {
        "data": f"generated jugs of {POINTS} points, cut by a plane, {SHARES[0]:.0%} to {SHARES[1]:.0%}",
        "steps": options.steps,
        "batch": options.batch,
        "rate": options.rate,
        "seed": options.seed,
        "threads": torch.get_num_threads(),
        "minutes": round(minutes, 1),
        "test": {"pairs": len(errors), **summary(errors), "chance_mean_deg": 126.5},
    }
    save(average, options.out)
    options.out.with_suffix(".json").write_text(json.dumps(card, indent=2) + "\n")
    print(json.dumps(card))


def train(model: BITR, steps: int, batch: int, rate: float, seed: int, out: Path) -> BITR:
    """Adam with warm-up and cosine decay; returns the running average of the weights."""
    average = torch.optim.swa_utils.AveragedModel(
        model, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.998)
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=rate)
    generator = torch.Generator().manual_seed(seed)
    recent, start = 0.0, time.perf_counter()
    for step in range(1, steps + 1):
        for group in optimizer.param_groups:
            group["lr"] = (
                rate * min(1, step / 100) * (0.01 + 0.99 * (1 + math.cos(math.pi * step / steps)) / 2)
            )
        x, y = pairs(batch, generator)
        loss = pose_loss(model(x, y), x, y)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        average.update_parameters(model)
        recent += (float(loss.detach()) - recent) / min(step, 100)
        if step % 250 == 0:
            found = summary(rotation_errors(average.module, VALIDATION, 64))
            seconds = time.perf_counter() - start
            print(
                f"step {step} of {steps}, {seconds:.0f} s, loss {recent:.3f}, validation {found}", flush=True
            )
            save(average.module, out)
    return average.module


def pose_loss(pose: Rigid, x: Tensor, y: Tensor) -> Tensor:
    """‖r − r_gt‖² plus how far both centroids are from their place; the pieces lie where they belong."""
    mx, my = x.mean(1, keepdim=True), y.mean(1, keepdim=True)
    off = (pose.act(mx) - mx).square().sum((1, 2)) + (pose.inverse().act(my) - my).square().sum((1, 2))
    return ((pose.rotation - torch.eye(3)).square().sum((1, 2)) + off / 2).mean()


def pairs(batch: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """New jugs, all cut to the same sizes, about half of them with the larger piece first."""
    share = SHARES[0] + (SHARES[1] - SHARES[0]) * float(torch.rand((), generator=generator))
    cuts = [cut(jug(POINTS, generator), share, generator) for _ in range(batch)]
    return torch.stack([x for x, _ in cuts]), torch.stack([y for _, y in cuts])


@torch.inference_mode()
def rotation_errors(model: BITR, first_seed: int, count: int) -> Tensor:
    """Angles in degrees on jugs of their own seeds."""
    found = []
    for seed in range(first_seed, first_seed + count):
        x, y = pairs(1, torch.Generator().manual_seed(seed))
        found.append(rotation_angle(model(x, y).rotation) * 180 / math.pi)
    return torch.cat(found)


def summary(errors: Tensor) -> dict[str, float]:
    return {
        "mean_deg": round(float(errors.mean()), 1),
        "median_deg": round(float(errors.median()), 1),
        "within_15_deg": round(float((errors < 15).double().mean()), 3),
    }


if __name__ == "__main__":
    main()
