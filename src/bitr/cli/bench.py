"""``bitr bench``: the speed and memory tables of BENCHMARK.md."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator

from bitr.evaluation import speed


def bench(quick: bool, as_json: bool) -> None:
    """Print the tables as Markdown, row by row as they are measured, or everything as one JSON object."""
    if as_json:
        print(json.dumps(speed.report(quick)))
        return
    for line in _tables(quick):
        print(line, flush=True)


def _tables(quick: bool) -> Iterator[str]:
    print("measuring; the machine should have nothing else to do", file=sys.stderr)
    yield ", ".join(f"{key}: {value}" for key, value in speed.machine().items())
    yield ""
    yield "| model | degrees to | points | batch | forward, units (ms) | with backward, units (ms) | GFLOP |"
    yield "| --- | --- | --- | --- | --- | --- | --- |"
    for row in speed.model_rows(quick):
        training = "" if row.training_units is None else f"{row.training_units:.1f} ({row.training_ms:.0f})"
        yield (
            f"| {row.config} | {row.max_degree} | {row.points} | {row.batch} "
            f"| {row.forward_units:.1f} ({row.forward_ms:.0f}) | {training} | {row.forward_gflop:.2f} |"
        )
    yield ""
    yield "| model | points | peak memory of a forward pass, MB | with backward, MB |"
    yield "| --- | --- | --- | --- |"
    for memory in speed.memory_rows(quick):
        training = "" if memory.training_mb is None else f"{memory.training_mb:.0f}"
        yield f"| {memory.config} | {memory.points} | {memory.forward_mb:.0f} | {training} |"
    yield ""
    yield "| one layer, degrees to | points | times faster than e3nn, forward | with backward |"
    yield "| --- | --- | --- | --- |"
    for layer in speed.layer_rows():
        yield (
            f"| {layer.max_degree} | {layer.points} | {layer.forward_times_faster:.1f} "
            f"| {layer.training_times_faster:.1f} |"
        )
