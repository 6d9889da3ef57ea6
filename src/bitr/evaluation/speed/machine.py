"""What the figures were measured on, and how fast it multiplies and copies at most."""

from __future__ import annotations

import platform
from dataclasses import dataclass

import torch

from bitr.evaluation.speed.timing import Job, Patience, take_turns

SIDE = 1024
"""Of the matrices whose product is the unit of time."""
COPIED = 2**28
"""Bytes, far more than any cache holds."""


@dataclass(frozen=True)
class Rates:
    """Measured limits of the machine: of a 1024³ float32 product and of a copy too large for the caches."""

    unit_ms: float
    unit_median_ms: float
    gflop_per_second: float
    copy_gb_per_second: float
    """Bytes read and bytes written."""


def facts() -> dict[str, str | int]:
    return {
        "processor": _processor(),
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "python": platform.python_version(),
    }


def unit() -> Job:
    """The unit of time: one 1024×1024×1024 float32 product."""
    square = torch.randn(SIDE, SIDE)
    return lambda: square @ square


def rates(patience: Patience) -> Rates:
    source = torch.ones(COPIED // 4)
    target = torch.empty_like(source)
    product, copy = take_turns([unit(), lambda: target.copy_(source)], patience)
    return Rates(
        1e3 * product.fastest,
        1e3 * product.median,
        2 * SIDE**3 / product.fastest / 1e9,
        2 * COPIED / copy.fastest / 1e9,
    )


def _processor() -> str:
    try:
        with open("/proc/cpuinfo") as file:
            names = [line.split(":", 1)[1].strip() for line in file if line.startswith("model name")]
    except OSError:
        names = []
    return names[0] if names else platform.processor() or platform.machine()
