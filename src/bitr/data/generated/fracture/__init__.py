"""Breaking solids into pieces that fit."""

from bitr.data.generated.fracture.breaking import broken
from bitr.data.generated.fracture.pieces import OUTSIDE, WHOLE, Fracture

__all__ = ["OUTSIDE", "WHOLE", "Fracture", "broken"]
