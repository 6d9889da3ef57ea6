"""A study, run by hand: options that do not pay on a CPU, and the least cost of a forward pass.

    python -m benchmarks.variants [--compile]

Prints two Markdown tables: forward passes, and searches for neighbours by the distance matrix and by the k-d
tree. Compared jobs take turns; the fastest turn of each counts.
"""

from __future__ import annotations

import argparse

import torch

from bitr.evaluation.speed import CONFIGS, Job, Patience, example_clouds, no_grad, take_turns
from bitr.layers.neighbors import by_matrix, by_tree
from bitr.model import BITR

PATIENCE = Patience(rounds=40, seconds=20.0, least=5)
SHORT = Patience(rounds=300, seconds=1.0, least=20)
SIZES = (16, 24, 32, 48, 64, 96, 128, 256, 400, 512, 1024)
NEIGHBORS = 16


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

    print("\n| points | neighbours by matrix, ms | by tree, ms | matrix / tree |\n| --- | --- | --- | --- |")
    for n in SIZES:
        matrix, tree = (turns.fastest for turns in take_turns(list(searches(n)), SHORT))
        print(f"| {n} | {1e3 * matrix:.3f} | {1e3 * tree:.3f} | {matrix / tree:.2f} |")


def searches(n: int) -> tuple[Job, Job]:
    """The neighbours of both clouds of a pair, by the distance matrix and by the k-d tree."""
    clouds = example_clouds(n, 1)
    return (
        lambda: [by_matrix(points, min(NEIGHBORS, n - 1), None) for points in clouds],
        lambda: [by_tree(points[0], None, min(NEIGHBORS, n - 1)) for points in clouds],
    )


def variants(name: str, with_inductor: bool) -> list[tuple[int, str, Job]]:
    """Points, name and job of each variant; the plain pass first."""
    torch.manual_seed(0)
    model = BITR(CONFIGS[name]()).eval()
    (x, y), small = example_clouds(1024, 1), example_clouds(64, 1)

    def rounded() -> object:
        with torch.autocast("cpu", torch.bfloat16):
            return model(x, y)

    found: list[tuple[int, str, Job]] = [
        (1024, "plain", lambda: model(x, y)),
        (64, "plain", lambda: model(*small)),
        (1024, "bfloat16 autocast", rounded),
    ]
    if with_inductor:
        compiled = torch.compile(model, fullgraph=True)
        found.append((1024, "inductor", lambda: compiled(x, y)))
    return found


if __name__ == "__main__":
    main()
