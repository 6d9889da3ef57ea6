"""Where the time goes: timers around the model's own functions, inside a real pass."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, ClassVar
from unittest.mock import patch

import torch
from torch import Tensor

from bitr.evaluation.speed.passes import CONFIGS, pair
from bitr.layers import Neighborhoods, TransformerLayer, WholeCloudBlock, message, moments
from bitr.model import BITR, bitr, keypoints
from bitr.model.blocks import Block
from bitr.model.inputs import Frame
from bitr.model.transformer import MergedTransformer

FORWARD: tuple[tuple[object, str, str], ...] = (
    (bitr, "check_pair", "checks and centring"),
    (bitr, "centered", "checks and centring"),
    (Neighborhoods, "of_all", "neighbours"),
    (keypoints, "edges_of", "edges"),
    (Block, "forward", "key-point layers"),
    (TransformerLayer, "forward", "key-point layers"),
    (WholeCloudBlock, "forward", "whole-cloud blocks"),
    (keypoints, "_select", "choice of the key points"),
    (bitr, "merge", "merge"),
    (MergedTransformer, "forward", "merged-cloud layers"),
    (bitr, "project", "projection"),
    (Frame, "pose", "projection"),
)
BACKWARD: tuple[tuple[object, str, str], ...] = (
    (BITR, "forward", "forward"),
    (message._RecomputedSums, "backward", "backward of the edge sums"),
    (moments._NeighborMoments, "backward", "backward of the edge sums"),
)


@dataclass(frozen=True)
class StageRow:
    """One stage of a pass, of the fastest of several runs."""

    config: str
    points: int
    job: str
    stage: str
    ms: float
    percent: float

    COLUMNS: ClassVar = ("model", "points", "pass", "stage", "ms", "percent")

    def cells(self) -> tuple[object, ...]:
        return self.config, self.points, self.job, self.stage, f"{self.ms:.1f}", f"{self.percent:.0f}"


class Stopwatch:
    """Seconds by stage; of stages inside one another the outermost counts."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._running = False

    def around(self, stage: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*args: Any, **kwargs: Any) -> Any:
            if self._running:
                return function(*args, **kwargs)
            self._running, start = True, time.perf_counter()
            try:
                return function(*args, **kwargs)
            finally:
                self.seconds[stage] = self.seconds.get(stage, 0.0) + time.perf_counter() - start
                self._running = False

        return timed


def stage_rows(quick: bool, n: int = 1024) -> Iterator[StageRow]:
    x, y = pair(n, 1)
    for name, make in CONFIGS.items():
        model, runs = BITR(make()).eval(), 5 if quick else 20
        for job, stages, rest in (
            ("forward", FORWARD, "the rest"),
            ("with backward", BACKWARD, "the rest of the backward pass"),
        ):
            seconds = min(
                (_run(model, x, y, stages, rest) for _ in range(runs)), key=lambda s: sum(s.values())
            )
            total = sum(seconds.values())
            for stage, spent in seconds.items():
                yield StageRow(name, n, job, stage, 1e3 * spent, 100 * spent / total)


def _run(
    model: BITR, x: Tensor, y: Tensor, stages: tuple[tuple[object, str, str], ...], rest: str
) -> dict[str, float]:
    """Seconds of every stage, and of what is outside all of them."""
    watch = Stopwatch()
    with ExitStack() as stack:
        for owner, name, stage in stages:
            stack.enter_context(patch.object(owner, name, _timed(watch, owner, name, stage)))
        start = time.perf_counter()
        with torch.set_grad_enabled(stages is BACKWARD):
            pose = model(x, y)
        if stages is BACKWARD:
            (pose.rotation.sum() + pose.translation.sum()).backward()
        total = time.perf_counter() - start
    return watch.seconds | {rest: total - sum(watch.seconds.values())}


def _timed(watch: Stopwatch, owner: object, name: str, stage: str) -> object:
    timed = watch.around(stage, getattr(owner, name))
    bound = isinstance(owner, type) and isinstance(vars(owner)[name], classmethod | staticmethod)
    return staticmethod(timed) if bound else timed
