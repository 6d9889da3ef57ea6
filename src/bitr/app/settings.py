"""How pairs are assembled."""

from __future__ import annotations

from dataclasses import dataclass

from bitr.data.piece import MIN_POINTS
from bitr.errors import InputError
from bitr.refine import REFINEMENTS

LIMITS = {"hypotheses": (1, 64), "budget": (MIN_POINTS, 1_000_000), "seed": (0, 2**63 - 1)}
BUDGET = 1000
"""Where nothing says how many points the weights are for."""


@dataclass(frozen=True)
class Settings:
    """How pairs are assembled: what a batch has in common, beside the model."""

    refine: str = "none"
    """A name of ``bitr.refine.REFINEMENTS``."""
    hypotheses: int = 1
    """How many poses to return at most."""
    separate: bool = False
    """Whether pieces that reach into each other are brought apart, at the end."""
    budget: int | None = None
    """Points of each cloud that the model sees; None is as many as the weights are for, or ``BUDGET``."""
    seed: int = 0

    def __post_init__(self) -> None:
        if self.refine not in REFINEMENTS:
            raise InputError(f"refine = {self.refine!r}: expected one of {', '.join(REFINEMENTS)}")
        for name, (least, most) in LIMITS.items():
            value = getattr(self, name)
            if value is None and name == "budget":
                continue
            if not isinstance(value, int) or not least <= value <= most:
                raise InputError(f"{name} = {value!r}: expected a whole number from {least} to {most}")
