"""A study, run by hand: what does not pay on a CPU, and what a forward pass costs at the least.

    python -m benchmarks.variants [--compile]

Prints a Markdown table: forward passes in turns, the fastest of each counts. "Weights laid out once" keeps
what the layers spread their weights to, which later changes of the weights would not reach.
"""

from __future__ import annotations

import argparse
import copy

import torch

from bitr.evaluation.speed.passes import CONFIGS, no_grad, pair
from bitr.evaluation.speed.timing import Job, Patience, take_turns
from bitr.layers.kernel import KernelWeights
from bitr.layers.radial import Homogeneous
from bitr.model import BITR

PATIENCE = Patience(rounds=40, seconds=20.0, least=5)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--compile", action="store_true", help="also inductor, which needs a C++ compiler")
    with_inductor = parser.parse_args().compile
    print("| model | points | forward pass | ms | times as long as plain |")
    print("| --- | --- | --- | --- | --- |")
    for name in CONFIGS:
        jobs = variants(name, with_inductor and name == "default")
        fastest = [turns.fastest for turns in take_turns([no_grad(job) for _, _, job in jobs], PATIENCE)]
        for (points, what, _), seconds in zip(jobs, fastest, strict=True):
            print(f"| {name} | {points} | {what} | {1e3 * seconds:.1f} | {seconds / fastest[0]:.2f} |")


def variants(name: str, with_inductor: bool) -> list[tuple[int, str, Job]]:
    """Points, what is done, and the job; the plain pass first."""
    torch.manual_seed(0)
    model = BITR(CONFIGS[name]()).eval()
    (x, y), small = pair(1024, 1), pair(64, 1)
    laid_out = with_weights_laid_out(model)

    def rounded() -> object:
        with torch.autocast("cpu", torch.bfloat16):
            return model(x, y)

    found: list[tuple[int, str, Job]] = [
        (1024, "plain", lambda: model(x, y)),
        (64, "plain", lambda: model(*small)),
        (1024, "weights laid out once", lambda: laid_out(x, y)),
        (1024, "bfloat16 autocast", rounded),
    ]
    if with_inductor:
        compiled = torch.compile(model, fullgraph=True)
        found.append((1024, "inductor", lambda: compiled(x, y)))
    return found


@torch.no_grad()
def with_weights_laid_out(model: BITR) -> BITR:
    """A copy whose layers have their weights in the layout that the products want."""
    model = copy.deepcopy(model)
    for module in model.modules():
        if isinstance(module, KernelWeights):
            weights = module()
            module.forward = lambda kept=weights: dict(kept)
        elif isinstance(module, Homogeneous) and module.sides == 1:
            module.mix = _remembering(module.mix)
    return model


def _remembering(mix):
    known: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}

    def remembered(weights: torch.Tensor, heads: int) -> torch.Tensor:
        if id(weights) not in known:
            known[id(weights)] = weights, mix(weights, heads)
        return known[id(weights)][1]

    return remembered


if __name__ == "__main__":
    main()
