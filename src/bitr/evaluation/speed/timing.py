"""Timing by turns: machines are noisy, so what is compared runs in the same minutes, one after the other."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median

Job = Callable[[], object]


@dataclass(frozen=True)
class Times:
    """Seconds of one job: its fastest turn, which a busy machine disturbs least, and the median."""

    fastest: float
    median: float


@dataclass(frozen=True)
class Patience:
    """How long to measure: up to ``rounds`` turns each, fewer once ``seconds`` have passed."""

    rounds: int
    seconds: float
    least: int = 3


FULL = Patience(rounds=12, seconds=6.0)
QUICK = Patience(rounds=8, seconds=1.0, least=2)


def patience_for(quick: bool) -> Patience:
    return QUICK if quick else FULL


def take_turns(jobs: Sequence[Job], patience: Patience) -> list[Times]:
    """The times of each job; all take turns, and the first turn, for warming up, does not count."""
    turns: list[list[float]] = [[] for _ in jobs]
    start = time.perf_counter()
    for turn in range(patience.rounds + 1):
        for job, seconds in zip(jobs, turns, strict=True):
            before = time.perf_counter()
            job()
            if turn > 0:
                seconds.append(time.perf_counter() - before)
        if turn >= patience.least and time.perf_counter() - start > patience.seconds:
            break
    return [Times(min(seconds), median(seconds)) for seconds in turns]


def times_faster(ours: Times, theirs: Times) -> tuple[float, float]:
    """How many times faster we are, by the fastest turns and by the medians."""
    return theirs.fastest / ours.fastest, theirs.median / ours.median
