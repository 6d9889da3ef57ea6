"""What is compared in a table: anything that turns a pair into a pose."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64

from bitr.data import AssemblyPair

Solve = Callable[[AssemblyPair], Float64[np.ndarray, "4 4"]]
"""The pose ``ref_from_src`` of a pair. Only a bound may look at the pair's own ``ref_from_src``."""


@dataclass(frozen=True)
class Method:
    """A way to assemble, and what the tables call it."""

    name: str
    solve: Solve
