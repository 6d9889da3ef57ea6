"""What the loop trains: a BITR, or a baseline."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import nn

from bitr.training.config import TrainConfig


@dataclass(frozen=True)
class Kind:
    """What is trained: how the first weights are made, and how the best ones are kept.

    The module has ``solve(source, reference) -> Solution``, as a ``BITR`` does: baselines use the same loop.
    """

    make: Callable[[TrainConfig], tuple[nn.Module, TrainConfig]]
    """The module, and the config with what is known of it."""
    save: Callable[[Any, Path], object]
